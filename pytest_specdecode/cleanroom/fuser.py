"""What ``fuser`` says: the second opinion on who holds the devices."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import NotRunError, UnknownRunError
from ..hosts import CommandResult, Runner

_TIMEOUT_S = 20.0
_HARMLESS = re.compile(r"Specified filename .* does not exist|^/\S+:|^\s*[a-zA-Z]*\s*$")


def parse_fuser(stdout: str, stderr: str, status: int) -> frozenset[int]:
    """Pids that hold one of the files (psmisc 23: pids on stdout, names and access letters on stderr).

    Status 1 with nothing said means nobody.

    :raises ValueError: when it complains about anything but a file that has gone.
    """
    if not re.fullmatch(r"[\s\d]*", stdout):
        raise ValueError(f"unexpected answer {stdout[:100]!r}")
    pids = frozenset(int(word) for word in stdout.split())
    complaints = [line for line in stderr.splitlines() if not _HARMLESS.search(line)]
    if complaints or status not in {0, 1}:
        raise ValueError(complaints[0] if complaints else f"status {status}")
    return pids


def ask(host: Runner, devices: Sequence[str]) -> frozenset[int] | None:
    """Pids that fuser sees at these nodes; None where there is no fuser.

    :raises HostError: when it fails.
    """
    try:
        result: CommandResult = host.run(["env", "LC_ALL=C", "fuser", *devices], timeout=_TIMEOUT_S)
    except NotRunError as error:
        if "fuser" in str(error):
            return None
        raise
    if result.status == 127:
        return None
    try:
        return parse_fuser(result.stdout, result.stderr, result.status)
    except ValueError as error:
        raise UnknownRunError(f"{host.name}: fuser failed: {error}") from error

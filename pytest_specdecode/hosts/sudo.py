"""The same machine as root, through ``sudo -n``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..errors import NotRunError
from . import Child, CommandResult, Host

_REFUSED = re.compile(
    r"^sudo: (a password is required|sorry, you must have a tty|no tty present|.*: command not found$)"
    r"|is not in the sudoers file|is not allowed to (execute|run)|^\S*: line \d+: sudo: command not found$",
    re.MULTILINE,
)


class SudoHost:
    """Commands of ``plain`` run as root; never asks for a password."""

    def __init__(self, plain: Host) -> None:
        self.plain = plain

    @property
    def name(self) -> str:
        return self.plain.name

    @property
    def python(self) -> str:
        return self.plain.python

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """As :class:`~pytest_specdecode.hosts.Host` says; a refusal of sudo itself is known not to have
        run.
        """
        words = tuple(argv)
        got = self.plain.run(("sudo", "-n", "--", *words), timeout=timeout, stdin=stdin)
        if got.status in {1, 127} and not got.stdout and _REFUSED.search(got.stderr):
            raise NotRunError(
                f"{self.name}: {got.stderr.strip()}; allow it without a password in sudoers, or set sudo "
                f"= false"
            )
        return CommandResult(words, got.status, got.stdout, got.stderr, got.seconds)

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Child:
        """As the plain user: an engine does not become root because its clean-up is."""
        return self.plain.spawn(argv, env=env)

    def close(self) -> None:
        """The plain host belongs to whoever made it."""

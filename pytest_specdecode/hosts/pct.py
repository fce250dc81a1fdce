"""A Proxmox container, entered from its hypervisor: works while the container's own network does not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..errors import NotRunError
from . import Child, CommandResult, Host

_NEVER_ENTERED = re.compile(
    r"container '\d+' not running|^Configuration file '.*' does not exist|^CT \d+ not running"
    r"|pct: (command )?not found|^400 |Failed to get (init|attach) context|Failed to attach",
    re.MULTILINE,
)
_NO_PROGRAM = re.compile(r"Failed to exec|^(sh|bash|env):.*(not found|No such file)", re.MULTILINE)


class PctHost:
    """Commands in container ``container`` of the hypervisor ``outer``, through ``pct exec``."""

    def __init__(self, outer: Host, container: int) -> None:
        self.outer = outer
        self.container = container
        self._name = f"container {container} on {outer.name}"

    @property
    def name(self) -> str:
        return self._name

    @property
    def python(self) -> str:
        return "python3"

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """As :class:`~pytest_specdecode.hosts.Host` says. Status 137 and the like: killed by signal 9.

        pct promises no exit status of its own, so what never ran is told by its words.
        """
        words = tuple(argv)
        road = ("pct", "exec", str(self.container), "--", *words)
        got = self.outer.run(road, timeout=timeout, stdin=stdin)
        if got.status != 0 and _NEVER_ENTERED.search(got.stderr):
            raise NotRunError(f"{self.name}: {got.stderr.strip()}")
        if got.status != 0 and not got.stdout and _NO_PROGRAM.search(got.stderr):
            raise NotRunError(f"{self.name}: there is no program {words[0]!r}: {got.stderr.strip()}")
        return CommandResult(words, got.status, got.stdout, got.stderr, got.seconds)

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Child:
        """Never: what lives as long as the session is started over the machine's own road."""
        del argv, env
        raise NotRunError(f"{self.name}: programs are not started through the hypervisor")

    def close(self) -> None:
        """The hypervisor's connection belongs to whoever made it."""

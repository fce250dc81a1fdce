"""What was run where, with what came of it, free of secrets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from ..errors import HostError
from ..ledger import CommandRecord
from . import Child, CommandResult, Host
from .processes import killed_by
from .redaction import redact, redact_text
from .ship import readable

__all__ = ["AuditedChild", "AuditedHost", "Sink", "redact", "redact_text"]


Sink = Callable[[CommandRecord], None]
_OUTPUT_CHARACTERS = 400
_LOOKED_AT = 8000
"""Characters of output that secrets are looked for in: a flag and its value must not be cut apart."""


class _Command:
    """One command on its way into the trail."""

    def __init__(self, host: str, argv: Sequence[str]) -> None:
        self._host = host
        self._argv = redact(readable(argv))
        self._at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._begin = time.monotonic()

    def ended(self, status: int | None, output: str = "", killed: Sequence[int] = ()) -> CommandRecord:
        return CommandRecord(
            at=self._at,
            host=self._host,
            argv=self._argv,
            status=status,
            seconds=round(time.monotonic() - self._begin, 4),
            output=redact_text(output.strip()[-_LOOKED_AT:])[-_OUTPUT_CHARACTERS:],
            killed=tuple(killed),
        )


class AuditedHost:
    """A host that tells ``sink`` of each command, whether it ran, failed or could not be run.

    ``output`` of a record is the end of stderr, else of stdout, else why it did not run or nobody knows.
    """

    def __init__(self, host: Host, sink: Sink, trail: list[CommandRecord] | None = None) -> None:
        """``trail``: shared with another road to the same machine, so that it is in the order of time."""
        self._host = host
        self._sink = sink
        self.trail: list[CommandRecord] = [] if trail is None else trail

    def _tell(self, record: CommandRecord) -> None:
        self.trail.append(record)
        self._sink(record)

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def python(self) -> str:
        return self._host.python

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        command = _Command(self.name, argv)
        try:
            result = self._host.run(argv, timeout=timeout, stdin=stdin)
        except HostError as error:
            self._tell(command.ended(None, str(error)))
            raise
        self._tell(command.ended(result.status, result.stderr or result.stdout, killed_by(result)))
        return result

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Child:
        command = _Command(self.name, argv)
        try:
            child = self._host.spawn(argv, env=env)
        except HostError as error:
            self._tell(command.ended(None, str(error)))
            raise
        self._tell(command.ended(None, f"started as pid {child.pid}"))
        return AuditedChild(child, self.name, self._tell)

    def close(self) -> None:
        self._host.close()


class AuditedChild:
    """Tells of the pids that stopping it signalled."""

    def __init__(self, child: Child, host: str, tell: Sink) -> None:
        self._child = child
        self._host = host
        self._tell = tell

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def instance(self) -> str:
        return self._child.instance

    @property
    def killed(self) -> Sequence[int]:
        return self._child.killed

    def poll(self) -> int | None:
        return self._child.poll()

    def stop(self, *, within_s: float) -> bool:
        command = _Command(self._host, ["(stop)", self.instance])
        before = len(self._child.killed)
        gone = self._child.stop(within_s=within_s)
        self._tell(command.ended(0 if gone else 1, killed=self._child.killed[before:]))
        return gone

    def descendants(self) -> Mapping[int, str]:
        return self._child.descendants()

    def log_tail(self, lines: int = 20) -> list[str]:
        return self._child.log_tail(lines)

"""Questions about a host's processes and ports, answered by :mod:`pytest_specdecode.questions` over there."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UnknownRunError
from . import CommandResult, Host
from .redaction import redact
from .ship import shipped, words_of

_MODULES = ("pytest_specdecode.procfs", "pytest_specdecode.questions")
_TIMEOUT_S = 30.0
_COMMAND_LENGTH = 200
Key = tuple[int, int]
"""(pid, start time in clock ticks after boot): names one process, whatever becomes of its pid."""


def _one_line(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _COMMAND_LENGTH else line[: _COMMAND_LENGTH - 1] + "…"


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process as messages show it."""

    pid: int
    start: int
    owner: str
    command: str
    """On one line, cut, without secrets."""
    state: str = "?"
    """One letter, proc(5)."""
    denied: bool = False
    """It was tried to signal it, and this user may not."""

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> ProcessInfo:
        """From what :mod:`pytest_specdecode.procfs` says of a process."""
        return cls(
            plain["pid"],
            plain["start"],
            plain["owner"],
            _one_line(shlex.join(redact(plain["argv"]))),
            plain["state"],
            plain.get("denied", False),
        )

    @property
    def key(self) -> Key:
        return (self.pid, self.start)

    def __str__(self) -> str:
        return f"pid {self.pid}: {self.shown}"

    @property
    def shown(self) -> str:
        """Command line, owner, and why it may not have gone."""
        why = ", not permitted to signal it" if self.denied else ""
        why += ", in uninterruptible sleep" if self.state == "D" else ""
        return f"{self.command} ({self.owner}{why})"


@dataclass(frozen=True, slots=True)
class PortUse:
    """Who uses a TCP port. ``owners`` are the users of its listening sockets, known even where the processes
    that hold them may not be seen."""

    holders: tuple[ProcessInfo, ...] = ()
    owners: tuple[str, ...] = ()
    inodes: tuple[int, ...] = ()
    instances: tuple[str, ...] = ()
    """The oldest visible holder of each socket as ``pid:start``, else ``socket:inode``."""
    answers: bool = False

    @property
    def closed(self) -> bool:
        return not self.inodes and not self.answers

    def __str__(self) -> str:
        if self.holders:
            return "; ".join(map(str, self.holders))
        if self.owners:
            return f"a process of {', '.join(self.owners)} that may not be seen from here"
        return "something that takes connections on it but listens outside of this network namespace"


@dataclass(frozen=True, slots=True)
class Signalled:
    """What became of a signal. ``refused``: pid → why it was not sent."""

    signalled: tuple[int, ...]
    refused: Mapping[int, str]


def _ask(host: Host, *words: str) -> Any:
    argv, source = shipped(host.python, _MODULES, words)
    result = host.run(argv, timeout=_TIMEOUT_S, stdin=source)
    if result.status != 0:
        last = result.stderr.strip().splitlines()[-1:] or ["no message"]
        raise UnknownRunError(
            f"{host.name}: looking at its processes failed (status {result.status}): {last[0]}"
        )
    return json.loads(result.stdout)


def port_use(host: Host, port: int) -> PortUse:
    """Who listens on ``port``."""
    plain = _ask(host, "port", str(port))
    oldest: dict[int, tuple[int, int]] = {}
    for p in plain["holders"]:
        for inode in p["inodes"]:
            oldest[inode] = min(oldest.get(inode, (p["start"], p["pid"])), (p["start"], p["pid"]))
    inodes = sorted(s["inode"] for s in plain["sockets"])
    return PortUse(
        holders=tuple(map(ProcessInfo.of, plain["holders"])),
        owners=tuple(sorted({s["owner"] for s in plain["sockets"]})),
        inodes=tuple(inodes),
        instances=tuple(
            sorted({f"{oldest[i][1]}:{oldest[i][0]}" if i in oldest else f"socket:{i}" for i in inodes})
        ),
        answers=plain["answers"],
    )


def free_port(host: Host) -> int:
    """A TCP port that nobody uses, outside the range that outgoing connections take theirs from."""
    return int(_ask(host, "free-port"))


def orphans(host: Host) -> tuple[ProcessInfo, ...]:
    """What earlier sessions started and could not end (their supervisors were killed, too)."""
    return tuple(map(ProcessInfo.of, _ask(host, "orphans")))


def send(host: Host, number: signal.Signals, keys: Sequence[Key]) -> Signalled:
    """Signal exactly these processes; never the protected, PID 1, kernel threads, our own ancestors there."""
    if not keys:
        return Signalled((), {})
    plain = _ask(host, "signal", str(int(number)), *(f"{p}:{s}" for p, s in keys))
    return Signalled(tuple(plain["signalled"]), {int(pid): why for pid, why in plain["refused"].items()})


def killed_by(result: CommandResult) -> tuple[int, ...]:
    """Pids that a command signalled, where it was one of ours."""
    if result.status != 0 or list(words_of(result.argv))[:1] != ["signal"]:
        return ()
    return tuple(json.loads(result.stdout)["signalled"])

"""One look at a machine's processes: who each is and what it holds. The values, and the asking."""

from __future__ import annotations

import fnmatch
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UnknownRunError
from . import Runner
from .processes import Key
from .redaction import redact
from .ship import shipped

_MODULES = ("pytest_specdecode.procfs", "pytest_specdecode.procscan")
_WHO = (
    "for f in /proc/sys/kernel/random/boot_id /proc/1/ns/pid /etc/machine-id; do "
    'case $f in */ns/pid) readlink "$f";; *) cat "$f";; esac 2>/dev/null || echo; done'
)
"""One line each, empty where it may not be read."""
_SESSIONS = ("sshd", "sshd-session")
_TIMEOUT_S = 30.0
_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells machines and containers apart. Containers of one machine may share a boot id, namespaces of
    different machines a number; both together name one."""

    boot_id: str
    namespace: str
    machine_id: str = ""

    @property
    def readable(self) -> bool:
        return bool(self.boot_id and self.namespace)

    def same(self, other: Identity) -> bool:
        """Whether both were read, and agree."""
        return (
            self.readable
            and other.readable
            and (self.boot_id, self.namespace) == (other.boot_id, other.namespace)
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """A process at one moment. ``held`` and ``mapped`` are device nodes; ``inner`` its pids from the
    outermost
    namespace that can be seen to its own."""

    pid: int
    start: int
    parent: int = 1
    state: str = "S"
    kernel: bool = False
    owner: str = "root"
    argv: tuple[str, ...] = ()
    program: str = ""
    cgroups: tuple[str, ...] = ()
    invocation: str = ""
    namespace: str = ""
    inner: tuple[int, ...] = ()
    held: tuple[str, ...] = ()
    mapped: tuple[str, ...] = ()
    shm: tuple[str, ...] = ()
    readable: bool = True

    @property
    def key(self) -> Key:
        return (self.pid, self.start)

    @property
    def alive(self) -> bool:
        return self.state not in {"Z", "X", "x"}

    @property
    def devices(self) -> tuple[str, ...]:
        """Device nodes that it has open or mapped, each once."""
        return tuple(dict.fromkeys((*self.held, *self.mapped)))

    def is_one_of(self, names: Iterable[str]) -> bool:
        """By the base name of its executable: ``comm`` is cut at 15 characters, titles are free to choose."""
        return any(fnmatch.fnmatchcase(self.program, name) for name in names)

    @property
    def python(self) -> bool:
        """A Python interpreter, whatever it calls itself; by its executable, else by its first word."""
        words = (self.program, self.argv[0].rpartition("/")[2] if self.argv else "")
        return any(w.lower().startswith("python") and not w[6:].strip("0123456789.t") for w in words)

    def __str__(self) -> str:
        command = shlex.join(redact(self.argv))
        text = f"pid {self.pid} ({self.owner}): {command[:_SHOWN]}{'…' if len(command) > _SHOWN else ''}"
        notes = [
            *([f"holds {', '.join(self.devices)}"] if self.devices else []),
            *([_STATES[self.state]] if self.state in _STATES else []),
            *([f"its program is {self.program}"] if self._renamed else []),
        ]
        return f"{text} [{'; '.join(notes)}]" if notes else text

    @property
    def _renamed(self) -> bool:
        return bool(self.program and self.argv) and self.program not in self.argv[0] and not self.kernel


_STATES: Mapping[str, str] = {
    "D": "cannot be killed while it is in uninterruptible sleep or frozen (state D)",
    "T": "stopped (state T)",
    "Z": "a zombie: it has ended, its parent has not taken notice",
}


@dataclass(frozen=True, slots=True)
class Scan:
    """What one look saw. ``road``: the pids that were looking, up to the session's root."""

    identity: Identity
    root: bool
    devices: tuple[str, ...]
    processes: tuple[Seen, ...]
    road: frozenset[int] = frozenset()
    shm: tuple[str, ...] = ()
    by_pid: Mapping[int, Seen] = field(default_factory=dict, repr=False)

    @property
    def holders(self) -> tuple[Seen, ...]:
        return tuple(p for p in self.processes if p.devices and p.alive)

    @property
    def unreadable(self) -> int:
        """Processes whose descriptors could not be read."""
        return sum(1 for p in self.processes if not p.readable and not p.kernel and p.alive)

    def descendants(self, roots: Iterable[int]) -> set[Key]:
        """Keys of everything that descends from these pids, themselves included."""
        children: dict[int, list[Seen]] = {}
        for p in self.processes:
            children.setdefault(p.parent, []).append(p)
        found: set[Key] = set()
        queue = [self.by_pid[pid] for pid in roots if pid in self.by_pid]
        while queue:
            p = queue.pop()
            if p.key not in found:
                found.add(p.key)
                queue.extend(children.get(p.pid, ()))
        return found

    @property
    def kin(self) -> frozenset[Key]:
        """Processes of our own: the road of this look, and all of the session that it came from."""
        road = [p for p in self.processes if p.pid in self.road]
        below = self.descendants([self._session_root(road)])
        return frozenset({p.key for p in road} | below)

    def _session_root(self, road: Sequence[Seen]) -> int:
        """The SSH session that we came in by; without one, the process that looked (pytest itself)."""
        parents = {p.parent for p in road}
        p = next((p for p in road if p.pid not in parents and p.pid != 1), None)
        nearest = p.pid if p is not None else 0
        while p is not None and not p.is_one_of(_SESSIONS):
            p = self.by_pid.get(p.parent) if p.parent in self.road else None
        return p.pid if p is not None else nearest


def parse_scan(text: str) -> Scan:
    """The answer of :mod:`pytest_specdecode.procscan`.

    :raises ValueError: when it is none.
    """
    try:
        plain: Mapping[str, Any] = json.loads(text)
        processes = tuple(_seen(p) for p in plain["processes"])
        return Scan(
            identity=Identity(**plain["identity"]),
            root=plain["user"] == 0,
            devices=tuple(plain["devices"]),
            processes=processes,
            road=frozenset(plain["road"]),
            shm=tuple(plain["shm"]),
            by_pid={p.pid: p for p in processes},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a scan: {error}") from error


def _seen(plain: Mapping[str, Any]) -> Seen:
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}
    return Seen(**fields)


class Scanner:
    """Looks at a machine; what was seen holds until something was done to it (:meth:`forget`)."""

    def __init__(self, host: Runner, devices: Sequence[str]) -> None:
        self.host = host
        self.devices = tuple(devices)
        self._last: Scan | None = None

    def look(self) -> Scan:
        """The last look, or a new one where anything has happened since.

        :raises HostError: when the machine could not be looked at.
        """
        if self._last is None:
            self._last = look(self.host, self.devices)
        return self._last

    def forget(self) -> None:
        self._last = None


def look(host: Runner, devices: Sequence[str]) -> Scan:
    """Look now.

    :raises HostError: when the machine could not be looked at.
    """
    argv, source = shipped(host.python, _MODULES, [json.dumps({"devices": list(devices)})])
    result = host.run(argv, timeout=_TIMEOUT_S, stdin=source)
    if result.status != 0:
        last = result.stderr.strip().splitlines()[-1:] or ["no message"]
        raise UnknownRunError(
            f"{host.name}: looking at its processes failed (status {result.status}): {last[0]}"
        )
    try:
        return parse_scan(result.stdout)
    except ValueError as error:
        raise UnknownRunError(f"{host.name}: its answer cannot be read: {error}") from error


def identify(host: Runner) -> Identity:
    """Who the machine at the end of this road is.

    :raises HostError: when it could not be asked.
    """
    result = host.run(["sh", "-c", _WHO], timeout=_TIMEOUT_S)
    boot_id, namespace, machine_id, *_ = [*result.stdout.split("\n"), "", "", ""]
    return Identity(boot_id, namespace.strip("pid:[]"), machine_id)

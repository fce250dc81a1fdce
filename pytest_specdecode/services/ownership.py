"""Which processes are a unit's: decided over scans, over all its starts in this session. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from ..hosts.processes import Key
from ..hosts.scan import Scan, Seen
from .units import UnitState


class Ownership:
    """What is known of one unit. ``protect``: executables that are spared though they are its own."""

    def __init__(self, protect: Sequence[str]) -> None:
        self._protect = tuple(protect)
        self._cgroup = ""
        self._invocations: set[str] = set()
        self._recorded: set[Key] = set()
        self._shm: set[str] = set()

    def remember(self, state: UnitState) -> None:
        """A start of the unit."""
        if state.invocation:
            self._invocations.add(state.invocation)
        self._cgroup = state.cgroup or self._cgroup

    def record(self, scan: Scan) -> None:
        """What descends from the unit now stays its own, whatever it becomes."""
        roots = [p.pid for p in scan.processes if self._in_unit(p)]
        self._recorded |= scan.descendants(roots)
        self._shm |= {path for p in self.owned(scan) for path in p.shm}

    def _in_unit(self, p: Seen) -> bool:
        inside = bool(self._cgroup) and any(
            c == self._cgroup or c.startswith(self._cgroup + "/") for c in p.cgroups
        )
        return inside or (bool(p.invocation) and p.invocation in self._invocations)

    def owned(self, scan: Scan) -> tuple[Seen, ...]:
        """Living processes in its cgroup, with the id of one of its starts in their environment, or recorded
        as a descendant of such. Not those that are spared by name, nor our own road there."""
        return tuple(
            p
            for p in scan.processes
            if p.alive
            and (self._in_unit(p) or p.key in self._recorded)
            and not p.is_one_of(self._protect)
            and p.pid not in scan.road
        )

    def left_in_memory(self, scan: Scan) -> tuple[str, ...]:
        """Files in /dev/shm that its processes had and nobody has now."""
        used = {path for p in scan.processes for path in p.shm}
        return tuple(sorted(self._shm & set(scan.shm) - used))

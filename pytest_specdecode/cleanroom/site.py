"""The machine as a clean-up sees it: who is there, who may be killed, what nothing may be left of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ..errors import BrokenError, HostError
from ..hosts import Host
from ..hosts.processes import Key
from ..hosts.reaper import Reaper
from ..hosts.roads import RoadHost
from ..hosts.scan import Scan, Scanner, Seen, look
from . import fuser, gpumemory
from .policy import Policy, Sorted, outside, sort, why


@runtime_checkable
class Owning(Protocol):
    """A service that can say which processes of a scan are its own."""

    def owned(self, scan: Scan) -> tuple[Seen, ...]: ...

    def left_in_memory(self, scan: Scan) -> tuple[str, ...]:
        """Files in /dev/shm that its processes had and nobody has now."""
        ...


@dataclass(slots=True)
class Site:
    """One machine during a session."""

    roads: RoadHost
    policy: Policy
    scanner: Scanner
    reaper: Reaper
    hypervisor: Host | None = None
    notes: dict[str, None] = field(default_factory=dict)
    """What a reader of the last proof should know; in order, each once."""

    def sorted(self, service: object) -> Sorted:
        scan = self.scanner.look()
        return sort(scan, self.policy, self._owned(service, scan))

    def doomed(self, service: object) -> list[str]:
        """Those that a clean-up would kill now, and why."""
        scan = self.scanner.look()
        owned = self._owned(service, scan)
        return [f"{p}; {why(p, self.policy, owned)}" for p in sort(scan, self.policy, owned).kill]

    def _owned(self, service: object, scan: Scan) -> set[Key]:
        return {p.key for p in service.owned(scan)} if isinstance(service, Owning) else set()

    def prove_identity(self) -> None:
        """:raises UnprovenError: when the hypervisor's container is not known to be the host."""
        if self.roads.back is not None:
            self.roads.killing_road()

    def press(self, service: object) -> None:
        """One round of signals to those that the policy names."""
        try:
            self.reaper.press(self.sorted(service).kill)
        finally:
            self.scanner.forget()

    def say(self, processes: Iterable[Seen]) -> list[str]:
        scan = self.scanner.look()
        return [self.reaper.describe(p, scan) for p in processes]

    # -- the proof ------------------------------------------------------------------------------------

    def foreign(self, service: object) -> list[str]:
        """Holders that neither may be killed nor are all right: by our own look, by fuser, and from
        outside.
        """
        scan = self.scanner.look()
        found = self.sorted(service)
        self._tell(scan, found)
        return (
            self.say(found.foreign)
            or self._second_opinion(scan, found)
            or [f"outside the container: {p}" for p in self._outside(scan)]
        )

    def _tell(self, scan: Scan, found: Sorted) -> None:
        if not scan.root or scan.unreadable:
            self._note(
                f"partial proof: {scan.unreadable} processes of others could not be looked into; "
                "set host.sudo, or run as root"
            )
        for p in found.allowed:
            self._note(f"allowed to hold devices: {p}")

    def _second_opinion(self, scan: Scan, found: Sorted) -> list[str]:
        if not scan.devices:
            return []
        pids = fuser.ask(self.roads, scan.devices)
        if pids is None:
            self._note("fuser is not installed there; the look over /proc alone decided")
            return []
        allowed = {p.pid for p in found.allowed}
        unseen = [pid for pid in sorted(pids - allowed) if pid not in scan.road]
        if not unseen:
            return []
        self.scanner.forget()  # a newcomer, or one that only fuser sees
        again = self.scanner.look()
        return [
            f"{again.by_pid[pid]} (says fuser)"
            for pid in unseen
            if pid in again.by_pid and again.by_pid[pid].alive
        ]

    def _outside(self, scan: Scan) -> list[Seen]:
        if self.hypervisor is None or not scan.devices:
            return []
        try:
            wide = look(self.hypervisor, self.policy.devices)
        except HostError as error:
            self._note(f"holders outside the container could not be looked for: {error}")
            return []
        verdicts = sort(wide, self.policy, ())
        allowed = {p.key for p in verdicts.allowed}
        others = outside(wide, scan.identity.namespace)
        for p in others:
            if p.key in allowed:
                self._note(f"allowed to hold devices, outside the container: {p}")
        return [p for p in others if p.key not in allowed]

    def memory(self) -> list[str]:
        """GPUs that still have too much in use.

        :raises BrokenError: when there are GPUs, and no device node by which their holders could be found.
        """
        used = gpumemory.ask(self.roads)
        if used is None:
            self._note("nvidia-smi is not installed there; GPU memory was not looked at")
            return []
        if used and not self.scanner.look().devices:
            raise BrokenError(
                f"{self.roads.name} has {len(used)} GPUs and no device that matches cleanup.devices = "
                f"{list(self.policy.devices)}: their holders cannot be seen"
            )
        floor = self.policy.gpu_memory_below
        unknown = [g.index for g in used if g.used is None]
        if unknown:
            self._note(f"GPU {', '.join(unknown)} does not tell its memory in use")
        return [
            f"GPU {g.index}: {g.used / 2**20:.0f} MiB in use, more than gpu_memory_below "
            f"({floor / 2**20:.0f} MiB)"
            for g in used
            if g.used is not None and g.used >= floor
        ]

    def closing_notes(self, service: object) -> tuple[str, ...]:
        if isinstance(service, Owning):
            for path in service.left_in_memory(self.scanner.look()):
                self._note(f"left in memory: {path}")
        told = tuple(self.notes)
        self.notes.clear()
        return told

    def _note(self, text: str) -> None:
        self.notes[text] = None

"""Who may be killed, and whose hold on a device is all right. Pure: decides over a scan, does nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from ..hosts.processes import Key
from ..hosts.scan import Scan, Seen
from ..procfs import PROTECTED
from ..services.guard import PREFIX

_UVM = "nvidia-uvm"
_NVIDIA = "/dev/nvidia"


class Verdict(Enum):
    """What becomes of a process."""

    KILL = auto()
    ALLOWED = auto()
    """Holds devices, and may: protected, or a monitor."""
    FOREIGN = auto()
    """Holds devices, and nothing allows to kill it."""
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class Policy:
    """The ``cleanup`` table. ``kill``: service, holders, python."""

    kill: tuple[str, ...] = ("service",)
    devices: tuple[str, ...] = ("/dev/nvidia*",)
    protect: tuple[str, ...] = ()
    gpu_memory_below: int = 2**30

    @property
    def protected(self) -> tuple[str, ...]:
        return (*PROTECTED, *self.protect)


def untouchable(p: Seen, scan: Scan, policy: Policy) -> bool:
    """Never killed, whatever the settings: PID 1, kernel threads, our own road, the guard, the protected."""
    guard = any(f"/{PREFIX}" in c for c in p.cgroups)
    return p.pid == 1 or p.kernel or p.pid in scan.road or guard or p.is_one_of(policy.protected)


def verdict(
    p: Seen, scan: Scan, policy: Policy, owned: Collection[Key], kin: Collection[Key] | None = None
) -> Verdict:
    """What becomes of ``p``. ``owned`` are the service's; ``kin`` this session's own (``scan.kin``)."""
    if not p.alive:
        return Verdict.NOTHING
    if not untouchable(p, scan, policy):
        if p.key in owned:
            return Verdict.KILL
        if p.key not in (scan.kin if kin is None else kin) and (
            ("holders" in policy.kill and p.devices) or ("python" in policy.kill and p.python)
        ):
            return Verdict.KILL
    if not p.devices:
        return Verdict.NOTHING
    return Verdict.ALLOWED if p.is_one_of(policy.protected) or is_monitor(p) else Verdict.FOREIGN


def why(p: Seen, policy: Policy, owned: Collection[Key]) -> str:
    """Why ``p`` is killed, in a few words."""
    if p.key in owned:
        return "it is the service's own"
    if "holders" in policy.kill and p.devices:
        return "it holds a device, and cleanup.kill has holders"
    return "it is a Python process, and cleanup.kill has python"


def is_monitor(p: Seen) -> bool:
    """Holds NVIDIA's devices without the one that every CUDA context needs."""
    return all(d.startswith(_NVIDIA) for d in p.devices) and not any(
        d.rpartition("/")[2] == _UVM for d in p.devices
    )


@dataclass(frozen=True, slots=True)
class Sorted:
    """A scan's processes by what becomes of them."""

    kill: tuple[Seen, ...]
    allowed: tuple[Seen, ...]
    foreign: tuple[Seen, ...]


def sort(scan: Scan, policy: Policy, owned: Collection[Key]) -> Sorted:
    kin = scan.kin
    found: dict[Verdict, list[Seen]] = {v: [] for v in Verdict}
    for p in scan.processes:
        found[verdict(p, scan, policy, owned, kin)].append(p)
    return Sorted(tuple(found[Verdict.KILL]), tuple(found[Verdict.ALLOWED]), tuple(found[Verdict.FOREIGN]))


def outside(scan: Scan, container: str) -> tuple[Seen, ...]:
    """Of a hypervisor's scan: holders that are not in the container whose PID namespace is ``container``.

    What is in a nested namespace descends from the container's first process; what was entered from outside
    (``pct exec``) shares its namespace.
    """
    inits = [p.pid for p in scan.processes if p.namespace == container and p.inner[-1:] == (1,)]
    inside = scan.descendants(inits)
    return tuple(p for p in scan.holders if p.key not in inside and p.namespace != container)

"""The steps of a clean-up, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..hosts import Host
from ..hosts.processes import port_use
from ..services import Service
from .site import Site


@dataclass(frozen=True, slots=True)
class Room:
    """What is cleaned."""

    host: Host
    service: Service
    port: int | None
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that should not be there, as the message says it."""

    text: str


Probe = Callable[[Room], list[Finding]]
Act = Callable[[Room, float], None]
"""Given the room and the seconds that are left."""


@dataclass(frozen=True, slots=True)
class Step:
    """``probe`` finds what is in the way, ``act`` removes it; without ``act`` the step only waits.

    ``share`` of the seconds that are left is what one act may take; it is tried again after ``again_s``.
    """

    name: str
    probe: Probe
    tried: str
    proven: str
    act: Act | None = None
    share: float = 1.0
    again_s: float = 1.0


def _running(room: Room) -> list[Finding]:
    state = room.service.state()
    if not state.running:
        return []
    return [Finding(f"the service still runs: {state.detail or room.service.instance()}")]


def _stop(room: Room, seconds: float) -> None:
    room.service.stop(within_s=seconds)


def _left(room: Room) -> list[Finding]:
    return [Finding(f"pid {pid}: {command}") for pid, command in room.service.leftovers().items()]


def _kill(room: Room, seconds: float) -> None:
    del seconds
    room.service.kill_leftovers()


def _identity(room: Room) -> list[Finding]:
    _site(room).prove_identity()
    return []


def _killable(room: Room) -> list[Finding]:
    site = _site(room)
    return _findings(site.say(site.sorted(room.service).kill))


def _press(room: Room, seconds: float) -> None:
    del seconds
    _site(room).press(room.service)


def _held(room: Room) -> list[Finding]:
    return _findings(_site(room).foreign(room.service))


def _memory(room: Room) -> list[Finding]:
    return _findings(_site(room).memory())


def _site(room: Room) -> Site:
    assert room.site is not None
    return room.site


def _findings(texts: Iterable[str]) -> list[Finding]:
    return [Finding(text) for text in texts]


def _open(room: Room) -> list[Finding]:
    if room.port is None:
        return []
    use = port_use(room.host, room.port)
    return [] if use.closed else [Finding(f"port {room.port} is held by {use}")]


_STOP = Step("stop", _running, "stopping the service", "the service is stopped", _stop, 0.6, again_s=5.0)
_KILL = Step(
    "kill", _left, "SIGTERM, then SIGKILL", "no process of an earlier start is left", _kill, share=0.6
)
_PORT = Step("port", _open, "waiting for it to close; it is not ours to kill", "port {port} is closed")

STEPS: tuple[Step, ...] = (_STOP, _KILL, _PORT)
"""For a service on a machine that has no devices to free."""

VACATE: tuple[Step, ...] = (_STOP, _KILL)
"""For a service beside the one that is to start: that one's own steps prove the rest."""

SITE_STEPS: tuple[Step, ...] = (
    Step("identity", _identity, "comparing both roads", "both roads lead to the same machine"),
    _STOP,
    _KILL,
    Step(
        "holders", _killable, "SIGTERM, then SIGKILL", "nothing is left that cleanup.kill names", _press, 0.8
    ),
    Step(
        "release",
        _held,
        "waiting: it is not ours to kill (cleanup.kill, cleanup.protect say what is)",
        "nobody holds the devices but those allowed to",
    ),
    Step("memory", _memory, "waiting for it to be freed", "GPU memory is free"),
    _PORT,
)
"""For a machine with devices, other people's processes, and perhaps a second road into it."""

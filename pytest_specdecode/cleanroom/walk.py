"""Walk the steps until each has nothing left to find, or time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from ..errors import DirtyError, HostError
from ..hosts import Host
from ..hosts.audit import AuditedHost
from ..hosts.processes import port_use
from ..services import Service
from .proof import CleanProof
from .steps import STEPS, Finding, Room, Step

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5
_SHOWN = 4
"""Findings that a message lists; it should fit seven lines."""
Progress = Callable[[str], None]


def clean(
    host: Host,
    service: Service,
    *,
    port: int | None,
    within_s: float,
    progress: Progress,
    steps: Sequence[Step] = STEPS,
) -> CleanProof:
    """Leave nothing of an earlier start, and prove it. ``port`` None: nobody knows yet where it will listen.

    A service that is not ours to stop is only described.

    :raises DirtyError: what is left when ``within_s`` seconds are over, and what was tried.
    """
    begin = time.monotonic()
    room = Room(host, service, port)
    trail = host.trail if isinstance(host, AuditedHost) else []
    commands, killed = len(trail), len(service.killed)
    if not service.managed:
        notes = ("external: nothing was stopped, killed or proven", *_listener(room))
        return CleanProof((), time.monotonic() - begin, notes=notes, audit=tuple(trail[commands:]))
    for step in steps:
        _walk(step, room, begin + within_s, progress)
    proven = tuple(
        step.proven.format(port=port) for step in steps if port is not None or "{port}" not in step.proven
    )
    return CleanProof(
        proven,
        time.monotonic() - begin,
        tuple(service.killed[killed:]),
        audit=tuple(trail[commands:]),
    )


def _walk(step: Step, room: Room, deadline: float, progress: Progress) -> None:
    pause, acted, last = _FIRST_PAUSE_S, 0, -math.inf
    while True:
        try:
            found = step.probe(room)
            if not found:
                return
            left = deadline - time.monotonic()
            if left <= 0 and (acted or step.act is None):
                raise DirtyError(_message(step, found, acted))
            progress(f"cleaning up: {step.name}: {found[0].text}")
            if step.act is not None and time.monotonic() - last >= step.again_s:
                step.act(room, max(0.0, left * step.share))
                acted, last = acted + 1, time.monotonic()
        except HostError as error:
            raise DirtyError(
                f"cannot prove a clean environment: step '{step.name}' could not look or act: {error}"
            ) from error
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 2, _LONGEST_PAUSE_S)


def _message(step: Step, found: Sequence[Finding], acted: int) -> str:
    times = f" ({acted} times)" if acted > 1 else ""
    lines = [f"  {finding.text}" for finding in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN} more")
    return "\n".join(
        [
            f"the environment is not clean; left at step '{step.name}' after {step.tried}{times}:",
            *lines,
            "end it by hand, or give it longer (cleanup.within)",
        ]
    )


def _listener(room: Room) -> tuple[str, ...]:
    """What runs, for a service that is only described."""
    if room.port is None:
        instance = room.service.instance()
        return (f"it runs as {instance}",) if instance else ()
    try:
        use = port_use(room.host, room.port)
    except HostError as error:
        return (f"port {room.port} could not be looked at: {error}",)
    return () if use.closed else (f"port {room.port} is held by {use}",)

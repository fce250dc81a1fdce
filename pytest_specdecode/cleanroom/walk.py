"""Walk the steps until each has nothing left to find, or time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from ..errors import BrokenError, CaseError, DirtyError, HostError, NotRunError, UnprovenError
from ..hosts import Host
from ..hosts.audit import AuditedHost
from ..hosts.processes import port_use
from ..hosts.roads import RoadHost
from ..services import Service
from .proof import CleanProof
from .site import Site
from .steps import SITE_STEPS, STEPS, Finding, Room, Step

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
    site: Site | None = None,
    steps: Sequence[Step] | None = None,
) -> CleanProof:
    """Leave nothing of an earlier start, and prove it. ``port`` None: nobody knows yet where it will listen.

    A service that is not ours to stop is only described.

    :raises BrokenError: when the machine cannot be reached in that time.
    :raises DirtyError: what is left when ``within_s`` seconds are over, and what was tried.
    """
    begin = time.monotonic()
    room = Room(host, service, port, site)
    steps = steps or (STEPS if site is None else SITE_STEPS)
    trail = host.trail if isinstance(host, AuditedHost | RoadHost) else []
    commands, killed = len(trail), len(service.killed)
    pressed = len(site.reaper.killed) if site else 0
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
        tuple(dict.fromkeys((*service.killed[killed:], *(site.reaper.killed[pressed:] if site else ())))),
        notes=site.closing_notes(service) if site else (),
        audit=tuple(trail[commands:]),
    )


def _walk(step: Step, room: Room, deadline: float, progress: Progress) -> None:
    pause, acted, last = _FIRST_PAUSE_S, 0, -math.inf
    while True:
        left = deadline - time.monotonic()
        try:
            found = step.probe(room)
            if not found:
                return
            if left <= 0 and (acted or step.act is None):
                raise DirtyError(_message(step, found, acted))
            progress(f"cleaning up: {step.name}: {found[0].text}")
            if step.act is not None and time.monotonic() - last >= step.again_s:
                step.act(room, max(0.0, left * step.share))
                acted, last = acted + 1, time.monotonic()
        except HostError as error:
            if left <= 0 or isinstance(error, UnprovenError) or room.site is None:
                raise _unproven(step, error) from error
            progress(f"cleaning up: {step.name}: {error}")
        if room.site is not None:
            room.site.scanner.forget()
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 2, _LONGEST_PAUSE_S)


def _unproven(step: Step, error: HostError) -> CaseError:
    """Unreachable is broken; a machine that answers, but not this, is dirty."""
    text = f"cannot prove a clean environment: step '{step.name}' could not look or act: {error}"
    closed = isinstance(error, NotRunError) and not isinstance(error, UnprovenError)
    return BrokenError(text) if closed else DirtyError(text)


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

"""``--spec-plan``: what a run would do, command by command, and whom it would kill. Looks; touches
nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from .cleanroom import Site
from .errors import HostError, SpecDecodeError
from .hosts.lease import FREE_AFTER_S, ask
from .hosts.redaction import redact
from .hosts.scan import Seen
from .model import SpecConfig
from .run import Run
from .services.registry import free_port

_TREE = ("  the engine's own process tree: SIGTERM, then SIGKILL",)
_KILLED = {"command": _TREE, "start+stop": ("  nothing is killed: service.stop alone ends it",)}
"""By kind of service, on a machine where only its own processes are looked at."""


@runtime_checkable
class Planning(Protocol):
    """A service that can say which commands it would run."""

    def stop_plan(self) -> Sequence[Sequence[str]]: ...
    def start_plan(self, flags: Sequence[str], port: int) -> Sequence[Sequence[str]]: ...
    def restore_plan(self) -> Sequence[Sequence[str]]: ...


def plan_lines(wanted: Sequence[tuple[Run, Sequence[SpecConfig]]]) -> list[str]:
    """Lines for a person, over each target with its configurations; all are on one machine. What cannot be
    looked at is said, not raised."""
    runs = [run for run, _ in wanted]
    lines = _head(runs)
    if len(runs) > 1:
        lines.append("  at each start of either, both services are stopped and nothing of them is left")
    for run, configs in wanted:
        lines += [f"{run.target.name}:"] if len(runs) > 1 else []
        lines += [*_looked(_clean_up(run, runs)), *_looked(_starts(run, configs))]
    return lines


def clean_up_lines(run: Run) -> list[str]:
    """Of a clean-up alone, as :func:`plan_lines`."""
    return [*_head([run]), *_looked(_clean_up(run, [run]))]


def _head(runs: Sequence[Run]) -> list[str]:
    names = " against ".join(run.target.name for run in runs)
    first = f"plan for {names} on {runs[0].host.name}: nothing of this has been done"
    return [first, *_looked(_machine(runs[0]))]


def _looked(part: Iterator[str]) -> Iterator[str]:
    try:
        yield from part
    except SpecDecodeError as error:
        yield f"  cannot be looked at: {error}"


def _machine(run: Run) -> Iterator[str]:
    """Roads and lease."""
    site = run.venue.site
    if site is None:
        return
    if run.host.back is not None:
        try:
            run.host.trusted_back()
            yield f"  {run.host.back.name} is the same machine; signals would go that way"
        except HostError as error:
            yield f"  the second road: {error}"
    holder = ask(run.host, "peek", f"{FREE_AFTER_S:g}").holder
    yield f"  in use by {holder}: the run would not begin" if holder else "  nobody else holds the lease"


def _clean_up(run: Run, runs: Sequence[Run]) -> Iterator[str]:
    """The first stop, and what lives now that it would reach. ``runs``: all whose services go."""
    service, site = run.service, run.venue.site
    if not service.managed:
        yield "  the service is external: nothing would be stopped, killed or started"
        return
    yield "stop:"
    yield from _commands(service.stop_plan() if isinstance(service, Planning) else [])
    if site is None:
        yield from _KILLED.get(service.kind, ())
        left = service.leftovers()
        yield from ["living processes of earlier runs that would die:"] if left else []
        yield from (f"  pid {pid}: {command}" for pid, command in left.items())
        return
    found = site.sorted(service)
    yield f"living processes that would die (cleanup.kill = {list(site.policy.kill)}):"
    yield from ([f"  {text}" for text in site.doomed(service)] or ["  none"])
    gone = {p.key for other in runs if other is not run for p in _killed(site, other)}
    foreign = [p for p in found.foreign if p.key not in gone]
    for title, some in (("allowed to hold devices", found.allowed), ("would make it dirty", foreign)):
        if some:
            yield f"{title}:"
            yield from (f"  {p}" for p in some)


def _killed(site: Site, other: Run) -> Sequence[Seen]:
    """What dies with another target's service."""
    if isinstance(other.service, Planning):
        other.service.stop_plan()  # it notes what it would stop
    return site.sorted(other.service).kill


def _starts(run: Run, configs: Sequence[SpecConfig]) -> Iterator[str]:
    """One start for each configuration, then the way back."""
    service = run.service
    if not service.managed:
        return
    for config in configs:
        flags, port = run.flags(config), run.fixed_port()
        yield f"start with steps={config.steps}{'' if port else ', at any free port'}:"
        env = run.environment(config)
        yield from [f"  with {' '.join(f'{name}={value}' for name, value in env.items())}"] if env else []
        port = port or free_port(run.host)
        if isinstance(service, Planning):
            yield from _commands(service.start_plan(flags, port))
        else:
            yield from _commands([service.command(flags, port)])
    yield "at the end:"
    yield from _commands(service.restore_plan()) if isinstance(service, Planning) else _TREE


def _commands(commands: Sequence[Sequence[str]]) -> Iterator[str]:
    return (f"  {shlex.join(redact(argv))}" for argv in commands)

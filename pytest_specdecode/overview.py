"""The head of ``--spec-plan``: which server starts in which order, how many, and how long that takes. No
pytest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .errors import SpecDecodeError
from .estimate import Job, Need, Place
from .forecast import Forecast, likely_machine
from .report.text import about, duration
from .state import State


def with_overview(plan: Sequence[str], state: State, jobs: Iterable[Job | None]) -> list[str]:
    """A plan's lines, after the first one what it all comes to."""
    try:
        machine: str | None = state.run.machine
    except SpecDecodeError:  # what cannot be looked at is said further down
        machine = likely_machine(state)
    forecast = Forecast(state, [job for job in jobs if job is not None], machine)
    return [*plan[:1], *overview_lines(forecast), *plan[1:]]


def overview_lines(forecast: Forecast) -> list[str]:
    """Lines for a person."""
    least, likely, most = forecast.least(), forecast.likely(), forecast.most()
    if not forecast.state.run.service.managed:
        head = "server starts: none, the service is external"
    else:
        head = _count(least, likely, most)
    return [head, *_order(forecast.jobs), _duration(least, likely, most)]


def _count(least: Need, likely: Need, most: Need) -> str:
    if least.starts == most.starts:
        return f"server starts: {most.starts}, in this order"
    return (
        f"server starts: {least.starts} to {most.starts}, {likely.starts} if all is as fast as it was, "
        "in this order"
    )


def _order(jobs: Sequence[Job]) -> Iterator[str]:
    """One line a start; restarts repeat the first one's levels, so only what they are for is said."""
    levels: dict[Place, list[int]] = {}
    for job in jobs:
        at = levels.setdefault(job.place, [])
        if job.planned is not None and job.planned.case.concurrency not in at:
            at.append(job.planned.case.concurrency)
    first = min((restart for _, restart in levels), default=1)
    for number, ((config, restart), at) in enumerate(levels.items(), 1):
        again = "" if restart == first else f" again (r{restart}), what is undecided by then"
        yield f"  {number}. steps={config.steps}{_at(at)}{again}"


def _at(levels: Iterable[int]) -> str:
    text = ", ".join(map(str, levels))
    return f" at concurrency {text}" if text else ""


def _duration(least: Need, likely: Need, most: Need) -> str:
    if least.seconds is None or likely.seconds is None or most.seconds is None:
        return "duration: unknown: no baseline has times yet"
    span = f" ({duration(least.seconds)} to {duration(most.seconds)})" if least.starts < most.starts else ""
    return f"duration: {about(likely.seconds)}{span} and the clean-ups, by the times in the baselines"

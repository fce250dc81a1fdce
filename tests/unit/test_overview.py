"""The head of ``--spec-plan``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pytest_specdecode.estimate import Job, Need
from pytest_specdecode.model import Case, SpecConfig
from pytest_specdecode.overview import overview_lines
from pytest_specdecode.plan import Planned

OFF = SpecConfig.of(0)


def forecast(least: Need, likely: Need, most: Need, *, restarts: int = 1, managed: bool = True) -> Any:
    jobs = [
        Job((OFF, r), Planned("test_gate", Case("qwen", OFF, c), r))
        for r in range(1, restarts + 1)
        for c in (1, 16)
    ]
    state = SimpleNamespace(run=SimpleNamespace(service=SimpleNamespace(managed=managed)))
    return SimpleNamespace(
        state=state, jobs=jobs, least=lambda: least, likely=lambda: likely, most=lambda: most
    )


def test_starts_and_duration_have_a_range_where_restarts_may_not_be_needed() -> None:
    lines = overview_lines(forecast(Need(1, 660.0), Need(1, 660.0), Need(2, 1320.0), restarts=2))
    assert lines == [
        "server starts: 1 to 2, 1 if all is as fast as it was, in this order",
        "  1. steps=0 at concurrency 1, 16",
        "  2. steps=0 at concurrency 1, 16 again (r2), what is undecided by then",
        "duration: about 11 min (11 min to 22 min) and the clean-ups, by the times in the baselines",
    ]


def test_without_stored_times_the_plan_says_so() -> None:
    only = Need(1, None)
    assert overview_lines(forecast(only, only, only)) == [
        "server starts: 1, in this order",
        "  1. steps=0 at concurrency 1, 16",
        "duration: unknown: no baseline has times yet",
    ]


def test_an_external_service_is_not_started() -> None:
    only = Need(1, 60.0)
    lines = overview_lines(forecast(only, only, only, managed=False))
    assert lines[0] == "server starts: none, the service is external"

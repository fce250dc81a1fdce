"""A small, seeded part of the study: the promised error rates, and that these bounds can be missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pytest_specdecode.verdict import Noise, Start, Verdict, judge

from .populations import PLAIN, Population
from .sessions import Rates, rivals, study
from .tables import upper

SESSIONS = 120
LOUD = PLAIN.but("loud", start_sd=0.02)
QUIET = PLAIN.but("quiet", start_sd=0.005)


def alarms_allowed(sessions: int) -> int:
    """More than so many alarms refute a rate of 1% (at 1%)."""
    return next(n for n in range(sessions) if 1 - _binomial(n, sessions, 0.01) < 0.01)


def _binomial(most: int, of: int, p: float) -> float:
    term = total = (1 - p) ** of
    for k in range(most):
        term *= (of - k) / (k + 1) * p / (1 - p)
        total += term
    return float(total)


def measured(population: Population, sessions: int = SESSIONS) -> Rates:
    return study(population, sessions, seed=1)


def test_the_default_gate_on_starts_that_differ_by_one_percent() -> None:
    found = measured(PLAIN)
    assert found.alarms <= alarms_allowed(SESSIONS)
    assert found.passed <= 0.01
    assert found.caught >= 0.85
    assert found.open <= 0.08
    assert found.starts <= 0.6


def test_quiet_starts_show_nearly_every_loss() -> None:
    found = measured(QUIET, 60)
    assert found.alarms <= alarms_allowed(60)
    assert found.passed <= 0.005
    assert found.caught >= 0.985


def test_loud_starts_make_it_inconclusive_but_not_wrong() -> None:
    found = measured(LOUD)
    assert found.alarms <= alarms_allowed(SESSIONS)
    assert found.passed <= 0.015
    assert found.open > 0.5


def test_disturbed_rounds_do_not_decide() -> None:
    found = measured(PLAIN.but("disturbed", outliers=0.07))
    assert found.alarms <= alarms_allowed(SESSIONS)
    assert found.passed <= 0.01
    assert found.open <= 0.12


def test_servers_with_two_speeds_raise_no_alarm() -> None:
    found = measured(PLAIN.but("two speeds", slow_starts=0.25))
    assert found.alarms <= alarms_allowed(SESSIONS)
    assert found.passed <= 0.015


def rounds_as_samples(
    current: Sequence[Start], baseline: Sequence[Start], *, looks: int, cases: int, noise: Noise | None
) -> Verdict:
    """The mistake that all this is about: each round taken for a sample of its own."""

    def apart(of: Sequence[Start]) -> list[Start]:
        return [
            replace(s, id=f"{s.id}.{i}", session="", rounds=(r,)) for s in of for i, r in enumerate(s.rounds)
        ]

    return judge(apart(current), apart(baseline), looks=looks, cases=cases)


def test_a_verdict_that_takes_rounds_for_samples_misses_these_bounds() -> None:
    found = study(LOUD, 40, seed=1, judge=rounds_as_samples)
    assert found.alarms > alarms_allowed(40)
    assert found.passed > 0.015


def test_a_verdict_that_never_decides_misses_these_bounds() -> None:
    def shy(current: Sequence[Start], baseline: Sequence[Start], **settings: object) -> Verdict:
        return judge(current, baseline, confidence=0.999999, looks=3, cases=15)

    found = study(PLAIN, 20, seed=1, judge=shy)
    assert found.caught < 0.85
    assert found.open > 0.08
    assert found.starts > 0.6


def test_the_others_err_as_their_designs_say() -> None:
    found = rivals(PLAIN, 200, seed=1)
    assert found["pytest-benchmark mean:5%"].passed > 0.3
    assert found["Mann–Whitney on rounds"].alarm > 0.25


def test_a_drawn_population_has_the_spread_it_says() -> None:
    before, now = PLAIN.but("check", start_sd=0.02, night_sd=0.03).draw(2000, np.random.default_rng(0))
    assert before.shape == (2000, 3, 5, 6, 5)
    assert now.shape == (2000, 3, 5, 3, 5)
    within_start = now.std(axis=-1, ddof=1)
    assert np.sqrt((within_start**2).mean()) == pytest.approx(0.01, rel=0.02)
    starts = now.mean(axis=(2, 4))
    assert np.sqrt(starts.var(axis=-1, ddof=1).mean()) == pytest.approx(0.02, rel=0.05)
    assert now.mean(axis=(1, 2, 3, 4)).std() == pytest.approx(0.03, rel=0.05)


def test_the_upper_bound_of_a_rate() -> None:
    assert upper(0, 2000) == pytest.approx(1 - 0.05 ** (1 / 2000))
    assert upper(20, 2000) == pytest.approx(0.0145, abs=0.0002)

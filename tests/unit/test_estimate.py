"""What is left of a session, from what things took before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdecode.estimate import (
    Job,
    Pace,
    Times,
    expected,
    looks_needed,
    need,
    times_of,
    with_overhead,
)
from pytest_specdecode.gating import Family, Gate, Stored
from pytest_specdecode.model import Case, CaseStart, Round, ServerStart, SpecConfig
from pytest_specdecode.plan import Planned
from pytest_specdecode.verdict import Noise, Start

ONE, TWO = SpecConfig.of(1, algorithm="EAGLE"), SpecConfig.of(2, algorithm="EAGLE")
GATE = Gate(("tok_s",), tolerance=0.05, margin=0.01, confidence=0.99)


def case(config: SpecConfig, concurrency: int = 1) -> Case:
    return Case("qwen", config, concurrency)


def job(config: SpecConfig, restart: int = 1, concurrency: int = 1) -> Job:
    return Job((config, restart), Planned("test_gate", case(config, concurrency), restart, GATE))


def jobs(restarts: int = 1, levels: Sequence[int] = (1, 4)) -> list[Job]:
    return [job(config, r, c) for r in range(1, restarts + 1) for config in (ONE, TWO) for c in levels]


TIMES = Times(
    {ONE: 100.0, TWO: 120.0},
    {case(ONE): 10.0, case(ONE, 4): 20.0, case(TWO): 12.0, case(TWO, 4): 24.0},
)


def test_a_configuration_starts_once_for_all_its_cases_and_a_case_is_measured_once_for_all_its_tests() -> (
    None
):
    twice = [*jobs(), Job((ONE, 1), Planned("test_floor", case(ONE), 1)), Job((TWO, 1))]
    left = need(twice, TIMES)
    assert (left.starts, left.seconds, left.first_s) == (2, 100 + 10 + 20 + 120 + 12 + 24, 100)


def test_what_is_done_costs_nothing_more() -> None:
    left = need(jobs(), TIMES, served={(ONE, 1)}, measured={(case(ONE), 1)})
    assert (left.starts, left.seconds, left.first_s) == (1, 20 + 120 + 12 + 24, 20)


def test_without_any_times_nothing_is_claimed_and_nothing_left_takes_no_time() -> None:
    assert need(jobs(), Times()).seconds is None
    assert need(jobs(), Times(starts={ONE: 5.0})).seconds is None
    assert need([], Times()).seconds == 0


def test_what_never_ran_takes_as_long_as_what_is_most_like_it() -> None:
    known = Times({ONE: 100.0}, {case(ONE): 10.0, case(ONE, 4): 20.0})
    assert known.start_s(TWO) == 100
    assert known.case_s(case(TWO, 4)) == 20
    assert known.case_s(case(TWO, 16)) == 15


def test_own_times_come_before_stored_ones() -> None:
    assert Times({ONE: 7.0}).over(TIMES).starts == {ONE: 7.0, TWO: 120.0}
    assert with_overhead(TIMES, 5.0).starts == {ONE: 105.0, TWO: 125.0}


def test_restarts_that_nobody_is_likely_to_need_are_not_counted() -> None:
    assert need(expected(jobs(3), lambda _: 1), TIMES).starts == 2
    assert need(expected(jobs(3), lambda item: 2 if item.case.config == TWO else 1), TIMES).starts == 3
    assert need(expected(jobs(3), lambda _: 9), TIMES).starts == 6


def test_a_case_that_is_still_undecided_needs_at_least_one_more() -> None:
    rest = [job(ONE, 2), job(ONE, 3)]
    kept = expected(rest, lambda _: 1, past={("test_gate", case(ONE)): 1})
    assert [each.place for each in kept] == [(ONE, 2)]


@given(st.integers(0, 12), st.integers(1, 3))
def test_an_estimate_is_never_negative_and_never_grows_as_jobs_are_done(done: int, looks: int) -> None:
    whole = expected(jobs(3), lambda _: looks)
    now, later = need(whole[done:], TIMES).seconds, need(whole[done + 1 :], TIMES).seconds
    assert now is not None
    assert later is not None
    assert 0 <= later <= now


def stored(spread: float) -> tuple[Stored, dict[str, Noise]]:
    """Three starts that differ by ``spread``."""
    middles = (100 * (1 - spread), 100.0, 100 * (1 + spread))
    starts = tuple(Start(f"s{i}", "monday", (m * 0.999, m, m * 1.001)) for i, m in enumerate(middles))
    history = {"tok_s": [s.rounds[1] for s in starts]}
    return Stored(starts={"tok_s": starts}, history=history), {"tok_s": Noise.pooled([starts] * 4)}


@pytest.mark.parametrize(("spread", "looks"), [(0.002, 1), (0.08, 3)])
def test_a_quiet_baseline_decides_at_once_and_a_noisy_one_needs_every_restart(
    spread: float, looks: int
) -> None:
    base, noise = stored(spread)
    assert looks_needed(base, GATE, family=Family(looks=3, cases=1), noise=noise, rounds=5) == looks


def test_a_case_with_nothing_but_a_floor_may_need_every_restart() -> None:
    floor = Stored(floor={"tok_s": 100.0})
    assert looks_needed(floor, GATE, family=Family(looks=3, cases=1), noise={}, rounds=5) == 3


def test_the_pace_of_a_case_serves_other_numbers_of_rounds() -> None:
    server = ServerStart("a", "qwen", ONE, 1, "", ready_s=412.0)
    measured = CaseStart("a", (Round({}, 10.0), Round({}, 12.0)), {"warmup_s": 15.5})
    pace = Pace.of(measured, server)
    assert pace == Pace(ready_s=412.0, warmup_s=15.5, round_s=11.0)
    assert times_of([(case(ONE), pace)], rounds=5) == Times({ONE: 412.0}, {case(ONE): 70.5})
    assert times_of([(case(ONE), Pace())], rounds=5) == Times()

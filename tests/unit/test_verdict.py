"""The verdict on known samples: what decides, what does not, and what is refused."""

from __future__ import annotations

import math

import pytest

from pytest_specdecode.errors import SpecDecodeError
from pytest_specdecode.verdict import Start, judge, summarize_rounds

ROUNDS = (100.0, 100.4, 99.7, 100.1, 99.9)


def starts(speed: float, number: int, session: str, spread: float = 0.002) -> list[Start]:
    """``number`` starts around ``speed``, alternately a little faster and slower."""
    return [
        Start(f"{session}-{i}", session, tuple(r * speed / 100 * (1 + spread * (-1) ** i) for r in ROUNDS))
        for i in range(number)
    ]


BASELINE = [*starts(100, 3, "2026-01-05"), *starts(100, 3, "2026-01-06")]


def test_an_unchanged_case_passes_at_its_first_restart() -> None:
    found = judge(starts(100, 1, "now"), BASELINE)
    assert found.outcome == "pass"
    assert found.low < found.ratio < found.high
    assert not found.slower


def test_a_large_loss_is_regressed() -> None:
    found = judge(starts(90, 3, "now"), BASELINE)
    assert found.outcome == "regressed"
    assert found.slower
    assert found.ratio == pytest.approx(0.9, rel=0.01)


def test_a_small_loss_passes_with_a_note() -> None:
    found = judge(starts(97, 3, "2026-01-06"), starts(100, 3, "2026-01-06"))
    assert (found.outcome, found.slower) == ("pass", True)
    assert "slower" in found.reason


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_numbers_that_mean_nothing_are_refused(bad: float) -> None:
    with pytest.raises(SpecDecodeError, match="round of"):
        judge([Start("a", "now", (100.0, bad))], BASELINE)


def test_the_median_of_the_rounds_counts() -> None:
    assert summarize_rounds([100, 101, 20]) == pytest.approx(100)

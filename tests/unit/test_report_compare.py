"""Cells of a table: the ratio of two cases, and how sure it is."""

from __future__ import annotations

import pytest

from pytest_specdecode.ledger import CaseSummary
from pytest_specdecode.model import CaseStart, Round
from pytest_specdecode.report.compare import comparer

from .stored import case, measured


def summary(steps: int, speed: float, number: int = 3) -> CaseSummary:
    return CaseSummary(case(steps), (), tuple(measured(speed, number, night=f"s{steps}")))


def test_several_starts_say_how_sure_the_ratio_is() -> None:
    one, two = summary(1, 100), summary(2, 150)
    found = comparer([one, two], "tok_s")(two, one, "tok_s")
    assert found is not None
    assert found.ratio == pytest.approx(1.5, rel=0.01)
    assert found.half_width is not None
    assert 0 < found.half_width < 0.1


def test_what_was_not_measured_does_not_compare() -> None:
    one, nothing = summary(1, 100), CaseSummary(case(2), (), ())
    compare = comparer([one, nothing], "tok_s")
    assert compare(one, nothing, "tok_s") is None
    assert compare(nothing, one, "tok_s") is None


def test_a_round_of_zero_leaves_a_ratio_of_unknown_width() -> None:
    one = summary(1, 100)
    stalled = CaseSummary(
        case(2), (), (CaseStart("x", tuple(Round({"tok_s": v}, 1.0) for v in (0.0, 50, 50))),)
    )
    found = comparer([one, stalled], "tok_s")(stalled, one, "tok_s")
    assert found is not None
    assert found.ratio == pytest.approx(0.5, rel=0.01)
    assert found.half_width is None

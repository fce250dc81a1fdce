"""Tables as data: what --spec-json and the pages made from it carry."""

from __future__ import annotations

from pytest_specdecode.ledger import CaseSummary, TestRecord
from pytest_specdecode.model import CaseStart, Outcome, Round
from pytest_specdecode.report.compare import bounder, comparer
from pytest_specdecode.report.grid import grid

from .stored import case, measured


def test_a_table_carries_values_intervals_improvements_and_baselines() -> None:
    record = TestRecord("t", "qwen", Outcome.PASS, case(2).config, 16, 1, baseline={"tok_s": 140.0})
    cases = [
        CaseSummary(case(1), (), tuple(measured(100, night="s1"))),
        CaseSummary(case(2), (record,), tuple(measured(150, night="s2"))),
        CaseSummary(case(3), (), ()),
        CaseSummary(case(1, 32), (), tuple(measured(60, night="s1"))),
    ]
    found = grid(cases, "tok_s", compare=comparer(cases, "tok_s"), bounds=bounder(cases, "tok_s")).as_dict()
    assert (found["target"], found["metric"], found["unit"]) == ("qwen", "tok_s", "tok/s")
    assert [c["steps"] for c in found["configs"]] == [1, 2, 3]
    assert found["reference"] == found["configs"][0]
    first, second = found["rows"]
    one, two, nothing = first["cells"]
    assert (first["concurrency"], second["concurrency"]) == (16, 32)
    assert one["ratio"] is None  # the reference itself
    assert one["low"] < one["value"] == cases[0].metrics["tok_s"] < one["high"] < one["value"] * 1.1
    assert (two["value"], two["baseline"], two["outcome"]) == (cases[1].metrics["tok_s"], 140.0, "pass")
    assert abs(two["ratio"] - 1.5) < 0.02
    assert 0 < two["half_width"] < 0.1
    assert (nothing["value"], nothing["low"], nothing["ratio"]) == (None, None, None)
    assert first["best"] == [1]
    assert second["cells"][1:] == [None, None]
    assert second["best"] == []


def test_an_interval_that_says_nothing_is_left_out() -> None:
    single = CaseSummary(case(1), (), (CaseStart("x", (Round({"tok_s": 100.0}, 1.0),)),))
    assert bounder([single], "tok_s")(single, "tok_s") is None
    assert bounder([single], "ttft_ms_p50")(single, "ttft_ms_p50") is None

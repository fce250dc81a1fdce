"""The table that people keep by hand, the line under it, and what a recording says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pytest_specdecode.ledger import CaseMeasured, CaseSummary, Ledger, TestRecord
from pytest_specdecode.model import Case, CaseStart, Outcome, Round, ServerStart, SpecConfig
from pytest_specdecode.recording import Change, Written
from pytest_specdecode.report.grid import Compare, Comparison, grid
from pytest_specdecode.report.terminal import (
    Heading,
    recorded_lines,
    summary_line,
    table_lines,
)
from pytest_specdecode.report.text import case_label, config_labels, duration, number, percent, share

DIARY = {
    1: {1: 123, 2: 186},
    4: {1: 119, 2: 162},
    16: {1: 85, 2: 108},
    32: {1: 63, 2: 98},
    64: {1: 66, 2: 99},
}
HEADING = Heading("qwen", "4 × RTX PRO 6000", "sglang 0.5.23", "output 512 tok")


def config(steps: int) -> SpecConfig:
    return SpecConfig.of(steps, algorithm="EAGLE")


def ledger_of(table: Mapping[int, Mapping[int, float]], metric: str = "tok_s") -> Ledger:
    ledger = Ledger()
    for concurrency, row in table.items():
        for steps, value in row.items():
            start = CaseStart(f"s{steps}", (Round({metric: value}, 1.0),))
            ledger.add(CaseMeasured(Case("qwen", config(steps), concurrency), start))
    return ledger


def sure(one: CaseSummary, other: CaseSummary, name: str) -> Comparison:
    return Comparison(one.metrics[name] / other.metrics[name], 0.02)


def unsure(one: CaseSummary, other: CaseSummary, name: str) -> Comparison:
    return Comparison(one.metrics[name] / other.metrics[name])


def shown(
    cases: Sequence[CaseSummary],
    name: str,
    *,
    compare: Compare,
    reference_steps: int | None = None,
    width: int = 120,
) -> list[str]:
    found = grid(cases, name, compare=compare, reference_steps=reference_steps)
    return table_lines(found, heading=HEADING, width=width)


def test_the_diarys_table_is_what_is_shown() -> None:
    lines = shown(ledger_of(DIARY).cases, "tok_s", compare=sure)
    assert lines == [
        "qwen on 4 × RTX PRO 6000 · sglang 0.5.23 · output 512 tok · tok/s per request",
        "  concurrency      steps=1    steps=2             best",
        "  1                    123        186  +51%  ±2%  2",
        "  4                    119        162  +36%  ±2%  2",
        "  16                  85.0        108  +27%  ±2%  2",
        "  32                  63.0       98.0  +56%  ±2%  2",
        "  64                  66.0       99.0  +50%  ±2%  2",
    ]


def test_a_narrow_terminal_gets_a_row_per_case() -> None:
    cases = ledger_of({1: DIARY[1], 4: DIARY[4]}).cases
    lines = shown(cases, "tok_s", compare=sure, width=50)
    assert lines[1:] == [
        "  concurrency               tok_s",
        "  1              steps=1      123",
        "                 steps=2      186  +51%  ±2%  best",
        "  4              steps=1      119",
        "                 steps=2      162  +36%  ±2%  best",
    ]


def test_without_an_interval_there_is_no_plus_minus() -> None:
    lines = shown(ledger_of(DIARY).cases, "tok_s", compare=unsure)
    assert "±" not in "\n".join(lines)
    assert "+51%" in lines[2]


def test_what_cannot_be_told_from_the_best_is_named_with_it() -> None:
    cases = ledger_of({1: {1: 100, 2: 150, 3: 151}}).cases
    assert shown(cases, "tok_s", compare=sure)[2].endswith("3 ≈ 2")
    assert shown(cases, "tok_s", compare=unsure)[2].endswith(" 3")


def test_where_less_is_better_the_least_is_best() -> None:
    cases = ledger_of({1: {1: 100, 2: 150}}, "ttft_ms_p50").cases
    lines = shown(cases, "ttft_ms_p50", compare=sure)
    assert lines[0].endswith("· ttft_ms_p50, ms")
    assert lines[2].endswith(" 1")


def test_the_improvement_refers_to_the_configured_steps() -> None:
    cases = ledger_of({1: {1: 100, 2: 150, 3: 300}}).cases
    (row,) = shown(cases, "tok_s", compare=unsure, reference_steps=2)[2:]
    assert row.split() == ["1", "100", "-33%", "150", "300", "+100%", "3"]


def test_a_reference_that_was_not_measured_is_not_replaced_by_another() -> None:
    lines = shown(ledger_of(DIARY).cases, "tok_s", compare=sure, reference_steps=0)
    assert "%" not in "\n".join(lines)


def test_a_cell_without_a_number_says_why() -> None:
    ledger = ledger_of({1: {1: 100, 2: 150}, 4: {1: 90}})
    ledger.add(TestRecord("t", "qwen", Outcome.BROKEN, config(2), 4, 1))
    ledger.add(TestRecord("t", "qwen", Outcome.DIRTY, config(3), 4, 1))
    lines = shown(ledger.cases, "tok_s", compare=sure)
    assert lines[2].split() == ["1", "100", "150", "+50%", "±2%", "–", "2"]
    assert lines[3].split() == ["4", "90.0", "broken", "dirty"]


def test_the_summary_counts_tests_and_starts() -> None:
    ledger = Ledger(seconds=41 * 60)
    for i in range(14):
        ledger.add(TestRecord(f"t{i}", "qwen", Outcome.PASS))
    ledger.add(TestRecord("x", "qwen", Outcome.REGRESSED, failed=True))
    for i in range(3):
        ledger.add(ServerStart(f"s{i}", "qwen", config(1), 1, "now"))
    assert summary_line(ledger) == (
        "PASS 14 · REGRESSED 1 · INVALID 0 · DIRTY 0      3 server starts, 41 min"
    )


def test_the_summary_names_every_outcome_that_happened() -> None:
    ledger = Ledger(seconds=5)
    for outcome in (Outcome.RECORDED, Outcome.NO_BASELINE, Outcome.BROKEN):
        ledger.add(TestRecord(outcome, "qwen", outcome))
    ledger.add(TestRecord("m", "qwen", Outcome.MEASURED))
    ledger.add(TestRecord("n", "qwen", Outcome.MEASURED, failed=True))
    ledger.add(ServerStart("s", "qwen", config(1), 1, "now"))
    assert summary_line(ledger) == (
        "PASS 0 · RECORDED 1 · MEASURED 2 (1 failed) · REGRESSED 0 · NO-BASELINE 1 · INVALID 0 · DIRTY 0 · "
        "BROKEN 1      1 server start, 5 s"
    )


def test_a_recording_says_old_and_new_and_what_can_be_resolved() -> None:
    case = Case("qwen", config(2), 16)
    lines = recorded_lines(
        [
            Written(case, (Change("tok_s", 112.0, 108.0, 0.041),)),
            Written(case, (Change("tok_s", 112.0, None, 0.031), Change("total_tok_s", 1600.0, None, 0.12))),
            Written(case, refused="only 1 of 3 restarts were measured"),
            Written(case, (Change("tok_s", 112.0),), replaced='gpu was "A" and is now "B"'),
        ]
    )
    assert lines == [
        "recorded: qwen steps=2 c=16: tok_s 108 → 112 tok/s (+3.7%); resolves 4.1%: enough for the tolerance "
        "of 5.0%",
        "recorded: qwen steps=2 c=16: tok_s 112 tok/s, total_tok_s 1600 tok/s; resolves tok_s 3.1%: enough "
        "for the tolerance of 5.0%; total_tok_s 12%, more than the tolerance of 5.0%",
        "not recorded: qwen steps=2 c=16: only 1 of 3 restarts were measured",
        "recorded: qwen steps=2 c=16: tok_s 112 tok/s",
        '  replaced what was of something else: gpu was "A" and is now "B"',
        "1 of 3 recorded cases cannot show a loss of the tolerance: unchanged ones and smaller losses may "
        "end inconclusive; record more restarts (--spec-restarts) or nights "
        "(--spec-extend-baselines), or widen the tolerance",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1566.3, "1566"), (186.0, "186"), (99.96, "100"), (85.04, "85.0"), (2.414, "2.41"), (0, "0.00")],
)
def test_numbers_have_three_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.51, "+51%"), (0.964, "-3.6%"), (1.0, "+0.0%"), (0.99999, "+0.0%"), (3.0, "+200%")]
)
def test_ratios_are_signed_changes(ratio: float, text: str) -> None:
    assert percent(ratio) == text


def test_shares_and_durations() -> None:
    assert [share(v) for v in (0.051, 0.12, 0.0)] == ["5.1%", "12%", "0.0%"]
    times = [0.4, 45, 60, 192, 600, 2460, 7500]
    assert [duration(s) for s in times] == [
        "0 s",
        "45 s",
        "1 min",
        "3 min 12 s",
        "10 min",
        "41 min",
        "2 h 5 min",
    ]


def test_configurations_are_told_apart_by_what_differs() -> None:
    eagle, ngram = SpecConfig.of(2, algorithm="EAGLE"), SpecConfig.of(2, algorithm="NGRAM")
    wide = SpecConfig.of(2, algorithm="EAGLE", topk=4, draft_tokens=3)
    window = SpecConfig.of(3, algorithm="EAGLE", args={"window": 4})
    plain, off = SpecConfig.of(3, algorithm="EAGLE"), SpecConfig.of(0)
    labels = config_labels([eagle, ngram, wide, window, plain, off])
    assert list(labels.values()) == [
        "steps=2 EAGLE topk=1",
        "steps=2 NGRAM topk=1",
        "steps=2 EAGLE topk=4",
        "steps=3 window=4",
        "steps=3 window=None",
        "off",
    ]
    assert list(config_labels([eagle, plain]).values()) == ["steps=2", "steps=3"]
    assert case_label(Case("qwen", off, 1)) == "qwen off c=1"

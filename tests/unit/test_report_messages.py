"""What a failing comparison says, at first sight and in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdecode.gating import Judgement
from pytest_specdecode.model import Case, Outcome, Round
from pytest_specdecode.report.messages import Background, comparison_lines, full_text, record_command
from pytest_specdecode.verdict import Verdict
from pytest_specdecode.why import Part, Why

from .stored import case

SLOWER = Verdict("regressed", 0.9, 0.88, 0.92, True, "shown to be slower by more than 1.0%")
OPEN = Verdict("undecided", 0.97, 0.93, 1.01, False, "after 3 of 3 restarts neither shown")
FINE = Verdict("pass", 1.0, 0.98, 1.02, False, "shown not to be slower by 5.0% or more")
TOKENS = Part("tokens_per_step", 0.913, 0.895, 0.931)
STEP = Part("step_ms", 1.019, 1.001, 1.037)
SAME_TOKENS = Part("tokens_per_step", 0.998, 0.985, 1.011)
SAME_STEP = Part("step_ms", 1.003, 0.993, 1.013)
CHANGES = ("sglang 0.5.22 → 0.5.23", "driver 580 → 590")
BACKGROUND = Background(
    {"tok_s": [108.2, 108.2], "step_ms": [21.0], "tokens_per_step": [2.41]},
    ["test_qwen.py", "--spec-steps=1,2,3", "--spec-json", "out.json", "-v"],
)


@dataclass(frozen=True)
class Measured:
    judgement: Judgement | None
    metrics: Mapping[str, float] = field(
        default_factory=lambda: {"tok_s": 97.3, "step_ms": 21.4, "tokens_per_step": 2.2}
    )
    case: Case = field(default_factory=case)
    rounds: Sequence[Round] = (Round({}, 1.0, facts={"few_samples": "p95, p99 of 16 requests"}),)


def regressed(why: Why | None = None, **verdicts: Verdict) -> Measured:
    return Measured(Judgement(Outcome.REGRESSED, "", verdicts or {"tok_s": SLOWER}, CHANGES, why))


def why_lines(why: Why, name: str = "tok_s") -> list[str]:
    """What is said between the figures and the context."""
    return comparison_lines(regressed(why, **{name: SLOWER}), BACKGROUND)[2 if name == "tok_s" else 1 : -1]


def test_a_regression_says_what_how_much_why_and_since_when() -> None:
    assert comparison_lines(regressed(Why(TOKENS, STEP)), BACKGROUND) == [
        "regressed: qwen steps=2 c=16: tok_s is worse than what is stored by 10%; find the cause below, or "
        "accept it: pytest test_qwen.py -v --spec-steps=2 --spec-concurrency=16 --update-baselines "
        "--spec-accept-slower",
        "tok_s: 108 → 97.3 tok/s, × 0.900 (between 0.880 and 0.920; below 1 is worse)",
        "decode time per token +12%: tokens per step -8.7% ±1.8% (2.41 → 2.20): drafts fit worse: model, "
        "prompts or sampling changed",
        "step time +1.9% ±1.8% (21.0 → 21.4 ms): steps take longer: kernels, clocks or batch changed",
        "since the baseline: sglang 0.5.22 → 0.5.23, driver 580 → 590",
    ]


def test_lost_acceptance_alone_is_told_from_lost_step_time_alone() -> None:
    assert why_lines(Why(TOKENS, SAME_STEP)) == [
        "decode time per token +9.9%: tokens per step -8.7% ±1.8% (2.41 → 2.20): drafts fit worse: model, "
        "prompts or sampling changed",
        "step time unchanged +0.3% ±1.0% (21.0 → 21.4 ms)",
    ]
    slow = Part("step_ms", 1.1, 1.08, 1.12)
    assert why_lines(Why(SAME_TOKENS, slow)) == [
        "decode time per token +10%: step time +10% ±2.0% (21.0 → 21.4 ms): steps take longer: kernels, "
        "clocks or batch changed",
        "tokens per step unchanged -0.2% ±1.3% (2.41 → 2.20)",
    ]


def test_a_part_that_got_better_or_is_not_known_is_called_so() -> None:
    better = Part("tokens_per_step", 1.05, 1.03, 1.07)
    slow = Part("step_ms", 1.2, 1.1, 1.3)
    assert why_lines(Why(better, slow))[1] == "tokens per step +5.0% ±2.0% (2.41 → 2.20), which is better"
    unknown = Part("tokens_per_step", 0.97, 0.002, 500.0)
    assert (
        why_lines(Why(unknown, slow))[1] == "tokens per step not shown to have changed -3.0% ±? (2.41 → 2.20)"
    )


def test_where_neither_part_is_shown_that_is_said() -> None:
    loose = Why(Part("tokens_per_step", 0.95, 0.88, 1.03), Part("step_ms", 1.04, 0.97, 1.12))
    first, second = why_lines(loose)
    assert "tokens per step not shown to have changed" in first
    assert "; step time not shown to have changed" in first
    assert second.startswith("neither is shown to be worse; more restarts")
    assert why_lines(loose, "ttft_ms_p50")[-1].endswith("look at queueing and prefill")


def test_without_step_counters_nothing_is_said_of_the_cause() -> None:
    assert not any("step" in line for line in comparison_lines(regressed(), BACKGROUND)[1:])


def test_a_regression_without_any_change_says_so() -> None:
    measured = Measured(Judgement(Outcome.REGRESSED, "", {"tok_s": SLOWER}))
    assert comparison_lines(measured)[-1] == "since the baseline: nothing that is recorded has changed"


def test_a_floor_is_named_with_its_number() -> None:
    floor = Verdict("regressed", 0.95, 0.94, 0.96, True, "shown to miss the floor of 180")
    measured = Measured(
        Judgement(Outcome.REGRESSED, "", {"tok_s": FINE, "tok_s floor": floor}), {"tok_s": 171.0}
    )
    first, second, *_ = comparison_lines(measured, BACKGROUND)
    assert "tok_s misses its floor by 5.0%; find the cause, or change the floor where it is written" in first
    assert second.startswith("tok_s floor: 180 → 171 tok/s, × 0.950")


def test_where_nothing_but_a_floor_is_stored_nothing_is_said_of_since() -> None:
    ceiling = Verdict("regressed", 0.8, 0.7, 0.9, True, "shown to miss the ceiling of 80")
    late = Measured(Judgement(Outcome.REGRESSED, "", {"ttft_ms_p95 floor": ceiling}), {"ttft_ms_p95": 100.0})
    first, second = comparison_lines(late, BACKGROUND)
    assert "ttft_ms_p95 misses its ceiling by 20%" in first
    assert second.startswith("ttft_ms_p95 ceiling: 80.0 → 100 ms, × 0.800")


def test_a_metric_where_less_is_better_goes_up() -> None:
    measured = Measured(Judgement(Outcome.REGRESSED, "", {"ttft_ms_p50": SLOWER}), {"ttft_ms_p50": 100.0})
    assert comparison_lines(measured)[1].startswith("ttft_ms_p50: 90.0 → 100 ms")


def test_the_worst_metric_comes_first() -> None:
    worse = Verdict("regressed", 0.7, 0.6, 0.8, True, "")
    measured = regressed(tok_s=SLOWER, total_tok_s=worse, step_ms=FINE)
    assert "total_tok_s is worse" in comparison_lines(measured)[0]


def test_inconclusive_says_what_would_decide_it() -> None:
    measured = Measured(
        Judgement(Outcome.INCONCLUSIVE, "tok_s: neither shown", {"tok_s": OPEN, "step_ms": FINE})
    )
    first, second = comparison_lines(measured, BACKGROUND)
    assert first.startswith("inconclusive: qwen steps=2 c=16: tok_s: neither shown; allow more restarts")
    assert "× 0.970 (between 0.930 and 1.010" in second


@pytest.mark.parametrize("outcome", [Outcome.NO_BASELINE, Outcome.INCOMPARABLE])
def test_a_missing_baseline_comes_with_the_command_that_records_it(outcome: Outcome) -> None:
    measured = Measured(Judgement(outcome, "nothing is recorded"))
    assert comparison_lines(measured, BACKGROUND) == [
        f"{outcome}: qwen steps=2 c=16: nothing is recorded; record it: pytest test_qwen.py -v "
        "--spec-steps=2 --spec-concurrency=16 --update-baselines"
    ]


@pytest.mark.parametrize(
    ("args", "command"),
    [
        ([], "pytest --spec-steps=2 --spec-concurrency=16 --update-baselines"),
        (
            ["--pyargs", "pytest_specdecode.suite", "--spec-steps", "1-3", "--spec-config=a b.toml"],
            "pytest --pyargs pytest_specdecode.suite '--spec-config=a b.toml' --spec-steps=2 "
            "--spec-concurrency=16 --update-baselines",
        ),
        (
            ["--spec-update-baselines", "--spec-concurrency=1", "-k", "floor"],
            "pytest -k floor --spec-steps=2 --spec-concurrency=16 --update-baselines",
        ),
    ],
)
def test_the_recording_command_follows_what_was_run(args: list[str], command: str) -> None:
    assert record_command(case(), args) == command


def test_the_full_text_has_every_metric_and_every_reason() -> None:
    text = full_text(regressed(tok_s=SLOWER, total_tok_s=FINE), BACKGROUND)
    assert "\ntok_s: shown to be slower by more than 1.0%\n" in text
    assert "\ntotal_tok_s: shown not to be slower by 5.0% or more\n" in text
    assert "\nstep_ms              21.0 → 21.4 ms" in text
    assert text.endswith("\nfew samples in a round: p95, p99 of 16 requests")


METRICS = ("tok_s", "total_tok_s", "ttft_ms_p50", "step_ms", "e2e_ms_p99")
VERDICTS = st.builds(
    Verdict,
    st.sampled_from(["pass", "regressed", "undecided"]),
    st.floats(1e-6, 1e6),
    st.floats(0, 1),
    st.floats(1, 1e300) | st.just(float("inf")),
    st.booleans(),
    st.text(max_size=8),
)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(Outcome),
    st.dictionaries(st.sampled_from(METRICS), VERDICTS, min_size=1),
    st.dictionaries(st.sampled_from(METRICS), st.floats(0, 1e6)),
)
def test_a_message_is_one_to_seven_lines(
    outcome: Outcome, verdicts: dict[str, Verdict], metrics: dict[str, float]
) -> None:
    measured = Measured(Judgement(outcome, "because", verdicts, CHANGES), metrics)
    lines = comparison_lines(measured, BACKGROUND)
    assert 1 <= len(lines) <= 7
    assert lines[0].startswith(f"{outcome}: ")
    assert full_text(measured, BACKGROUND)

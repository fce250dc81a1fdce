"""Why decode got slower: tokens lost per step, step time gained, each with its interval."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdecode.gating import Family, Gate, Judgement, Stored, judge_case
from pytest_specdecode.model import CaseStart, Outcome, Round
from pytest_specdecode.verdict import Noise, Start
from pytest_specdecode.why import Part, Why, explain

from .stored import GATE

JITTER = (0.998, 1.003, 1.0, 0.999, 1.001)


def starts(tokens: float, step_ms: float, night: str = "now", number: int = 3) -> list[CaseStart]:
    """Starts whose speed follows from tokens a step and step time, all three with a little noise."""
    return [
        CaseStart(
            f"{night}-{i}",
            tuple(
                Round(
                    {
                        "tokens_per_step": tokens * j,
                        "step_ms": step_ms * (2 - j) * (1 + 0.001 * i),
                        "tok_s": 1000 * tokens * j / (step_ms * (2 - j) * (1 + 0.001 * i)),
                    },
                    1.0,
                )
                for j in JITTER
            ),
        )
        for i in range(number)
    ]


def by_metric(found: list[CaseStart], night: str) -> dict[str, tuple[Start, ...]]:
    return {
        name: tuple(Start(s.start_id, night, s.values(name)) for s in found)
        for name in ("tokens_per_step", "step_ms", "tok_s")
    }


BASELINE = {
    name: one + two
    for (name, one), two in zip(
        by_metric(starts(2.5, 20, "2026-11-02"), "2026-11-02").items(),
        by_metric(starts(2.5, 20, "2026-11-03"), "2026-11-03").values(),
        strict=True,
    )
}
NOISE = {name: Noise.pooled([each]) for name, each in BASELINE.items()}


def judged(tokens: float, step_ms: float, *, gate: Gate = GATE) -> Judgement:
    return judge_case(
        starts(tokens, step_ms), Stored(BASELINE), gate, family=Family(3, 1), noise=NOISE, last=True
    )


def why(tokens: float, step_ms: float) -> Why:
    judgement = judged(tokens, step_ms)
    assert judgement.outcome is Outcome.REGRESSED
    assert judgement.why is not None
    return judgement.why


def test_a_loss_of_acceptance_alone() -> None:
    found = why(2.2, 20)
    assert found.cause == "tokens"
    assert found.tokens_per_step.ratio == pytest.approx(0.88)
    assert 0.85 < found.tokens_per_step.low < 0.88 < found.tokens_per_step.high < 0.91
    assert found.step_ms.change(found.time_per_token) == "unchanged"


def test_a_loss_of_step_time_alone() -> None:
    found = why(2.5, 23)
    assert found.cause == "step time"
    assert found.step_ms.ratio == pytest.approx(1.15)
    assert 1.11 < found.step_ms.low < 1.15 < found.step_ms.high < 1.19
    assert found.tokens_per_step.change(found.time_per_token) == "unchanged"


def test_a_loss_of_both() -> None:
    assert why(2.3, 22).cause == "both"


def test_more_accepted_tokens_do_not_hide_slower_steps() -> None:
    found = why(2.7, 26)
    assert found.cause == "step time"
    assert found.tokens_per_step.change(found.time_per_token) == "better"


def test_only_a_regression_is_explained() -> None:
    judgement = judged(2.5, 20)
    assert (judgement.outcome, judgement.why, judgement.explanation) == (Outcome.PASS, None, None)


def test_without_a_step_counter_on_either_side_nothing_is_claimed() -> None:
    now = by_metric(starts(2.2, 20), "current")
    assert explain({**now, "step_ms": ()}, BASELINE, NOISE) is None
    assert explain(now, {"tok_s": BASELINE["tok_s"]}, NOISE) is None
    stuck = (Start("a", "current", (0.0,)),)
    assert explain({**now, "tokens_per_step": stuck}, BASELINE, NOISE) is None


def test_the_report_names_the_cause_each_interval_and_what_changed() -> None:
    plain = judged(2.2, 20).explanation
    assert plain is not None
    assert (plain["cause"], plain["changes"]) == ("tokens", [])
    assert plain["tokens_per_step"].keys() == {"ratio", "low", "high", "change"}
    assert plain["time_per_token"] == pytest.approx(1 / 0.88)


@settings(deadline=None)
@given(st.floats(0.1, 10), st.floats(0.1, 10))
def test_the_parts_make_the_whole(tokens: float, step: float) -> None:
    found = Why(Part("tokens_per_step", tokens, tokens, tokens), Part("step_ms", step, step, step))
    assert found.time_per_token == pytest.approx(step / tokens)


@settings(deadline=None)
@given(st.floats(0.2, 5), st.floats(0, 2), st.floats(0, 2), st.floats(0.5, 5))
def test_a_part_whose_interval_holds_one_is_never_blamed(
    ratio: float, below: float, above: float, lost: float
) -> None:
    for name in ("tokens_per_step", "step_ms"):
        part = Part(name, ratio, ratio / (1 + below), ratio * (1 + above))
        if part.low <= 1 <= part.high:
            assert part.change(lost) in ("unchanged", "unclear")

"""``sweep.best`` and ``sweep.ratio``: ties go to the fewer steps, half a sweep is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pytest_specdecode.errors import InvalidError, RefusedError
from pytest_specdecode.ledger import CaseMeasured, Ledger
from pytest_specdecode.model import Case, CaseStart, Outcome, Round, SpecConfig
from pytest_specdecode.plan import Plan, Planned
from pytest_specdecode.sweep import Sweep
from pytest_specdecode.verdict import Noise, Start, ratio_interval

from .stored import case

JITTER = (0.997, 1.004, 1.0, 0.999, 1.002)
UNEVEN = (0.995, 1.005, 1.0)


def starts(*, steps: int, number: int = 3, reasons: Sequence[str] = (), **values: float) -> list[CaseStart]:
    """Starts around these values that differ by half a percent."""
    return [
        CaseStart(
            f"steps{steps}-{i}",
            tuple(
                Round({name: v * j * UNEVEN[i] for name, v in values.items()}, 1.0, tuple(reasons))
                for j in JITTER
            ),
        )
        for i in range(number)
    ]


def sweep(measured: Mapping[Case, Sequence[CaseStart]], planned: Sequence[Case] = ()) -> Sweep:
    ledger = Ledger()
    for each, found in measured.items():
        for start in found:
            ledger.add(CaseMeasured(each, start))
    return Sweep(ledger, Plan(tuple(Planned("t", each, 1) for each in (*measured, *planned))))


def speeds(concurrency: int = 1, **by_steps: float) -> dict[Case, list[CaseStart]]:
    """``s2=186`` is steps 2 at 186 tok/s."""
    return {
        case(int(name[1:]), concurrency): starts(steps=int(name[1:]), tok_s=speed)
        for name, speed in by_steps.items()
    }


def test_the_fastest_wins_where_it_can_be_told() -> None:
    assert sweep(speeds(s1=123, s2=186, s3=178)).best(concurrency=1).steps == 2


def test_what_cannot_be_told_from_the_best_wins_by_fewer_steps() -> None:
    assert sweep(speeds(s1=123, s2=178, s3=178.4)).best(concurrency=1).steps == 2
    assert sweep(speeds(s0=178, s1=177.8, s3=178.4)).best(concurrency=1).steps == 0


def test_more_confidence_makes_more_ties() -> None:
    found = sweep(speeds(s1=176, s2=178.5))
    assert found.best(concurrency=1, confidence=0.9).steps == 2
    assert found.best(concurrency=1, confidence=0.999999).steps == 1


def test_in_a_metric_where_less_is_better_the_least_wins() -> None:
    found = sweep(
        {case(1, 1): starts(steps=1, ttft_ms_p50=30.0), case(2, 1): starts(steps=2, ttft_ms_p50=40.0)}
    )
    assert found.best(concurrency=1, metric_name="ttft_ms_p50").steps == 1
    assert found.ratio(2, 1, concurrency=1, metric_name="ttft_ms_p50").ratio == pytest.approx(4 / 3)


def test_a_ratio_comes_with_its_interval() -> None:
    gain = sweep(speeds(s1=123, s2=186)).ratio(2, 1, concurrency=1)
    assert gain.ratio == pytest.approx(186 / 123)
    assert 1.45 < gain.low < gain.ratio < gain.high < 1.6
    back = sweep(speeds(s1=123, s2=186)).ratio(1, 2, concurrency=1)
    assert [back.low, back.high] == pytest.approx([1 / gain.high, 1 / gain.low])


def test_the_sessions_other_cases_tell_how_starts_differ() -> None:
    two = speeds(s1=123, s2=186)
    alone = sweep(two).ratio(2, 1, concurrency=1)
    others = speeds(4, s1=119, s2=162) | speeds(16, s1=85, s2=108)
    apart = {
        each: [CaseStart(f"{each.concurrency}-{s.start_id}", s.rounds) for s in found]
        for each, found in others.items()
    }
    assert sweep(two | apart).ratio(2, 1, concurrency=1).plus_minus < alone.plus_minus


def test_one_concurrency_does_not_ask_for_another() -> None:
    found = sweep(speeds(s1=123, s2=186), planned=[case(1, 4)])
    assert found.best(concurrency=1).steps == 2
    with pytest.raises(RefusedError, match="at least two configurations at concurrency 4; this session has"):
        found.best(concurrency=4)


def test_half_a_sweep_is_refused_by_what_is_missing() -> None:
    with pytest.raises(RefusedError, match="is not whole: steps=3: not measured in this session") as refused:
        sweep(speeds(s1=123, s2=186), planned=[case(3, 1)]).best(concurrency=1)
    assert Outcome(refused.value.outcome) is Outcome.INCONCLUSIVE
    bad = {case(3, 1): starts(steps=3, tok_s=178, reasons=["a request failed"])}
    with pytest.raises(InvalidError, match="steps=3: invalid: a request failed"):
        sweep(speeds(s1=123, s2=186) | bad).ratio(2, 1, concurrency=1)


def test_steps_that_name_no_or_several_configurations_are_refused() -> None:
    other = Case("qwen", SpecConfig.of(2, algorithm="EAGLE", topk=4, draft_tokens=8), 1)
    found = sweep(speeds(s1=123, s2=186) | {other: starts(steps=2, tok_s=190)})
    with pytest.raises(RefusedError, match="2 configurations with steps=2"):
        found.ratio(2, 1, concurrency=1)
    with pytest.raises(RefusedError, match=r"no configuration with steps=5 .* has steps 1, 2, 2"):
        found.ratio(5, 1, concurrency=1)


def test_a_metric_that_was_not_measured_is_refused() -> None:
    with pytest.raises(InvalidError, match="steps=1: step_ms was not measured: the engine gives no step"):
        sweep(speeds(s1=123, s2=186)).best(concurrency=1, metric_name="step_ms")


def test_a_plain_ratio_stays_one_where_less_is_better() -> None:
    a, b = (
        [Start(f"{name}{i}", "one", tuple(v * j * UNEVEN[i] for j in JITTER)) for i in range(3)]
        for name, v in (("a", 30.0), ("b", 20.0))
    )
    found = [ratio_interval(a, b, noise=Noise.pooled([a, b]), higher_is_better=h) for h in (True, False)]
    assert [f.ratio for f in found] == [pytest.approx(1.5)] * 2
    assert found[0].low == pytest.approx(found[1].low)
    assert found[0].high == pytest.approx(found[1].high)

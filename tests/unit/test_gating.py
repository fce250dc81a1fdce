"""Gates: any metric in its own direction, several of them, floors and ceilings; the worst decides."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_specdecode.config import Gate as GateTable
from pytest_specdecode.errors import ConfigError, InvalidError
from pytest_specdecode.gating import Family, Gate, Judgement, Stored, judge_case, strictest, strictest_gates
from pytest_specdecode.markers import GateMark
from pytest_specdecode.model import METRICS, CaseStart, Outcome, Round, metric
from pytest_specdecode.plan import Plan, Planned
from pytest_specdecode.verdict import Start

from .stored import GATE, case

JITTER = (0.998, 1.003, 1.0, 0.999, 1.001)


def measured(**values: float) -> list[CaseStart]:
    """Three starts around these values."""
    return [
        CaseStart(
            f"now-{i}",
            tuple(Round({name: v * j * (1 + i / 1000) for name, v in values.items()}, 1.0) for j in JITTER),
        )
        for i in range(3)
    ]


def stored(floor: Mapping[str, float] | None = None, /, **values: float) -> Stored:
    """Two nights of three starts around these values."""
    return Stored(
        {
            name: tuple(
                Start(f"{night}-{i}", night, tuple(v * j * (1 + i / 1000) for j in JITTER))
                for night in ("2026-11-02", "2026-11-03")
                for i in range(3)
            )
            for name, v in values.items()
        },
        floor or {},
    )


def gate(**said: object) -> Gate:
    """The target's default gate with a marker on top."""
    return Gate.of(GateTable(), GateMark.parse((), said))


def judged(now: list[CaseStart], before: Stored, asked: Gate) -> Judgement:
    return judge_case(now, before, asked, family=Family(3, 1), noise={}, last=True)


NAMES = [*METRICS, "accept_rate_pos_0"]


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_gates_in_its_own_direction(name: str) -> None:
    higher = metric(name).higher_is_better
    for factor, outcome in (
        (1.0, Outcome.PASS),
        (1.3 if higher else 0.7, Outcome.PASS),
        (0.7 if higher else 1.3, Outcome.REGRESSED),
    ):
        found = judged(measured(**{name: 50.0 * factor}), stored(**{name: 50.0}), gate(metric=name))
        assert found.outcome is outcome, f"{name} × {factor}"
        assert list(found.verdicts) == [name]


@pytest.mark.parametrize("name", NAMES)
def test_a_floor_is_a_ceiling_where_lower_is_better(name: str) -> None:
    better, worse = (60.0, 40.0) if metric(name).higher_is_better else (40.0, 60.0)
    for value, outcome in ((better, Outcome.PASS), (worse, Outcome.REGRESSED)):
        found = judged(measured(**{name: value}), Stored(), gate(floor={name: 50}))
        assert found.outcome is outcome, f"{name} = {value}"
        assert ("ceiling" in found.reason) is not metric(name).higher_is_better


def test_the_worst_of_several_metrics_decides() -> None:
    both = gate(metric=["tok_s", "ttft_ms_p95"])
    before = stored(tok_s=100, ttft_ms_p95=200)
    fine = judged(measured(tok_s=100, ttft_ms_p95=200), before, both)
    assert (fine.outcome, set(fine.verdicts)) == (Outcome.PASS, {"tok_s", "ttft_ms_p95"})
    late = judged(measured(tok_s=120, ttft_ms_p95=300), before, both)
    assert late.outcome is Outcome.REGRESSED
    assert late.reason.startswith("ttft_ms_p95: ")
    assert late.verdicts["tok_s"].outcome == "pass"


def test_one_regressed_metric_outweighs_an_undecided_one() -> None:
    both = gate(metric=["tok_s", "total_tok_s"])
    before = stored(tok_s=100, total_tok_s=1000)
    assert judged(measured(tok_s=97, total_tok_s=700), before, both).outcome is Outcome.REGRESSED
    open_ = measured(tok_s=96, total_tok_s=1000)[:1]
    assert judged(open_, before, both).outcome is Outcome.INCONCLUSIVE
    undecided = judge_case(open_, before, both, family=Family(3, 2), noise={}, last=False)
    assert undecided.outcome is None


def test_a_floor_holds_beside_the_baseline() -> None:
    asked = gate(floor={"tok_s": 180, "ttft_ms_p50": 30})
    before = stored(tok_s=100)
    found = judged(measured(tok_s=100, ttft_ms_p50=20), before, asked)
    assert {n: v.outcome for n, v in found.verdicts.items()} == {
        "tok_s": "pass",
        "tok_s floor": "regressed",
        "ttft_ms_p50 floor": "pass",
    }
    assert found.outcome is Outcome.REGRESSED


def test_of_a_stored_and_a_marked_floor_the_harder_one_holds() -> None:
    assert strictest([{"tok_s": 180, "ttft_ms_p95": 300}, {"tok_s": 150, "ttft_ms_p95": 250}]) == {
        "tok_s": 180,
        "ttft_ms_p95": 250,
    }
    before = stored({"tok_s": 90}, tok_s=100)
    assert judged(measured(tok_s=100), before, gate(floor={"tok_s": 80})).outcome is Outcome.PASS
    assert judged(measured(tok_s=100), before, gate(floor={"tok_s": 120})).outcome is Outcome.REGRESSED


def test_a_metric_that_is_missing_never_passes() -> None:
    with pytest.raises(
        InvalidError, match="the gate needs step_ms, and step_ms was not measured: the engine"
    ):
        judged(measured(tok_s=100), stored(tok_s=100, step_ms=20), gate(metric=["tok_s", "step_ms"]))
    with pytest.raises(InvalidError, match="the gate needs ttft_ms_p95"):
        judged(measured(tok_s=100), stored(tok_s=100), gate(floor={"ttft_ms_p95": 300}))
    found = judged(measured(tok_s=100, step_ms=20), stored(tok_s=100), gate(metric="step_ms"))
    assert (found.outcome, found.reason) == (
        Outcome.NO_BASELINE,
        "the stored baseline has no step_ms; record it again",
    )


def test_zeros_are_no_baseline_and_no_measurement() -> None:
    asked = gate(metric="accept_rate")
    found = judged(measured(accept_rate=0.5), stored(accept_rate=0.0), asked)
    assert found.outcome is Outcome.NO_BASELINE
    assert "the stored accept_rate has a value that is not above zero" in found.reason
    with pytest.raises(InvalidError, match="not above zero"):
        judged(measured(accept_rate=0.0), stored(accept_rate=0.5), asked)


def test_a_marker_overrides_what_it_names_and_leaves_the_rest() -> None:
    table = GateTable(metric=["tok_s", "total_tok_s"])
    assert Gate.of(table, None).metrics == ("tok_s", "total_tok_s")
    found = Gate.of(table, GateMark.parse((), {"metric": "ttft_ms_p95", "tolerance": "10%"}))
    assert (found.metrics, found.tolerance, found.margin) == (("ttft_ms_p95",), 0.1, 0.01)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"metric": "ttft_ms"}, "unknown metric 'ttft_ms'; there are: .*ttft_ms_p95"),
        ({"floor": {"speed": 1}}, "unknown metric 'speed'"),
        ({"floor": {"ttft_ms_p95": 0}}, "not a number above 0"),
        ({"metric": []}, "not a name or a list of names"),
    ],
)
def test_a_gate_that_cannot_be_is_refused_at_collection(said: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        gate(**said)


def test_gates_of_one_case_are_known_each_once() -> None:
    ttft = gate(metric="ttft_ms_p95", floor={"tok_s": 180})
    items = [
        Planned("a", case(), 1, GATE),
        Planned("a", case(), 2, GATE),
        Planned("b", case(), 1, ttft),
        Planned("c", case(), 1),
        Planned("a", case(3), 1, GATE),
    ]
    plan = Plan(tuple(items))
    assert plan.gates(case()) == (GATE, ttft)
    assert plan.family(items[0]) == Family(looks=2, cases=3)


def test_the_strictest_of_several_gates_has_the_smallest_tolerance_and_margin() -> None:
    found = strictest_gates([gate(tolerance="3%", margin="2%"), gate(metric=["tok_s", "step_ms"])])
    assert {name: (g.tolerance, g.margin) for name, g in found.items()} == {
        "tok_s": (0.03, 0.01),
        "step_ms": (0.05, 0.01),
    }

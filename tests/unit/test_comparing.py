"""Two runs compared: as if the second had been recorded as the first one's baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.baselines import Store
from pytest_specdecode.cli.compare import ending
from pytest_specdecode.comparing import Side, compare_runs
from pytest_specdecode.gating import Family, Gate, judge_case
from pytest_specdecode.ledger import CaseMeasured, Ledger, TestRecord
from pytest_specdecode.model import Case, CaseStart, Outcome
from tests.unit import stored

GATE = Gate(("tok_s",), tolerance=0.05, margin=0.01, confidence=0.99)


def side(
    cases: Mapping[Case, Sequence[CaseStart]],
    *,
    identity: Mapping[str, Any] = stored.IDENTITY,
    failed: Sequence[TestRecord] = (),
) -> Side:
    ledger = Ledger()
    for case, starts in cases.items():
        for start in starts:
            ledger.add(CaseMeasured(case, start))
    for test in failed:
        ledger.add(test)
    return Side(ledger.cases, identity, stored.CONTEXT)


def night(speed: float) -> dict[Case, list[CaseStart]]:
    return {stored.case(2, 16): stored.measured(speed), stored.case(2, 1): stored.measured(speed * 2)}


@pytest.mark.parametrize(
    ("speed", "outcome", "status"), [(100.0, Outcome.PASS, 0), (80.0, Outcome.REGRESSED, 1)]
)
def test_the_verdict_is_that_of_a_session_judged_against_a_recording(
    tmp_path: Path, speed: float, outcome: Outcome, status: int
) -> None:
    found = compare_runs(side(night(speed)), side(night(100.0)), GATE)
    assert [case.outcome for case in found.cases] == [outcome, outcome]
    assert ending(found) == status
    stored.save(tmp_path, [stored.stored(stored.case(2, 16)), stored.stored(stored.case(2, 1), 200.0)])
    store = Store(tmp_path, stored.TARGET)
    as_session = judge_case(
        stored.measured(speed),
        store.stored(
            stored.case(2, 16), machine=stored.MACHINE, identity=stored.IDENTITY, context=stored.CONTEXT
        ),
        GATE,
        family=Family(looks=3, cases=2),
        noise=store.noise(stored.MACHINE),
        last=True,
    )
    (mine,) = (case for case in found.cases if case.case.concurrency == 16)
    assert mine.judgement.verdicts == as_session.verdicts


def test_runs_of_something_else_are_incomparable_and_the_field_is_named() -> None:
    other = side(night(100.0), identity={**stored.IDENTITY, "launch": ["--tp", "8"]})
    found = compare_runs(other, side(night(100.0)), GATE)
    assert {case.outcome for case in found.cases} == {Outcome.INCOMPARABLE}
    assert found.cases[0].judgement.reason == ('of something else: launch was ["4"] and is now ["8"]')
    assert ending(found) == 11


def test_runs_that_do_not_say_what_they_measured_are_incomparable() -> None:
    found = compare_runs(side(night(100.0), identity={}), side(night(100.0), identity={}), GATE)
    assert {case.outcome for case in found.cases} == {Outcome.INCOMPARABLE}


def test_nothing_in_common_never_passes() -> None:
    found = compare_runs(
        side({stored.case(1, 1): stored.measured(100.0)}),
        side({stored.case(2, 1): stored.measured(100.0)}),
        GATE,
    )
    assert (found.cases, ending(found)) == ((), 11)
    assert (found.only_now, found.only_then) == ((stored.case(1, 1),), (stored.case(2, 1),))


def test_a_run_that_lacks_a_case_is_no_pass_unless_only_common_ones_matter() -> None:
    fewer = {stored.case(2, 16): stored.measured(100.0)}
    found = compare_runs(side(fewer), side(night(100.0)), GATE)
    assert [c.outcome for c in found.cases] == [Outcome.PASS]
    assert (ending(found), ending(found, common=True)) == (11, 0)
    assert ending(compare_runs(side(night(100.0)), side(fewer), GATE)) == 0


def test_a_case_with_an_invalid_start_gets_no_number() -> None:
    bad = {**night(100.0), stored.case(2, 1): stored.measured(200.0, reasons=["the client was late"])}
    for now, then in ((bad, night(100.0)), (night(100.0), bad)):
        found = compare_runs(side(now), side(then), GATE)
        (case,) = (c for c in found.cases if c.case.concurrency == 1)
        assert case.outcome is Outcome.INVALID
        assert "the client was late" in case.judgement.reason
        assert ending(found) == 10


def test_a_case_that_broke_is_broken_here_too() -> None:
    case = stored.case(2, 16)
    failed = TestRecord(
        "test_x", case.target, Outcome.BROKEN, case.config, case.concurrency, reason="CUDA error\nmore"
    )
    found = compare_runs(side({}, failed=[failed]), side(night(100.0)), GATE)
    assert [(c.outcome, c.judgement.reason) for c in found.cases] == [(Outcome.BROKEN, "CUDA error")]
    assert ending(found) == 10


def test_a_metric_that_a_run_lacks_never_passes() -> None:
    found = compare_runs(side(night(100.0)), side(night(100.0)), Gate(("accept_rate",), 0.05, 0.01, 0.99))
    assert {c.outcome for c in found.cases} == {Outcome.INCOMPARABLE}
    assert found.cases[0].judgement.reason == "accept_rate was not measured in both runs"

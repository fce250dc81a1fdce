"""One item on its way: measured and judged at setup, its body run once, what it ended in kept."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from .clock import replay
from .collection import CONFIG, RESTART, params, planned_of, test_id
from .errors import CaseError, HostError
from .ledger import TestRecord
from .measurement import ACCEPTED, Comparison, Measurement
from .model import Outcome
from .plan import Planned
from .report.junit import properties
from .server import Server
from .state import State, Trial
from .turns import again

TRIAL = pytest.StashKey[Trial]()


def begin(state: State, item: pytest.Item) -> None:
    """A fresh trial; skips an item whose case ended at an earlier restart, before any fixture runs."""
    planned = planned_of(item)
    again = TRIAL in item.stash
    if again and planned is not None:
        state.forget(planned)
    item.stash[TRIAL] = Trial(again=again)
    if planned is not None and (ended := state.plan.ended_before(planned)):
        pytest.skip(f"decided at r{ended.restart}: {ended.outcome}")


def conduct(state: State, item: pytest.Item, server: Server, benchmark: Any) -> Measurement:
    """The measurement for an item's body; skips the item while its case is undecided.

    :raises CaseError: when this case must not become a number.
    """
    planned, trial = planned_of(item), item.stash[TRIAL]
    assert planned is not None
    if trial.again:
        server = again(state, planned, server)
    try:
        other = state.facing(planned)
    except CaseError:
        trial.others = True
        raise
    start = state.measure(planned, server)
    if benchmark is not None and state.first_entry(planned):
        replay(benchmark, state.clock, planned.case, start, planned.restart, other=other)
    if planned.gate is None:
        trial.outcome = Outcome.MEASURED
        trial.measurement = Measurement(planned.case, (start,))
    else:
        trial.measurement = _judged(state, planned, trial)
    fresh = properties(trial.measurement)
    names = {name for name, _ in fresh}
    item.user_properties[:] = [*(p for p in item.user_properties if p[0] not in names), *fresh]
    return trial.measurement


def _judged(state: State, planned: Planned, trial: Trial) -> Measurement:
    judgement = state.judge(planned)
    following = state.plan.next_restart(planned)
    if judgement.outcome is None:
        word = "recording" if state.settings.record else "undecided"
        pytest.skip(f"{word}: continues in …-r{following}")
    trial.outcome, trial.reason = judgement.outcome, judgement.reason
    lenient = judgement.outcome is Outcome.INCONCLUSIVE and state.settings.inconclusive != "fail"
    if lenient and state.settings.inconclusive == "skip":
        pytest.skip(f"inconclusive: {judgement.reason}")
    comparison = Comparison(holds=lenient or judgement.outcome in ACCEPTED)
    return Measurement(planned.case, state.starts(planned), judgement, comparison)


def check_compared(item: pytest.Item) -> None:
    """Fails a test that asked for ``baseline`` and never compared its measurement with it."""
    measurement = item.stash[TRIAL].measurement
    if measurement is not None and measurement.judgement is not None and not measurement.comparison.made:
        pytest.fail(
            "this test asks for `baseline` but does not compare with it: "
            "add `assert measurement >= baseline`, or drop the fixture",
            pytrace=False,
        )


def conclude(state: State, item: pytest.Item, call: pytest.CallInfo[None]) -> Outcome | None:
    """What the item ended in, once its setup stopped it or its body ran: into plan and ledger.

    None while it has not ended, or where the failure is no outcome of ours.
    """
    trial = item.stash[TRIAL]
    error = call.excinfo.value if call.excinfo is not None else None
    if call.when == "teardown" or (call.when == "setup" and error is None):
        return None
    if isinstance(error, pytest.skip.Exception):
        ended = trial.outcome is Outcome.INCONCLUSIVE and call.when == "setup"
        return _end(state, item, trial, failed=False) if ended else None
    if isinstance(error, CaseError | HostError):
        trial.outcome = Outcome(error.outcome) if isinstance(error, CaseError) else Outcome.BROKEN
        trial.reason = str(error)
        trial.others = trial.others or call.when == "call"
    elif error is not None and not _failed_by_gate(trial):
        trial.reason = str(error).partition("\n")[0]
        if call.when == "setup":
            return None
        trial.outcome = Outcome.MEASURED
    elif trial.outcome is None:
        trial.outcome = Outcome.MEASURED
    return _end(state, item, trial, failed=error is not None)


def _failed_by_gate(trial: Trial) -> bool:
    """Whether the comparison with the baseline failed the test, not an assert of its own."""
    measurement = trial.measurement
    return measurement is not None and measurement.comparison.made and not measurement.comparison.holds


def _end(state: State, item: pytest.Item, trial: Trial, *, failed: bool) -> Outcome | None:
    planned, outcome = planned_of(item), trial.outcome
    assert outcome is not None
    if planned is not None:
        state.plan.end(planned, outcome)
    judgement = trial.measurement.judgement if trial.measurement is not None else None
    verdicts = judgement.verdicts if judgement is not None else {}
    stored = state.stored(planned.case).typical if planned is not None and verdicts else {}
    state.ledger.add(
        replace(
            record_of(state, item, outcome),
            reason=trial.reason,
            verdicts={name: asdict(verdict) for name, verdict in verdicts.items()},
            failed=failed,
            why=judgement.explanation if judgement is not None else None,
            baseline=stored,
            others=trial.others,
        )
    )
    return outcome


def record_of(state: State, item: pytest.Item, outcome: Outcome) -> TestRecord:
    """What is known of how an item ends before it has run."""
    planned, line = planned_of(item), item.location[1]
    return TestRecord(
        id=test_id(item),
        target=state.run.target.name,
        outcome=outcome,
        config=params(item).get(CONFIG),
        concurrency=planned.case.concurrency if planned is not None else None,
        restart=params(item).get(RESTART),
        line=None if line is None else line + 1,
    )

"""What a session's numbers and exit status rest on, where its tests alone do not say it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_specdecode.finishing import ending
from pytest_specdecode.gating import Gate
from pytest_specdecode.ledger import Ledger, TestRecord
from pytest_specdecode.model import Case, CaseStart, Outcome, Round, SpecConfig
from pytest_specdecode.plan import Plan, Planned
from pytest_specdecode.recording import Written
from pytest_specdecode.state import State

CASE = Case("q", SpecConfig.of(2, algorithm="EAGLE"), 4)
GATE = Gate(("tok_s",), 0.05, 0.01, 0.99)


def state_of(plan: Plan | None = None) -> State:
    settings = SimpleNamespace(record=False)
    return State(cast(Any, settings), cast(Any, None), Ledger(), cast(Any, None), plan=plan or Plan())


@pytest.mark.parametrize(
    ("failures", "slower", "status"),
    [([], False, 11), ([], True, 1), ([Outcome.INVALID], False, 10), ([None], False, 1)],
)
def test_a_recording_that_left_a_case_out_is_no_success(
    failures: list[Outcome | None], slower: bool, status: int
) -> None:
    state = state_of()
    state.ledger.add(TestRecord("t.py::test", "q", Outcome.RECORDED, CASE.config, 4))
    assert ending(state) == 0
    state.failures += failures
    state.refused.append(Written(CASE, refused="the stored sessions are of something else", slower=slower))
    assert ending(state) == status


def test_another_tests_invalid_start_is_in_no_verdict() -> None:
    """As ``--lf`` selects them: one test at the restart where it was invalid, another where it regressed."""
    other, mine = Planned("a", CASE, 1, GATE), Planned("b", CASE, 2, GATE)
    state = state_of(Plan((other, mine)))
    slow = CaseStart("s1", (Round({"tok_s": 1.0}, 1.0, ("the client was late",)),))
    good = CaseStart("s2", (Round({"tok_s": 100.0}, 1.0),))
    state.know(CASE, 1, slow)
    state.know(CASE, 2, good)
    assert state.starts(mine) == (good,)

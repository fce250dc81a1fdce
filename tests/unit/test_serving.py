"""A resumed run goes on with what was measured before, or not at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_specdecode.errors import BrokenError
from pytest_specdecode.ledger import Ledger, TargetRecord
from pytest_specdecode.model import Case, SpecConfig
from pytest_specdecode.plan import Plan, Planned
from pytest_specdecode.reference import Recorded
from pytest_specdecode.serving import serve
from pytest_specdecode.state import State

THEN = TargetRecord("t", "rack7", {"model": "a"}, {"engine_version": "1.0"}, host="h")
NOW = TargetRecord("t", "rack7", {"model": "a"}, {"engine_version": "2.0"}, host="h")


class _Run:
    """A machine on which another version runs by now."""

    def __init__(self, ledger: Ledger, *, managed: bool) -> None:
        self.ledger = ledger
        self.service = SimpleNamespace(managed=managed)
        self.identity: dict[str, Any] = {}
        self.context: dict[str, Any] = {}
        self.closed = ""

    def start(self, config: SpecConfig, restart: int) -> object:
        if self.closed:
            raise BrokenError(self.closed)
        self.identity, self.context = dict(NOW.identity), dict(NOW.context)
        self.ledger.add(NOW)
        return object()

    def stop(self) -> None: ...

    def shut(self, why: str) -> None:
        self.closed = why


@pytest.mark.parametrize("managed", [True, False], ids=["managed", "external"])
def test_a_resumed_run_measures_nothing_on_another_engine(managed: bool) -> None:
    ledger = Ledger()
    ledger.add(THEN)
    run = _Run(ledger, managed=managed)
    reference = Recorded(cast(Any, SimpleNamespace(renewed=lambda *_: ())), cast(Any, run), resumed=THEN)
    plan = Plan(tuple(Planned("test", Case("t", SpecConfig(1), 1), restart) for restart in (1, 2)))
    state = State(cast(Any, None), cast(Any, run), ledger, reference, plan=plan)
    for restart in (1, 2):
        with pytest.raises(BrokenError, match=r"engine_version was \"1\.0\" and is now \"2\.0\""):
            serve(state, SpecConfig(1), restart)
    assert ledger.targets["t"] == THEN, "what was measured is of the engine of then"
    assert (run.identity, run.context) == (THEN.identity, THEN.context)

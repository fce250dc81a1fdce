"""How far a running session is, as its line of progress says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pytest_specdecode.estimate import Job, Times
from pytest_specdecode.gating import Gate
from pytest_specdecode.ledger import CaseMeasured, Ledger
from pytest_specdecode.model import Case, CaseStart, Outcome, Round, ServerStart, SpecConfig
from pytest_specdecode.outlook import Outlook
from pytest_specdecode.plan import Plan, Planned

CONFIG = SpecConfig.of(1, algorithm="EAGLE")
CASE = Case("qwen", CONFIG, 4)
GATE = Gate(("tok_s",), tolerance=0.05, margin=0.01, confidence=0.99)


class Session:
    """One case over three restarts: a start takes 600 s, the case 60 s."""

    def __init__(self, stored: Times | None = None, looks: int = 1) -> None:
        self.now = 0.0
        self.plan = Plan(tuple(Planned("test_gate", CASE, r, GATE) for r in (1, 2, 3)))
        self.ledger = Ledger()
        self._measured: set[tuple[Case, int]] = set()
        state: Any = SimpleNamespace(
            plan=self.plan, ledger=self.ledger, known=lambda case, r: (case, r) in self._measured
        )
        known = Times({CONFIG: 600.0}, {CASE: 60.0}) if stored is None else stored
        forecast: Any = SimpleNamespace(stored=known, looks=lambda _: looks, rounds=5)
        jobs = [Job((CONFIG, item.restart), item) for item in self.plan.items]
        self.outlook = Outlook(state, jobs, forecast, clock=lambda: self.now)

    def start(self, restart: int, at: float) -> None:
        self.now = at
        self.ledger.add(ServerStart(f"s{restart}", "qwen", CONFIG, restart, "", ready_s=600.0))

    def measure(self, restart: int, at: float) -> None:
        self.now = at
        rounds = (Round({"tok_s": 100.0}, 10.0),) * 5
        self.ledger.add(CaseMeasured(CASE, CaseStart(f"s{restart}", rounds, {"warmup_s": 10.0}), 3))
        self._measured.add((CASE, restart))

    def end(self, restart: int, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.plan.end(self.plan.items[restart - 1], outcome)
        self.outlook.position = restart

    @property
    def line(self) -> str:
        return "…".join(self.outlook.frame())


def test_what_is_left_comes_from_the_baselines_times() -> None:
    session = Session()
    assert session.line == "[1/3] … · 0 s, about 11 min left"
    session.now = 240.0
    assert session.line == "[1/3] … · 4 min 0 s, about 7 min left"


def test_an_undecided_restart_adds_one_and_a_decided_case_takes_the_rest_away() -> None:
    session = Session(looks=2)
    assert session.line.endswith("about 22 min left")
    session.start(1, at=600.0)
    assert session.line.endswith("10 min 0 s, about 12 min left")
    session.measure(1, at=660.0)
    session.end(1, None)
    assert session.line.endswith("about 11 min left")
    session.end(1, Outcome.PASS)
    assert session.line == "[2/3] … · 11 min 0 s, almost done"


def test_what_takes_longer_than_ever_is_never_less_than_nothing() -> None:
    session = Session()
    session.now = 900.0
    assert session.line == "[1/3] … · 15 min 0 s, about 60 s left"
    session.start(1, at=910.0)
    assert session.line.endswith("15 min 10 s, about 60 s left")
    session.now = 2000.0
    assert session.line.endswith("33 min 20 s, almost done")


def test_without_stored_times_the_sessions_own_tell_and_before_them_nothing_does() -> None:
    session = Session(Times(), looks=3)
    assert session.line == "[1/3] … · 0 s"
    session.start(1, at=630.0)
    assert session.line == "[1/3] … · 10 min 30 s"
    session.measure(1, at=690.0)
    session.end(1, None)
    # 600 s for the start and 30 s for the clean-up before it, 60 s for the case; twice
    assert session.outlook.left_s() == 2 * (630 + 60)


def test_a_server_that_did_not_start_is_not_waited_for_again() -> None:
    session = Session(looks=1)
    session.end(1, Outcome.BROKEN)
    assert session.outlook.left_s() == 0

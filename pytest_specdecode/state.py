"""What the plugin keeps over a benchmark session. It decides nothing of pytest's."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from .baselines import Store
from .clock import ReplayClock
from .errors import BrokenError, CaseError, InvalidError
from .gating import Judgement, Stored, judge_case
from .journal import Journal
from .ledger import CaseMeasured, Ledger, TargetRecord
from .measurement import Measurement
from .model import Case, CaseStart, Outcome, SpecConfig
from .opposite import Opposite
from .options import Settings
from .plan import Plan, Planned
from .pool import Place
from .recording import Written
from .reference import Recorded, Reference
from .report.text import case_label
from .run import Run, close
from .server import Server


@dataclass(slots=True)
class Trial:
    """One item on its way: what its body is handed, and what it ends in."""

    again: bool = False
    """It ran before in this session."""

    measurement: Measurement | None = None
    outcome: Outcome | None = None
    reason: str = ""
    others: bool = False
    """Its error is not that of its case."""


@dataclass(slots=True)
class State:
    settings: Settings
    run: Run
    ledger: Ledger
    reference: Reference
    opposite: Opposite | None = None
    """The other target of ``--spec-against``; then it is the reference too."""
    plan: Plan = field(default_factory=Plan)
    clock: ReplayClock = field(default_factory=ReplayClock)
    failures: list[Outcome | None] = field(default_factory=list)
    """One per item that pytest counts as failed or error, as its report arrives; None: no outcome of ours."""
    notes: list[str] = field(default_factory=list)
    """Lines for the end of the session: what was deselected, recorded, not recorded and why."""
    unwritten: list[str] = field(default_factory=list)
    """Files that could not be written, and why."""
    served: bool = False
    """Whether a server was started in this session."""
    refusals: list[str] = field(default_factory=list)
    """Why nothing can be measured: settings that only a worker could see to be wrong."""
    refused: list[Written] = field(default_factory=list)
    """Cases that a recording did not store."""
    journal: Journal | None = None
    """Where every event goes as it happens; None in a process that measures nothing."""
    done: set[str] = field(default_factory=set)
    """Node ids of items that have run."""
    place: Place = field(default_factory=Place)
    """Which of several workers this process is."""
    elsewhere: frozenset[Case] = frozenset()
    """Cases that other workers measure."""
    _began: float = field(default_factory=time.monotonic)
    _measured: dict[tuple[Case, int], CaseStart | CaseError] = field(default_factory=dict)
    _entered: set[tuple[Case, int]] = field(default_factory=set)

    def measure(self, planned: Planned, server: Server) -> CaseStart:
        """The case at this restart: measured once, an error shared like a number.

        :raises CaseError: when it must not become a number.
        """
        self.take(self.run, server, planned.case, planned.restart)
        return self._number(planned.case, planned.restart)

    def take(self, run: Run, server: Server, case: Case, restart: int) -> None:
        """Have ``case`` measured at this restart, unless it was: a number, or the error instead."""
        if self.known(case, restart):
            return
        try:
            start = run.measure(server, case, rounds=self.settings.rounds)
        except CaseError as error:
            self.fail(case, restart, error)
            return
        self._measured[case, restart] = start
        restarts = len(self.plan.case_restarts(case)) or 1
        self.ledger.add(CaseMeasured(case, start, restarts, self.plan.gates(case)))

    def fail(self, case: Case, restart: int, error: CaseError) -> None:
        """The case has this error instead of a number."""
        self._measured[case, restart] = error

    def known(self, case: Case, restart: int) -> bool:
        """Whether the case has its number at this restart, or an error instead of one."""
        return (case, restart) in self._measured

    def _number(self, case: Case, restart: int) -> CaseStart:
        """:raises CaseError: when it must not be one."""
        known = self._measured.get((case, restart), BrokenError("it was not measured at this restart"))
        if isinstance(known, CaseError):
            raise type(known)(str(known))
        if not known.valid:
            raise InvalidError("; ".join(known.reasons))
        return known

    def know(self, case: Case, restart: int, start: CaseStart) -> None:
        """The case was measured at this restart by the run that is resumed."""
        self._measured[case, restart] = start

    def all_known(self, config: SpecConfig, restart: int) -> bool:
        """Whether a resumed run has all cases of that server already."""
        wanted = [i.case for i in self.plan.items if i.case.config == config and i.restart == restart]
        return self.resumed is not None and all((case, restart) in self._measured for case in wanted)

    def facing(self, planned: Planned) -> tuple[Case, CaseStart] | None:
        """The other target's case and start that this item is to be judged against; None where it is not.

        :raises CaseError: the other's own, when it has no number.
        """
        opposite = self.opposite
        if opposite is None or planned.gate is None or opposite.incomparable:
            return None
        case = opposite.case(planned.case)
        try:
            return case, self._number(case, planned.restart)
        except CaseError as error:
            raise type(error)(f"{case_label(case)}, to be compared with: {error}") from None

    def forget(self, planned: Planned) -> None:
        """The item runs a second time: what its first attempt measured and decided is void."""
        self.drop(planned.case, planned.restart)
        if self.opposite is not None and planned.gate is not None:
            self.drop(self.opposite.case(planned.case), planned.restart)
        self.plan.reopen(planned)

    def drop(self, case: Case, restart: int) -> None:
        """What is known of this case at this restart is void."""
        self._measured.pop((case, restart), None)

    def starts(self, planned: Planned) -> tuple[CaseStart, ...]:
        """The case's valid starts up to this item's restart, in order. An earlier one may be invalid where it
        is no restart of this item's test, but of another one's."""
        found = (self._measured.get((planned.case, r)) for r in range(1, planned.restart + 1))
        return tuple(start for start in found if isinstance(start, CaseStart) and start.valid)

    def judge(self, planned: Planned) -> Judgement:
        """The judgement over all restarts so far; its outcome is None while another will follow."""
        last = self.plan.is_last(planned)
        if self.settings.record:
            return Judgement(Outcome.RECORDED if last else None)
        assert planned.gate is not None
        starts, case = self.starts(planned), planned.case
        if not self.reference.ready(case, planned.gate, len(starts), last=last):
            return Judgement(None)
        return judge_case(
            starts,
            self.stored(case),
            planned.gate,
            family=self.plan.family(planned),
            noise=self.reference.noise(case),
            last=last,
        )

    def stored(self, case: Case) -> Stored:
        """What this case is judged against, or why there is nothing."""
        return self.reference.stored(case)

    def first_entry(self, planned: Planned) -> bool:
        """Whether this (case, restart) has no entry in pytest-benchmark's run yet; it has one from now on."""
        key = planned.case, planned.restart
        fresh = key not in self._entered
        self._entered.add(key)
        return fresh

    @property
    def store(self) -> Store:
        """The baselines, for a session that is judged by them."""
        assert isinstance(self.reference, Recorded)
        return self.reference.store

    @property
    def resumed(self) -> TargetRecord | None:
        """What ran in the run that is resumed; None for a run from the beginning."""
        return self.reference.resumed if isinstance(self.reference, Recorded) else None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The tested target's, then the other's."""
        return (self.run, self.opposite.run) if self.opposite else (self.run,)

    def close(self) -> None:
        """Leave everything as it was found. Never raises."""
        close(*self.runs)

    def stop_clock(self) -> None:
        self.ledger.seconds = time.monotonic() - self._began

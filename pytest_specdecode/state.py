"""What the plugin keeps over a benchmark session. It decides nothing of pytest's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .baselines import Store
from .clock import ReplayClock
from .errors import CaseError, InvalidError
from .gating import Judgement, Stored, judge_case
from .journal import Journal
from .ledger import CaseMeasured, Ledger, TargetRecord
from .measurement import Measurement
from .model import Case, CaseStart, Outcome, SpecConfig
from .options import Settings
from .plan import Plan, Planned
from .recording import Written
from .run import Run
from .server import Server


@dataclass(slots=True)
class Trial:
    """One item on its way: what its body is handed, and what it ends in."""

    again: bool = False
    """It ran before in this session."""

    measurement: Measurement | None = None
    outcome: Outcome | None = None
    reason: str = ""


@dataclass(slots=True)
class State:
    settings: Settings
    run: Run
    ledger: Ledger
    store: Store
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
    refused: list[Written] = field(default_factory=list)
    """Cases that a recording did not store."""
    journal: Journal | None = None
    """Where every event goes as it happens; None in a process that measures nothing."""
    resumed: TargetRecord | None = None
    """What the interrupted run was of that this one resumes."""
    done: set[str] = field(default_factory=set)
    """Node ids of items that have run."""
    _began: float = field(default_factory=time.monotonic)
    _measured: dict[tuple[Case, int], CaseStart | CaseError] = field(default_factory=dict)
    _entered: set[tuple[Case, int]] = field(default_factory=set)

    def measure(self, planned: Planned, server: Server) -> CaseStart:
        """The case at this restart: measured once, an error shared like a number.

        :raises CaseError: when it must not become a number.
        """
        key = planned.case, planned.restart
        if key not in self._measured:
            try:
                start = self.run.measure(server, planned.case, rounds=self.settings.rounds)
            except CaseError as error:
                self._measured[key] = error
            else:
                self._measured[key] = start
                restarts, gates = self.plan.case_restarts(planned.case), self.plan.gates(planned.case)
                self.ledger.add(CaseMeasured(planned.case, start, len(restarts), gates))
        known = self._measured[key]
        if isinstance(known, CaseError):
            raise type(known)(str(known))
        if not known.valid:
            raise InvalidError("; ".join(known.reasons))
        return known

    def know(self, case: Case, restart: int, start: CaseStart) -> None:
        """The case was measured at this restart by the run that is resumed."""
        self._measured[case, restart] = start

    def is_measured(self, case: Case, restart: int) -> bool:
        """Whether the case has its number at this restart, or an error instead of one."""
        return (case, restart) in self._measured

    def all_known(self, config: SpecConfig, restart: int) -> bool:
        """Whether a resumed run has all cases of that server already."""
        wanted = [i.case for i in self.plan.items if i.case.config == config and i.restart == restart]
        return self.resumed is not None and all((case, restart) in self._measured for case in wanted)

    def forget(self, planned: Planned) -> None:
        """The item runs a second time: what its first attempt measured and decided is void."""
        self._measured.pop((planned.case, planned.restart), None)
        self.plan.reopen(planned)

    def starts(self, planned: Planned) -> tuple[CaseStart, ...]:
        """The case's starts up to this item's restart, in order; all are valid once this one is."""
        found = (self._measured.get((planned.case, r)) for r in range(1, planned.restart + 1))
        return tuple(start for start in found if isinstance(start, CaseStart))

    def judge(self, planned: Planned) -> Judgement:
        """The judgement over all restarts so far; its outcome is None while another will follow."""
        last = self.plan.is_last(planned)
        if self.settings.record:
            return Judgement(Outcome.RECORDED if last else None)
        assert planned.gate is not None
        return judge_case(
            self.starts(planned),
            self.stored(planned.case),
            planned.gate,
            family=self.plan.family(planned),
            noise=self.store.noise(self.run.machine),
            last=last,
        )

    def stored(self, case: Case) -> Stored:
        """What the baselines hold for this case on this machine."""
        return self.store.stored(case, machine=self.run.machine, identity=self.identity, context=self.context)

    @property
    def identity(self) -> Mapping[str, Any]:
        """What runs; before the first start of a resumed run, what ran then."""
        return self.run.identity or (self.resumed.identity if self.resumed else {})

    @property
    def context(self) -> Mapping[str, Any]:
        return self.run.context or (self.resumed.context if self.resumed else {})

    def first_entry(self, planned: Planned) -> bool:
        """Whether this (case, restart) has no entry in pytest-benchmark's run yet; it has one from now on."""
        key = planned.case, planned.restart
        fresh = key not in self._entered
        self._entered.add(key)
        return fresh

    def stop_clock(self) -> None:
        self.ledger.seconds = time.monotonic() - self._began

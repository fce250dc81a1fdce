"""What a session will take: server starts and seconds, from the times in the baselines. No pytest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .baselines import stored_paces
from .estimate import Job, Need, Times, expected, looks_needed, need, times_of
from .model import Case
from .plan import Planned
from .state import State


def likely_machine(state: State) -> str | None:
    """Whose baselines count, as far as that is known without asking the machine: as the target says, else the
    only one that has some."""
    files = state.store.files
    return state.run.target.machine or (next(iter(files)) if len(files) == 1 else None)


@dataclass(slots=True)
class Forecast:
    """``jobs`` in order; ``machine``: whose baselines tell how long they take and when they are decided."""

    state: State
    jobs: Sequence[Job]
    machine: str | None
    stored: Times = field(init=False)
    """The baselines' times."""
    _looks: dict[tuple[str, Case], int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        file = self.state.store.files.get(self.machine or "")
        paces = stored_paces(file, self.state.plan.cases()) if file else ()
        self.stored = times_of(paces, rounds=self.rounds)

    @property
    def rounds(self) -> int:
        return self.state.settings.rounds or self.state.run.target.workload.rounds

    def least(self) -> Need:
        """Where every case is decided as soon as it can be."""
        return self._need(self.looks if self.state.settings.record else lambda _: 1)

    def likely(self) -> Need:
        """Where everything is as fast as it was."""
        return self._need(self.looks)

    def most(self) -> Need:
        return need(self.jobs, self.stored)

    def _need(self, looks: Callable[[Planned], int]) -> Need:
        return need(expected(self.jobs, looks), self.stored)

    def looks(self, item: Planned) -> int:
        """After how many restarts its case is probably decided."""
        key = item.test, item.case
        if key not in self._looks:
            self._looks[key] = self._looks_of(item)
        return self._looks[key]

    def _looks_of(self, item: Planned) -> int:
        family, store = self.state.plan.family(item), self.state.store
        if self.state.settings.record or item.gate is None:
            return family.looks
        if self.machine is None:
            return 1
        stored = store.as_recorded(item.case, machine=self.machine)
        if stored.problem is not None:
            return 1
        noise = store.noise(self.machine)
        return looks_needed(stored, item.gate, family=family, noise=noise, rounds=self.rounds)

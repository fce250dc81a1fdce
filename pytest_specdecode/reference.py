"""What cases are judged against: the stored baselines, or another target in this very session. No pytest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .baselines import Store
from .gating import Gate, Stored
from .ledger import TargetRecord
from .model import Case
from .run import Run
from .verdict import Noise


class Reference(Protocol):
    """Numbers to judge by."""

    @property
    def against(self) -> str:
        """The other target's name; empty where the numbers are stored ones."""
        ...

    def stored(self, case: Case) -> Stored:
        """What ``case`` is compared with, or why there is nothing."""
        ...

    def noise(self, case: Case) -> Mapping[str, Noise]:
        """How the target's starts vary when nothing changes, by metric."""
        ...

    def ready(self, case: Case, gate: Gate, starts: int, *, last: bool) -> bool:
        """Whether so many starts of ``case`` can be judged by this gate; ``last``: no more will follow.

        :raises InvalidError: when they never can.
        """
        ...

    def renewed(self) -> tuple[str, ...]:
        """How engine and driver differ from the reference's, now that the first server runs."""
        ...


@dataclass(slots=True)
class Recorded:
    """The baseline files of the target."""

    store: Store
    run: Run
    against: str = ""
    resumed: TargetRecord | None = None
    """What ran in the run that is resumed: what runs, before the first start of this one."""

    def stored(self, case: Case) -> Stored:
        run, then = self.run, self.resumed
        identity = run.identity or (then.identity if then else {})
        return self.store.stored(case, machine=run.machine, identity=identity, context=self._context)

    def noise(self, case: Case) -> Mapping[str, Noise]:
        del case
        return self.store.noise(self.run.machine)

    def ready(self, case: Case, gate: Gate, starts: int, *, last: bool) -> bool:
        del case, gate, starts, last
        return True

    def renewed(self) -> tuple[str, ...]:
        return self.store.renewed(self.run.machine, self._context)

    @property
    def _context(self) -> Mapping[str, Any]:
        return self.run.context or (self.resumed.context if self.resumed else {})

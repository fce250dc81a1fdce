"""The other target of ``--spec-against``: measured in this session, and what the tested one is judged by.
No pytest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .baselines import CACHED_FOR, changes
from .counterpart import counterpart, workload_difference
from .errors import InvalidError
from .gating import Gate, Stored, as_starts
from .hosts.redaction import secrets_in
from .ledger import Ledger
from .load.requests import workload_digest
from .machine import identity_facts
from .markers import Defaults
from .model import Case, CaseStart, Outcome, SpecConfig, metric_names, summarize
from .run import Run
from .verdict import Noise, Start

FEWEST = 2
"""Starts of either side before a case is judged, where more are planned. One start a side says nothing of how
much starts differ; by their rounds alone a case slower by the whole tolerance passed in 6.5% of simulated
sessions (starts that differ by 1%, rounds by 0.4%), with two in 1%."""
_MUST_MATCH = frozenset({"machine", "cpu", "cpus", "gpu", "gpus", "mig", "workload"})


@dataclass
class Opposite:
    """Implements :class:`pytest_specdecode.reference.Reference` with the numbers of another target.

    ``mine`` is the run of the tested target, ``run`` that of the other one; ``folder``: where prompt files
    are looked up.
    """

    mine: Run
    run: Run
    ledger: Ledger
    folder: Path
    acquainted: bool = field(default=False, init=False)
    """Whether both engines have run, and what they are is known."""

    @property
    def against(self) -> str:
        return self.run.target.name

    def config(self, config: SpecConfig) -> SpecConfig:
        """What the other target runs for a configuration of the tested one."""
        return counterpart(config, *self._defaults)

    @cached_property
    def _defaults(self) -> tuple[Defaults, Defaults]:
        return self.mine.defaults, self.run.defaults

    def case(self, case: Case) -> Case:
        """What a case of the tested target is judged against."""
        return Case(self.against, self.config(case.config), case.concurrency)

    # -- what it is judged by -------------------------------------------------------------------------

    @cached_property
    def incomparable(self) -> str:
        """Why no numbers of the two can be compared; empty when they can.

        :raises HostError: when the machine does not answer.
        """
        mine, theirs = self.mine, self.run
        own, other = (
            {"machine": run.target.machine} if run.elsewhere else identity_facts(run.facts)
            for run in (mine, theirs)
        )
        one, two = (run.target.workload for run in (mine, theirs))
        for key in sorted({*own, *other}):
            if own.get(key) != other.get(key):
                return self._differs("it is other hardware", key, own.get(key), other.get(key))
        if workload_digest(one, self.folder) != workload_digest(two, self.folder):
            return self._differs("it is another workload", *workload_difference(one, two))
        return ""

    def _differs(self, what: str, key: str, own: object, other: object) -> str:
        return f"{what}: {key} is {own} for {self.mine.target.name} and {other} for {self.against}"

    def stored(self, case: Case) -> Stored:
        if self.incomparable:
            return Stored(problem=Outcome.INCOMPARABLE, reason=self.incomparable)
        starts = self._starts(self.case(case))
        samples = {name: _samples(starts, name) for name in metric_names(starts)}
        then = self._context(self.run, self.config(case.config))
        return Stored(
            starts=samples,
            changes=changes(then, self._context(self.mine, case.config)),
            history={name: [summarize([start], name) for start in starts] for name in samples},
        )

    def noise(self, case: Case) -> Mapping[str, Noise]:
        """Pooled over all cases of the other target and those of the tested one's other configurations:
        the case itself adds its own starts to that."""
        others = [
            self._starts(known)
            for known in {summary.case for summary in self.ledger.cases}
            if known.target == self.against or known.config != case.config
        ]
        names = {name for starts in others for name in metric_names(starts)}
        pools = {name: _usable(others, name) for name in names}
        return {name: Noise.pooled(pool) for name, pool in pools.items() if pool}

    def ready(self, case: Case, gate: Gate, starts: int, *, last: bool) -> bool:
        if self.incomparable:
            return True
        theirs = self._starts(self.case(case))
        try:
            for name in gate.metrics:
                as_starts(theirs, name)
        except InvalidError as error:
            raise InvalidError(f"nothing to compare with on the side of {self.against}: {error}") from None
        return last or starts >= FEWEST

    def renewed(self) -> tuple[str, ...]:
        """How engine and driver of the tested target differ from the other's; empty until both have run."""
        then, now = self.run.context, self.mine.context
        if not (then and now):
            return ()
        return changes(*({k: each.get(k) for k in CACHED_FOR} for each in (then, now)))

    def _starts(self, case: Case) -> tuple[CaseStart, ...]:
        return tuple(start for start in self.ledger.starts_of(case) if start.valid)

    @staticmethod
    def _context(run: Run, config: SpecConfig) -> dict[str, Any]:
        """All that may differ between the two and explain a difference."""
        free = {key: value for key, value in run.identity.items() if key not in _MUST_MATCH}
        env = run.target.service.env
        told = {name: value for name, value in env.items() if not secrets_in({name: value})}
        return {**run.context, **free, **config.as_dict(), "env": told}


def _samples(starts: Iterable[CaseStart], name: str) -> tuple[Start, ...]:
    return tuple(Start(s.start_id, "current", s.values(name)) for s in starts)


def _usable(cases: Sequence[Sequence[CaseStart]], name: str) -> list[tuple[Start, ...]]:
    """The cases whose starts all have values above zero in that metric."""
    found = [_samples(starts, name) for starts in cases if starts]
    return [
        samples
        for samples in found
        if all(s.rounds and all(0 < value < math.inf for value in s.rounds) for s in samples)
    ]

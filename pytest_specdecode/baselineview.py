"""What a baseline file holds, by case and metric, and the smallest regression that it can show. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .baselinefile import BaselineFile, StoredCase
from .baselines import pooled_noise, stored_starts
from .errors import SampleError
from .gating import Gate
from .model import metric
from .recording import typical
from .verdict import Noise, Start, resolvable


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of a stored case. ``value`` None: none is recorded; ``resolvable``: as a share, None where
    it cannot be said."""

    case: StoredCase
    metric: str
    value: float | None = None
    starts: int = 0
    sessions: int = 0
    nights: int = 0
    resolvable: float | None = None
    floor: float | None = None


def rows(file: BaselineFile, gate: Gate, restarts: int) -> list[Row]:
    """A row for each metric of ``gate``, and each that has a floor.

    :param restarts: server starts of a run that is judged against it
    """
    recorded = [case for case in file.cases if case.sessions]
    family = max(1, len(recorded) * len(gate.metrics))
    view = _View(gate, restarts, pooled_noise(file.cases), family)
    return [row for case in file.cases for row in view.of(case)]


@dataclass(frozen=True, slots=True)
class _View:
    """``family``: comparisons of a run that judges every recorded case."""

    gate: Gate
    restarts: int
    noise: Mapping[str, Noise]
    family: int

    def of(self, case: StoredCase) -> Iterator[Row]:
        stored = stored_starts(case)
        names = [name for name in self.gate.metrics if name in stored or not case.floor]
        for name in dict.fromkeys((*names, *case.floor)):
            starts = stored.get(name, ())
            yield Row(
                case,
                name,
                value=typical(starts) if starts else None,
                starts=len(starts),
                sessions=len(case.sessions),
                nights=len({start.session[:10] for start in starts}),
                resolvable=self._resolvable(name, starts),
                floor=case.floor.get(name),
            )

    def _resolvable(self, name: str, starts: Sequence[Start]) -> float | None:
        try:
            return resolvable(
                starts,
                margin=self.gate.margin,
                confidence=self.gate.confidence,
                looks=self.restarts,
                cases=self.family,
                noise=self.noise.get(name),
                higher_is_better=metric(name).higher_is_better,
            )
        except SampleError:
            return None

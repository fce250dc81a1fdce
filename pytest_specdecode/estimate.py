"""How long a session takes, and how many server starts: what is left of the plan, times what it took before.
Pure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .errors import SpecDecodeError
from .gating import Family, Gate, Stored, judge_case
from .model import Case, CaseStart, Round, ServerStart, SpecConfig
from .plan import Planned
from .verdict import Noise

Place = tuple[SpecConfig, int]
"""A server start: configuration and restart."""


@dataclass(frozen=True, slots=True)
class Job:
    """A selected item that needs a server. ``planned`` None: it measures no case there."""

    place: Place
    planned: Planned | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """What things took, in seconds: a start until it was ready, a case with its warm-up."""

    starts: Mapping[SpecConfig, float] = field(default_factory=dict)
    cases: Mapping[Case, float] = field(default_factory=dict)

    def over(self, older: Times) -> Times:
        """These, and for what they do not know the older ones."""
        return Times({**older.starts, **self.starts}, {**older.cases, **self.cases})

    def start_s(self, config: SpecConfig) -> float | None:
        """That configuration's, else what others took."""
        return self.starts.get(config, _mean(self.starts.values()))

    def case_s(self, case: Case) -> float | None:
        """That case's, else what others took, those of the same concurrency first."""
        if case in self.cases:
            return self.cases[case]
        alike = [s for other, s in self.cases.items() if other.concurrency == case.concurrency]
        return _mean(alike or self.cases.values())


@dataclass(frozen=True, slots=True)
class Need:
    """What some jobs cost. ``seconds`` None: nothing is known of how long they take."""

    starts: int = 0
    seconds: float | None = 0.0
    first_s: float = 0.0
    """Of it, the part that comes first: a start or a case."""


def need(
    jobs: Iterable[Job],
    times: Times,
    *,
    served: Collection[Place] = (),
    measured: Collection[tuple[Case, int]] = (),
) -> Need:
    """One start for each place that is not served yet, one measurement for each case that has none there."""
    places, cases = set(served), set(measured)
    parts: list[float | None] = []
    starts = 0
    for job in jobs:
        if job.place not in places:
            places.add(job.place)
            starts += 1
            parts.append(times.start_s(job.place[0]))
        if job.planned is not None and (job.planned.case, job.planned.restart) not in cases:
            cases.add((job.planned.case, job.planned.restart))
            parts.append(times.case_s(job.planned.case))
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return Need(starts, None)
    return Need(starts, math.fsum(known), known[0] if known else 0.0)


def expected(
    jobs: Sequence[Job],
    looks: Callable[[Planned], int],
    *,
    past: Mapping[tuple[str, Case], int] | None = None,
) -> list[Job]:
    """The jobs without the restarts that nobody is likely to need.

    :param looks: after how many restarts an item's case is probably decided
    :param past: how many restarts of a (test, case) have been; still undecided, it needs one more at least
    """
    seen: dict[tuple[str, Case], int] = dict(past or {})
    kept = []
    for job in jobs:
        if (item := job.planned) is not None:
            key = (item.test, item.case)
            number = seen[key] = seen.get(key, 0) + 1
            if number > max(looks(item), (past or {}).get(key, 0) + 1):
                continue
        kept.append(job)
    return kept


def looks_needed(
    stored: Stored, gate: Gate, *, family: Family, noise: Mapping[str, Noise], rounds: int
) -> int:
    """After how many restarts a case is decided whose starts are as fast as the stored ones: its stored
    rounds, shifted to the stored number, are judged again and again. All of them where that cannot be told.
    """
    for count in range(1, family.looks):
        starts = [_typical(stored, gate.metrics, f"expected-{i}", rounds) for i in range(count)]
        try:
            outcome = judge_case(starts, stored, gate, family=family, noise=noise, last=False).outcome
        except SpecDecodeError:
            break
        if outcome is not None:
            return count
    return family.looks


def _typical(stored: Stored, names: Iterable[str], start_id: str, rounds: int) -> CaseStart:
    values: dict[str, list[float]] = {}
    for name in names:
        if starts := stored.starts.get(name):
            own = starts[0].rounds
            scale = stored.typical.get(name, 0.0) / (statistics.median(own) or math.nan)
            values[name] = [own[i % len(own)] * scale for i in range(rounds)]
    each = [{name: column[i] for name, column in values.items()} for i in range(rounds)]
    return CaseStart(start_id, tuple(Round(metrics, 0.0) for metrics in each))


@dataclass(frozen=True, slots=True)
class Pace:
    """How long one case took on one start, in seconds. None: not known."""

    ready_s: float | None = None
    warmup_s: float | None = None
    round_s: float | None = None

    @classmethod
    def of(cls, measured: CaseStart, server: ServerStart | None = None) -> Pace:
        """Rounded to milliseconds, as it is stored."""
        ready_s = server.ready_s if server is not None else math.nan
        warmup = measured.facts.get("warmup_s")
        return cls(
            ready_s=None if math.isnan(ready_s) else ready_s,
            warmup_s=float(warmup) if isinstance(warmup, int | float) else None,
            round_s=_rounded(_mean(r.seconds for r in measured.rounds)),
        )

    def case_s(self, rounds: int) -> float | None:
        """The whole case with so many rounds."""
        return None if self.round_s is None else (self.warmup_s or 0.0) + rounds * self.round_s


def times_of(paces: Iterable[tuple[Case, Pace]], *, rounds: int) -> Times:
    """The mean of each case and configuration."""
    starts: dict[SpecConfig, list[float]] = {}
    cases: dict[Case, list[float]] = {}
    for case, pace in paces:
        if pace.ready_s is not None:
            starts.setdefault(case.config, []).append(pace.ready_s)
        if (seconds := pace.case_s(rounds)) is not None:
            cases.setdefault(case, []).append(seconds)
    return Times(
        {config: statistics.fmean(each) for config, each in starts.items()},
        {case: statistics.fmean(each) for case, each in cases.items()},
    )


def with_overhead(times: Times, seconds: float) -> Times:
    """Every start that much longer: clean-up, first requests, what tests do of their own."""
    return replace(times, starts={config: s + seconds for config, s in times.starts.items()})


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return statistics.fmean(known) if known else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)

"""One run judged against another, exactly as if the other had been recorded as its baseline. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .baselinefile import StoredCase, StoredConfig, StoredSession, StoredStart
from .baselines import changes, difference, pooled_noise, stored_starts
from .errors import InvalidError
from .gating import Family, Gate, Judgement, Stored, judge_case
from .ledger import CaseSummary, config_order
from .model import Case, CaseStart, Outcome, SpecConfig
from .verdict import Noise

Place = tuple[SpecConfig, int]
"""A configuration and a concurrency: what the cases of two runs share."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs: its cases, and what it was of."""

    cases: Sequence[CaseSummary]
    identity: Mapping[str, Any]
    context: Mapping[str, Any]

    @property
    def by_place(self) -> dict[Place, CaseSummary]:
        return {(c.case.config, c.case.concurrency): c for c in self.cases}


@dataclass(frozen=True, slots=True)
class Compared:
    """A case that both runs have. ``metrics`` now, and ``then``, in the run that it is compared with."""

    case: Case
    judgement: Judgement
    metrics: Mapping[str, float] = field(default_factory=dict)
    then: Mapping[str, float] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        return self.judgement.outcome or Outcome.INCONCLUSIVE

    def as_dict(self) -> dict[str, Any]:
        return {
            "config": self.case.config.as_dict(),
            "concurrency": self.case.concurrency,
            "outcome": self.outcome.value,
            "reason": self.judgement.reason,
            "metrics": dict(self.metrics),
            "baseline": dict(self.then),
            "verdicts": {
                name: {
                    "outcome": v.outcome,
                    "ratio": v.ratio,
                    "low": v.low,
                    "high": v.high,
                    "slower": v.slower,
                    "reason": v.reason,
                }
                for name, v in self.judgement.verdicts.items()
            },
            "why": self.judgement.explanation,
        }


@dataclass(frozen=True, slots=True)
class RunComparison:
    """What two runs have in common, judged, and what only one of them has."""

    cases: tuple[Compared, ...]
    only_now: tuple[Case, ...] = ()
    only_then: tuple[Case, ...] = ()


def compare_runs(now: Side, then: Side, gate: Gate) -> RunComparison:
    """``now`` judged against ``then``, case by case: same configuration, same concurrency.

    A case of which either run has an invalid start, or none, gets no number; runs of different identities
    are incomparable.
    """
    ours, theirs = now.by_place, then.by_place
    common = sorted(ours.keys() & theirs.keys(), key=lambda place: (*config_order(place[0]), place[1]))
    other = _different(now, then)
    stored = {place: _as_stored(theirs[place], then) for place in common if not _problem(theirs[place])}
    noise = pooled_noise(stored.values())
    family = len(common) * len(gate.metrics)
    changed = changes(then.context, now.context)
    found = []
    for place in common:
        mine, yours = ours[place], theirs[place]
        judgement = (
            _problem(mine)
            or _problem(yours, "in the run that it is compared with: ")
            or other
            or _judged(mine, stored[place], changed, gate=gate, family=family, noise=noise)
        )
        found.append(Compared(mine.case, judgement, mine.metrics, yours.metrics))
    return RunComparison(
        tuple(found),
        tuple(ours[place].case for place in ours if place not in theirs),
        tuple(theirs[place].case for place in theirs if place not in ours),
    )


def _different(now: Side, then: Side) -> Judgement | None:
    """Why nothing of the two can be compared; None where all can."""
    if not now.identity or not then.identity:
        return Judgement(Outcome.INCOMPARABLE, "one of the runs does not say what was measured")
    different = difference(then.identity, now.identity)
    return Judgement(Outcome.INCOMPARABLE, f"of something else: {different}") if different else None


def _problem(case: CaseSummary, where: str = "") -> Judgement | None:
    """Why the case has no number; None where all of its starts are valid."""
    for start in case.starts:
        if not start.valid:
            return Judgement(Outcome.INVALID, f"{where}{'; '.join(start.reasons)}")
    if (test := case.error) is not None:
        return Judgement(test.outcome, f"{where}{test.reason}".splitlines()[0])
    return None if case.starts else Judgement(Outcome.INVALID, f"{where}not measured")


def _as_stored(case: CaseSummary, of: Side) -> StoredCase:
    starts = [StoredStart(id=s.start_id, rounds=[dict(r.metrics) for r in s.rounds]) for s in case.starts]
    return StoredCase(
        config=StoredConfig.of(case.case.config),
        concurrency=case.case.concurrency,
        identity=dict(of.identity),
        sessions=[StoredSession(context=dict(of.context), starts=starts)],
    )


def _judged(
    case: CaseSummary,
    recorded: StoredCase,
    changed: tuple[str, ...],
    *,
    gate: Gate,
    family: int,
    noise: Mapping[str, Noise],
) -> Judgement:
    starts = stored_starts(recorded)
    missing = [name for name in gate.metrics if name not in starts or not _measured(case.starts, name)]
    if missing:
        return Judgement(Outcome.INCOMPARABLE, f"{missing[0]} was not measured in both runs")
    history = {name: [statistics.median(s.rounds) for s in each] for name, each in starts.items()}
    try:
        return judge_case(
            case.starts,
            Stored(starts=starts, changes=changed, history=history),
            gate,
            family=Family(looks=len(case.starts), cases=family),
            noise=noise,
            last=True,
        )
    except InvalidError as error:
        return Judgement(Outcome.INVALID, str(error))


def _measured(starts: Sequence[CaseStart], name: str) -> bool:
    return all(start.values(name) for start in starts)

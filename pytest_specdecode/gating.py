"""From a case's starts and its stored baseline to one outcome, by the gates of a test. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .config import Gate as GateTable
from .errors import InvalidError, MissingMetricError
from .markers import GateMark
from .model import CaseStart, Outcome, geometric_mean, metric, summarize
from .verdict import Noise, Start, Verdict, floor_verdict, judge
from .why import PARTS, Why, explain


@dataclass(frozen=True, slots=True)
class Gate:
    """What ``measurement >= baseline`` asks for in one test."""

    metrics: tuple[str, ...]
    tolerance: float
    margin: float
    confidence: float
    floor: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, table: GateTable, mark: GateMark | None) -> Gate:
        """The target's gate, with what the test's marker says instead."""
        mark = mark or GateMark()
        names = (table.metric,) if isinstance(table.metric, str) else tuple(table.metric)
        return cls(
            metrics=mark.metrics or names,
            tolerance=float(table.tolerance) if mark.tolerance is None else mark.tolerance,
            margin=float(table.margin) if mark.margin is None else mark.margin,
            confidence=table.confidence,
            floor=mark.floor,
        )

    @property
    def compared(self) -> tuple[str, ...]:
        """Metrics that it compares with a baseline or a floor, each once."""
        return tuple(dict.fromkeys((*self.metrics, *self.floor)))


def strictest_gates(gates: Iterable[Gate]) -> dict[str, Gate]:
    """Several gates as one for each metric that is compared with a baseline: the smallest tolerance and
    margin."""
    found: dict[str, Gate] = {}
    for gate in gates:
        for name in gate.metrics:
            so_far = found.get(name, gate)
            tolerance, margin = min(so_far.tolerance, gate.tolerance), min(so_far.margin, gate.margin)
            found[name] = replace(so_far, tolerance=tolerance, margin=margin)
    return found


@dataclass(frozen=True, slots=True)
class Stored:
    """What the baselines hold for one case.

    ``starts`` by metric. ``problem`` says why nothing can be compared with (outcome NO_BASELINE or
    INCOMPARABLE); a stored case with nothing but floors has neither starts nor a problem.
    """

    starts: Mapping[str, Sequence[Start]] = field(default_factory=dict)
    floor: Mapping[str, float] = field(default_factory=dict)
    problem: Outcome | None = None
    reason: str = ""
    changes: tuple[str, ...] = ()
    """What differs in ``context`` since it was recorded, for the message of a regression."""
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Stored start medians of every metric, for the split of a regression."""

    @property
    def typical(self) -> dict[str, float]:
        """The stored number of each metric: the geometric mean over its starts."""
        means = {name: geometric_mean(values) for name, values in self.history.items()}
        return {name: mean for name, mean in means.items() if mean is not None}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of one case in one test. None while it is undecided and another restart may follow."""

    outcome: Outcome | None
    reason: str = ""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    why: Why | None = None
    """What a regression lost; None where the engine has no step counter, and for every other outcome."""

    @property
    def explanation(self) -> Mapping[str, Any] | None:
        """Of a regression, for reports: the split where there is one, and what changed in context."""
        if self.outcome is not Outcome.REGRESSED:
            return None
        return {**(self.why.as_dict() if self.why else {}), "changes": list(self.changes)}


@dataclass(frozen=True, slots=True)
class Family:
    """How many looks and comparisons share the session's error rate."""

    looks: int
    cases: int


def as_starts(starts: Sequence[CaseStart], name: str, session: str = "current") -> tuple[Start, ...]:
    """The starts' rounds of one metric, as the verdict wants them.

    :raises InvalidError: when a start did not measure that metric: a missing metric never passes.
    """
    try:
        summarize(starts, name)
    except MissingMetricError as error:
        raise InvalidError(f"the gate needs {name}, and {error}") from None
    samples = tuple(Start(s.start_id, session, s.values(name)) for s in starts)
    if not positive(samples):
        raise InvalidError(f"{name} has a value that is not above zero, so that no ratio can be made of it")
    return samples


def positive(starts: Sequence[Start]) -> bool:
    """Whether ratios can be made of all their rounds."""
    return all(0 < value < math.inf for start in starts for value in start.rounds)


def judge_case(
    starts: Sequence[CaseStart],
    stored: Stored,
    gate: Gate,
    *,
    family: Family,
    noise: Mapping[str, Noise],
    last: bool,
) -> Judgement:
    """The judgement over all restarts so far; the worst metric decides.

    :param noise: pooled noise of the target's baselines, by metric.
    :param last: no further restart will follow, so undecided becomes inconclusive.
    """
    if stored.problem is not None:
        return Judgement(stored.problem, stored.reason, changes=stored.changes)
    floors = strictest([stored.floor, gate.floor])
    by_baseline = gate.metrics if stored.starts else ()
    missing = [name for name in by_baseline if name not in stored.starts]
    if missing:
        reason = f"the stored baseline has no {missing[0]}; record it again"
        return Judgement(Outcome.NO_BASELINE, reason)
    zero = [name for name in by_baseline if not positive(stored.starts[name])]
    if zero:
        reason = (
            f"the stored {zero[0]} has a value that is not above zero, so that no ratio can be made of it"
        )
        return Judgement(Outcome.NO_BASELINE, f"{reason}; gate on another metric, or record it again")
    verdicts: dict[str, Verdict] = {}
    for name in by_baseline:
        verdicts[name] = judge(
            as_starts(starts, name),
            stored.starts[name],
            tolerance=gate.tolerance,
            margin=gate.margin,
            confidence=gate.confidence,
            looks=family.looks,
            cases=family.cases,
            noise=noise.get(name),
            higher_is_better=metric(name).higher_is_better,
        )
    for name, floor in floors.items():
        verdicts[f"{name} floor"] = floor_verdict(
            as_starts(starts, name),
            floor,
            tolerance=gate.tolerance,
            confidence=gate.confidence,
            looks=family.looks,
            cases=family.cases,
            noise=noise.get(name),
            higher_is_better=metric(name).higher_is_better,
        )
    judgement = _worst(verdicts, stored.changes, last=last)
    if judgement.outcome is not Outcome.REGRESSED:
        return judgement
    now = {name: [Start(s.start_id, "current", s.values(name)) for s in starts] for name in PARTS}
    return replace(judgement, why=explain(now, stored.starts, noise))


def strictest(floors: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Several floors as one: for each metric, the bound that is hardest to meet."""
    result: dict[str, float] = {}
    for floor in floors:
        for name, value in floor.items():
            harder = max if metric(name).higher_is_better else min
            result[name] = harder(value, result.get(name, value))
    return result


def _worst(verdicts: Mapping[str, Verdict], changes: tuple[str, ...], *, last: bool) -> Judgement:
    order = ("regressed", "undecided", "pass")
    outcomes = sorted((v.outcome for v in verdicts.values()), key=order.index)
    reason = next(f"{name}: {v.reason}" for name, v in verdicts.items() if v.outcome == outcomes[0])
    if outcomes[0] == "undecided":
        return Judgement(Outcome.INCONCLUSIVE if last else None, reason, verdicts, changes)
    return Judgement(Outcome(outcomes[0]), reason, verdicts, changes)

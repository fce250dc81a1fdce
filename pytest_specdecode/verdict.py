"""Is this case slower than its baseline? Pure: numbers in, a verdict with known error rates out.

A sample is a server start; its value is the median of its rounds, on the log scale. Variances between and
within starts are pooled over a target's cases (:class:`Noise`); a clearly noisier case keeps its own. After
each restart an interval for the ratio current / baseline is drawn, and decides once it lies far enough on
one side.

Error rates. ``confidence`` leaves α = 1 − confidence, spent over the looks (:func:`._stats.spend`):

- a case truly slower by the tolerance passes with at most α: ``low`` is a lower bound per case;
- in a session where nothing changed any case is ``regressed`` with at most α: ``high`` is an upper bound per
  case, raised where needed so that it lies below 1 − margin only if "not slower at all" is refuted at
  α / family, the family being the session's cases less what they share (:func:`._stats.effective_family`).

Degrees of freedom are Satterthwaite's (Biometrics Bulletin 2, 1946) over what differs between starts and what
differs between nights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Literal

from ._contrast import Estimate, compare
from ._noise import Noise, Sample, Start, pool, samples
from ._stats import (
    ALARM_RHO,
    PASS_RHO,
    Summary,
    effective_family,
    spend,
    summarize,
)
from .errors import ConfigError, SampleError

__all__ = [
    "Interval",
    "Noise",
    "Start",
    "Verdict",
    "floor_verdict",
    "judge",
    "ratio_interval",
    "resolvable",
    "summarize_rounds",
    "value_interval",
]

Outcome = Literal["pass", "regressed", "undecided"]

POWER = 0.9
"""How surely a loss that a baseline can resolve is shown."""


@dataclass(frozen=True, slots=True)
class Interval:
    """``ratio`` with the interval from ``low`` to ``high``."""

    ratio: float
    low: float
    high: float

    @property
    def plus_minus(self) -> float:
        """Half the interval's width, as a share of the denominator (0.02 is ±2%)."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one case shows after the restarts so far.

    ``ratio`` is current / baseline for metrics where higher is better, and its inverse otherwise: below 1
    is always worse. ``low`` and ``high`` bound it as the module says; ``slower``: shown to be worse by more
    than the margin. ``reason`` is one line for people.
    """

    outcome: Outcome
    ratio: float
    low: float
    high: float
    slower: bool
    reason: str


def summarize_rounds(rounds: Sequence[float]) -> float:
    """One start's value: the median of its rounds, in their unit (of an even number, the geometric middle).

    Up to half of the rounds may be disturbed without deciding anything. Starts where the better quarter of
    the rounds is far from the median count less in a verdict: disturbances slow rounds down, never speed
    them up.

    :raises SampleError: for no rounds, or values that are not finite and above zero.
    """
    try:
        return math.exp(summarize(tuple(rounds)).center)
    except SampleError as error:
        raise SampleError(f"the start {error}") from None


def judge(
    current: Sequence[Start],
    baseline: Sequence[Start],
    *,
    tolerance: float = 0.05,
    margin: float = 0.01,
    confidence: float = 0.99,
    looks: int = 3,
    cases: int = 1,
    noise: Noise | None = None,
    higher_is_better: bool = True,
) -> Verdict:
    """Judge one case and metric after ``len(current)`` of at most ``looks`` restarts.

    :param cases: distinct (case, metric) pairs of the session, which share its false-alarm rate.
    :param noise: of the target's baselines in this metric; without it this case's baseline alone.
    :raises SampleError: for no starts or rounds, or values that are not finite and above zero.
    :raises ConfigError: for a tolerance, margin, confidence, looks or cases out of range.
    """
    terms = _Terms(tolerance, margin, confidence, looks, cases)
    now = samples(current, "current run", higher_is_better=higher_is_better)
    before = samples(baseline, "baseline", higher_is_better=higher_is_better)
    noise = noise or pool([before])
    found = compare(now, before, noise)
    low, high = terms.bounds(found, noise, len(now))
    slower = high < math.log1p(-margin)
    outcome: Outcome = "undecided"
    reason = (
        f"{terms.so_far(len(now))} not shown to be within {tolerance:.1%}, nor slower by over {margin:.1%}"
    )
    if low > math.log1p(-tolerance):
        outcome, reason = "pass", f"shown not to be slower by {tolerance:.1%} or more"
        reason += f", though by over {margin:.1%}" if slower else ""
    elif slower:
        outcome, reason = "regressed", f"shown to be slower by over {margin:.1%}"
    return terms.conclude(found, (low, high), outcome, reason, slower)


def floor_verdict(
    current: Sequence[Start],
    floor: float,
    *,
    tolerance: float = 0.05,
    confidence: float = 0.99,
    looks: int = 3,
    cases: int = 1,
    noise: Noise | None = None,
    higher_is_better: bool = True,
) -> Verdict:
    """Judge one case against a hand-written number: a floor, or a ceiling where lower is better.

    ``regressed`` as soon as the interval lies below the floor, ``pass`` as soon as it lies above
    floor · (1 − tolerance), with the error rates of :func:`judge`; ``ratio`` is current / floor.

    :raises SampleError: as :func:`judge`, and for a floor that is not finite and above zero.
    """
    terms = _Terms(tolerance, 0.0, confidence, looks, cases)
    now = samples(current, "current run", higher_is_better=higher_is_better)
    line = samples([Start("floor", "", (floor,))], "floor", higher_is_better=higher_is_better)[0]
    noise = noise or pool([now])
    found = compare(now, [], noise, against=line.rounds.center)
    low, high = terms.bounds(found, noise, len(now))
    word = f"the {'floor' if higher_is_better else 'ceiling'} of {floor:g}"
    outcome: Outcome = "undecided"
    reason = f"{terms.so_far(len(now))} not shown on either side of {word}"
    if high < 0:
        outcome, reason = "regressed", f"shown to miss {word}"
    elif low > math.log1p(-tolerance):
        outcome, reason = "pass", f"shown not to miss {word} by {tolerance:.1%} or more"
    return terms.conclude(found, (low, high), outcome, reason, high < 0)


def ratio_interval(
    a: Sequence[Start],
    b: Sequence[Start],
    *,
    confidence: float = 0.95,
    noise: Noise | None = None,
    higher_is_better: bool = True,
) -> Interval:
    """The plain ratio a / b of two cases with its two-sided interval, for tables and for telling cases apart.

    :param noise: pooled over the cases of both sides; without it these two alone.
    :param higher_is_better: of the metric; it says which rounds look disturbed, the ratio stays a / b.
    :raises SampleError: as :func:`judge`.
    """
    _Terms(0.5, 0.0, confidence, 1, 1)
    top = samples(a, "numerator", higher_is_better=higher_is_better)
    bottom = samples(b, "denominator", higher_is_better=higher_is_better)
    estimate = compare(top, bottom, noise or pool([top, bottom]))
    sign = 1 if higher_is_better else -1
    low, high = sorted(sign * estimate.bound((1 - confidence) / 2, side) for side in (-1, 1))
    return Interval(math.exp(sign * estimate.center), math.exp(low), math.exp(high))


def value_interval(
    starts: Sequence[Start], *, confidence: float = 0.95, noise: Noise | None = None
) -> tuple[float, float]:
    """Lower and upper end of one case's value in its own unit, two-sided, nights included; for plots.

    :raises SampleError: as :func:`judge`.
    """
    _Terms(0.5, 0.0, confidence, 1, 1)
    found = samples(starts, "case")
    estimate = compare(found, [], noise or pool([found]))
    low, high = (math.exp(estimate.bound((1 - confidence) / 2, side)) for side in (-1, 1))
    return low, high


def resolvable(
    baseline: Sequence[Start],
    *,
    margin: float = 0.01,
    confidence: float = 0.99,
    looks: int = 3,
    cases: int = 1,
    noise: Noise | None = None,
    higher_is_better: bool = True,
) -> float:
    """The smallest regression that this baseline can resolve, as a share lost (0.04 is −4%).

    So large a loss ends ``regressed``, and with a tolerance that large an unchanged case ends ``pass``,
    each in nine of ten runs that use all ``looks`` restarts. A tolerance below it makes for inconclusive
    runs.

    :raises SampleError: as :func:`judge`.
    """
    terms = _Terms(0.5, margin, confidence, looks, cases)
    before = samples(baseline, "baseline", higher_is_better=higher_is_better)
    noise = noise or pool([before])
    found = compare(_future(looks, median_low(s.rounds.n for s in before), noise), before, noise)
    low, high = terms.bounds(found, noise, looks)
    reach = max(found.center - low, high - found.center - math.log1p(-margin))
    chance = found.bound(1 - POWER, 1) - found.center
    return -math.expm1(-(reach + chance))


def _future(starts: int, rounds: int, noise: Noise) -> list[Sample]:
    """Restarts of another night that spread exactly as the noise says."""
    places = [i - (starts - 1) / 2 for i in range(starts)]
    squares = sum(p * p for p in places)
    scale = math.sqrt(noise.start_variance(rounds) * (starts - 1) / squares) if squares else 0.0
    return [Sample(f"next {p}", "next", Summary(scale * p, 0.0, 0.0, rounds)) for p in places]


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a verdict is to show, and at which error rates."""

    tolerance: float
    margin: float
    confidence: float
    looks: int
    cases: int

    def __post_init__(self) -> None:
        for name in ("looks", "cases"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be 1 or more, not {getattr(self, name)!r}")
        if not 0 < self.confidence < 1:
            raise ConfigError(f"confidence must lie between 0 and 1 (say, 0.99), not {self.confidence!r}")
        if not 0 < self.tolerance < 1:
            raise ConfigError(f"tolerance must lie between 0 and 1 (5% is 0.05), not {self.tolerance!r}")
        if not 0 <= self.margin < 1:
            raise ConfigError(f"margin must be 0 or more and below 1 (1% is 0.01), not {self.margin!r}")

    def bounds(self, found: Estimate, noise: Noise, look: int) -> tuple[float, float]:
        """Lower and upper bound of the log ratio at this look."""
        alpha, looks = 1 - self.confidence, max(look, self.looks)
        family = effective_family(self.cases, noise.per_start, noise.shared_bound(-1.0), alpha)
        low = found.bound(spend(alpha, look, looks, PASS_RHO), -1)
        alone = found.bound(spend(alpha, look, looks, ALARM_RHO), 1)
        together = found.bound(spend(alpha / family, look, looks, ALARM_RHO), 1)
        return low, max(alone, together + math.log1p(-self.margin))

    def conclude(
        self, found: Estimate, bounds: tuple[float, float], outcome: Outcome, reason: str, slower: bool
    ) -> Verdict:
        low, high = map(math.exp, bounds)
        return Verdict(outcome, math.exp(found.center), low, high, slower, "; ".join((reason, *found.notes)))

    def so_far(self, look: int) -> str:
        return f"after {look} of {max(look, self.looks)} restarts"

"""How server starts differ: learned from a target's baselines, free of I/O."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ._stats import Summary, median_variance, summarize
from .errors import SampleError

CLEAN = 3.0
"""Quartiles further from the median than this many round sds do not come from ordinary noise."""
NIGHT_SD_PASS = 0.005
"""Nights are taken to differ by 0.5% (sd, log scale) before a case passes …"""
NIGHT_SD_ALARM = 0.007
"""… and by 0.7% before it is called regressed, until the baselines show otherwise …"""
NIGHT_PRIOR_DF = 6.0
"""… which counts as much as six further nights would."""
ROUND_EFFICIENCY = 0.4
"""What a degree of freedom of rounds is worth to the interquartile range, beside the sd of normal values."""


@dataclass(frozen=True, slots=True)
class Start:
    """One server start of one case.

    :param id: of the start; the cases that one start serves share it, and with it that start's effect.
    :param session: the pytest session (night) it belongs to. Sessions named by an ISO date or time count as
        one night when the date is the same. Current and baseline starts of one session share what that night
        did to the machine, so nothing is added for it.
    :param rounds: the metric's value in each round, in its own unit, in any order; all above zero.
    """

    id: str
    session: str
    rounds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """A start as the statistics see it: higher is better, on the log scale."""

    id: str
    session: str
    rounds: Summary

    @property
    def night(self) -> str:
        """The date of a session named by ISO 8601, else the session itself."""
        date = self.session[:10]
        return date if len(date) == 10 and date[4] == date[7] == "-" else self.session


def samples(starts: Sequence[Start], what: str, *, higher_is_better: bool = True) -> list[Sample]:
    """Starts → samples; a metric where lower is better changes its sign.

    :raises SampleError: for no starts, no rounds, or values that are not finite and above zero.
    """
    if not starts:
        raise SampleError(f"the {what} has no server starts: a verdict needs at least one on each side")
    found = []
    for start in starts:
        try:
            summary = summarize(tuple(start.rounds), higher_is_better=higher_is_better)
        except SampleError as error:
            raise SampleError(f"start {start.id!r} of the {what} {error}") from None
        found.append(Sample(start.id, start.session, summary))
    return found


def by_night(found: Iterable[Sample]) -> Mapping[str, list[Sample]]:
    nights: dict[str, list[Sample]] = defaultdict(list)
    for sample in found:
        nights[sample.night].append(sample)
    return nights


@dataclass(frozen=True, slots=True)
class Noise:
    """How a metric of a target varies when nothing changes: variances of log values.

    ``start_var`` is the variance of a start's median around its night, its rounds' share included, at
    ``start_df`` degrees of freedom; ``median_var`` that share in units of ``round_var`` (one round,
    robust). ``night_var`` is the variance between nights beyond that, from ``night_df`` + 1 nights.
    ``per_start`` cases are measured on one start, and a start moves them together with correlation
    ``shared`` (estimated on ``shared_df`` degrees of freedom).
    """

    start_var: float
    start_df: float
    round_var: float
    round_df: float
    median_var: float
    night_var: float
    night_df: float
    per_start: float
    shared: float
    shared_df: float

    @classmethod
    def pooled(cls, cases: Iterable[Sequence[Start]]) -> Noise:
        """Noise pooled over the baseline cases of one target and one metric (do not mix metrics).

        :raises SampleError: for no cases, starts or rounds, or values that are not finite and above zero.
        """
        return pool([samples(case, "baseline") for case in cases])

    def start_variance(self, rounds: int) -> float:
        """Variance of the median of that many rounds around its night's mean."""
        share = median_variance(rounds)
        if not self.start_df:
            # Nothing tells starts apart: take them to differ by as much as rounds do.
            return self.round_var * (1 + share)
        return max(self.start_var + self.round_var * (share - self.median_var), self.round_var * share)

    def night(self, sd: float) -> tuple[float, float]:
        """Variance between nights and its degrees of freedom, with a prior of that sd.

        A scaled inverse-χ² prior (Gelman et al., Bayesian Data Analysis, 3rd ed., §2.6): two nights can
        look alike by chance, and an interval without any room for nights would then raise false alarms.
        """
        df = NIGHT_PRIOR_DF + self.night_df
        var = (NIGHT_PRIOR_DF * sd**2 + self.night_df * self.night_var) / df
        if not self.start_df and self.night_var > var:
            return self.night_var, self.night_df
        return var, df

    def shared_bound(self, sds: float) -> float:
        """``shared``, moved by so many standard errors (Fisher's z)."""
        if self.shared_df <= 0:
            return 0.0 if sds < 0 else 1.0
        z = math.atanh(min(self.shared, 0.999)) + sds / math.sqrt(self.shared_df)
        return max(0.0, math.tanh(z))


def round_noise(found: Sequence[Sample]) -> float:
    """Standard deviation of a round: the median over starts, so that a few disturbed starts do not count."""
    sds = [s.rounds.sd for s in found if s.rounds.n > 1]
    return statistics.median(sds) if sds else 0.0


def clean(found: Sequence[Sample], round_sd: float) -> Sequence[Sample]:
    """The starts whose rounds agree; all of them where most do not (then it is no accident)."""
    limit = CLEAN * round_sd
    kept = [s for s in found if max(s.rounds.above, s.rounds.below) <= limit]
    return kept if 2 * len(kept) >= len(found) else found


def residuals(found: Iterable[Sample]) -> tuple[list[tuple[str, float]], int]:
    """(start id, distance from its night's mean) where a night has several, and degrees of freedom."""
    rest: list[tuple[str, float]] = []
    df = 0
    for night in by_night(found).values():
        if len(night) > 1:
            mean = sum(s.rounds.center for s in night) / len(night)
            rest += [(s.id, s.rounds.center - mean) for s in night]
            df += len(night) - 1
    return rest, df


def pool(cases: Sequence[Sequence[Sample]]) -> Noise:
    """:meth:`Noise.pooled` over samples."""
    everything = [s for case in cases for s in case]
    if not everything:
        raise SampleError("there are no baseline cases to learn noise from; pass no noise instead")
    round_sd = round_noise(everything)
    kept = [clean(case, round_sd) for case in cases]
    by_start: dict[str, list[float]] = defaultdict(list)
    total_df = 0
    for case in kept:
        rest, df = residuals(case)
        total_df += df
        for start, distance in rest:
            by_start[start].append(distance)
    squares = sum(d * d for ds in by_start.values() for d in ds)
    per_start = _mean_group(by_start)
    shared = _intraclass(by_start)
    start_var = squares / total_df if total_df else 0.0
    ns = [s.rounds.n for case in kept for s in case]
    median_var = sum(map(median_variance, ns)) / len(ns)
    night_var, night_df = _nights(kept, start_var if total_df else round_sd**2 * (1 + median_var))
    return Noise(
        start_var=start_var,
        # cases of one start repeat each other: the variance of a mean of correlated variances (shared²)
        start_df=total_df / (1 + (per_start - 1) * shared**2),
        round_var=round_sd**2,
        round_df=ROUND_EFFICIENCY * sum(s.rounds.n - 1 for s in everything),
        median_var=median_var,
        night_var=night_var,
        night_df=night_df,
        per_start=per_start,
        shared=shared,
        shared_df=total_df / per_start if per_start > 1 else 0.0,
    )


def _mean_group(by_start: Mapping[str, list[float]]) -> float:
    """Cases measured on one start, as a case sees it."""
    total = sum(map(len, by_start.values()))
    return sum(len(ds) ** 2 for ds in by_start.values()) / total if total else 1.0


def _intraclass(by_start: Mapping[str, list[float]]) -> float:
    """Correlation that cases of one start have (Fisher's intraclass correlation), between 0 and 1."""
    together = apart = 0.0
    for ds in by_start.values():
        if len(ds) > 1:
            squares = sum(d * d for d in ds)
            together += (sum(ds) ** 2 - squares) / (len(ds) - 1)
            apart += squares
    return min(1.0, max(0.0, together / apart)) if apart else 0.0


def _nights(cases: Iterable[Sequence[Sample]], start_var: float) -> tuple[float, float]:
    """Variance between nights beyond ``start_var`` (analysis of variance), and its degrees of freedom.

    A night may move all cases together, so the degrees of freedom count nights, not cases.
    """
    squares = size = 0.0
    df = most = 0
    for case in cases:
        nights = [[s.rounds.center for s in night] for night in by_night(case).values()]
        if len(nights) < 2:
            continue
        n = sum(map(len, nights))
        mean = sum(map(sum, nights)) / n
        squares += sum(len(night) * (sum(night) / len(night) - mean) ** 2 for night in nights)
        size += n - sum(len(night) ** 2 for night in nights) / n
        df += len(nights) - 1
        most = max(most, len(nights) - 1)
    if not df:
        return 0.0, 0.0
    return max(0.0, (squares - df * start_var) / size), float(most)

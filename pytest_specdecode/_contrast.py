"""The distance between two sets of server starts, and how far it can be trusted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ._noise import CLEAN, NIGHT_SD_ALARM, NIGHT_SD_PASS, Noise, Sample, residuals, round_noise
from ._stats import f_quantile, t_quantile

OWN_NOISE = 0.01
"""A case keeps its own variance where an F test at this level finds it larger than the pooled one …"""
UNSTEADY = 0.001
"""… and uses that of its current starts alone where they differ so much more (a server with two speeds)."""
NEGLIGIBLE = 1e-6
"""Relative differences below this are rounding, not noise."""
WIDEST = math.log(1000)
"""Intervals end at a thousandfold, so that reports never hold an infinity."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A log ratio, what makes it uncertain, and what is to be said of it.

    ``between``: its variance through starts, at ``df`` degrees of freedom. ``nights``: how many times the
    variance between nights adds to it (0 where both sides are of one session).
    """

    center: float
    between: float
    df: float
    nights: float
    noise: Noise
    notes: tuple[str, ...]

    def bound(self, p: float, side: int) -> float:
        """Where the log ratio ends with error probability ``p``: side −1 below, +1 above."""
        reach = WIDEST
        if self.df > 0:
            night_var, night_df = self.noise.night(NIGHT_SD_ALARM if side > 0 else NIGHT_SD_PASS)
            across = self.nights * night_var
            reach = self._reach(p, across, night_df)
        return self.center + side * min(reach, WIDEST)

    def _reach(self, p: float, across: float, night_df: float) -> float:
        total = self.between + across
        if not total:
            return 0.0
        df = total**2 / (self.between**2 / self.df + across**2 / night_df)
        return t_quantile(p, df) * math.sqrt(total)


def compare(now: Sequence[Sample], before: Sequence[Sample], noise: Noise, against: float = 0.0) -> Estimate:
    """Mean of ``now`` less mean of ``before`` (or less ``against``), with what makes it uncertain."""
    round_sd = max(math.sqrt(noise.round_var), round_noise([*now, *before]), NEGLIGIBLE)
    spread, notes = _start_noise(now, before, noise, round_sd)
    top = _mean(now, spread, round_sd)
    bottom = _mean(before, spread, round_sd) if before else _Mean(against, 0.0, (), 0)
    nights = _nights(list(zip(now, top.shares, strict=True)), list(zip(before, bottom.shares, strict=True)))
    if odd := top.odd + bottom.odd:
        notes += (f"rounds of {odd} {'start' if odd == 1 else 'starts'} disagree, so that they count less",)
    if before and nights and len({s.night for s in before}) == 1:
        notes += ("all baseline starts are of one day, so that what nights do is assumed, not known",)
    between = top.variance + bottom.variance
    return Estimate(top.center - bottom.center, between, spread.df, nights, noise, notes)


def _nights(now: Sequence[tuple[Sample, float]], before: Sequence[tuple[Sample, float]]) -> float:
    """How many times the variance between nights is in the difference of two weighted means.

    A session that both sides share cancels in it; two sessions of one date count as one night.
    """
    shared = {s.session for s, _ in now} & {s.session for s, _ in before}
    weights: dict[tuple[int, str], float] = defaultdict(float)
    for sign, side in ((1, now), (-1, before)):
        for s, weight in side:
            key = (0, s.session) if s.session in shared else (sign, s.night)
            weights[key] += sign * weight
    return sum(w * w for w in weights.values())


def _start_noise(
    now: Sequence[Sample], before: Sequence[Sample], noise: Noise, round_sd: float
) -> tuple[_Spread, tuple[str, ...]]:
    """How starts of this case vary, and what is to be said of it."""
    df = noise.start_df or noise.round_df
    notes = () if noise.start_df else (_stand_in(noise),)
    steady = [s for s in now if s.rounds.above <= CLEAN * round_sd]
    rest, now_df = residuals(steady)
    now_squares = sum(d * d for _, d in rest)
    rest, before_df = residuals([s for s in before if s.rounds.above <= CLEAN * round_sd])
    own_squares, own_df = now_squares + sum(d * d for _, d in rest), now_df + before_df
    everything = [*now, *before]
    typical = sum(noise.start_variance(s.rounds.n) for s in everything) / len(everything)
    typical = max(typical, NEGLIGIBLE**2)
    unsteady = "its starts differ far more than the baseline's: their own noise is used"
    noisier = "noisier than the target's other cases: its own noise is used"
    for squares, own, level, note in (
        (now_squares, now_df, UNSTEADY, unsteady),
        (own_squares, own_df, OWN_NOISE, noisier),
    ):
        if own and squares / own > typical * (f_quantile(level, own, df) if df > 0 else 0.0):
            return _Spread(noise, float(own), own=squares / own), (*notes, note)
    scale = 1.0
    if now_df:
        scale = (df + now_squares / typical) / (df + now_df)
    return _Spread(noise, df + now_df, scale=scale), notes


def _stand_in(noise: Noise) -> str:
    if not noise.night_df and not noise.round_df:
        return "single rounds of single starts do not tell how much they vary: measure more of either"
    where = "nights" if noise.night_df else "rounds"
    return f"no night holds two starts, so the noise between starts is that of its {where}"


@dataclass(frozen=True, slots=True)
class _Spread:
    """Variance of a start at ``df`` degrees of freedom: the pooled one times ``scale``, or the case's own."""

    noise: Noise
    df: float
    scale: float = 1.0
    own: float | None = None

    def variance(self, rounds: int) -> float:
        return self.scale * self.noise.start_variance(rounds) if self.own is None else self.own


@dataclass(frozen=True, slots=True)
class _Mean:
    """A weighted mean of starts: its variance apart from nights, each start's share, and odd starts."""

    center: float
    variance: float
    shares: tuple[float, ...]
    odd: int


def _mean(found: Sequence[Sample], spread: _Spread, round_sd: float) -> _Mean:
    """Mean over starts, each counting alike but for those whose better rounds disagree with their median."""
    spreads = [spread.variance(s.rounds.n) for s in found]
    extras = [max(0.0, s.rounds.above - CLEAN * round_sd) ** 2 for s in found]
    weights = [1.0 if not e else v / (v + e) for v, e in zip(spreads, extras, strict=True)]
    total = sum(weights)
    if not total:
        weights, total = [1.0] * len(found), float(len(found))
    shares = tuple(w / total for w in weights)
    center = sum(share * s.rounds.center for s, share in zip(found, shares, strict=True))
    variance = sum(share * share * (v + e) for share, v, e in zip(shares, spreads, extras, strict=True))
    return _Mean(center, variance, shares, len(extras) - extras.count(0.0))

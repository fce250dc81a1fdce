"""Whether a server has reached its speed. Pure.

Two rules, both on the decode speed of whole rounds; every round has the same requests, so without a trend
their order is exchangeable.

*Warm-up.* While a round is faster than the one before by more than ``RISE``, it was warm-up. This ends at the
limit of ``EXTRA_ROUNDS``; a server that has then risen in every one of them is not steady. The first warm-up
round is cold and may well be slower; the others and the one that exceeds the limit are ``EXTRA_ROUNDS`` + 1
exchangeable values, all in ascending order with probability 1 / 7! = 0.02%.

*Trend.* The measured rounds' logarithms are fitted by a line; they are not steady if it rises by more than
``RISE`` in all and its slope is positive at ``TREND_P`` by Student's t. That is exact for normal noise
between rounds; for heavy tails and for noise that is correlated from round to round the unit tests simulate
both rules together: not above 0.1%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

RISE = 0.02
EXTRA_ROUNDS = 6
TREND_P = 0.0005


def rose(speeds: Sequence[float]) -> bool:
    """Whether the last round was faster than the one before by more than ``RISE``."""
    return len(speeds) >= 2 and speeds[-1] > speeds[-2] * (1 + RISE)


def trend(speeds: Sequence[float]) -> float | None:
    """By how much the measured rounds went up in all (0.05: 5%), if they are shown to do so; else None."""
    n = len(speeds)
    if n < 3 or min(speeds) <= 0:
        return None
    y = np.log(speeds)
    x = np.arange(n) - (n - 1) / 2
    slope = float(x @ y / (x @ x))
    rise = math.expm1(slope * (n - 1))
    if rise <= RISE:
        return None
    residual = y - y.mean() - slope * x
    error = math.sqrt(float(residual @ residual) / (n - 2) / float(x @ x))
    p = float(stats.t.sf(slope / error, n - 2)) if error > 0 else 0.0
    return rise if p < TREND_P else None

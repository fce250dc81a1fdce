"""Whether a server has reached its speed. Pure.

Two rules, both on the decode speed of whole rounds; every round has the same requests, so without a trend
their order is exchangeable.

*Warm-up.* While a round is faster than the one before by more than ``RISE``, it was warm-up. This ends at the
limit of :data:`.limits.EXTRA_ROUNDS`; a server that has then risen in every one of them is not steady. The
first warm-up round is cold and may well be slower; the others and the one that exceeds the limit are
``EXTRA_ROUNDS`` + 1 exchangeable values, all in ascending order with probability 1 / 7! = 0.02%.

*Trend.* The measured rounds' logarithms are fitted by a line; they are not steady if it rises by more than
``RISE`` in all and its slope is positive at ``TREND_P`` by Student's t. That is exact for independent
normal noise. Noise that is correlated from round to round looks like a trend the more often the more rounds
there are, so no more than ``TREND_DF`` degrees of freedom are used. Simulated, both rules together stay below
0.1% for 3 to 12 rounds, noise of 0.3% to 10%, normal, heavy-tailed or correlated by 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import special

RISE = 0.02
TREND_P = 0.0001
TREND_DF = 3


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
    return rise if slope > error * _critical(min(n - 2, TREND_DF)) else None


@lru_cache
def _critical(df: int) -> float:
    return -float(special.stdtrit(df, TREND_P))

"""What others would conclude from the same samples, given all restarts and all baseline starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .populations import Array

Flags = NDArray[np.bool_]
Rival = Callable[[Array, Array], Flags]
"""Log speeds of baselines and current runs (…, start, round) → whether each case is called slower."""


def mean_time(before: Array, now: Array) -> Flags:
    """pytest-benchmark's ``--benchmark-compare-fail=mean:5%``: the mean time of all rounds grew by 5%."""
    return np.asarray(np.exp(-now).mean(axis=(-1, -2)) > 1.05 * np.exp(-before).mean(axis=(-1, -2)))


def mann_whitney(before: Array, now: Array) -> Flags:
    """Google Benchmark's ``compare.py``: a two-sided U test over rounds at 0.05, the median being slower."""
    old, new = (x.reshape(*x.shape[:-2], -1) for x in (before, now))
    found = stats.mannwhitneyu(new, old, axis=-1, method="asymptotic")
    return np.asarray(found.pvalue < 0.05) & (np.median(new, axis=-1) < np.median(old, axis=-1))


def threshold(before: Array, now: Array) -> Flags:
    """A fixed threshold: this verdict's ratio, without an interval, is below 0.975."""
    means = [np.median(x, axis=-1).mean(axis=-1) for x in (now, before)]
    return np.asarray(means[0] - means[1] < np.log(0.975))


RIVALS: Mapping[str, Rival] = {
    "pytest-benchmark mean:5%": mean_time,
    "Mann–Whitney on rounds": mann_whitney,
    "threshold of 2.5%": threshold,
}

"""How cases of one run compare with each other, for tables: ratio and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SampleError
from ..ledger import CaseSummary
from ..verdict import Noise, Start, ratio_interval
from .terminal import Compare, Comparison

CONFIDENCE = 0.95
"""Of the ± in tables: two-sided, each comparison for itself."""


def comparer(cases: Sequence[CaseSummary], name: str) -> Compare:
    """Compares two of ``cases`` in the metric ``name``, with noise pooled over all of them."""
    noise = _noise(cases, name)

    def compare(one: CaseSummary, other: CaseSummary, _name: str) -> Comparison | None:
        if name not in one.metrics or not other.metrics.get(name):
            return None
        try:
            interval = ratio_interval(
                _starts(one, name), _starts(other, name), confidence=CONFIDENCE, noise=noise
            )
        except SampleError:
            return Comparison(one.metrics[name] / other.metrics[name])
        return Comparison(interval.ratio, interval.plus_minus if interval.plus_minus < 10 else None)

    return compare


def _noise(cases: Sequence[CaseSummary], name: str) -> Noise | None:
    try:
        return Noise.pooled([_starts(case, name) for case in cases if name in case.metrics])
    except SampleError:
        return None


def _starts(case: CaseSummary, name: str) -> list[Start]:
    return [Start(start.start_id, "current", start.values(name)) for start in case.valid_starts]

"""How cases of one run compare with each other, for tables: ratio and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SampleError
from ..ledger import CaseSummary
from ..model import metric
from ..verdict import Noise, Start, ratio_interval, value_interval
from .grid import Bounds, Compare, Comparison

CONFIDENCE = 0.95
"""Of the ± in tables: two-sided, each comparison for itself."""
WIDEST_SHOWN = 10.0
"""Upper over lower end of an interval; a wider one says that next to nothing is known."""


def comparer(cases: Sequence[CaseSummary], name: str) -> Compare:
    """Compares two of ``cases`` in the metric ``name``, with noise pooled over all of them.

    What was measured on different hosts does not compare: hosts of one kind differ by percents too.
    """
    noise = _noise(cases, name)

    def compare(one: CaseSummary, other: CaseSummary, _name: str) -> Comparison | None:
        if name not in one.metrics or not other.metrics.get(name) or one.hosts != other.hosts:
            return None
        try:
            interval = ratio_interval(
                _starts(one, name),
                _starts(other, name),
                confidence=CONFIDENCE,
                noise=noise,
                higher_is_better=metric(name).higher_is_better,
            )
        except SampleError:
            return Comparison(one.metrics[name] / other.metrics[name])
        return Comparison(interval.ratio, interval.plus_minus if interval.plus_minus < 10 else None)

    return compare


def bounder(cases: Sequence[CaseSummary], name: str) -> Bounds:
    """The interval of the value of any of ``cases`` in the metric ``name``, with the same noise."""
    noise = _noise(cases, name)

    def bounds(case: CaseSummary, _name: str) -> tuple[float, float] | None:
        try:
            low, high = value_interval(_starts(case, name), confidence=CONFIDENCE, noise=noise)
        except SampleError:
            return None
        return (low, high) if high / low < WIDEST_SHOWN else None

    return bounds


def _noise(cases: Sequence[CaseSummary], name: str) -> Noise | None:
    try:
        return Noise.pooled([_starts(case, name) for case in cases if name in case.metrics])
    except SampleError:
        return None


def _starts(case: CaseSummary, name: str) -> list[Start]:
    return [Start(start.start_id, "current", start.values(name)) for start in case.valid_starts]

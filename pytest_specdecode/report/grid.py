"""One metric of one target's cases as rows and columns: what tables, plots and files show. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ledger import CaseSummary, config_order
from ..model import Outcome, SpecConfig, metric


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a case compares with another. ``ratio`` 1.51: 51% more; ``half_width`` None: unknown."""

    ratio: float
    half_width: float | None = None


Compare = Callable[[CaseSummary, CaseSummary, str], Comparison | None]
"""(case, reference, metric) → how they compare; None where either has no such number."""
Bounds = Callable[[CaseSummary, str], tuple[float, float] | None]
"""(case, metric) → the interval of its value, in the metric's unit; None where it is unknown."""


@dataclass(frozen=True, slots=True)
class Against:
    """Another target of the session, by name, and its case for each of the tested one's."""

    target: str
    of: Callable[[CaseSummary], CaseSummary | None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One case. ``value``: None where it has no valid number; ``gain``: over the reference configuration, or
    over the other target's case."""

    outcome: Outcome | None
    value: float | None = None
    bounds: tuple[float, float] | None = None
    gain: Comparison | None = None
    baseline: float | None = None
    """What it was judged against."""
    measured: bool = True
    """Whether any of its starts is valid."""
    elsewhere: bool = False
    """Whether the reference was measured on another host, so that there is no gain."""

    def as_dict(self) -> dict[str, Any]:
        low, high = self.bounds or (None, None)
        return {
            "outcome": self.outcome.value if self.outcome else None,
            "value": self.value,
            "low": low,
            "high": high,
            "ratio": self.gain.ratio if self.gain else None,
            "half_width": self.gain.half_width if self.gain else None,
            "baseline": self.baseline,
            "elsewhere": self.elsewhere,
        }


@dataclass(frozen=True, slots=True)
class Grid:
    """A row per concurrency, a column per configuration. A pair that was not collected has no cell."""

    target: str
    name: str
    """The metric's."""
    configs: tuple[SpecConfig, ...]
    levels: tuple[int, ...]
    reference: SpecConfig | None
    """The configuration that gains refer to; None where there is but one, or not the one that was named."""
    cells: Mapping[tuple[SpecConfig, int], Cell]
    best: Mapping[int, tuple[SpecConfig, ...]]
    """By concurrency: the best configuration, then those that cannot be told from it."""
    against: str = ""
    """The other target of the session, where gains are over its cases; there is no reference then."""

    def as_dict(self) -> dict[str, Any]:
        """As in ``--spec-json``. ``cells`` and ``configs`` go together, None where there is no such case."""
        table = metric(self.name)
        return {
            "target": self.target,
            "against": self.against or None,
            "metric": self.name,
            "unit": table.unit,
            "higher_is_better": table.higher_is_better,
            "configs": [config.as_dict() for config in self.configs],
            "reference": self.reference.as_dict() if self.reference else None,
            "rows": [
                {
                    "concurrency": level,
                    "cells": [
                        cell.as_dict() if (cell := self.cells.get((config, level))) else None
                        for config in self.configs
                    ],
                    "best": [self.configs.index(config) for config in self.best[level]],
                }
                for level in self.levels
            ],
        }


def grid(
    cases: Sequence[CaseSummary],
    name: str,
    *,
    compare: Compare,
    bounds: Bounds | None = None,
    reference_steps: int | None = None,
    against: Against | None = None,
) -> Grid:
    """The grid of a metric over the cases of one target, of which there is at least one.

    :param reference_steps: of the configuration that gains refer to; None: the one with the fewest.
    :param against: what gains refer to instead, where another target was measured beside it.
    """
    by_place = {(c.case.config, c.case.concurrency): c for c in cases}
    configs = sorted({config for config, _ in by_place}, key=config_order)
    levels = sorted({level for _, level in by_place})
    reference = None if against is not None else _reference(configs, reference_steps)

    def gain(config: SpecConfig, level: int) -> Comparison | None:
        if against is not None:
            case, theirs = by_place[config, level], against.of(by_place[config, level])
            return compare(case, theirs, name) if theirs is not None and name in case.metrics else None
        if reference is None or config == reference or (reference, level) not in by_place:
            return None
        case, other = by_place[config, level], by_place[reference, level]
        return compare(case, other, name) if name in case.metrics else None

    def elsewhere(config: SpecConfig, level: int) -> bool:
        other = by_place.get((reference, level)) if reference is not None else None
        return other is not None and name in other.metrics and other.hosts != by_place[config, level].hosts

    return Grid(
        cases[0].case.target,
        name,
        tuple(configs),
        tuple(levels),
        reference,
        {
            place: _cell(case, name, gain(*place), bounds, elsewhere(*place))
            for place, case in by_place.items()
        },
        {
            level: _best([by_place[c, level] for c in configs if (c, level) in by_place], name, compare)
            for level in levels
        },
        against.target if against is not None else "",
    )


def _cell(
    case: CaseSummary, name: str, gain: Comparison | None, bounds: Bounds | None, elsewhere: bool
) -> Cell:
    value = case.metrics.get(name)
    if value is None:
        return Cell(case.outcome, baseline=case.baseline.get(name), measured=bool(case.valid_starts))
    around = bounds(case, name) if bounds is not None else None
    return Cell(case.outcome, value, around, gain, case.baseline.get(name), elsewhere=elsewhere)


def _reference(configs: Sequence[SpecConfig], steps: int | None) -> SpecConfig | None:
    if len(configs) < 2:
        return None
    named = [c for c in configs if c.steps == steps]
    return named[0] if named else configs[0] if steps is None else None


def _best(cases: Sequence[CaseSummary], name: str, compare: Compare) -> tuple[SpecConfig, ...]:
    """Of one row: the best configuration, then those that cannot be told from it, best first; of several
    hosts, none."""
    sign = 1 if metric(name).higher_is_better else -1
    measured = sorted((c for c in cases if name in c.metrics), key=lambda c: -sign * c.metrics[name])
    if len(measured) < 2 or len({case.hosts for case in measured}) > 1:
        return ()
    best, *others = measured
    alike = [other for other in others if _alike(compare(best, other, name))]
    return tuple(case.case.config for case in (best, *alike))


def _alike(found: Comparison | None) -> bool:
    return found is not None and found.half_width is not None and abs(found.ratio - 1) < found.half_width

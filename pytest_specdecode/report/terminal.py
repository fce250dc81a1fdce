"""The table that people keep by hand, and the line under it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabulate import tabulate

from ..ledger import CaseSummary, Ledger, config_order
from ..model import Outcome, SpecConfig, metric
from .text import case_label, config_labels, duration, number, percent, share, unit_label

if TYPE_CHECKING:
    from ..recording import Written

INDENT = "  "
_ALIGN = ("right", "right", "left")
_ALWAYS = (Outcome.PASS, Outcome.REGRESSED, Outcome.INVALID, Outcome.DIRTY)
_ORDER = (
    Outcome.PASS,
    Outcome.RECORDED,
    Outcome.MEASURED,
    Outcome.REGRESSED,
    Outcome.INCONCLUSIVE,
    Outcome.NO_BASELINE,
    Outcome.INCOMPARABLE,
    Outcome.INVALID,
    Outcome.DIRTY,
    Outcome.BROKEN,
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a case compares with another. ``ratio`` 1.51: 51% more; ``half_width`` None: unknown."""

    ratio: float
    half_width: float | None = None


Compare = Callable[[CaseSummary, CaseSummary, str], Comparison | None]
"""(case, reference, metric) → how they compare; None where either has no such number."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What was measured, in words: ``4 × RTX PRO 6000``, ``sglang 0.5.23``, ``output 512 tok``."""

    target: str
    hardware: str = ""
    engine: str = ""
    workload: str = ""

    def line(self, name: str) -> str:
        place = f"{self.target} on {self.hardware}" if self.hardware else self.target
        return " · ".join(part for part in (place, self.engine, self.workload, unit_label(name)) if part)


def table_lines(
    cases: Sequence[CaseSummary],
    name: str,
    *,
    heading: Heading,
    compare: Compare,
    reference_steps: int | None = None,
    width: int = 120,
) -> list[str]:
    """One metric of all cases: a row per concurrency, a column per configuration.

    Where that is wider than ``width``, a row per case. Empty without cases.
    """
    if not cases:
        return []
    table = _Table(cases, name, compare, reference_steps)
    wide = table.wide()
    lines = wide if max(map(len, wide)) + len(INDENT) <= width else table.narrow()
    return [heading.line(name), *(INDENT + line for line in lines)]


def summary_line(ledger: Ledger) -> str:
    """``PASS 14 · REGRESSED 1 · INVALID 0 · DIRTY 0      3 server starts, 41 min``."""
    counts = ledger.counts
    failed = sum(test.failed for test in ledger.tests if test.outcome is Outcome.MEASURED)
    parts = [
        f"{outcome.value.upper()} {counts[outcome]}"
        + (f" ({failed} failed)" if outcome is Outcome.MEASURED and failed else "")
        for outcome in _ORDER
        if outcome in _ALWAYS or counts[outcome]
    ]
    starts = ledger.server_starts
    primed = " (one thrown away)" if any(start.discarded for start in starts) else ""
    counted = f"{len(starts)} server start{'s' * (len(starts) != 1)}{primed}"
    return f"{' · '.join(parts)}      {counted}, {duration(ledger.seconds)}"


def recorded_lines(written: Sequence[Written]) -> list[str]:
    """What ``--update-baselines`` did with each case: old → new and what that can resolve, or why nothing."""
    return [line for each in written for line in _recorded(each)]


def _recorded(written: Written) -> Iterator[str]:
    label = case_label(written.case)
    if written.refused:
        yield f"not recorded: {label}: {written.refused}"
        return
    figures = []
    for change in written.changes:
        old = "" if change.old is None else f"{number(change.old)} → "
        gain = f" ({percent(change.new / change.old)})" if change.old else ""
        figures.append(f"{change.metric} {old}{number(change.new)} {metric(change.metric).unit}{gain}")
    found = [c.resolvable for c in written.changes if c.resolvable is not None]
    resolves = f"; resolves a regression of {share(max(found))}" if found else ""
    yield f"recorded: {label}: {', '.join(figures)}{resolves}"
    if written.replaced:
        yield f"  replaced what was of something else: {written.replaced}"


class _Table:
    """Cases by configuration and concurrency, and the texts of their cells."""

    def __init__(
        self, cases: Sequence[CaseSummary], name: str, compare: Compare, reference_steps: int | None
    ) -> None:
        self._name = name
        self._compare = functools.cache(
            lambda one, other: compare(self._cases[one], self._cases[other], name)
        )
        self._cases = {(c.case.config, c.case.concurrency): c for c in cases}
        self._configs = sorted({config for config, _ in self._cases}, key=config_order)
        self._levels = sorted({level for _, level in self._cases})
        self._labels = config_labels(self._configs)
        self._reference = self._reference_of(reference_steps)

    def wide(self) -> list[str]:
        """A row per concurrency; per configuration the value, its improvement and how sure that is."""
        columns = [self._column(config) for config in self._configs]
        rows = [
            [str(level), *(text for column in columns for text in column[i]), self._best(level)]
            for i, level in enumerate(self._levels)
        ]
        heads = [
            [self._labels[c], "", ""][: len(col[0])] for c, col in zip(self._configs, columns, strict=True)
        ]
        align = ["left", *(a for col in columns for a in _ALIGN[: len(col[0])]), "left"]
        return _tabulated(rows, ["concurrency", *(text for head in heads for text in head), "best"], align)

    def narrow(self) -> list[str]:
        """A row per case."""
        rows = []
        for level in self._levels:
            best = self._best_labels(level)
            for config in self._configs:
                label = self._labels[config]
                first = str(level) if config == self._configs[0] else ""
                mark = "best" if label in best else ""
                rows.append([first, label, *self._parts(config, level), mark])
        headers = ["concurrency", "", self._name, "", "", ""]
        return _tabulated(rows, headers, ["left", "left", *_ALIGN, "left"])

    def _column(self, config: SpecConfig) -> list[list[str]]:
        """The texts of one configuration by row; what no row has is left out."""
        rows = [self._parts(config, level) for level in self._levels]
        used = max(i + 1 for i in range(3) if i == 0 or any(row[i] for row in rows))
        return [list(row[:used]) for row in rows]

    def _parts(self, config: SpecConfig, level: int) -> tuple[str, str, str]:
        case = self._cases.get((config, level))
        if case is None:
            return "–", "", ""
        value = case.metrics.get(self._name)
        if value is None:
            return (case.outcome.value if case.outcome and not case.valid_starts else "–"), "", ""
        reference = self._reference
        if reference is None or config == reference or (reference, level) not in self._cases:
            return number(value), "", ""
        comparison = self._compare((config, level), (reference, level))
        if comparison is None:
            return number(value), "", ""
        return number(value), percent(comparison.ratio), _plus_minus(comparison.half_width)

    def _reference_of(self, steps: int | None) -> SpecConfig | None:
        """The configuration that improvements refer to: the one with these steps, else with the fewest."""
        if len(self._configs) < 2:
            return None
        named = [c for c in self._configs if c.steps == steps]
        return named[0] if named else self._configs[0] if steps is None else None

    def _best(self, level: int) -> str:
        return " ≈ ".join(label.removeprefix("steps=") for label in self._best_labels(level))

    def _best_labels(self, level: int) -> list[str]:
        """The best configuration at a concurrency, then those that cannot be told from it."""
        sign = 1 if metric(self._name).higher_is_better else -1
        values = {
            config: sign * case.metrics[self._name]
            for config in self._configs
            if (case := self._cases.get((config, level))) and self._name in case.metrics
        }
        if len(values) < 2:
            return []
        best, *others = sorted(values, key=lambda config: -values[config])
        alike = [other for other in others if self._alike((best, level), (other, level))]
        return [self._labels[config] for config in (best, *alike)]

    def _alike(self, best: tuple[SpecConfig, int], other: tuple[SpecConfig, int]) -> bool:
        found = self._compare(best, other)
        return found is not None and found.half_width is not None and abs(found.ratio - 1) < found.half_width


def _plus_minus(half_width: float | None) -> str:
    """Empty where it is unknown, or too wide to mean anything."""
    if half_width is None or half_width >= 10:
        return ""
    return f"±{half_width * 100:.0f}%"


def _tabulated(rows: list[list[str]], headers: list[str], align: list[str]) -> list[str]:
    text = tabulate(rows, headers, tablefmt="plain", disable_numparse=True, colalign=align)
    return [line.rstrip() for line in text.splitlines()]

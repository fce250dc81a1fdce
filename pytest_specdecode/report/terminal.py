"""The table that people keep by hand, and the line under it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabulate import tabulate

from ..ledger import Ledger, TargetRecord
from ..model import Outcome, SpecConfig, metric
from .grid import Grid
from .text import (
    OUTCOMES,
    SHOWN_ALWAYS,
    case_label,
    config_labels,
    duration,
    number,
    percent,
    plus_minus,
    share,
    unit_label,
)

if TYPE_CHECKING:
    from ..recording import Change, Written

INDENT = "  "
_ALIGN = ("right", "right", "left")


@dataclass(frozen=True, slots=True)
class Heading:
    """What was measured, in words: ``4 × RTX PRO 6000``, ``sglang 0.5.23``, ``output 512 tok``."""

    target: str
    hardware: str = ""
    engine: str = ""
    workload: str = ""

    @classmethod
    def of(cls, record: TargetRecord, against: str = "") -> Heading:
        """``against``: the other target of the session."""
        name = f"{record.target} against {against}" if against else record.target
        return cls(name, **record.about)

    def line(self, name: str) -> str:
        place = f"{self.target} on {self.hardware}" if self.hardware else self.target
        return " · ".join(part for part in (place, self.engine, self.workload, unit_label(name)) if part)


def table_lines(grid: Grid, *, heading: Heading, width: int = 120) -> list[str]:
    """A row per concurrency, a column per configuration; where that is wider than ``width``: per case."""
    table = _Table(grid)
    wide = table.wide()
    lines = wide if max(map(len, wide)) + len(INDENT) <= width else table.narrow()
    return [heading.line(grid.name), *(INDENT + line for line in lines)]


def summary_line(ledger: Ledger) -> str:
    """``PASS 14 · REGRESSED 1 · INVALID 0 · DIRTY 0      3 server starts, 41 min``."""
    counts = ledger.counts
    failed = sum(test.failed for test in ledger.tests if test.outcome is Outcome.MEASURED)
    parts = [
        f"{outcome.value.upper()} {counts[outcome]}"
        + (f" ({failed} failed)" if outcome is Outcome.MEASURED and failed else "")
        for outcome in OUTCOMES
        if outcome in SHOWN_ALWAYS or counts[outcome]
    ]
    starts = ledger.server_starts
    primed = " (one thrown away)" if any(start.discarded for start in starts) else ""
    counted = f"{len(starts)} server start{'s' * (len(starts) != 1)}{primed}"
    return f"{' · '.join(parts)}      {counted}, {duration(ledger.seconds)}"


def recorded_lines(written: Sequence[Written]) -> list[str]:
    """What ``--update-baselines`` did with each case: old → new and what that can resolve, or why nothing.

    At the end what to do about baselines that cannot show a loss of the tolerance.
    """
    lines = [line for each in written for line in _recorded(each)]
    recorded = [each for each in written if each.changes]
    short = [each for each in recorded if any(change.enough is False for change in each.changes)]
    if short:
        lines.append(
            f"{len(short)} of {len(recorded)} recorded cases cannot show a loss of the tolerance: unchanged "
            "ones and smaller losses may end inconclusive; record more restarts (--spec-restarts) or nights "
            "(--spec-extend-baselines), or widen the tolerance"
        )
    return lines


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
    yield f"recorded: {label}: {', '.join(figures)}{_resolves(written.changes)}"
    if written.replaced:
        yield f"  replaced what was of something else: {written.replaced}"


def _resolves(changes: Sequence[Change]) -> str:
    """The smallest regression that each metric's baseline can show, beside the tolerance of its gate."""
    found = []
    for change in changes:
        if change.resolvable is not None:
            name = f"{change.metric} " if len(changes) > 1 else ""
            than = ": enough for" if change.enough else ", more than"
            found.append(f"{name}{share(change.resolvable)}{than} the tolerance of {share(change.tolerance)}")
    return f"; resolves {'; '.join(found)}" if found else ""


class _Table:
    """The texts of a grid's cells."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._labels = config_labels(grid.configs)

    def wide(self) -> list[str]:
        """A row per concurrency; per configuration the value, its improvement and how sure that is."""
        columns = [self._column(config) for config in self._grid.configs]
        rows = [
            [str(level), *(text for column in columns for text in column[i]), self._best(level)]
            for i, level in enumerate(self._grid.levels)
        ]
        heads = [
            [self._labels[c], "", ""][: len(col[0])]
            for c, col in zip(self._grid.configs, columns, strict=True)
        ]
        align = ["left", *(a for col in columns for a in _ALIGN[: len(col[0])]), "left"]
        return tabulated(rows, ["concurrency", *(text for head in heads for text in head), "best"], align)

    def narrow(self) -> list[str]:
        """A row per case."""
        rows = []
        for level in self._grid.levels:
            for config in self._grid.configs:
                first = str(level) if config == self._grid.configs[0] else ""
                mark = "best" if config in self._grid.best[level] else ""
                rows.append([first, self._labels[config], *self._parts(config, level), mark])
        headers = ["concurrency", "", self._grid.name, "", "", ""]
        return tabulated(rows, headers, ["left", "left", *_ALIGN, "left"])

    def _column(self, config: SpecConfig) -> list[list[str]]:
        """The texts of one configuration by row; what no row has is left out."""
        rows = [self._parts(config, level) for level in self._grid.levels]
        used = max(i + 1 for i in range(3) if i == 0 or any(row[i] for row in rows))
        return [list(row[:used]) for row in rows]

    def _parts(self, config: SpecConfig, level: int) -> tuple[str, str, str]:
        cell = self._grid.cells.get((config, level))
        if cell is None:
            return "–", "", ""
        if cell.value is None:
            return (cell.outcome.value if cell.outcome and not cell.measured else "–"), "", ""
        if cell.gain is None:
            return number(cell.value), "–" if cell.elsewhere else "", ""
        return number(cell.value), percent(cell.gain.ratio), plus_minus(cell.gain.half_width)

    def _best(self, level: int) -> str:
        return " ≈ ".join(self._labels[c].removeprefix("steps=") for c in self._grid.best[level])


def tabulated(rows: list[list[str]], headers: list[str], align: list[str]) -> list[str]:
    """Lines of a plain table, texts as they are. ``align``: left or right, by column."""
    text = tabulate(rows, headers, tablefmt="plain", disable_numparse=True, colalign=align)
    return [line.rstrip() for line in text.splitlines()]

"""The study's tables, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from scipy import special
from tabulate import tabulate

from .sessions import Rates

BEGIN, END = "<!-- study: begin -->", "<!-- study: end -->"


def upper(alarms: int, sessions: int) -> float:
    """Upper 95% bound of a rate seen ``alarms`` times (Clopper & Pearson, Biometrika 26, 1934; one-sided)."""
    return float(special.betaincinv(alarms + 1, sessions - alarms, 0.95)) if alarms < sessions else 1.0


def verdict_table(rows: Iterable[tuple[str, Rates]]) -> str:
    heads = ["population", "false alarm", "≤", "inconclusive", "−5% passed", "−5% caught", "starts", "at −5%"]
    cells = [
        [
            name,
            f"{r.alarm:.2%}",
            f"{upper(r.alarms, r.sessions):.2%}",
            f"{r.open:.1%}",
            f"{r.passed:.2%}",
            f"{r.caught:.1%}",
            f"{r.starts:.2f}",
            f"{r.slow_starts:.2f}",
        ]
        for name, r in rows
    ]
    return tabulate(cells, heads, "github", disable_numparse=True)


def loss_table(rows: Iterable[tuple[float, Rates]]) -> str:
    """What becomes of cases by how much slower they truly are."""
    heads = ["true loss", "pass", "inconclusive", "regressed", "starts"]
    cells = [
        [
            f"{loss:.0%}",
            f"{r.passed:.1%}",
            f"{1 - r.passed - r.caught:.1%}",
            f"{r.caught:.1%}",
            f"{r.slow_starts:.2f}",
        ]
        for loss, r in rows
    ]
    return tabulate(cells, heads, "github", disable_numparse=True)


def rival_table(rows: Iterable[tuple[str, Rates, Mapping[str, Rates]]]) -> str:
    """False alarms (sessions) / −5% passed (cases), method by method."""
    listed = list(rows)
    heads = ["population", "this verdict", *listed[0][2]]
    cells = [
        [name, *(f"{r.alarm:.1%} / {r.passed:.1%}" for r in (ours, *others.values()))]
        for name, ours, others in listed
    ]
    return tabulate(cells, heads, "github", disable_numparse=True)


def write(path: Path, text: str) -> None:
    """Replace what stands between the two marks of ``path``."""
    head, rest = path.read_text(encoding="utf-8").split(BEGIN)
    tail = rest.split(END)[1]
    path.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")

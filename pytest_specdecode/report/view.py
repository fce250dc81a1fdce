"""The plain data of ``--spec-json`` as people read it: texts for pages and pull requests. Pure.

It reads what a file holds and computes no figure anew; a key that an older file lacks leaves its part out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ConfigError
from ..model import Case, Outcome, SpecConfig
from .messages import FLOOR, PARTS, case_command, record_command
from .text import (
    OUTCOMES,
    SHOWN_ALWAYS,
    case_label,
    config_labels,
    duration,
    number,
    percent,
    plus_minus,
    unit_label,
)

Plain = Mapping[str, Any]

FINE = frozenset({Outcome.PASS, Outcome.RECORDED, Outcome.MEASURED})
RECORD = frozenset({Outcome.NO_BASELINE, Outcome.INCOMPARABLE})
"""Outcomes that a recording ends."""

_UNPRINTABLE = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127, *range(0xD800, 0xE000)], "\ufffd")
"""Characters that a page may not hold: control characters, and halves of a pair that cannot be encoded."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table. ``ratio`` None: it compares with nothing; ``sure``: told from 1."""

    text: str
    change: str = ""
    spread: str = ""
    ratio: float | None = None
    sure: bool = False
    best: bool = False
    outcome: str = ""
    case: str = ""
    """Label of the case, ``qwen steps=2 c=16``."""

    @property
    def flag(self) -> str:
        """The outcome, where it must be said beside the number."""
        return "" if self.outcome in (*FINE, "", self.text) else self.outcome


@dataclass(frozen=True, slots=True)
class Table:
    """``rows``: concurrency, a cell per label, and the best in words."""

    target: str
    metric: str
    unit: str
    labels: tuple[str, ...]
    reference: str
    rows: tuple[tuple[int, tuple[Cell, ...], str], ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """One verdict of a test, in words. ``old`` and ``now`` empty where unknown."""

    metric: str
    outcome: str
    old: str
    now: str
    ratio: float
    low: float | None
    high: float | None
    reason: str

    @property
    def bound(self) -> bool:
        """Whether it was judged against a floor or ceiling, not a baseline."""
        return self.metric.endswith(FLOOR)

    @property
    def stem(self) -> str:
        return self.metric.removesuffix(FLOOR)

    @property
    def interval(self) -> str:
        ends = ("…" if end is None else f"{end:.3f}" for end in (self.low, self.high))
        return "{} to {}".format(*ends)


@dataclass(frozen=True, slots=True)
class Problem:
    """A test that did not end well: what it says, and the commands that follow from it."""

    test: str
    case: str
    outcome: Outcome
    reason: str
    verdicts: tuple[Judged, ...]
    why: tuple[str, ...]
    since: str
    reproduce: str
    record: str
    line: int | None

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]

    @property
    def gist(self) -> str:
        """In one line: the largest loss of a regression, else the reason's first line."""
        lost = [v for v in self.verdicts if v.outcome == "regressed"]
        if self.outcome is not Outcome.REGRESSED or not lost:
            return self.reason.partition("\n")[0] or self.outcome
        worst = min(lost, key=lambda v: v.ratio)
        moved = f", {worst.old} → {worst.now}" if worst.old else ""
        against = "its bound" if worst.bound else "the baseline"
        return f"{worst.stem} {percent(worst.ratio)}{moved} ({worst.interval} of {against})"


def config_of(plain: Plain) -> SpecConfig:
    return SpecConfig.from_dict(plain)


def case_of(plain: Plain) -> Case:
    """The case that ``plain`` (of ``cases``) tells of."""
    return Case(str(plain.get("target", "")), config_of(plain["config"]), int(plain["concurrency"]))


def case_name(plain: Plain, labels: Mapping[SpecConfig, str]) -> str:
    """``qwen steps=2 c=16``, with what else tells its configuration from the run's others."""
    case = case_of(plain)
    return f"{case.target} {labels.get(case.config) or case_label(case)} c={case.concurrency}".strip()


def labels_of(data: Plain) -> dict[SpecConfig, str]:
    """A short label for each configuration of the run."""
    return config_labels(config_of(case["config"]) for case in data.get("cases", ()))


def headings(data: Plain) -> list[str]:
    """One line for each target: name, hardware, engine and workload; first the tested one."""
    described = data.get("targets") or [{"target": data.get("target", ""), "machine": data.get("machine")}]
    lines = {each["target"]: _heading(each) for each in described}
    other = data.get("against")
    if other in lines:
        lines[other] = f"the baseline, measured in the same session: {lines.pop(other)}"
    return list(lines.values())


def subject(data: Plain) -> str:
    """What was measured, by name: ``new``, or ``new against old``."""
    return " against ".join(str(name) for name in (data.get("target"), data.get("against")) if name)


def _heading(described: Plain) -> str:
    about = described.get("about") or {}
    place = about.get("hardware") or described.get("machine") or ""
    name = f"{described['target']} on {place}" if place else str(described["target"])
    return " · ".join(part for part in (name, about.get("engine"), about.get("workload")) if part)


def counts(data: Plain) -> list[tuple[Outcome, int]]:
    """Tests by outcome; the four that matter always."""
    summary = data.get("summary") or {}
    found = [(outcome, int(summary.get(outcome.value) or 0)) for outcome in OUTCOMES]
    return [(outcome, n) for outcome, n in found if n or outcome in SHOWN_ALWAYS]


def took(data: Plain) -> str:
    """``3 server starts, 41 min``."""
    summary = data.get("summary") or {}
    starts = int(summary.get("starts") or 0)
    return f"{starts} server start{'s' * (starts != 1)}, {duration(summary.get('seconds') or 0)}"


def tables(data: Plain) -> list[Table]:
    """The tables that people keep by hand; without any in the file, none."""
    labels = labels_of(data)
    return [_table(plain, labels) for plain in data.get("tables", ())]


def _table(plain: Plain, labels: Mapping[SpecConfig, str]) -> Table:
    configs = [config_of(config) for config in plain["configs"]]
    named = {**config_labels(configs), **{c: labels[c] for c in configs if c in labels}}
    heads = tuple(named[config] for config in configs)
    reference = plain.get("reference")
    return Table(
        target=plain["target"],
        metric=plain["metric"],
        unit=_unit(plain["metric"]),
        labels=heads,
        reference=named[config_of(reference)] if reference else "",
        rows=tuple(
            (
                row["concurrency"],
                tuple(
                    _cell(
                        cell, best=i in row["best"], case=f"{plain['target']} {head} c={row['concurrency']}"
                    )
                    for i, (cell, head) in enumerate(zip(row["cells"], heads, strict=True))
                ),
                " ≈ ".join(heads[i].removeprefix("steps=") for i in row["best"]),
            )
            for row in plain["rows"]
        ),
    )


def _cell(cell: Plain | None, *, best: bool, case: str) -> Cell:
    if cell is None:
        return Cell("–")
    outcome, value, ratio = cell.get("outcome") or "", cell.get("value"), cell.get("ratio")
    if value is None:
        return Cell(outcome or "–", outcome=outcome, case=case)
    half = cell.get("half_width")
    return Cell(
        number(value),
        percent(ratio) if ratio is not None else "–" if cell.get("elsewhere") else "",
        plus_minus(half) if ratio is not None else "",
        ratio,
        ratio is not None and half is not None and abs(ratio - 1) > half,
        best,
        outcome,
        case,
    )


def problems(data: Plain) -> list[Problem]:
    """Every test that did not end well, the worst first; failed asserts of people's own tests too."""
    found = list(_problems(data))
    return sorted(found, key=lambda p: -p.outcome.rank)


def _problems(data: Plain) -> Iterator[Problem]:
    labels, args = labels_of(data), list(data.get("args") or ())
    for case in data.get("cases", ()):
        for test in case.get("tests", ()):
            if _bad(test):
                found = _problem(test, case, labels, args)
                yield replace(found, record="") if data.get("against") else found
    for test in data.get("tests", ()):
        if _bad(test):
            yield _problem(test, None, labels, args)


def _bad(test: Plain) -> bool:
    return bool(test.get("failed")) or Outcome(test["outcome"]) not in FINE


def _problem(test: Plain, case: Plain | None, labels: Mapping[SpecConfig, str], args: list[str]) -> Problem:
    outcome = Outcome(test["outcome"])
    regressed, verdicts = outcome is Outcome.REGRESSED, judged(test, case or {})
    lost = min((v for v in verdicts if v.outcome == "regressed"), key=lambda v: v.ratio, default=None)
    recordable = outcome in RECORD or (regressed and lost is not None and not lost.bound)
    accept = " --spec-accept-slower" * regressed
    why = (case or {}).get("why") or {} if regressed else {}
    return Problem(
        test=test["id"],
        case=case_name(case, labels) if case else "",
        outcome=outcome,
        reason=test.get("reason") or "",
        verdicts=verdicts,
        why=tuple(why_lines(why)),
        since=since(why, verdicts) if regressed else "",
        reproduce=case_command(case_of(case), args) if case else "",
        record=record_command(case_of(case), args) + accept if case and recordable else "",
        line=test.get("line"),
    )


def judged(test: Plain, case: Plain) -> tuple[Judged, ...]:
    """The verdicts of a test, with the numbers behind them."""
    return tuple(_judged(name, verdict, case) for name, verdict in (test.get("verdicts") or {}).items())


def _judged(name: str, verdict: Plain, case: Plain) -> Judged:
    stem = name.removesuffix(FLOOR)
    now = (case.get("metrics") or {}).get(stem)
    old = (case.get("baseline") or {}).get(stem) if name == stem else None
    return Judged(
        name,
        verdict["outcome"],
        number(old) if old is not None else "",
        number(now) if now is not None else "",
        verdict["ratio"],
        verdict.get("low"),
        verdict.get("high"),
        verdict.get("reason") or "",
    )


def since(why: Plain, verdicts: Iterable[Judged]) -> str:
    """What changed since the baseline of a regressed case; empty where only a floor was missed."""
    changes = ", ".join(why.get("changes") or ())
    return changes or "nothing that is recorded has changed" * any(not v.bound for v in verdicts)


def why_lines(why: Plain) -> list[str]:
    """What a regression lost: a line for each part of the time per token."""
    lines = []
    for name, (label, _unit_text, meaning) in PARTS.items():
        part = why.get(name)
        if part is None:
            continue
        change = part.get("change", "")
        says = f": {meaning}" if change == "worse" else f" ({change})" if change else ""
        size = f"{percent(part['ratio'])} ({percent(part['low'])} to {percent(part['high'])})"
        lines.append(f"{label} {size}{says}")
    if lines and why.get("time_per_token"):
        lines.insert(0, f"decode time per token {percent(why['time_per_token'])}")
    return lines


def _unit(name: str) -> str:
    try:
        return unit_label(name)
    except ConfigError:  # of a later version
        return name


def alike(found: Sequence[Problem]) -> list[tuple[Problem, ...]]:
    """Problems that say the same, together; a regression stays by itself."""
    groups: dict[object, list[Problem]] = {}
    for problem in found:
        same = (problem.outcome, problem.reason, problem.test)
        key = problem if problem.outcome is Outcome.REGRESSED else same
        groups.setdefault(key, []).append(problem)
    return [tuple(group) for group in groups.values()]


def printable(value: Any) -> Any:
    """Plain data whose texts hold nothing that a page or a terminal stumbles over."""
    if isinstance(value, str):
        return value.translate(_UNPRINTABLE)
    if isinstance(value, Mapping):
        return {printable(name): printable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [printable(inner) for inner in value]
    return value

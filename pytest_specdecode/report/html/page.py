"""The page put together: plain data → view → template."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, Template
from markupsafe import Markup

from ...ledger import config_order
from ...model import SpecConfig
from .. import view
from ..text import config_labels, duration, number, percent
from ..view import Plain
from . import plots, svg
from .timeline import timeline

_HEAT_STEPS = (0.03, 0.1, 0.25, 0.5)
"""Changes (of the ratio's logarithm) from which a cell is tinted one degree deeper."""


@dataclass(frozen=True, slots=True)
class Target:
    """All of one target. ``against``: by metric, a row per concurrency of verdicts by configuration."""

    name: str
    labels: tuple[str, ...]
    tables: tuple[view.Table, ...]
    plots: tuple[plots.Plot, ...]
    against: tuple[tuple[str, list[tuple[int, list[Plain | None]]]], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One case, for the list of all of them.

    ``columns``: metrics of its rounds; ``rounds``: (start, number, values by column, reasons).
    """

    name: str
    outcome: str
    value: str
    tests: tuple[tuple[Plain, tuple[view.Judged, ...]], ...]
    why: tuple[str, ...]
    since: str
    columns: tuple[str, ...]
    summary: tuple[str, ...]
    stored: tuple[str, ...]
    rounds: tuple[tuple[str, int, tuple[str, ...], str], ...]


def render_html(data: Mapping[str, Any]) -> str:
    """The page of a report.

    :param data: what ``--spec-json`` writes, of this version or an earlier one; keys may be absent.
    """
    data = view.printable(data)
    labels = view.labels_of(data)
    problems = view.problems(data)
    audit = data.get("audit") or ()
    return _template().render(
        title=_title(data),
        headings=view.headings(data),
        began=_began(data),
        took=view.took(data),
        counts=view.counts(data),
        groups=view.alike(problems),
        targets=[_target(name, data) for name in _names(data)],
        timeline=timeline(data, labels),
        cases=[_case(case, labels) for case in data.get("cases", ())],
        anchors=_anchors(data, labels),
        session_tests=data.get("tests") or (),
        described=_described(data),
        starts=data.get("starts") or (),
        start_labels=labels,
        audit=audit,
        killed=sum(len(command.get("killed") or ()) for command in audit),
        css=Markup(files(__package__).joinpath("page.css").read_text("utf-8")),  # noqa: S704  (our own file)
    )


@functools.cache
def _template() -> Template:
    env = Environment(
        loader=PackageLoader("pytest_specdecode.report.html", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "number": number,
        "percent": percent,
        "duration": duration,
        "swatch": svg.swatch,
        "heat": heat,
        "json": lambda value: json.dumps(value, indent=1, ensure_ascii=False, default=str),
        "config": view.config_of,
        "command": lambda argv: " ".join(map(str, argv)),
        "clock": lambda at: str(at)[11:23],
    }
    return env.get_template("page.html.jinja")


def heat(ratio: float | None, sure: bool) -> str:
    """A cell's tint: ``up1`` … ``up4``, ``down1`` …; empty where nothing is shown."""
    if ratio is None or not sure or ratio <= 0:
        return ""
    size = abs(math.log(ratio))
    degree = sum(size >= math.log1p(step) for step in _HEAT_STEPS)
    return f"{'up' if ratio > 1 else 'down'}{degree}" if degree else ""


def _title(data: Plain) -> str:
    return f"{view.subject(data) or 'specdecode'} on {data.get('machine') or 'an unknown machine'}"


def _began(data: Plain) -> str:
    """The date of the run, as far as the file tells."""
    described = [*(data.get("targets") or ()), data]
    dates = [date for each in described if (date := (each.get("context") or {}).get("date"))]
    return str(dates[0]).replace("T", " ").replace("+00:00", " UTC") if dates else ""


def _names(data: Plain) -> list[str]:
    """Targets that have cases, in their order."""
    return list(dict.fromkeys(str(case.get("target", "")) for case in data.get("cases", ())))


def _target(name: str, data: Plain) -> Target:
    cases = [case for case in data.get("cases", ()) if case.get("target", "") == name]
    tables = [table for table in data.get("tables", ()) if table["target"] == name]
    plain = [*(case["config"] for case in cases), *(c for table in tables for c in table["configs"])]
    labels = config_labels(sorted({view.config_of(config) for config in plain}, key=config_order))
    drawn = [
        *(plots.throughput(table, labels) for table in tables),
        plots.acceptance(cases, labels),
        plots.step_time(cases, labels),
    ]
    metrics = dict.fromkeys(
        m for case in cases for t in case.get("tests", ()) for m in t.get("verdicts") or {}
    )
    return Target(
        name,
        tuple(labels.values()),
        tuple(table for table in view.tables(data) if table.target == name),
        tuple(plot for plot in drawn if plot is not None),
        tuple((metric, plots.against_baseline(cases, labels, metric)) for metric in metrics),
    )


def _case(case: Plain, labels: Mapping[SpecConfig, str]) -> Case:
    metrics, baseline = case.get("metrics") or {}, case.get("baseline") or {}
    why = case.get("why") or {}
    rounds = [
        (start["id"], i, r) for start in case.get("starts", ()) for i, r in enumerate(start["rounds"], 1)
    ]
    columns = tuple(dict.fromkeys([*metrics, *(name for _, _, r in rounds for name in r["metrics"])]))
    first = next(iter(metrics), None)
    tests = tuple((test, view.judged(test, case)) for test in case.get("tests", ()))
    return Case(
        name=view.case_name(case, labels),
        outcome=case.get("outcome") or "not judged",
        value=f"{number(metrics[first])} {first}" if first else "",
        tests=tests,
        why=tuple(view.why_lines(why)),
        since=view.since(why, [v for _, judged in tests for v in judged]) if why else "",
        columns=columns,
        summary=_numbers(metrics, columns),
        stored=_numbers(baseline, columns) if baseline else (),
        rounds=tuple(
            (start, i, _numbers(r["metrics"], columns), "; ".join(r.get("reasons") or ()))
            for start, i, r in rounds
        ),
    )


def _numbers(values: Plain, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple("–" if (v := values.get(name)) is None else number(v) for name in columns)


def _anchors(data: Plain, labels: Mapping[SpecConfig, str]) -> dict[str, str]:
    """By a case's name, where on the page it is."""
    return {view.case_name(case, labels): f"case-{i}" for i, case in enumerate(data.get("cases", ()), 1)}


def _described(data: Plain) -> list[tuple[str, Plain, Plain]]:
    """(target, identity, context) of each target."""
    found = data.get("targets") or [data]
    return [(e.get("target", ""), e.get("identity") or {}, e.get("context") or {}) for e in found]

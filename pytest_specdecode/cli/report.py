"""``specdecode report``: a stored report as people read it."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..ledger import TargetRecord
from ..report.compare import bounder, comparer
from ..report.grid import grid
from ..report.output import write_file
from ..report.reading import StoredReport, TableOf, read_report
from ..report.terminal import Heading, summary_line, table_lines
from .project import say_lines

Render = Callable[[Mapping[str, Any]], str]
_NO_REFERENCE = -1
"""Steps that no configuration has."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("report", metavar="REPORT", type=Path, help="what --spec-json wrote")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write it as one self-contained page")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write it as markdown")


def run(args: argparse.Namespace) -> int:
    stored = read_report(args.report)
    if args.html is None and args.markdown is None:
        say_lines(terminal(stored, shutil.get_terminal_size((120, 24)).columns))
        return 0
    for option, file, renderer in (
        ("--html", args.html, _html),
        ("--markdown", args.markdown, _markdown),
    ):
        if file is not None:
            write_file(option, file, _rendered(renderer(), stored))
    return 0


def _rendered(render: Render, stored: StoredReport) -> str:
    """:raises ConfigError: when something in it is not what a run writes there."""
    try:
        return render(stored.plain)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{stored.path}: cannot be shown ({error}); is it, unchanged, what --spec-json wrote?"
        ) from error


def terminal(stored: StoredReport, width: int) -> Iterator[str]:
    """What the run showed at its end."""
    ledger = stored.ledger
    shown = stored.tables or (TableOf(stored.target, "tok_s", _NO_REFERENCE),)
    for table in shown:
        cases = [case for case in ledger.cases if case.case.target == table.target]
        if not any(case.valid_starts for case in cases):
            continue
        steps = _NO_REFERENCE if table.reference_steps is None else table.reference_steps
        made = grid(
            cases,
            table.metric,
            compare=comparer(cases, table.metric),
            bounds=bounder(cases, table.metric),
            reference_steps=steps,
        )
        heading = Heading.of(ledger.targets.get(table.target, TargetRecord(table.target, "")))
        yield from table_lines(made, heading=heading, width=width)
        yield ""
    yield summary_line(ledger)


def _html() -> Render:
    from ..report.html import render_html  # noqa: PLC0415  (Jinja2)

    return render_html


def _markdown() -> Render:
    from ..report.markdown import render_markdown  # noqa: PLC0415  (only where it is asked for)

    return render_markdown

"""``specdecode baseline``: what is stored, and what people write into it: floors and notes."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..baselineedit import Wanted, edit, stored_label, with_floors, with_note
from ..baselinefile import BaselineFile, read_file
from ..baselineview import Row, rows
from ..config import Gate as GateTable
from ..config import load_targets
from ..errors import BaselineError, ConfigError
from ..gating import Gate
from ..model import metric
from ..report.terminal import tabulated
from ..report.text import number, share
from .project import Project, add_files, say_lines


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="what is stored, and what it can show")
    show.add_argument(
        "which", nargs="?", metavar="FILE|TARGET", help="a file, TARGET@MACHINE or TARGET (default: all)"
    )
    add_files(show)
    floor = actions.add_parser("floor", help="write, change or remove hand-written floors of a stored case")
    _add_case(floor)
    floor.add_argument(
        "floors",
        nargs="+",
        metavar="METRIC=VALUE",
        help="a floor, or a ceiling where lower is better; METRIC= removes it",
    )
    floor.add_argument(
        "--remove", action="store_true", help="remove the floors of the metrics that are named"
    )
    note = actions.add_parser("note", help="write, change or remove the note of a stored case")
    _add_case(note)
    note.add_argument("text", help='the note; "" removes it')


def _add_case(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("which", metavar="FILE|TARGET@MACHINE", help="the baseline file")
    parser.add_argument("--steps", type=_whole(0), required=True, help="of the case; 0 is no speculation")
    parser.add_argument("--concurrency", type=_whole(1), required=True, help="of the case")
    parser.add_argument("--algorithm", help="where several cases have as many steps")
    parser.add_argument("--topk", type=_whole(1), help="likewise")
    parser.add_argument("--draft-tokens", type=_whole(1), help="likewise")
    parser.add_argument(
        "--new", action="store_true", help="where no such case is stored, write one: its floor alone gates it"
    )
    add_files(parser)


def _whole(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return whole


def run(args: argparse.Namespace) -> int:
    say_lines({"show": _show, "floor": _floor, "note": _note}[args.action](args, Project.of(args)))
    return 0


# -- show ------------------------------------------------------------------------------------------------


def _show(args: argparse.Namespace, project: Project) -> Iterator[str]:
    gates = {name: table.gate for name, table in _targets(project).items()}
    for place, path in enumerate(_paths(args.which, project)):
        file = read_file(path)
        yield from ([""] if place else [])
        yield from shown(path, file, gates.get(file.target, GateTable()))


def _targets(project: Project) -> dict[str, Any]:
    return dict(load_targets(project.file)) if project.file is not None else {}


def _paths(which: str | None, project: Project) -> list[Path]:
    """The files that are meant.

    :raises BaselineError: when there is none.
    """
    if which is not None and (which.endswith(".json") or "@" in which):
        path = _path(which, project)
        if not path.is_file():
            raise BaselineError(f"{path}: there is no such file")
        return [path]
    found = sorted(project.baselines.glob(f"{which or '*'}@*.json"))
    if not found:
        of = f" of target {which!r}" if which else ""
        raise BaselineError(f"{project.baselines} holds no baselines{of}; pytest --update-baselines records")
    return found


def _path(which: str, project: Project) -> Path:
    return Path(which) if which.endswith(".json") else project.baselines / f"{which}.json"


def shown(path: Path, file: BaselineFile, table: GateTable) -> Iterator[str]:
    """A file's cases as a table, then its notes."""
    gate = Gate.of(table, None)
    yield f"{file.target} on {file.machine} ({path})"
    texts = []
    last = None
    for row in rows(file, gate, table.restarts):
        texts.append([stored_label(row.case) if row.case is not last else "", *_cells(row)])
        last = row.case
    heads = ["case", "metric", "stored", "starts", "sessions", "nights", "resolves", "floor"]
    align = ["left", "left", "right", "right", "right", "right", "right", "right"]
    yield from (f"  {line}" for line in tabulated(texts, heads, align))
    yield from (f"  note: {stored_label(case)}: {case.note}" for case in file.cases if case.note)
    starts = f"{table.restarts} server start{'s' * (table.restarts != 1)}"
    tolerated = share(gate.tolerance)
    yield f"  resolves: the smallest loss that {starts} would show; the gate tolerates {tolerated}"


def _cells(row: Row) -> list[str]:
    if row.value is None:
        return [row.metric, "–", "", "", "", "", _number(row.floor)]
    counts = [str(n) for n in (row.starts, row.sessions, row.nights)]
    resolves = "unknown" if row.resolvable is None else share(row.resolvable)
    return [row.metric, number(row.value), *counts, resolves, _number(row.floor)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


# -- floor, note -----------------------------------------------------------------------------------------


def _floor(args: argparse.Namespace, project: Project) -> Iterator[str]:
    floors = dict(_assignment(text, remove=args.remove) for text in args.floors)
    path = _path(args.which, project)
    done = edit(path, _wanted(args), lambda case: with_floors(case, floors), add=args.new)
    for name in floors:
        old, new = (_number(case.floor.get(name)) or "none" for case in (done.old, done.new))
        yield f"{path}: {stored_label(done.new)}: floor of {name}: {old} → {new}"


def _note(args: argparse.Namespace, project: Project) -> Iterator[str]:
    path = _path(args.which, project)
    done = edit(path, _wanted(args), lambda case: with_note(case, args.text), add=args.new)
    yield f"{path}: {stored_label(done.new)}: note: {done.old.note or 'none'} → {done.new.note or 'none'}"


def _wanted(args: argparse.Namespace) -> Wanted:
    keys = ("steps", "algorithm", "topk", "draft_tokens")
    given = {name: value for name in keys if (value := getattr(args, name)) is not None}
    return Wanted(args.concurrency, given)


def _assignment(text: str, *, remove: bool) -> tuple[str, float | None]:
    """``tok_s=180``: metric and floor; ``tok_s=``, or with ``remove`` ``tok_s``: None.

    :raises ConfigError: for an unknown metric, or a value that is no floor.
    """
    name, equals, value = text.partition("=")
    metric(name)
    if remove and not value:
        return name, None
    if remove or not equals:
        what = "--remove takes the metric alone" if remove else "METRIC=VALUE is expected"
        raise ConfigError(f"{text!r}: {what}, such as {name}{'' if remove else '=180'}")
    if not value:
        return name, None
    try:
        floor = float(value)
    except ValueError:
        floor = math.nan
    if not (math.isfinite(floor) and floor > 0):
        raise ConfigError(f"{text!r}: {value!r} is not a number above 0")
    return name, floor

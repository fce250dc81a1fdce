"""``specdecode compare``: one run judged against another, by the rules of a gate."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..comparing import Compared, RunComparison, Side, compare_runs
from ..config import Gate as GateTable
from ..errors import ConfigError
from ..exitstatus import exit_status
from ..gating import Gate
from ..model import Case, Outcome, metric
from ..report.messages import Background, why_lines
from ..report.reading import StoredReport, read_report
from ..report.terminal import tabulated
from ..report.text import case_label, config_labels, number, percent
from ..units import ratio
from .project import say_lines

SCHEMA = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    default = GateTable()
    parser.add_argument(
        "now", metavar="RUN", type=Path, help="the run that is judged: what --spec-json wrote"
    )
    parser.add_argument("then", metavar="BASELINE", type=Path, help="the run that it is compared with")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        type=_checked(lambda text: metric(text).name),
        help="what is compared (default: tok_s); several times: the worst decides",
    )
    for name, meaning in (
        ("tolerance", "a case passes once it is shown not to be worse by this or more"),
        ("margin", "a case has regressed only if it is shown to be worse by more than this"),
    ):
        value = getattr(default, name)
        parser.add_argument(
            f"--{name}",
            metavar="SHARE",
            type=_checked(ratio),
            default=value,
            help=f"{meaning} (default: {value * 100:g}%%)",
        )
    parser.add_argument(
        "--confidence",
        metavar="P",
        type=float,
        default=default.confidence,
        help=f"one minus the chance of a false alarm over all cases (default: {default.confidence:g})",
    )
    parser.add_argument(
        "--common", action="store_true", help="it does not matter that RUN lacks cases of BASELINE"
    )
    parser.add_argument("--json", action="store_true", help="write the comparison as JSON")


def _checked(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def checked(text: str) -> Any:
        try:
            return parse(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def run(args: argparse.Namespace) -> int:
    now, then = read_report(args.now), read_report(args.then)
    names = tuple(dict.fromkeys(args.metric or (GateTable().metric,)))
    gate = Gate(names, float(args.tolerance), float(args.margin), args.confidence)
    if gate.margin > gate.tolerance:
        raise ConfigError(f"--margin {gate.margin:.1%} is more than --tolerance {gate.tolerance:.1%}")
    found = compare_runs(_side(now), _side(then), gate)
    status = ending(found, common=args.common)
    if args.json:
        say_lines([json.dumps(_plain(now, then, found, status), indent=2, ensure_ascii=False)])
    else:
        say_lines(lines(now, then, found, gate))
    return status


def ending(found: RunComparison, *, common: bool = False) -> int:
    """0 all pass; 1 something regressed; 10 something has no number; 11 undecided, nothing in common, or,
    unless only ``common`` cases matter, a case of the second run is missing in the first."""
    failed = [case.outcome for case in found.cases if case.outcome is not Outcome.PASS]
    if not found.cases or (found.only_then and not common):
        failed.append(Outcome.INCOMPARABLE)
    return exit_status(failed, measured=True)


def _side(stored: StoredReport) -> Side:
    cases = [case for case in stored.ledger.cases if case.case.target == stored.target]
    return Side(cases, stored.identity, stored.context)


def _plain(now: StoredReport, then: StoredReport, found: RunComparison, status: int) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "run": str(now.path),
        "baseline": str(then.path),
        "status": int(status),
        "cases": [case.as_dict() for case in found.cases],
        "only_in_run": [_place(case) for case in found.only_now],
        "only_in_baseline": [_place(case) for case in found.only_then],
    }


def _place(case: Case) -> dict[str, Any]:
    return {"config": case.config.as_dict(), "concurrency": case.concurrency}


def lines(now: StoredReport, then: StoredReport, found: RunComparison, gate: Gate) -> Iterator[str]:
    """For people: a row per case and metric, then what there is to say of those that did not pass."""
    yield f"{now.path} ({now.target}) against {then.path} ({then.target})"
    if not found.cases:
        yield "the two runs have no case in common"
    else:
        yield from (f"  {line}" for line in _table(found, gate))
    for case in found.cases:
        if case.outcome is not Outcome.PASS:
            yield f"{case.outcome}: {case_label(case.case)}: {case.judgement.reason}"
            yield from (f"  {line}" for line in _explained(case))
    for said, cases in (
        ("only in the first run", found.only_now),
        ("missing in the first run, which --common allows", found.only_then),
    ):
        if cases:
            yield f"{said}: {', '.join(map(case_label, cases))}"
    counts = {o: sum(case.outcome is o for case in found.cases) for o in Outcome}
    yield " · ".join(f"{o.value.upper()} {n}" for o, n in counts.items() if n) or "nothing was compared"


def _table(found: RunComparison, gate: Gate) -> list[str]:
    labels = config_labels(case.case.config for case in found.cases)
    rows = [
        [
            str(case.case.concurrency) if name == gate.metrics[0] else "",
            labels[case.case.config] if name == gate.metrics[0] else "",
            name,
            *_figures(case, name),
        ]
        for case in found.cases
        for name in gate.metrics
    ]
    heads = ["concurrency", "", "metric", "stored", "now", "change", "ratio", "between", ""]
    align = ["left", "left", "left", "right", "right", "right", "right", "left", "left"]
    return tabulated(rows, heads, align)


def _figures(case: Compared, name: str) -> list[str]:
    """Both values, the change, the ratio (below 1 is worse) with its interval, and the outcome."""
    old, new = case.then.get(name), case.metrics.get(name)
    values = ["–" if value is None else number(value) for value in (old, new)]
    verdict = case.judgement.verdicts.get(name)
    if verdict is None or not old or not new:
        return [*values, "", "", "", case.outcome.value]
    word = "inconclusive" if verdict.outcome == "undecided" else verdict.outcome
    between = f"{verdict.low:.3f} and {verdict.high:.3f}"
    return [*values, percent(new / old), f"{verdict.ratio:.3f}", between, word]


def _explained(case: Compared) -> Iterator[str]:
    """Of a regression: where decode lost its time, and what has changed."""
    if case.outcome is not Outcome.REGRESSED:
        return
    history = {name: [value] for name, value in case.then.items()}
    yield from why_lines(case.judgement, case, Background(history))
    changed = ", ".join(case.judgement.changes)
    yield f"between the two: {changed}" if changed else "between the two nothing that is recorded has changed"

"""``--spec-json``: everything that a run knows, in one versioned file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..ledger import CaseSummary, Ledger, TestRecord
from ..model import CaseStart, Outcome, ServerStart
from .grid import Grid
from .output import write_file

SCHEMA = 1


def report(
    ledger: Ledger,
    *,
    target: str,
    machine: str,
    against: str = "",
    grids: Sequence[Grid] = (),
    args: Sequence[str] = (),
) -> dict[str, Any]:
    """The report of one target's run, JSON-able.

    :param against: the other target that was measured in turns with it; its cases and starts are there too
    :param machine: used where the run ended before the target described itself
    :param grids: the tables, which need statistics that are made elsewhere
    :param args: what pytest was called with, secrets redacted
    """
    described = ledger.targets.get(target)
    return {
        "schema": SCHEMA,
        "target": target,
        "against": against or None,
        "machine": described.machine if described else machine,
        "identity": dict(described.identity) if described else {},
        "context": dict(described.context) if described else {},
        "args": list(args),
        "targets": [asdict(record) for record in ledger.targets.values()],
        "summary": summary(ledger),
        "tables": [each.as_dict() for each in grids],
        "cases": [_case(c) for c in ledger.cases],
        "tests": [_test(t) for t in ledger.tests if t.case is None],
        "starts": [_server_start(s) for s in ledger.server_starts],
        "audit": [asdict(command) for command in ledger.commands],
    }


def summary(ledger: Ledger) -> dict[str, Any]:
    """Tests by outcome (all ten, in words of the files), server starts, and how long it took."""
    counts = ledger.counts
    return {
        **{outcome.value: counts[outcome] for outcome in Outcome},
        "starts": len(ledger.server_starts),
        "seconds": round(ledger.seconds, 3),
    }


def write_report(path: Path, content: Mapping[str, Any]) -> None:
    """Write the report, whole or not at all.

    :raises ConfigError: when it cannot be written there.
    """
    text = json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_file("--spec-json", path, text)


def _case(summed: CaseSummary) -> dict[str, Any]:
    case = summed.case
    return {
        "target": case.target,
        "config": case.config.as_dict(),
        "concurrency": case.concurrency,
        "outcome": summed.outcome.value if summed.outcome else None,
        "metrics": summed.metrics,
        "why": summed.why,
        "baseline": dict(summed.baseline),
        "tests": [_test(t) for t in summed.tests],
        "starts": [_case_start(s) for s in summed.starts],
    }


def _test(test: TestRecord) -> dict[str, Any]:
    return {
        "id": test.id,
        "line": test.line,
        "outcome": test.outcome.value,
        "failed": test.failed,
        "others": test.others,
        "restart": test.restart,
        "reason": test.reason,
        "verdicts": {name: dict(verdict) for name, verdict in test.verdicts.items()},
    }


def _case_start(start: CaseStart) -> dict[str, Any]:
    rounds = [
        {
            "metrics": dict(r.metrics),
            "valid": r.valid,
            "reasons": list(r.reasons),
            "seconds": r.seconds,
            "facts": dict(r.facts),
        }
        for r in start.rounds
    ]
    return {"id": start.start_id, "rounds": rounds, "facts": dict(start.facts)}


def _server_start(start: ServerStart) -> dict[str, Any]:
    return {
        "id": start.id,
        "target": start.target,
        "config": start.config.as_dict(),
        "restart": start.restart,
        "at": start.at,
        "ready_s": start.ready_s,
        "version": start.version,
        "settings": start.settings,
        "argv": list(start.argv),
        "discarded": start.discarded,
        "host": start.host,
    }


def _finite(value: Any) -> Any:
    """``value`` with what JSON cannot carry made fit: not-a-number and infinity become null."""
    if isinstance(value, Mapping):
        return {str(name): _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)

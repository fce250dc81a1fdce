"""A ``--spec-json`` report read back: checked, and as the ledger that it was made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec

from .. import __version__
from ..errors import ConfigError
from ..ledger import CaseMeasured, CommandRecord, Event, Ledger, TargetRecord, TestRecord
from ..model import Case, CaseStart, Outcome, Round, Scalar, ServerStart, SpecConfig
from .jsonfile import SCHEMA


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """Keys that this version does not know are left out: later ones may add some."""


class _Round(_Part, frozen=True, kw_only=True):
    metrics: dict[str, float | None]
    valid: bool
    reasons: list[str]
    seconds: float | None = None
    facts: dict[str, Scalar] = msgspec.field(default_factory=dict)


class _CaseStart(_Part, frozen=True, kw_only=True):
    id: str
    rounds: list[_Round]
    facts: dict[str, Scalar] = msgspec.field(default_factory=dict)


class _Test(_Part, frozen=True, kw_only=True):
    id: str
    outcome: Outcome
    reason: str = ""
    restart: int | None = None
    line: int | None = None
    failed: bool = False
    others: bool = False
    verdicts: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


class _Config(_Part, frozen=True, kw_only=True):
    steps: Annotated[int, msgspec.Meta(ge=0)]
    algorithm: str | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    args: dict[str, Scalar] | None = None

    @property
    def plain(self) -> SpecConfig:
        return SpecConfig.from_dict(msgspec.to_builtins(self))


class _Case(_Part, frozen=True, kw_only=True):
    config: _Config
    concurrency: Annotated[int, msgspec.Meta(ge=1)]
    target: str
    tests: list[_Test]
    starts: list[_CaseStart]
    why: dict[str, Any] | None = None
    baseline: dict[str, float] = msgspec.field(default_factory=dict)


class _ServerStart(_Part, frozen=True, kw_only=True):
    id: str
    target: str
    config: _Config
    restart: int = 1
    at: str = ""
    ready_s: float | None = None
    version: str = ""
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    argv: list[str] = msgspec.field(default_factory=list)
    discarded: str = ""
    host: str = ""


class _Table(_Part, frozen=True, kw_only=True):
    target: str
    metric: str
    reference: dict[str, Any] | None = None


class _Report(_Part, frozen=True, kw_only=True):
    schema: int
    target: str
    machine: str
    identity: dict[str, Any]
    context: dict[str, Any]
    summary: dict[str, float]
    cases: list[_Case]
    starts: list[_ServerStart]
    targets: list[TargetRecord] = msgspec.field(default_factory=list)
    tables: list[_Table] = msgspec.field(default_factory=list)
    tests: list[_Test] = msgspec.field(default_factory=list)
    audit: list[CommandRecord] = msgspec.field(default_factory=list)


class TableOf(msgspec.Struct, frozen=True):
    """Which table a run showed. ``reference_steps`` None: gains refer to nothing."""

    target: str
    metric: str
    reference_steps: int | None


class StoredReport(msgspec.Struct, frozen=True):
    """A report: ``plain`` as it was written, and what it says."""

    path: Path
    plain: Mapping[str, Any]
    target: str
    identity: Mapping[str, Any]
    """Empty where no server ever ran."""
    context: Mapping[str, Any]
    tables: tuple[TableOf, ...]
    ledger: Ledger


def read_report(path: Path) -> StoredReport:
    """The report at ``path``.

    :raises ConfigError: when it cannot be read, is none, or is of a later version than this reads.
    """
    try:
        plain = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        _refuse(path, f"cannot be read: {error.strerror or error}")
    except (msgspec.DecodeError, RecursionError) as error:
        _refuse(path, f"is not whole JSON ({error}); a report is what --spec-json writes")
    _check_schema(path, plain)
    try:
        found = msgspec.convert(plain, _Report)
        ledger = Ledger(seconds=float(found.summary.get("seconds", 0.0)))
        for event in _events(found):
            ledger.add(event)
    except (msgspec.ValidationError, ConfigError, KeyError, TypeError, ValueError) as error:
        what, _, where = str(error).partition(" - at ")
        _refuse(path, f"{where.strip('`$.') or 'the report'}: {what}; is it what --spec-json wrote?")
    tables = tuple(
        TableOf(t.target, t.metric, SpecConfig.from_dict(t.reference).steps if t.reference else None)
        for t in found.tables
    )
    return StoredReport(path, plain, found.target, found.identity, found.context, tables, ledger)


def _refuse(path: Path, why: str) -> NoReturn:
    raise ConfigError(f"{path}: {why}") from None


def _check_schema(path: Path, plain: object) -> None:
    found = plain.get("schema") if isinstance(plain, Mapping) else None
    if isinstance(found, int) and found > SCHEMA:
        _refuse(
            path,
            f"has schema {found}, and pytest-specdecode {__version__} reads up to {SCHEMA}; upgrade "
            "pytest-specdecode",
        )
    if found != SCHEMA or isinstance(found, bool):
        _refuse(path, f'has no "schema": {SCHEMA}; a report is what --spec-json writes')
    if isinstance(plain, Mapping) and "summary" not in plain:
        _refuse(path, "is no report of a run (a baseline file?); a report is what --spec-json writes")


def _events(found: _Report) -> Iterator[Event]:
    if found.targets:
        yield from found.targets
    elif found.identity:
        yield TargetRecord(found.target, found.machine, found.identity, found.context)
    for start in found.starts:
        yield ServerStart(
            id=start.id,
            target=start.target,
            config=start.config.plain,
            restart=start.restart,
            at=start.at,
            ready_s=math.nan if start.ready_s is None else start.ready_s,
            version=start.version,
            settings=start.settings,
            argv=tuple(start.argv),
            discarded=start.discarded,
            host=start.host,
        )
    seen: set[Case] = set()
    for each in found.cases:
        case = Case(each.target, each.config.plain, each.concurrency)
        if case in seen or len({start.id for start in each.starts}) < len(each.starts):
            raise ConfigError(f"steps={case.config.steps} c={case.concurrency}: it is there twice")
        seen.add(case)
        yield from (CaseMeasured(case, _case_start(start)) for start in each.starts)
        yield from (_test(test, found.target, case, each) for test in each.tests)
    yield from (_test(test, found.target) for test in found.tests)
    yield from found.audit


def _case_start(start: _CaseStart) -> CaseStart:
    return CaseStart(start.id, tuple(map(_round, start.rounds)), start.facts)


def _round(plain: _Round) -> Round:
    """A number that JSON could not carry is none."""
    metrics = {name: value for name, value in plain.metrics.items() if value is not None}
    reasons = tuple(plain.reasons) or (() if plain.valid else ("no reason was stored",))
    return Round(metrics, math.nan if plain.seconds is None else plain.seconds, reasons, plain.facts)


def _test(test: _Test, target: str, case: Case | None = None, of: _Case | None = None) -> TestRecord:
    return TestRecord(
        id=test.id,
        target=case.target if case else target,
        outcome=test.outcome,
        config=case.config if case else None,
        concurrency=case.concurrency if case else None,
        restart=test.restart,
        reason=test.reason,
        verdicts=test.verdicts,
        failed=test.failed,
        others=test.others,
        why=of.why if of and test.outcome is Outcome.REGRESSED else None,
        baseline=of.baseline if of else {},
        line=test.line,
    )

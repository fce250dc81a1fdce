"""The record of a run, made of events; what reports and exit status are derived from.

Events are frozen and JSON-able, so that a worker's travel on its test reports to the controller
(:meth:`Ledger.drain` there, :meth:`Ledger.absorb` here).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from .gating import Gate
from .model import Case, CaseStart, Outcome, ServerStart, SpecConfig, metric_names, summarize


@dataclass(frozen=True, slots=True)
class TestRecord:
    """A test that ended: one item, at its deciding restart. Skipped restarts leave no record."""

    __test__ = False  # pytest must not collect it

    id: str
    """File and function, ``test_qwen.py::test_floor``. Parameters of this plugin are left out (they are the
    fields below); a test's own ones stay, since records with equal fields count as one test run again."""
    target: str
    outcome: Outcome
    config: SpecConfig | None = None
    """None for tests over the whole session (sweep) or without a server."""
    concurrency: int | None = None
    restart: int | None = None
    reason: str = ""
    verdicts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By metric: outcome, ratio, low, high, slower, and what else the verdict says; plain values."""
    failed: bool = False
    """Whether pytest counts it as failed or as an error."""
    why: Mapping[str, Any] | None = None
    """Of a regression: what it lost, and what changed in context since the baseline; plain values."""
    baseline: Mapping[str, float] = field(default_factory=dict)
    """By metric: the stored number that it was judged against."""
    line: int | None = None
    """Where the test begins in its file, from 1."""
    others: bool = False
    """Its error is not that of the case: of what it is compared with, or raised in the test's own body. What
    was measured stands."""

    @property
    def case(self) -> Case | None:
        if self.config is None or self.concurrency is None:
            return None
        return Case(self.target, self.config, self.concurrency)


@dataclass(frozen=True, slots=True)
class CaseMeasured:
    """A case was measured on one server start. Measured again at the same restart, the later one counts."""

    case: Case
    start: CaseStart
    restarts: int = 1
    """Server starts that the session planned for this case."""
    gates: tuple[Gate, ...] = ()
    """What the session's tests compare of it, each once; empty where none asks for a baseline."""


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """A command of the audit trail, secrets redacted. ``at``: ISO 8601, UTC. ``status`` None: unknown."""

    at: str
    host: str
    argv: tuple[str, ...]
    status: int | None
    seconds: float
    output: str = ""
    killed: tuple[int, ...] = ()
    """Pids that this command ended."""


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """What was measured: names the baseline file, and fills the report's identity, context and headings."""

    target: str
    machine: str
    identity: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    """For people, in words: hardware, engine, workload."""
    host: str = ""
    """Which machine this is of, as it is reached."""


Event = ServerStart | CaseMeasured | TestRecord | CommandRecord | TargetRecord

_KINDS: Mapping[str, type[Event]] = MappingProxyType(
    {
        "start": ServerStart,
        "case": CaseMeasured,
        "test": TestRecord,
        "command": CommandRecord,
        "target": TargetRecord,
    }
)
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_plain(event: Event) -> dict[str, Any]:
    """The event as JSON-able data, its kind under ``event``; a NaN field is left out."""
    import msgspec  # noqa: PLC0415  (kept out of sessions that run no benchmark)

    plain = msgspec.to_builtins(event)
    known = {name: value for name, value in plain.items() if not _is_nan(value)}
    return {"event": _NAMES[type(event)], **known}


def from_plain(plain: Mapping[str, Any]) -> Event:
    """The inverse of :func:`to_plain`."""
    import msgspec  # noqa: PLC0415

    fields = {name: value for name, value in plain.items() if name != "event"}
    event: Event = msgspec.convert(fields, _KINDS[plain["event"]])
    return event


@dataclass(frozen=True, slots=True)
class CaseSummary:
    """All that the run knows of one case."""

    case: Case
    tests: tuple[TestRecord, ...]
    starts: tuple[CaseStart, ...]
    hosts: frozenset[str] = frozenset()
    """Where it was measured; empty where that is not known."""

    @property
    def outcome(self) -> Outcome | None:
        """The worst of its tests'; None while none has ended."""
        return max((t.outcome for t in self.tests), key=lambda outcome: outcome.rank, default=None)

    @property
    def error(self) -> TestRecord | None:
        """The test that ended in an error of the case itself; None where there is none."""
        return next((t for t in self.tests if t.outcome.is_error and not t.others), None)

    @property
    def valid_starts(self) -> tuple[CaseStart, ...]:
        """What its numbers are made of: nothing where it ended in an error, whatever was measured before."""
        if self.error is not None:
            return ()
        return tuple(start for start in self.starts if start.valid)

    @property
    def why(self) -> Mapping[str, Any] | None:
        """Why it regressed, as its tests say: the split is the case's own, whichever gate it missed."""
        return next((t.why for t in self.tests if t.why is not None), None)

    @property
    def baseline(self) -> Mapping[str, float]:
        """By metric: the stored numbers that it was judged against."""
        return next((t.baseline for t in self.tests if t.baseline), {})

    @property
    def metrics(self) -> dict[str, float]:
        """Each metric that all valid starts have: geometric mean over them of the median of rounds."""
        starts = self.valid_starts
        return {name: summarize(starts, name) for name in metric_names(starts)}


@dataclass(slots=True)
class Ledger:
    """Events of a run, and what follows from them."""

    seconds: float = 0.0
    """How long the run took; whoever owns the clock sets it."""
    listener: Callable[[Event], None] | None = None
    """Told of each event as it is added."""
    _events: list[Event] = field(default_factory=list)
    _drained: int = 0

    def add(self, event: Event) -> None:
        self._events.append(event)
        listener = self.listener  # another thread's heartbeat may end it
        if listener is not None:
            listener(event)

    def drain(self) -> list[dict[str, Any]]:
        """Events since the last call, as plain data."""
        fresh = self._events[self._drained :]
        self._drained = len(self._events)
        return [to_plain(event) for event in fresh]

    def absorb(self, plain: Iterable[Mapping[str, Any]]) -> list[Event]:
        """Add the events that another ledger drained, and return them."""
        events = [from_plain(event) for event in plain]
        for event in events:
            self.add(event)
        return events

    @property
    def tests(self) -> list[TestRecord]:
        """In the order they ended; a re-run replaces what it repeats."""
        latest = {
            (e.id, e.target, e.config, e.concurrency): e for e in self._events if isinstance(e, TestRecord)
        }
        return list(latest.values())

    @property
    def server_starts(self) -> list[ServerStart]:
        return list({e.id: e for e in self._events if isinstance(e, ServerStart)}.values())

    @property
    def commands(self) -> list[CommandRecord]:
        return [e for e in self._events if isinstance(e, CommandRecord)]

    @property
    def targets(self) -> dict[str, TargetRecord]:
        """By name; the latest record of each. That of several hosts is their common one."""
        names = dict.fromkeys(e.target for e in self._events if isinstance(e, TargetRecord))
        return {name: _common(list(self.places(name).values())) for name in names}

    def places(self, target: str) -> dict[str, TargetRecord]:
        """By host, each host's latest record."""
        return {e.host: e for e in self._events if isinstance(e, TargetRecord) and e.target == target}

    def starts_of(self, case: Case) -> tuple[CaseStart, ...]:
        """The case at each restart, in order of measurement; measured again there, the later one counts.
        Nothing counts that was measured on a start which was thrown away."""
        servers = self.server_starts
        restarts = {start.id: start.restart for start in servers}
        thrown_away = {start.id for start in servers if start.discarded}
        latest: dict[object, CaseStart] = {}
        for e in self._events:
            if isinstance(e, CaseMeasured) and e.case == case and e.start.start_id not in thrown_away:
                latest[restarts.get(e.start.start_id, e.start.start_id)] = e.start
        return tuple(latest.values())

    def planned_restarts(self, case: Case) -> int:
        """How many server starts the session planned for the case; 0 where it was never measured."""
        planned = [e.restarts for e in self._events if isinstance(e, CaseMeasured) and e.case == case]
        return max(planned, default=0)

    def gates_of(self, case: Case) -> tuple[Gate, ...]:
        """What the session's tests compare of the case; empty where none asks for a baseline."""
        return next((e.gates for e in self._events if isinstance(e, CaseMeasured) and e.case == case), ())

    @property
    def cases(self) -> list[CaseSummary]:
        """By target, configuration and concurrency; also those of which only a failure is known."""
        found = {e.case for e in self._events if isinstance(e, CaseMeasured)}
        tests, hosts = self.tests, {start.id: start.host for start in self.server_starts}
        found |= {test.case for test in tests if test.case is not None}
        summaries = (
            CaseSummary(case, tuple(t for t in tests if t.case == case), self.starts_of(case))
            for case in sorted(found, key=case_order)
        )
        return [
            replace(each, hosts=frozenset(hosts.get(start.start_id, "") for start in each.starts))
            for each in summaries
        ]

    @property
    def counts(self) -> Counter[Outcome]:
        """Tests by outcome."""
        return Counter(test.outcome for test in self.tests)


def _common(records: Sequence[TargetRecord]) -> TargetRecord:
    """Of several hosts: the first one's, its context what all share, the rest under ``hosts``."""
    first = records[0]
    if len(records) == 1:
        return first
    names = dict.fromkeys(name for each in records for name in each.context)
    differing = [n for n in names if any(r.context.get(n) != first.context.get(n) for r in records)]
    context = {n: v for n, v in first.context.items() if n == "date" or n not in differing}
    hosts = {r.host: {n: r.context[n] for n in differing if n in r.context} for r in records}
    return replace(first, context={**context, "hosts": hosts})


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def case_order(case: Case) -> tuple[Any, ...]:
    """Sorts cases by target, configuration (steps first) and concurrency."""
    return (case.target, *config_order(case.config), case.concurrency)


def config_order(config: SpecConfig) -> tuple[Any, ...]:
    """Sorts configurations: steps first."""
    args = tuple((name, str(value)) for name, value in config.args)
    return (config.steps, config.algorithm or "", config.topk or 0, config.draft_tokens or 0, args)

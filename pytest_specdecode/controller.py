"""The hooks of a pytest-xdist controller in a benchmark session: it measures nothing, and reports it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .journal import worker_paths
from .ledger import CaseMeasured, TestRecord, from_plain
from .model import Outcome, ServerStart
from .report.text import case_label, number
from .state import State
from .workers import CARGO, HostScheduling

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


class Controller:
    """Registered where pytest-xdist has workers, and not in them."""

    def __init__(self, config: pytest.Config, state: State, count: int) -> None:
        self._config = config
        self._state = state
        self._count = count
        self._scheduler = HostScheduling(count)
        self._manifest: dict[str, TestRecord] = {}
        self._hosts: dict[str, str] = {}
        self._whole: list[bool] = []
        self.planned: list[str] = []
        """Lines of ``--spec-plan``, of all hosts."""

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_xdist_make_scheduler(self) -> HostScheduling:
        return self._scheduler

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_runtest_logstart(self) -> None:
        """pytest-xdist takes every worker's items for the same ones: what is done is a share of them all."""
        self._session.testscollected = self._scheduler.total

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cargo = getattr(report, CARGO, None)
        if cargo is not None:
            self._manifest |= {nodeid: _test(plain) for nodeid, plain in cargo.get("items", {}).items()}
            self._absorb(cargo["events"])

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, report: pytest.TestReport) -> None:
        setattr(report, CARGO, {"outcome": Outcome.BROKEN.value, "events": []})

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        if error is not None and error != "keyboard-interrupt":
            self._lose(node)
            return
        cargo: Mapping[str, Any] = getattr(node, "workeroutput", {}).get(CARGO, {})
        self._absorb(cargo.get("events", ()))
        self.planned += cargo.get("planned", ())
        self._note(node, cargo.get("notes", ()))
        self._whole.append(cargo.get("whole", False))
        if (refusal := cargo.get("refusal")) and refusal not in self._state.refusals:
            self._state.refusals.append(refusal)

    def _note(self, node: Any, notes: Iterable[str]) -> None:
        """What a worker has to say that this process has not said itself."""
        known = set(self._state.notes)
        self._state.notes += [f"{node.gateway.id}: {note}" for note in notes if note not in known]

    def remove_journals(self, folder: Path) -> None:
        """The workers' journals go once there is nothing to resume on any host."""
        if len(self._whole) == self._count and all(self._whole):
            for path in worker_paths(folder, self._state.run.target.name, self._count):
                path.unlink(missing_ok=True)

    def _absorb(self, events: Iterable[Mapping[str, Any]]) -> None:
        for event in self._state.ledger.absorb(events):
            if isinstance(event, ServerStart):
                self._hosts[event.id] = event.host
            if isinstance(event, CaseMeasured):
                self._tell(event)

    def _tell(self, event: CaseMeasured) -> None:
        """A line for each measured case: the workers themselves are silent."""
        reporter: TerminalReporter | None = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is None or self._config.get_verbosity() < 0:
            return
        name = self._state.run.target.gate.metrics[0]
        values = event.start.values(name)
        what = f"{name} {number(values[-1])}" if values else f"no {name}"
        host = self._hosts.get(event.start.start_id, "")
        if reporter._tw.width_of_current_line:
            reporter.write("\n")
        reporter.write_line(f"{host}: {case_label(event.case)}: {what}")

    def _lose(self, node: Any) -> None:
        """A worker is gone: what it had left ends broken, each test once. What is decided stays so."""
        pool, number_ = self._state.run.target.host.pool, node.gateway.id
        host = dict(enumerate(pool)).get(int(number_.removeprefix("gw")), self._state.run.host.name)
        why = (
            f"worker {number_}, which measured on {host}, is gone, and what it had left is not "
            "measured; --spec-resume takes what it measured from its journal"
        )
        self._state.failures.append(Outcome.BROKEN)
        left = self._scheduler.left(node)
        if not left:
            self._state.notes.append(f"broken: {why}")
        known = {_key(test) for test in self._state.ledger.tests}
        for place, nodeid in enumerate(left):
            test = self._manifest.get(nodeid) or _unknown(nodeid, self._state.run.target.name)
            if _key(test) in known:
                continue
            known.add(_key(test))
            self._state.ledger.add(replace(test, reason=why, failed=True))
            if place:  # pytest-xdist reports the first one itself
                self._report(node, nodeid, why)

    def _report(self, node: Any, nodeid: str, why: str) -> None:
        file, _, name = nodeid.partition("::")
        report = pytest.TestReport(
            nodeid=nodeid,
            location=(file, None, name),
            keywords={},
            outcome="failed",
            longrepr=f"broken: {why}",
            when="setup",
        )
        report.node = node  # type: ignore[attr-defined]  # as pytest-xdist marks those of its workers
        setattr(report, CARGO, {"outcome": Outcome.BROKEN.value, "events": []})
        self._config.hook.pytest_runtest_logreport(report=report)


def _test(plain: Mapping[str, Any]) -> TestRecord:
    event = from_plain(plain)
    assert isinstance(event, TestRecord)
    return event


def _unknown(nodeid: str, target: str) -> TestRecord:
    """Of an item whose worker was gone before it told of any."""
    return TestRecord(nodeid, target, Outcome.BROKEN)


def _key(test: TestRecord) -> tuple[object, ...]:
    return test.id, test.config, test.concurrency

"""The hooks of a benchmark session; registered in no other."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .collection import CONCURRENCY, CONFIG, Axes, in_order, is_benchmark, job_of, params
from .controller import Controller
from .errors import CaseError, ConfigError, HostError
from .finishing import ending, finish
from .ledger import to_plain
from .measurement import Baseline, Measurement
from .model import Outcome, SpecConfig
from .opening import open_state
from .options import Settings
from .overview import with_overview
from .planning import plan_lines
from .pool import elsewhere, homes, refuse_stranger
from .report.messages import Background, comparison_lines, full_text
from .resuming import open_journal
from .state import State
from .state_key import STATE
from .trials import TRIAL, begin, check_compared, conclude, record_of
from .workers import CARGO, count_of, own_items

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


class BenchmarkSession:
    """One benchmark session, in the process that runs the items and in an xdist controller alike."""

    def __init__(self, config: pytest.Config, state: State, axes: Axes) -> None:
        self._config = config
        self._state = state
        self._axes = axes
        self._worker = hasattr(config, "workerinput")
        self._controller: Controller | None = None
        self._refusal = ""
        self._manifest: dict[str, Any] = {}
        self._summary: Sequence[str] = ()
        self._planned: Sequence[str] = ()

    @classmethod
    def open(cls, config: pytest.Config, settings: Settings) -> BenchmarkSession:
        """Everything that can be checked before collection.

        :raises pytest.UsageError: naming what cannot be used.
        """
        state = config.stash[STATE] = open_state(config, settings)
        other = state.opposite.run.target if state.opposite else None
        opened = cls(config, state, Axes(settings, state.run.target, state.run.defaults, other))
        if config.getoption("tx", None) and not opened._worker and not config.option.collectonly:
            opened._controller = Controller(config, state, count_of(config))
            config.pluginmanager.register(opened._controller, "specdecode-controller")
        return opened

    # -- collection -----------------------------------------------------------------------------------

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        self._axes.generate(metafunc)

    @pytest.hookimpl(tryfirst=True)
    def pytest_itemcollected(self, item: pytest.Item) -> None:
        if not is_benchmark(item) or not self._config.pluginmanager.hasplugin("benchmark"):
            return
        item.add_marker(pytest.mark.benchmark(timer=self._state.clock.time), append=False)
        item.add_marker(pytest.mark.filterwarnings("ignore:Benchmark fixture was not used"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        benchmarks = [item for item in items if is_benchmark(item)]
        selected = [item for item in benchmarks if self._axes.selected(item)]
        if benchmarks and not selected:
            self._state.notes.append(_outside(benchmarks, self._state.settings))
        keep = set(selected)
        config.hook.pytest_deselected(items=[item for item in items if item not in keep])
        items[:] = selected
        yield
        items[:] = in_order(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        state = self._state
        self._share(session.items)
        if session.config.option.collectonly or not session.items:
            return
        wanted = zip(state.runs, self._configs(session.items), strict=True)
        if state.settings.plan:
            lines = plan_lines(list(wanted))
            alone = state.opposite is None
            self._planned = with_overview(lines, state, map(job_of, session.items)) if alone else lines
            if self._worker:
                session.items.clear()  # nothing is left for pytest-xdist to hand out
            return
        try:
            if state.place.index:
                refuse_stranger(state.run, state.ledger)
            levels, wait_s = [case.concurrency for case in state.plan.cases()], state.settings.wait_lease_s
            for run, configs in wanted:
                run.check(configs, levels, wait_lease_s=wait_s)
            if state.opposite is None and state.run.usable:
                open_journal(state, self._config.rootpath, _files(session))
        except ConfigError as error:
            self._refusal = str(error)
            raise pytest.UsageError(self._refusal) from None

    def _share(self, items: list[pytest.Item]) -> None:
        """The plan of all items; of several workers, each goes on with its own ones."""
        state = self._state
        state.plan = self._axes.plan(items)
        if state.place.count > 1:
            home = homes(state.plan, self._axes.configs(items), state.place.count)
            state.elsewhere = elsewhere(state.plan, home, state.place.index)
            items[:] = own_items(items, home, state.place.index)
        if self._worker:
            self._manifest = {i.nodeid: to_plain(record_of(state, i, Outcome.BROKEN)) for i in items}

    def _configs(self, items: list[pytest.Item]) -> Iterator[list[SpecConfig]]:
        """What each target will run, each configuration once, in order."""
        yield self._axes.configs(items)
        if self._state.opposite is not None:
            gated = dict.fromkeys(i.case.config for i in self._state.plan.items if i.gate is not None)
            yield list(dict.fromkeys(map(self._state.opposite.config, gated)))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._state.done.add(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """A plan runs nothing, as ``--collect-only`` does; a controller has to hear its workers' plans."""
        if self._controller is not None:
            return None
        return True if self._state.settings.plan and not session.testsfailed else None

    # -- items ----------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        begin(self._state, item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        yield
        check_compared(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        outcome = conclude(self._state, item, call)
        if call.excinfo is not None and isinstance(call.excinfo.value, CaseError | HostError):
            # what happened, not where in this package
            report.longrepr = f"{outcome}: {call.excinfo.value}"
        trial = item.stash[TRIAL]
        if report.failed and trial.measurement is not None and trial.measurement.judgement is not None:
            report.sections.append(
                ("specdecode", full_text(trial.measurement, self._background(trial.measurement)))
            )
        cargo: dict[str, Any] = {"outcome": outcome.value if outcome else None, "events": []}
        if self._worker:
            cargo |= {"events": self._state.ledger.drain(), "items": self._manifest}
            self._manifest = {}
        setattr(report, CARGO, cargo)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cargo = getattr(report, CARGO, None)
        if cargo is None:
            return
        if report.failed:
            outcome = cargo["outcome"]
            self._state.failures.append(Outcome(outcome) if outcome else None)

    def pytest_assertrepr_compare(self, left: object, right: object) -> list[str] | None:
        measurement = next((side for side in (left, right) if isinstance(side, Measurement)), None)
        if measurement is None or not any(isinstance(side, Baseline) for side in (left, right)):
            return None
        return comparison_lines(measurement, self._background(measurement))

    def _background(self, measurement: Measurement) -> Background:
        history = self._state.stored(measurement.case).history
        return Background(history, self._config.invocation_params.args, self._state.reference.against)

    # -- the end --------------------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        state = self._state
        if self._worker:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # pytest-xdist sends one more while this takes long
        stopped = exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
        whole = not stopped and all(i.nodeid in state.done for i in session.items)
        if state.journal is not None:
            state.ledger.listener = None
            # before the machine is given back: whoever waits for it begins a journal of its own
            state.journal.close()
        state.close()
        state.stop_clock()
        if self._worker:
            self._config.workeroutput[CARGO] = {  # type: ignore[attr-defined]
                "events": state.ledger.drain(),
                "planned": list(self._planned),
                "refusal": self._refusal,
                "notes": list(state.notes),
                "whole": whole and not self._refusal,
            }
            return
        if self._controller is not None:
            self._planned = self._controller.planned
        if session.config.option.collectonly:
            return
        if state.settings.plan and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            self._summary = self._planned
            session.exitstatus = pytest.ExitCode.OK if self._planned else pytest.ExitCode.NO_TESTS_COLLECTED
            return
        self._summary = finish(self._config, state)
        if not state.unwritten:  # else its numbers are in the journal alone
            if self._controller is not None and not stopped:
                self._controller.remove_journals(self._config.rootpath)
            if state.journal is not None and whole:
                state.journal.remove()
        told = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
        if exitstatus in told:
            session.exitstatus = ending(state)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        for line in self._summary:
            terminalreporter.write_line(line)


def _files(session: pytest.Session) -> set[Path]:
    """Files of the selected tests and of what they share."""
    modules = [getattr(p, "__file__", None) or "" for p in session.config.pluginmanager.get_plugins()]
    shared = {Path(file) for file in modules if file.endswith("conftest.py")}
    return shared | {item.path for item in session.items}


def _outside(items: list[pytest.Item], settings: Settings) -> str:
    """Why no benchmark was left: what the options ask for, and what the tests have."""
    steps = sorted({params(item)[CONFIG].steps for item in items if CONFIG in params(item)})
    levels = sorted({params(item)[CONCURRENCY] for item in items if CONCURRENCY in params(item)})
    asked = [
        f"{option}={','.join(map(str, wanted))} (tests have {', '.join(map(str, have)) or 'none'})"
        for option, wanted, have in (
            ("--spec-steps", settings.steps, steps),
            ("--spec-concurrency", settings.concurrency, levels),
        )
        if wanted is not None
    ]
    return "nothing to measure: no test is left by " + " and ".join(asked)

"""Where progress is seen: the terminal that pytest writes to."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, final

import pytest
from _pytest.terminal import TerminalReporter

from .collection import job_of
from .errors import SpecDecodeError
from .forecast import Forecast, likely_machine
from .outlook import Outlook
from .report.progress import Progress
from .state_key import STATE

Say = Callable[[str], None]


def speaker(config: pytest.Config) -> Say:
    """What tells people what goes on. Silent with ``-q`` and in workers."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or config.get_verbosity() < 0 or hasattr(config, "workerinput"):
        return _silence
    speaking = Speaker(config, reporter)
    config.pluginmanager.register(speaking, "specdecode-speaker")
    return speaking.say


def _silence(text: str) -> None:
    del text


@final
class Speaker:
    """A line below what pytest writes, which is there only while something of ours goes on: pytest, tests and
    other plugins never write behind it."""

    def __init__(self, config: pytest.Config, reporter: TerminalReporter) -> None:
        self._config = config
        self._reporter = reporter
        self._outlook: Outlook | None = None
        self._places: dict[str, int] = {}
        self._progress = Progress(
            self._write,
            live=_live(config, reporter),
            width=lambda: reporter._tw.fullwidth,
            column=lambda: reporter._tw.width_of_current_line,
            prepare=self._end_line,
            frame=self._frame,
        )

    def say(self, text: str) -> None:
        with self._past_capture():
            self._progress.say(text)

    def _clear(self) -> None:
        if self._progress.showing:
            with self._past_capture():
                self._progress.clear()

    def _past_capture(self) -> AbstractContextManager[None]:
        capture = self._config.pluginmanager.getplugin("capturemanager")
        return capture.global_and_fixture_disabled() if capture else nullcontext()

    def _write(self, text: str) -> None:
        """Past pytest's own account of its current line, which the live line is not part of."""
        file = self._reporter._tw._file
        encoding = getattr(file, "encoding", None) or "utf-8"
        file.write(text.encode(encoding, "replace").decode(encoding))
        file.flush()

    def _end_line(self) -> None:
        self._reporter.ensure_newline()
        if (
            self._reporter._tw.width_of_current_line
        ):  # a result letter, which pytest holds for no line of its own
            self._reporter._tw.line()

    def _frame(self) -> tuple[str, str]:
        if self._outlook is not None:
            # Odd stored numbers must not end a run for the sake of an estimate.
            with suppress(SpecDecodeError, ArithmeticError, LookupError, ValueError):
                return self._outlook.frame()
        return "", ""

    # -- how far it is --------------------------------------------------------------------------------

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.config.option.collectonly or not session.items:
            return
        state = self._config.stash[STATE]
        if state.opposite is not None:  # what two targets take together is stored nowhere
            return
        jobs = [job_of(item) for item in session.items]
        forecast = Forecast(state, [job for job in jobs if job is not None], likely_machine(state))
        self._outlook = Outlook(state, jobs, forecast)
        self._places = {item.nodeid: place for place, item in enumerate(session.items)}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._outlook is not None:
            self._outlook.position = self._places.get(nodeid, 0)

    # -- nobody writes behind the live line -----------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        finally:
            self._clear()

    def pytest_fixture_post_finalizer(self) -> None:
        self._clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        finally:
            self._clear()

    def pytest_keyboard_interrupt(self) -> None:
        self._clear()
        state = self._config.stash[STATE]
        if not (state.run.touched and state.run.service.managed):
            return
        self._reporter.write_line("interrupted: stopping the engine, and leaving everything as it was found")
        if state.journal is not None and any(case.starts for case in state.ledger.cases):
            self._reporter.write_line("what was measured is kept: --spec-resume goes on from there")

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        finally:
            self._clear()


def _live(config: pytest.Config, reporter: Any) -> bool:
    """Whether its lines can be written over: a terminal that takes escape codes (``NO_COLOR``, ``TERM=dumb``
    say that it does not), on which pytest itself writes, and no log lines come in between."""
    return (
        type(reporter) is TerminalReporter
        and bool(reporter.isatty)
        and reporter._tw.hasmarkup
        and not (config.getini("log_cli") or config.getoption("log_cli_level", None))
    )

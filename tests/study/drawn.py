"""Benchmark sessions in this process whose rounds are drawn, not measured.

Real are pytest, options, collection, the restart axis and its order, fixtures, the clean room, noise and
judging, recording and the files in ``baselines/``, reports and exit status. Made up is what
:meth:`World.in_place` replaces: the machine (a host on which nothing runs), the engine's adapter and its
service (nothing is launched, nobody is connected to), the load (``load.measure.measure``), and the date.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pytest_specdecode import opening, prepared, run
from pytest_specdecode.engines import Counters, Http, Readiness, Settings
from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.errors import NotRunError
from pytest_specdecode.hosts import Child, CommandResult
from pytest_specdecode.model import CaseStart, Round, SpecConfig
from pytest_specdecode.server import Server
from pytest_specdecode.services import ServiceState

from .populations import Array

LEVELS = (1, 4, 16, 32, 64)
PROJECT = {
    "pytest.ini": "[pytest]\n",
    "test_drawn.py": "def test_gate(measurement, baseline):\n    assert measurement >= baseline\n",
    "specdecode.toml": """
[target.drawn]
engine = "llamacpp"
model = "drawn"
machine = "study"
url = "http://127.0.0.1:9"
steps = {steps}
concurrency = {levels}
speculation = {{ algorithm = "ngram-mod" }}
service = {{ command = ["drawn", "{{flags}}"] }}
workload = {{ rounds = {rounds} }}
gate = {{ restarts = {restarts} }}
""",
}
PLUGINS_OFF = (
    *("benchmark", "xdist", "cov", "randomly", "order", "rerunfailures", "anyio", "hypothesispytest"),
    *("cacheprovider", "faulthandler", "unraisableexception", "threadexception"),
)


class Adapter(LlamaCpp):
    """llama.cpp's words for an engine that is always ready and runs what it was asked."""

    def help_argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        return ()

    def ready(self, http: Http) -> Readiness:
        return Readiness(ready=True)

    def version(self, http: Http) -> str:
        return "drawn"

    def settings(self, http: Http, argv: Sequence[str]) -> Settings:
        return Settings(speculating=True)

    def mismatches(self, config: SpecConfig, settings: Settings) -> tuple[str, ...]:
        return ()

    def counters(self, http: Http) -> Counters:
        return Counters()


class Line:
    """A connection that nobody uses."""

    def __init__(self, *_to: object) -> None:
        return

    def close(self) -> None:
        return


class Vacant:
    """A machine on which nothing runs: the clean room's questions have that answer, other commands none."""

    name = python = "vacant"

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        answers = {"orphans": "[]", "9": '{"sockets": [], "holders": [], "answers": false}'}
        answer = answers.get(argv[-1])
        return CommandResult(tuple(argv), 0 if answer else 127, answer or "", "", 0.0)

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Child:
        raise NotRunError("nothing is launched on a vacant machine")

    def close(self) -> None:
        return


@dataclass(slots=True)
class Nothing:
    """A service that launches nothing."""

    kind: str = "drawn"
    managed: bool = True
    starts: int = 0
    running: bool = False
    killed: Sequence[int] = ()

    def command(self, flags: Sequence[str], port: int) -> tuple[str, ...]:
        return ("drawn", *flags)

    def start(self, flags: Sequence[str], port: int, env: Mapping[str, str] | None = None) -> None:
        self.starts, self.running = self.starts + 1, True

    def state(self) -> ServiceState:
        return ServiceState(self.running)

    def instance(self) -> str:
        return str(self.starts)

    def stop(self, *, within_s: float) -> None:
        self.running = False

    def leftovers(self) -> Mapping[int, str]:
        return {}

    def kill_leftovers(self) -> None:
        return

    def log_tail(self, lines: int = 20) -> list[str]:
        return []

    def restore(self) -> None:
        return


@dataclass(frozen=True, slots=True)
class World:
    """What one session measures: ``speeds`` (configuration, level, restart, round) on the day ``date``."""

    speeds: Array
    date: str

    def measure(self, server: Server, _workload: object, concurrency: int, **_how: object) -> CaseStart:
        rounds = self.speeds[server.config.steps - 1, LEVELS.index(concurrency), server.start.restart - 1]
        return CaseStart(server.start_id, tuple(Round({"tok_s": float(speed)}, 1.0) for speed in rounds))

    def context(self, *_about: object) -> dict[str, Any]:
        return {"date": f"{self.date}T12:00:00+00:00", "engine": "llamacpp", "engine_version": "drawn"}

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        with (
            mock.patch.object(opening, "make_host", return_value=Vacant()),
            mock.patch.multiple(
                prepared,
                load_engine=lambda _name: Adapter(),
                make_service=lambda _target, _host: Nothing(),
            ),
            mock.patch.multiple(run, HttpxHttp=Line, measure=self.measure, context_of=self.context),
        ):
            yield


@dataclass(frozen=True, slots=True)
class Session:
    """What a session came to: each case's outcome, server starts and exit status."""

    outcomes: tuple[str, ...]
    starts: int
    status: int

    @property
    def alarm(self) -> bool:
        return "regressed" in self.outcomes

    @property
    def open(self) -> bool:
        return "inconclusive" in self.outcomes and not self.alarm

    @property
    def missed(self) -> bool:
        return "pass" in self.outcomes

    @property
    def all_caught(self) -> bool:
        return set(self.outcomes) == {"regressed"}


def pytest_session(folder: Path, world: World, *args: str) -> Session:
    """One session of the project in ``folder``, in this process."""
    report = folder / "report.json"
    options = [part for name in PLUGINS_OFF for part in ("-p", f"no:{name}")]
    options += ["-q", "--capture=no", "--tb=native", "--import-mode=importlib", f"--rootdir={folder}"]
    options += ["--spec-target=drawn"]
    with world.in_place(), contextlib.redirect_stdout(io.StringIO()) as said:
        status = pytest.main(
            [*options, "-c", str(folder / "pytest.ini"), f"--spec-json={report}", *args, str(folder)]
        )
    if status not in (0, 1, 11):
        raise RuntimeError(said.getvalue())
    content = json.loads(report.read_text())
    return Session(tuple(c["outcome"] for c in content["cases"]), content["summary"]["starts"], int(status))

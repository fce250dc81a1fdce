"""A project whose target is the fake engine: same service, adapter, load and verdict, known speed."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pytest_specdecode.session  # noqa: F401  (loaded once: pytester unloads what a test imports, numpy cannot be)

NOT_OURS = (
    "PYTEST_XDIST_WORKER",
    "PYTEST_XDIST_WORKER_COUNT",
    "PYTEST_XDIST_TESTRUNUID",
    "GITHUB_ACTIONS",
    "GITHUB_STEP_SUMMARY",
)
"""Of the worker and the job that run these tests; the sessions that they start are nobody's."""

FAKE = Path(__file__).parents[1] / "fake" / "server.py"

TOML = """
[target.fake]
engine = "llamacpp"
steps = {steps}
concurrency = {concurrency}

[target.fake.speculation]
algorithm = "ngram-mod"

[target.fake.service]
command = [{python}, {fake}, "-m", "tiny.gguf", "--alias", "tiny", "--host", "127.0.0.1",
           "--port", "{{port}}", "-c", "65536", "-np", "8", "--metrics", "--slots", "{{flags}}"]
ready_within = "20s"
env = {{ FAKE_ENGINE = {engine} }}

[target.fake.cleanup]
within = "10s"

[target.fake.workload]
output_tokens = 16
requests = "max(c, 2)"
warmup_rounds = 1
rounds = 2

[target.fake.gate]
tolerance = "20%"
restarts = {restarts}
"""


def configuration(
    engine: Path, *, steps: Sequence[int] = (0, 1), concurrency: Sequence[int] = (1,), restarts: int = 1
) -> str:
    """A configuration file whose target is the fake engine with the behaviour in the file ``engine``."""
    return TOML.format(
        steps=list(steps),
        concurrency=list(concurrency),
        restarts=restarts,
        python=json.dumps(sys.executable),
        fake=json.dumps(str(FAKE)),
        engine=json.dumps(str(engine)),
    )


@dataclass
class Project:
    """A folder with a configuration, tests, and an engine whose behaviour is data."""

    pytester: pytest.Pytester

    @property
    def starts_file(self) -> Path:
        return self.pytester.path / "starts.jsonl"

    @property
    def engine_file(self) -> Path:
        return self.pytester.path / "engine.json"

    def engine(self, **behaviour: Any) -> None:
        """What the engine does from now on; speeds are exact."""
        settings = {"tok_s": 400, "ttft_ms": 2, "starts_file": str(self.starts_file), **behaviour}
        self.engine_file.write_text(json.dumps(settings))

    def configure(
        self,
        *,
        steps: Sequence[int] = (0, 1),
        concurrency: Sequence[int] = (1,),
        restarts: int = 1,
        more: str = "",
    ) -> None:
        text = configuration(self.engine_file, steps=steps, concurrency=concurrency, restarts=restarts)
        (self.pytester.path / "specdecode.toml").write_text(text + more)

    def test_file(self, text: str, name: str = "test_bench") -> None:
        self.pytester.makepyfile(**{name: text})

    def run(self, *args: str, plugins: Sequence[str] = ()) -> pytest.RunResult:
        """pytest in a process of its own, with this plugin, pytest-benchmark and the named ones alone."""
        switched_off = [
            part
            for name in ("randomly", "order", "rerunfailures", "xdist", "cov", "hypothesispytest", "anyio")
            if name not in plugins
            for part in ("-p", f"no:{name}")
        ]
        return self.pytester.runpytest_subprocess("-W", "error", *switched_off, *args)

    @property
    def starts(self) -> list[Mapping[str, Any]]:
        """Server starts so far, in order."""
        if not self.starts_file.exists():
            return []
        return [json.loads(line) for line in self.starts_file.read_text().splitlines()]


GATED = """
def test_gate(measurement, baseline):
    assert measurement >= baseline
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the fake engine at 400 tok/s, steps 0 and 1, one restart, and one gated test."""
    for name in NOT_OURS:
        monkeypatch.delenv(name, raising=False)
    made = Project(pytester)
    made.engine()
    made.configure()
    made.test_file(GATED)
    return made


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Baselines of that project over three restarts, recorded once for all tests."""
    folder = tmp_path_factory.mktemp("recording")
    engine = folder / "engine.json"
    engine.write_text(json.dumps({"tok_s": 400, "ttft_ms": 2}))
    (folder / "specdecode.toml").write_text(configuration(engine))
    (folder / "test_bench.py").write_text(GATED)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--update-baselines",
        "--spec-restarts=3",
        "-p",
        "no:cacheprovider",
    ]
    environment = {name: value for name, value in os.environ.items() if name not in NOT_OURS}
    for _ in range(3):  # a machine that others use may hold up one of the starts
        done = subprocess.run(
            command, cwd=folder, env=environment, text=True, capture_output=True, timeout=120, check=False
        )
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stdout
    (file,) = (folder / "baselines").glob("fake@*.json")
    file.write_text(json.dumps(steadied(json.loads(file.read_text()))))
    return folder / "baselines"


def steadied(content: dict[str, Any]) -> dict[str, Any]:
    """A baseline file whose rounds differ by 0.4%, however busy the machine was while it was recorded."""
    for case in content["cases"]:
        rounds = [r for session in case["sessions"] for start in session["starts"] for r in start["rounds"]]
        for name in rounds[0]:
            middle = statistics.median(r[name] for r in rounds)
            for place, values in enumerate(rounds):
                values[name] = middle * (1 + 0.004 * (place % 3 - 1))
    return content


@pytest.fixture
def recorded(project: Project, recording: Path) -> Project:
    """The same, its baselines recorded."""
    shutil.copytree(recording, project.pytester.path / "baselines")
    return project

"""A project whose target is the fake engine: same service, adapter, load and verdict, known speed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FAKE = Path(__file__).parents[1] / "fake" / "server.py"

TOML = """
[target.fake]
engine = "llamacpp"
steps = {steps}
concurrency = {concurrency}

[target.fake.speculation]
algorithm = "ngram-mod"

[target.fake.service]
command = [{python}, {fake}, "-m", "tiny.gguf", "--alias", "tiny", "--host", "127.0.0.1", "--port", "{{port}}",
           "-c", "65536", "-np", "8", "--metrics", "--slots", "{{flags}}"]
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
tolerance = "10%"
restarts = {restarts}
"""


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
        self, *, steps: Sequence[int] = (0, 1), concurrency: Sequence[int] = (1,), restarts: int = 1, more: str = ""
    ) -> None:
        text = TOML.format(
            steps=list(steps),
            concurrency=list(concurrency),
            restarts=restarts,
            python=json.dumps(sys.executable),
            fake=json.dumps(str(FAKE)),
            engine=json.dumps(str(self.engine_file)),
        )
        (self.pytester.path / "specdecode.toml").write_text(text + more)

    def test_file(self, text: str, name: str = "test_bench") -> None:
        self.pytester.makepyfile(**{name: text})

    def run(self, *args: str, plugins: Sequence[str] = ()) -> pytest.RunResult:
        """pytest in a process of its own, with only this plugin and pytest-benchmark unless others are named."""
        switched_off = [
            part
            for name in ("randomly", "order", "rerunfailures", "xdist", "cov", "hypothesispytest", "anyio")
            if name not in plugins
            for part in ("-p", f"no:{name}")
        ]
        return self.pytester.runpytest_subprocess(*switched_off, *args)

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
def project(pytester: pytest.Pytester) -> Project:
    """A project with the fake engine at 400 tok/s, steps 0 and 1, one restart, and one gated test."""
    made = Project(pytester)
    made.engine()
    made.configure()
    made.test_file(GATED)
    return made


@pytest.fixture
def recorded(project: Project) -> Project:
    """The same, its baselines recorded."""
    result = project.run("--update-baselines")
    assert result.ret == 0, result.stdout.str()
    return project


Run = Callable[..., pytest.RunResult]

"""Real SGLang servers on this CPU. Slow, so they want to be asked for: make test-sglang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .servers import command, launched

TOML = """
[target.real]
engine = "sglang"
model = "tiny"
steps = [0, 1, 2, 3]
concurrency = [1, 4]
[target.real.speculation]
{speculation}
[target.real.service]
command = {command}
env = {{ OMP_NUM_THREADS = "1", SGLANG_USE_CPU_ENGINE = "1", HF_HUB_OFFLINE = "1" }}
extra_args = ["--enable-metrics"]
ready_within = "10min"
[target.real.workload]
output_tokens = 24
requests = "max(2c, 4)"
rounds = 2
{workload}
[target.real.gate]
tolerance = "50%"
restarts = 1
"""
"""One start and two rounds: enough for figures to be checked, not for a verdict."""


@pytest.fixture(scope="session")
def folder() -> Path:
    """Where SGLang is installed, with its models."""
    named = os.environ.get("SPECDECODE_SGLANG")
    if not named:
        pytest.skip("real SGLang servers: make test-sglang")
    return Path(named)


@pytest.fixture(scope="module")
def serve(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """``serve(model, "--flag", …)`` is a context: a ready server."""

    def start(model: str, *flags: str) -> Any:
        return launched(folder, model, flags, tmp_path_factory.mktemp("server"))

    return start


class Session:
    """A folder with a target, where pytest is run as a user runs it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--spec-json=report.json", *args]
        return subprocess.run(argv, cwd=self.path, text=True, capture_output=True, timeout=3600, check=False)

    @property
    def report(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.path / "report.json").read_text())
        return told


@pytest.fixture
def session(folder: Path, tmp_path: Path) -> Callable[..., Session]:
    """``session(model, 'algorithm = "NGRAM"')``: its target speculates like that."""

    def make(model: str, speculation: str, *, workload: str = "", test: str = "") -> Session:
        text = TOML.format(
            speculation=speculation.format(folder=folder),
            workload=workload,
            command=json.dumps([*command(folder, model, "{port}"), "{flags}"]),
        )
        (tmp_path / "specdecode.toml").write_text(text)
        (tmp_path / "test_bench.py").write_text(
            test or "def test_gate(measurement, baseline):\n    assert measurement >= baseline\n"
        )
        return Session(tmp_path)

    return make

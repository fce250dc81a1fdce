"""The real engine with its CPU share cut is shown to be slower, by the plugin's own path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_specdecode.config import Target

TOML = """
[target.real]
engine = "llamacpp"
model = {model}
steps = [0]
[target.real.speculation]
algorithm = "ngram-simple"
args = {{ "spec-ngram-simple-size-n" = 1 }}
[target.real.service]
command = {command}
ready_within = "60s"
[target.real.workload]
prompts = {prompts}
output_tokens = 16
requests = "max(2c, 4)"
rounds = 2
[target.real.gate]
tolerance = "20%"
restarts = 2
"""

GATED = "def test_gate(measurement, baseline):\n    assert measurement >= baseline\n"
SPINNERS = 4


@contextmanager
def crowded(cpu: int) -> Iterator[None]:
    """Others compute on that CPU all the time, so that whoever is pinned to it has a fifth of it."""
    spin = ["taskset", "-c", str(cpu), sys.executable, "-c", "while True: pass"]
    spinners = [subprocess.Popen(spin) for _ in range(SPINNERS)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def test_an_engine_whose_cpu_is_shared_has_regressed(target: Target, tmp_path: Path) -> None:
    """What measures has the other CPUs to itself, where there are any."""
    cpu, *others = sorted(os.sched_getaffinity(0))
    elsewhere = ",".join(map(str, others or [cpu]))
    text = TOML.format(
        model=json.dumps(target.model),
        prompts=json.dumps(target.workload.prompts),
        command=json.dumps(["taskset", "-c", str(cpu), *target.service.launch]),
    )
    (tmp_path / "specdecode.toml").write_text(text)
    (tmp_path / "test_bench.py").write_text(GATED)

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [
            "taskset",
            "-c",
            elsewhere,
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            *args,
        ]
        return subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, timeout=240, check=False)

    recorded = run("--update-baselines")
    assert recorded.returncode == 0, recorded.stdout
    with crowded(cpu):
        judged = run("--spec-steps=0")
    assert judged.returncode == 1, judged.stdout
    assert "regressed: real off c=1: tok_s is worse" in judged.stdout

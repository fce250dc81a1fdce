"""The job itself, as a user does it: a real engine as a unit in the container, from a desk, over SSH."""

from __future__ import annotations

import json
import sys
from importlib import resources
from pathlib import Path

import pytest

from . import bed
from .conftest import HOST, HYPERVISOR, Project

TOML = """
[target.rig]
engine = "llamacpp"
url = "http://127.0.0.1:30000"
tunnel = true
machine = "rig"
model = "gemma"
steps = [1, 2, 3]
concurrency = [1]
reference_steps = 1
[target.rig.speculation]
algorithm = "ngram-simple"
args = {{ spec-ngram-simple-size-n = 1 }}
{host}
{hypervisor}
[target.rig.service]
systemd = "sglang-qwen.service"
ready_within = "60s"
[target.rig.cleanup]
within = "20s"
[target.rig.workload]
prompts = "{prompts}"
output_tokens = 20
requests = "2"
warmup_rounds = 1
rounds = 2
[target.rig.gate]
tolerance = "90%"
restarts = 1
"""


@pytest.fixture
def real(rig: bed.Rig, tmp_path: Path) -> Project:
    """A project whose target is llama.cpp with Gemma 3 270M, on the container's loopback address only."""
    pytest.importorskip("xllamacpp", reason="the demo extra is not installed")
    from pytest_specdecode.demo.model import ensure_model

    model = ensure_model(rig.model)
    rig.unit(
        f"{sys.executable} -m pytest_specdecode.launchers.llama_server -m {model} --alias gemma --host "
        f"127.0.0.1 "
        "--port 30000 -c 512 -np 2 -t 1 -tb 1 --metrics --slots --no-ui",
        more=f"Environment=PYTHONPATH={bed.ROOT}",
    )
    rig.ct("systemctl start sglang-qwen")
    project = Project(tmp_path, rig)
    (tmp_path / "test_bench.py").unlink()
    prompts = resources.files("pytest_specdecode").joinpath("demo/prompts.jsonl")
    host, hypervisor = HOST.replace(".t.", ".rig."), HYPERVISOR.replace(".t.", ".rig.")
    (tmp_path / "specdecode.toml").write_text(TOML.format(host=host, hypervisor=hypervisor, prompts=prompts))
    return project


def test_the_suite_over_ssh_with_steps_1_2_3(real: Project) -> None:
    rig = real.rig
    suite = ("--pyargs", "pytest_specdecode.suite", "--spec-steps=1,2,3")
    said = real.pytest(*suite, "--update-baselines")
    assert "3 passed" in said
    stored = json.loads((real.folder / "baselines" / "rig@rig.json").read_text())
    assert [case["config"]["steps"] for case in stored["cases"]] == [1, 2, 3]
    assert rig.show("ActiveState") == "active"
    assert rig.show("DropInPaths") == ""
    said = real.pytest(
        *suite, "--spec-json=report.json", "--spec-inconclusive=pass"
    )  # one start decides little
    assert "3 passed" in said
    assert "3 server starts" in said
    report = json.loads((real.folder / "report.json").read_text())
    assert all(case["metrics"]["tok_s"] > 0 for case in report["cases"])
    assert all(case["metrics"]["tokens_per_step"] > 1 for case in report["cases"])
    assert {entry["host"] for entry in report["audit"]} >= {
        "root@10.77.0.129",
        "container 129 on root@10.77.0.2",
    }
    assert [start["config"]["steps"] for start in report["starts"]] == [1, 2, 3]
    assert rig.show("ActiveState") == "active"
    assert "spec-type" not in rig.ct(f"tr '\\0' ' ' < /proc/{rig.show('MainPID')}/cmdline")

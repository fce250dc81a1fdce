"""The job itself, as a user does it: recorded and judged with a real vLLM."""

from __future__ import annotations

import json

import pytest

from .conftest import Project


def test_a_sweep_is_recorded_and_judged(project: Project) -> None:
    project.pytest("--spec-steps=0,2", "--update-baselines", "--spec-json=recorded.json")
    recorded = json.loads((project.folder / "recorded.json").read_text())
    off, two = (case["metrics"] for case in recorded["cases"])
    assert off["tokens_per_step"] == pytest.approx(1)
    assert "accept_length" not in off
    assert 1 < two["tokens_per_step"] <= two["accept_length"] <= 3
    (baseline,) = (project.folder / "baselines").glob("vllm@*.json")
    stored = json.loads(baseline.read_text())["cases"]
    assert [case["config"]["steps"] for case in stored] == [0, 2]
    assert stored[0]["identity"]["launch"] == stored[1]["identity"]["launch"]

    project.pytest("--spec-steps=2", "--spec-json=judged.json", "--spec-inconclusive=pass")
    judged = json.loads((project.folder / "judged.json").read_text())
    assert {case["outcome"] for case in judged["cases"]} <= {"pass", "inconclusive"}
    (start,) = judged["starts"]
    assert start["version"] == "0.32.0"
    assert start["settings"]["speculative_config"]["prompt_lookup_max"] == 4

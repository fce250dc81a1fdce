"""pytest-benchmark's own files and tables know every measured case."""

from __future__ import annotations

import json
from typing import Any

from .conftest import Project


def entries(project: Project) -> list[dict[str, Any]]:
    content = json.loads((project.pytester.path / "bench.json").read_text())
    return list(content["benchmarks"])


def test_one_entry_for_each_case_and_restart_with_the_rounds_as_rounds(project: Project) -> None:
    project.configure(restarts=2)
    project.test_file(
        "def test_a(measurement, baseline):\n    assert measurement >= baseline\n"
        "def test_b(measurement):\n    assert measurement.tok_s > 0\n"
    )
    result = project.run("--update-baselines", "--benchmark-json=bench.json")
    assert result.ret == 0
    found = entries(project)
    assert sorted(entry["name"] for entry in found) == [
        f"fake[steps{steps}-c1-r{restart}]" for steps in (0, 1) for restart in (1, 2)
    ]
    first = found[0]
    assert first["group"] == "fake c=1"
    assert first["stats"]["rounds"] == 2
    assert abs(first["extra_info"]["metrics"]["tok_s"] - 400) < 40
    assert first["extra_info"]["config"]["steps"] == 0


def test_its_table_is_shown(recorded: Project) -> None:
    recorded.run("--spec-steps=1").stdout.fnmatch_lines(["*benchmark 'fake c=1': 1 tests*"])


def test_benchmark_only_keeps_them(recorded: Project) -> None:
    recorded.run("--spec-steps=1", "--benchmark-only").assert_outcomes(passed=1)


def test_without_pytest_benchmark_all_else_works(recorded: Project) -> None:
    recorded.run("--spec-steps=1", "-p", "no:benchmark").assert_outcomes(passed=1)


def test_its_comparison_decides_nothing(recorded: Project) -> None:
    assert recorded.run("--spec-steps=1", "--benchmark-disable").ret == 0

"""One worker at most: several would measure each other."""

from __future__ import annotations

import json

from .conftest import Project


def test_several_workers_are_a_usage_error(project: Project) -> None:
    result = project.run("--spec-steps=1", "-n2", plugins=["xdist"])
    result.stderr.fnmatch_lines(["ERROR: *a benchmark session runs with one worker*"])
    assert result.ret == 4
    assert project.starts == []


def test_one_worker_gives_the_same_report(recorded: Project) -> None:
    result = recorded.run("--spec-steps=0,1", "-n1", "--spec-json=report.json", plugins=["xdist"])
    assert result.ret == 0
    result.stdout.fnmatch_lines(["PASS 2 *2 server starts*"])
    report = json.loads((recorded.pytester.path / "report.json").read_text())
    assert [case["outcome"] for case in report["cases"]] == ["pass", "pass"]
    assert len(report["starts"]) == 2
    assert report["identity"]["workload"]


def test_one_worker_records(project: Project) -> None:
    assert project.run("--update-baselines", "-n1", plugins=["xdist"]).ret == 0
    assert len(list((project.pytester.path / "baselines").glob("fake@*.json"))) == 1

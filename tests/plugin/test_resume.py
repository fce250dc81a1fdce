"""An interrupted run is finished: what was measured is taken from its journal, the rest is measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Project
from .test_interruption import until

ALL = bool(os.environ.get("SPECDECODE_EVERY_CASE"))
"""With SPECDECODE_EVERY_CASE=1 twelve cases, killed after each of them; else four, killed after the third."""
STEPS, LEVELS = ((0, 1, 2), (1, 2, 3, 4)) if ALL else ((0, 1), (1, 2))
CASES = len(STEPS) * len(LEVELS)
KILLED_AFTER = range(1, CASES) if ALL else (3,)
JUDGED = (f"--spec-steps={STEPS[0]}-{STEPS[-1]}", "--spec-restarts=1")


@pytest.fixture
def several(project: Project) -> Project:
    """Cases with a baseline."""
    project.test_file(
        "import pytest\n"
        "@pytest.mark.gate(tolerance='90%')\n"  # how fast they are is not what is looked at
        "def test_gate(measurement, baseline):\n"
        "    assert measurement >= baseline\n"
    )
    project.configure(steps=STEPS, concurrency=LEVELS, restarts=2)
    assert project.run("--update-baselines", "-q").ret == 0
    project.starts_file.unlink()
    return project


def journal(project: Project) -> Path:
    return project.pytester.path / ".specdecode" / "fake.jsonl"


def measured(project: Project) -> list[dict[str, Any]]:
    """The journal's measurements so far."""
    try:
        lines = journal(project).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.startswith('{"event": "case"')]


def interrupted(project: Project, when: Callable[[], bool], how: signal.Signals, *options: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    run = subprocess.Popen(
        command, cwd=project.pytester.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        assert until(when)
        os.kill(run.pid, how)
        run.wait(timeout=30)
    finally:
        run.kill()
        run.wait()


@pytest.mark.parametrize("killed_after", KILLED_AFTER)
def test_killed_after_any_case_the_rest_is_measured_once(several: Project, killed_after: int) -> None:
    interrupted(several, lambda: len(measured(several)) >= killed_after, signal.SIGKILL, *JUDGED)
    kept = measured(several)
    result = several.run("--spec-resume", *JUDGED, "--spec-json=report.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [f"resumed the run of *: {len(kept)} measurements were taken from its journal"]
    )
    report = json.loads((several.pytester.path / "report.json").read_text())
    assert [case["outcome"] for case in report["cases"]] == ["pass"] * CASES
    assert Counter(len(case["starts"]) for case in report["cases"]) == {1: CASES}
    by_start = {start["id"] for case in report["cases"] for start in case["starts"]}
    assert {each["start"]["start_id"] for each in kept} <= by_start
    assert len(several.starts) <= len(STEPS) + 1
    assert not journal(several).exists()


def test_with_everything_measured_no_server_starts(recorded: Project) -> None:
    """Ctrl-C in the last test's body: its number is there, its outcome is not."""
    recorded.test_file(
        "import pathlib, time\n"
        "def test_gate(measurement, baseline):\n"
        "    pathlib.Path('reached').touch()\n"
        "    time.sleep(0 if pathlib.Path('go').exists() else 60)\n"
        "    assert measurement >= baseline\n"
    )
    reached = recorded.pytester.path / "reached"
    interrupted(recorded, reached.exists, signal.SIGINT, "--spec-steps=1")
    (recorded.pytester.path / "go").touch()
    result = recorded.run("--spec-resume", "--spec-steps=1")
    assert result.ret == 0
    assert len(recorded.starts) == 1
    result.stdout.fnmatch_lines(["PASS 1 *1 server start*"])


def test_a_journal_of_other_options_or_tests_is_refused_and_kept(recorded: Project) -> None:
    interrupted(recorded, lambda: len(measured(recorded)) >= 1, signal.SIGKILL, "--spec-steps=0,1")
    started = len(recorded.starts)
    result = recorded.run("--spec-resume", "--spec-steps=1")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*other options (steps: [[]0, 1] → [[]1]); other tests (cases)*"])
    recorded.test_file("def test_gate(measurement, baseline):\n    assert baseline <= measurement\n")
    result = recorded.run("--spec-resume", "--spec-steps=0,1")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*other tests (test_bench.py)*"])
    assert len(recorded.starts) == started
    assert journal(recorded).exists()

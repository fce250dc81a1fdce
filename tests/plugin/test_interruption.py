"""Whatever ends a session, no engine outlives it and no file is half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Project

WITHIN_S = 30.0


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", ["mid-round", "start-up"])
def test_no_engine_outlives_the_session(project: Project, ending: signal.Signals, moment: str) -> None:
    project.configure(steps=[1])
    slow = {"tok_s": 2} if moment == "mid-round" else {"load_s": 1e9}
    project.engine(**slow, child_s=600)
    before = sorted(project.pytester.path.glob("**/*.json"))
    pytest_process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "--update-baselines", "-p", "no:cacheprovider"],
        cwd=project.pytester.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert until(lambda: len(project.starts) == 1)
        time.sleep(0.5)
        engine = [project.starts[0]["pid"], project.starts[0]["child"]]
        assert all(lives(pid) for pid in engine)
        os.kill(pytest_process.pid, ending)
        pytest_process.wait(timeout=WITHIN_S)
        assert until(lambda: not any(lives(pid) for pid in engine))
    finally:
        pytest_process.kill()
        pytest_process.wait()
    assert sorted(project.pytester.path.glob("**/*.json")) == before


def test_ctrl_c_is_told_as_such(project: Project) -> None:
    project.configure(steps=[1])
    project.engine(tok_s=2)
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--spec-steps=1"],
        cwd=project.pytester.path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert until(lambda: len(project.starts) == 1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=WITHIN_S)
    assert "\n[1/1] starting steps=1" in output
    assert "\ninterrupted: stopping the engine, and leaving everything as it was found\n" in output
    assert "KeyboardInterrupt" in output
    assert "\x1b" not in output
    assert process.returncode == 2

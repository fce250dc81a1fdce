"""Ten drawn sessions through pytest itself come to what the study's loop says, case by case."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_sessions_through_pytest_agree_with_the_study() -> None:
    command = ["-m", "tests.study.through_pytest", "--baselines=1", "--runs=5", "--reference=0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    found = subprocess.run(
        [sys.executable, *command],
        cwd=Path(__file__).parents[2],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("10 of 10 sessions come to the same"), found.stdout

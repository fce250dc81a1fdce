"""The command in a process of its own: light to start, and the same as ``python -m pytest_specdecode``."""

from __future__ import annotations

import subprocess
import sys

from pytest_specdecode.cli import COMMANDS

HEAVY = ["httpx", "numpy", "scipy", "msgspec", "paramiko", "tabulate", "jinja2", "pytest"]


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys, runpy\nsys.argv = ['specdecode', '--help']\ntry:\n"
        "    runpy.run_module('pytest_specdecode', run_name='__main__')\n"
        f"except SystemExit as end:\n    sys.exit(end.code or sorted(set({HEAVY}) & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"\n    {name} " in done.stdout for name in COMMANDS)

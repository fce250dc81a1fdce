"""What a person sees on a terminal while a run goes on."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

from .conftest import Project

LINE = re.compile(r"\n\r\x1b\[2K(?P<said>.*?)\r\x1b\[2K\x1b\[A\x1b\[\d+G", re.DOTALL)
"""From a live line's first appearance to its end, the cursor back where pytest left it."""


def on_a_terminal(project: Project, *args: str) -> str:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:benchmark", *args]
    environment = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR", "PY_COLORS"}}
    with subprocess.Popen(
        command,
        cwd=project.pytester.path,
        env={**environment, "TERM": "xterm", "COLUMNS": "100"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    ):
        os.close(terminal)
        parts = []
        try:
            while part := os.read(controller, 65536):
                parts.append(part)
        except OSError:  # the other side is closed
            pass
        os.close(controller)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_the_live_line_says_how_far_it_is_and_leaves_nothing_behind(recorded: Project) -> None:
    recorded.configure(steps=[1])
    screen = on_a_terminal(recorded, "--spec-steps=1")
    said = "".join(m["said"] for m in LINE.finditer(screen))
    assert re.search(r"\[1/1\] starting steps=1.* · \d+ s, (about \d+ s left|almost done)", said)
    assert re.search(r"\[1/1\] steps=1 c=1 round \d/2 [\d.]+ tok/s · \d+ s", said)
    rest = re.sub(r"\x1b\[\d*m", "", LINE.sub("", screen))
    assert re.search(r"^test_bench\.py \S +\[100%\]$", rest, re.MULTILINE)
    assert "[1/1]" not in rest

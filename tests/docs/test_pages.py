"""Every command in the documentation works: pages are run from top to bottom, in an empty folder.

A ``console`` block's lines after ``$`` are run by a shell; a line ``exit status N`` below one says how it
ends (default 0). A code block with a caption is a file. What makes the environment (venv, pip) has been done.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_MADE = re.compile(r"python3 -m venv|pip install|\. \.venv")


@dataclass(frozen=True, slots=True)
class Command:
    words: str
    status: int


@dataclass(frozen=True, slots=True)
class File:
    name: str
    text: str


def steps(page: str) -> Iterator[Command | File]:
    """Files and commands of a page, in order."""
    for block in _BLOCK.finditer(page):
        info, body = block["info"].strip(), block["body"]
        if caption := re.match(r":caption: (\S+)\n+", body):
            yield File(caption[1], body[caption.end() :])
        elif info == "console":
            for found in re.finditer(r"^\$ (.+)\n(?:exit status (\d+)\n)?", body, re.MULTILINE):
                if not _MADE.match(found[1]):
                    yield Command(found[1], int(found[2] or 0))


PAGES = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if any(isinstance(s, Command) for s in steps(path.read_text()))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for step in steps(page.read_text()):
        if isinstance(step, File):
            (tmp_path / step.name).write_text(step.text)
            continue
        done = subprocess.run(
            ["/bin/sh", "-c", step.words],
            cwd=tmp_path,
            env=environment,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == step.status, f"$ {step.words}\n{done.stdout}\n{done.stderr}"

"""A project whose target is the fake engine, and the command called in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_specdecode.cli import main
from tests.plugin.conftest import configuration


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    def of(self, what: str) -> str:
        """The doctor's lines about one thing, without its name."""
        lines = [line for line in self.out.splitlines() if line[8:].startswith(what)]
        return "\n".join(line[:8] + line[8 + len(what) :].strip() for line in lines)


@dataclass(frozen=True)
class Folder:
    path: Path
    specdecode: Callable[..., Said]

    @property
    def starts(self) -> Path:
        """Exists once a server was started."""
        return self.path / "starts.jsonl"

    def configure(self, change: Callable[[str], str] = lambda text: text) -> None:
        text = configuration(self.path / "engine.json", concurrency=(1, 2))
        (self.path / "specdecode.toml").write_text(change(text))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Folder:
    """A configured project, the current folder."""
    monkeypatch.chdir(tmp_path)

    def specdecode(*words: str) -> Said:
        status = main(words)
        return Said(status, *capsys.readouterr())

    made = Folder(tmp_path, specdecode)
    engine = {"tok_s": 400, "ttft_ms": 2, "starts_file": str(made.starts)}
    (tmp_path / "engine.json").write_text(json.dumps(engine))
    made.configure()
    return made

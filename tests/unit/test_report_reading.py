"""A stored report read back: whole, and never one of a later version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.cli import main
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.report.jsonfile import report, write_report
from pytest_specdecode.report.markdown import render_markdown
from pytest_specdecode.report.reading import read_report
from tests.unit.test_report_jsonfile import ledger


def written(folder: Path, **changed: Any) -> Path:
    path = folder / "run.json"
    write_report(path, report(ledger(), target="qwen", machine=""))
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return path


def test_a_report_says_the_same_after_it_was_read_back(tmp_path: Path) -> None:
    path = written(tmp_path)
    stored = read_report(path)
    again = tmp_path / "again.json"
    write_report(again, report(stored.ledger, target=stored.target, machine=""))
    assert json.loads(again.read_text()) == json.loads(path.read_text())


def test_the_command_shows_what_the_run_showed_and_writes_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path)
    assert main(["report", str(path)]) == 0
    head, _, numbers, _, summary = capsys.readouterr().out.splitlines()
    assert (head, numbers.split()) == ("qwen · tok/s per request", ["16", "108"])
    assert summary.startswith("PASS 1 · MEASURED 1 · REGRESSED 1 · INVALID 0 · DIRTY 0")
    page, text = tmp_path / "run.html", tmp_path / "run.md"
    assert main(["report", str(path), "--html", str(page), "--markdown", str(text)]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert text.read_text() == render_markdown(json.loads(path.read_text()))


def test_what_a_later_version_added_is_no_obstacle(tmp_path: Path) -> None:
    assert read_report(written(tmp_path, novelty={"x": 1})).target == "qwen"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"schema": 2}, "has schema 2, and pytest-specdecode .* reads up to 1; upgrade pytest-specdecode"),
        ({"schema": "1"}, 'has no "schema": 1'),
        ({"cases": [{"config": {}}]}, r"cases\[0\]"),
        ({"cases": 7}, "cases: Expected `array`, got `int`"),
    ],
)
def test_what_is_no_report_of_this_version_is_refused(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        read_report(written(tmp_path, **changed))
    assert str(refused.value).startswith(f"{tmp_path}/run.json: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not whole JSON"),
        ("[]", 'has no "schema": 1'),
        ('{"schema": 1, "target": "qwen", "machine": "m", "cases": []}', "a baseline file"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_report(path)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.json: cannot be read: No such file"):
        read_report(tmp_path / "no.json")


def test_a_report_that_was_tampered_with_is_refused_when_it_is_rendered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path)
    plain = json.loads(path.read_text())
    plain["cases"][0]["metrics"] = True
    path.write_text(json.dumps(plain))
    assert main(["report", str(path), "--markdown", str(tmp_path / "out.md")]) == 4
    assert "is it, unchanged, what --spec-json wrote?" in capsys.readouterr().err

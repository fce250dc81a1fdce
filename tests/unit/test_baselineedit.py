"""``specdecode baseline``: floors and notes by hand, and everything else untouched."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_specdecode.baselineedit import Wanted, edit, with_floors
from pytest_specdecode.cli import main
from pytest_specdecode.errors import BaselineError
from tests.unit.stored import case, save, stored

CASE = ["--steps", "2", "--concurrency", "16"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two recorded cases, in a project's baselines folder."""
    (tmp_path / "baselines").mkdir()
    monkeypatch.chdir(tmp_path)
    return save(tmp_path / "baselines", [stored(case(1, 16)), stored(case(2, 16))])


def test_floors_are_written_changed_and_removed_and_nothing_else(file: Path) -> None:
    before = json.loads(file.read_text())
    assert main(["baseline", "floor", "qwen@rack7", *CASE, "tok_s=90", "ttft_ms_p95=400"]) == 0
    assert json.loads(file.read_text())["cases"][1].pop("floor") == {"tok_s": 90, "ttft_ms_p95": 400}
    assert main(["baseline", "floor", "qwen@rack7", *CASE, "tok_s=95.5", "ttft_ms_p95="]) == 0
    after = json.loads(file.read_text())
    assert after["cases"][1].pop("floor") == {"tok_s": 95.5}
    assert after == before
    assert main(["baseline", "floor", str(file), *CASE, "tok_s", "--remove"]) == 0
    assert json.loads(file.read_text()) == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_notes_are_written_and_removed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = file.read_text()
    assert main(["baseline", "note", "qwen@rack7", *CASE, "since the new kernels"]) == 0
    assert "note: none → since the new kernels" in capsys.readouterr().out
    assert main(["baseline", "show"]) == 0
    assert "note: steps=2 algorithm=EAGLE topk=1 draft_tokens=3 c=16: since" in capsys.readouterr().out
    assert main(["baseline", "note", "qwen@rack7", *CASE, ""]) == 0
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["qwen@rack7", *CASE, "toks=90"], "unknown metric 'toks'; there are: tok_s, "),
        (["qwen@rack7", *CASE, "tok_s=fast"], "'tok_s=fast': 'fast' is not a number above 0"),
        (["qwen@rack7", *CASE, "tok_s=-1"], "'-1' is not a number above 0"),
        (["qwen@rack7", *CASE, "tok_s"], "METRIC=VALUE is expected, such as tok_s=180"),
        (["qwen@rack7", "--steps=9", "--concurrency=16", "tok_s=1"], "no case fits .*; stored are: steps=1"),
        (["qwen@rack8", *CASE, "tok_s=1"], "qwen@rack8.json: there is no such file; stored .*: qwen@rack7"),
    ],
)
def test_what_cannot_be_written_is_said_and_the_file_stays(
    file: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    before = file.read_text()
    assert main(["baseline", "floor", *words]) == 4
    assert re.search(said, capsys.readouterr().err)
    assert file.read_text() == before


def test_of_cases_with_as_many_steps_it_must_be_said_which(tmp_path: Path) -> None:
    other = stored(case(2, 16))
    ngram = type(other.config)(steps=2, algorithm="NGRAM", topk=1, draft_tokens=3)
    path = save(tmp_path, [other, type(other)(config=ngram, concurrency=16, note="n")])
    with pytest.raises(BaselineError, match=r"2 cases fit .*algorithm=EAGLE .*; steps=2 algorithm=NGRAM"):
        edit(path, Wanted(16, {"steps": 2}), lambda c: with_floors(c, {"tok_s": 1.0}))
    done = edit(
        path, Wanted(16, {"steps": 2, "algorithm": "NGRAM"}), lambda c: with_floors(c, {"tok_s": 1.0})
    )
    assert (done.new.note, done.new.floor) == ("n", {"tok_s": 1.0})


def test_what_is_stored_is_shown_with_what_it_can_show(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["baseline", "show", "qwen"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"qwen on rack7 ({file})\n")
    (line,) = (line for line in said.splitlines() if "steps=2" in line)
    words = line.split()
    assert words[words.index("tok_s") + 1 :][:4] == ["100", "3", "1", "1"]
    assert words[-1].endswith("%")


def test_nothing_stored_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", "show"]) == 4


def test_a_table_of_single_numbers_can_be_written_by_hand(tmp_path: Path) -> None:
    wanted = Wanted(1, {"steps": 2})
    path = tmp_path / "new" / "qwen@rack7.json"
    edit(path, wanted, lambda c: with_floors(c, {"tok_s": 186.0}), add=True)
    edit(path, Wanted(4, {"steps": 2}), lambda c: with_floors(c, {"tok_s": 162.0}), add=True)
    edit(path, wanted, lambda c: with_floors(c, {"tok_s": 180.0}))
    assert json.loads(path.read_text()) == {
        "schema": 1,
        "target": "qwen",
        "machine": "rack7",
        "cases": [
            {"config": {"steps": 2}, "concurrency": 1, "floor": {"tok_s": 180.0}},
            {"config": {"steps": 2}, "concurrency": 4, "floor": {"tok_s": 162.0}},
        ],
    }
    with pytest.raises(BaselineError, match=r"called TARGET@MACHINE\.json"):
        edit(tmp_path / "qwen.json", wanted, lambda c: c, add=True)

"""A journal holds all that ended before a crash, and is resumed only by the same run."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_specdecode import journal
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.journal import Journal, Subject
from pytest_specdecode.ledger import CaseMeasured, Ledger, TestRecord
from pytest_specdecode.model import Case, CaseStart, Outcome, Round, SpecConfig
from pytest_specdecode.resuming import writer
from pytest_specdecode.state import State

SUBJECT = Subject(
    target={"engine": "89ab", "steps": "cdef"},
    options={"steps": [1, 2], "restarts": None},
    tests={"test_a.py": "0123"},
    baselines="abc",
    plugin="0.1.0",
)
CASE = Case("qwen", SpecConfig.of(1, algorithm="ngram"), 4)
MEASURED = CaseMeasured(CASE, CaseStart("run-1", (Round({"tok_s": 100.5}, 2.0),)), 3)
ENDED = TestRecord("test_a.py::test_gate", "qwen", Outcome.PASS, CASE.config, 4, 1)


def test_what_was_measured_is_there_again_and_tests_are_not(tmp_path: Path) -> None:
    path = journal.journal_path(tmp_path, "qwen")
    first = journal.begin(path, SUBJECT)
    first.add(MEASURED)
    first.add(ENDED)
    first.close()
    again = journal.resume(path, SUBJECT)
    assert again.events == (MEASURED,)
    assert again.began == first.began
    again.add(MEASURED)
    again.close()
    assert journal.read(path).events == (MEASURED, MEASURED)


def test_a_run_that_ended_whole_leaves_none_and_git_sees_nothing(tmp_path: Path) -> None:
    path = journal.journal_path(tmp_path, "qwen")
    ended = journal.begin(path, SUBJECT)
    ended.close()
    assert path.exists()
    ended.remove()
    assert [p.name for p in path.parent.iterdir()] == [".gitignore"]
    with pytest.raises(ConfigError, match="nothing to resume"):
        journal.resume(path, SUBJECT)


def test_a_line_cut_by_a_crash_is_dropped_and_written_over(tmp_path: Path) -> None:
    path = journal.journal_path(tmp_path, "qwen")
    first = journal.begin(path, SUBJECT)
    first.add(MEASURED)
    first.close()
    with path.open("ab") as file:
        file.write(b'{"event": "case", "ca')
    again = journal.resume(path, SUBJECT)
    again.add(MEASURED)
    again.close()
    assert journal.read(path).events == (MEASURED, MEASURED)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"options": {"steps": [1], "restarts": None}}, r"other options \(steps: \[1, 2\] → \[1\]\)"),
        ({"target": {"engine": "0000", "steps": "cdef"}}, r"other specdecode.toml \(engine\)"),
        ({"tests": {"test_a.py": "4567"}}, r"other tests \(test_a.py\)"),
        ({"baselines": "def", "plugin": "9"}, "other stored baselines; other version of pytest-specdecode"),
    ],
)
def test_another_runs_journal_is_refused_naming_what_differs(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    path = journal.journal_path(tmp_path, "qwen")
    journal.begin(path, SUBJECT).close()
    with pytest.raises(ConfigError, match=says):
        journal.resume(path, replace(SUBJECT, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "[]\n", "{}\n", '{"journal": 1, "began": "", "subject": {}}\n'])
def test_a_damaged_journal_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "qwen.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is damaged"):
        journal.read(path)


def test_a_newer_journal_is_told(tmp_path: Path) -> None:
    path = tmp_path / "qwen.jsonl"
    path.write_text(json.dumps({"journal": 2}) + "\n")
    with pytest.raises(ConfigError, match="another version"):
        journal.read(path)


def test_two_runs_do_not_write_one_journal(tmp_path: Path) -> None:
    path = journal.journal_path(tmp_path, "qwen")
    first = journal.begin(path, SUBJECT)
    for start in (journal.begin, journal.resume):
        with pytest.raises(ConfigError, match="being written by another run"):
            start(path, SUBJECT)
    first.close()


def test_of_runs_that_begin_in_the_same_instant_one_has_the_journal(tmp_path: Path) -> None:
    path = journal.journal_path(tmp_path, "qwen")

    def begin(_: int) -> Journal | None:
        try:
            return journal.begin(path, SUBJECT)
        except ConfigError:
            return None

    for _ in range(50):
        left = journal.begin(path, SUBJECT)
        left.add(MEASURED)
        left.close()
        with ThreadPoolExecutor(4) as pool:
            begun = [one for one in pool.map(begin, range(4)) if one is not None]
        assert len(begun) <= 1
        for one in begun:
            one.add(MEASURED)
            assert len(path.read_text().splitlines()) == 2, "it lies where it is looked for"
            one.close()
            one.remove()
        assert journal.read(journal.previous(path)).events == (MEASURED,), "what was left is kept"


def test_a_new_run_keeps_what_an_interrupted_one_left(tmp_path: Path) -> None:
    path = journal.journal_path(tmp_path, "qwen")
    first = journal.begin(path, SUBJECT)
    first.add(MEASURED)
    first.close()
    journal.begin(path, SUBJECT).close()
    assert journal.read(journal.previous(path)).events == (MEASURED,)
    assert journal.read(path).events == ()


def test_a_full_disk_in_mid_run_costs_the_journal_and_not_the_run(tmp_path: Path) -> None:
    """Each command on a host is an event: an error from here would keep a service from being put back."""
    said: list[str] = []
    ledger = Ledger()
    state = SimpleNamespace(ledger=ledger, notes=[], run=SimpleNamespace(say=said.append))
    full = Journal(tmp_path / "qwen.jsonl", SUBJECT, "", _descriptor=os.open("/dev/full", os.O_WRONLY))
    ledger.listener = writer(cast(State, state), full)
    ledger.add(MEASURED)
    ledger.add(ENDED)
    full.close()
    assert (len(ledger.cases), len(ledger.tests)) == (1, 1)
    assert state.notes == said
    assert re.fullmatch(
        r".*qwen.jsonl: cannot be written: No space left on device; the run went on.*", said[0]
    )

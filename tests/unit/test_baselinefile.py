"""The baseline file: what is written is read back, and what is not understood is refused."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from pytest_specdecode.baselinefile import (
    BaselineFile,
    StoredCase,
    StoredConfig,
    StoredSession,
    StoredStart,
    file_path,
    in_order,
    read_file,
    write_file,
)
from pytest_specdecode.errors import BaselineError
from pytest_specdecode.model import METRICS, SpecConfig

from .stored import case, save, stored

WORDS = st.text(max_size=8)
VALUES = st.floats(0, 1e12)
METRIC_VALUES = st.dictionaries(st.sampled_from([*METRICS, "accept_rate_pos_0"]), VALUES, max_size=4)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | WORDS
FREE = st.recursive(
    SCALARS, lambda x: st.lists(x, max_size=3) | st.dictionaries(WORDS, x, max_size=3), max_leaves=6
)
CONFIGS = st.builds(
    StoredConfig,
    steps=st.just(UNSET) | st.integers(0, 9),
    algorithm=st.just(UNSET) | st.none() | WORDS,
    topk=st.just(UNSET) | st.none() | st.integers(1, 9),
    draft_tokens=st.just(UNSET) | st.none() | st.integers(1, 9),
    args=st.just(UNSET) | st.dictionaries(WORDS, SCALARS, max_size=2),
)
STARTS = st.builds(StoredStart, id=WORDS, rounds=st.lists(METRIC_VALUES, min_size=1, max_size=3))
SESSIONS = st.builds(
    StoredSession,
    context=st.dictionaries(WORDS, FREE, max_size=3),
    starts=st.lists(STARTS, min_size=1, max_size=3),
)
CASES = st.builds(
    StoredCase,
    config=CONFIGS,
    concurrency=st.integers(1, 512),
    identity=st.dictionaries(WORDS, FREE, min_size=1, max_size=3),
    floor=st.dictionaries(st.sampled_from(list(METRICS)), st.floats(1e-3, 1e9), max_size=2),
    note=WORDS,
    sessions=st.lists(SESSIONS, max_size=2),
)


def key(of: StoredCase) -> str:
    return json.dumps([of.config.given, of.concurrency], sort_keys=True)


@settings(max_examples=40, deadline=None)
@given(st.lists(CASES, max_size=3, unique_by=key))
def test_what_is_written_is_read_back(cases: list[StoredCase]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = file_path(Path(folder), "t", "m")
        file = BaselineFile(schema=1, target="t", machine="m", cases=in_order(cases))
        write_file(path, file)
        assert read_file(path) == file
        first = path.read_bytes()
        write_file(path, read_file(path))
        assert path.read_bytes() == first


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=40) | FREE.map(lambda x: json.dumps(x).encode()))
def test_whatever_a_file_holds_nothing_but_a_baseline_error_comes_of_it(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t@m.json"
        path.write_bytes(content)
        with pytest.raises(BaselineError, match="t@m"):
            read_file(path)


def test_the_file_reads_like_the_contract(tmp_path: Path) -> None:
    path = save(tmp_path, [stored(case(), floor={"tok_s": 90}, note="by hand")])
    assert path.name == "qwen@rack7.json"
    plain = json.loads(path.read_text())
    assert list(plain) == ["cases", "machine", "schema", "target"]
    assert (plain["schema"], plain["target"], plain["machine"]) == (1, "qwen", "rack7")
    (found,) = plain["cases"]
    assert found["config"] == {"algorithm": "EAGLE", "args": {}, "draft_tokens": 3, "steps": 2, "topk": 1}
    assert set(found) == {"config", "concurrency", "identity", "floor", "note", "sessions"}
    assert set(found["sessions"][0]) == {"context", "starts"}
    assert set(found["sessions"][0]["starts"][0]) == {"id", "rounds"}
    assert path.read_text() == json.dumps(plain, indent=2, sort_keys=True) + "\n"


def test_a_key_that_is_left_out_matches_anything() -> None:
    config = SpecConfig.of(2, algorithm="EAGLE", args={"window": 4})
    assert StoredConfig().matches(config)
    assert StoredConfig(steps=2, topk=1).matches(config)
    assert StoredConfig(steps=2, args={"window": 4}).matches(config)
    assert not StoredConfig(steps=3).matches(config)
    assert not StoredConfig(steps=2, algorithm=None).matches(config)
    assert not StoredConfig(steps=2, args={}).matches(config)


def test_a_recorded_configuration_matches_nothing_but_itself() -> None:
    plain, special = SpecConfig.of(2, algorithm="X"), SpecConfig.of(2, algorithm="X", args={"window": 4})
    assert StoredConfig.of(plain).matches(plain)
    assert not StoredConfig.of(plain).matches(special)


def good() -> dict[str, Any]:
    return {
        "schema": 1,
        "target": "t",
        "machine": "m",
        "cases": [
            {
                "config": {"steps": 2},
                "concurrency": 1,
                "identity": {"gpu": "x"},
                "sessions": [{"context": {}, "starts": [{"id": "a", "rounds": [{"tok_s": 1.0}]}]}],
            }
        ],
    }


def put(plain: dict[str, Any], where: str, value: Any) -> dict[str, Any]:
    *path, last = [int(part) if part.isdigit() else part for part in where.split(".")]
    inner: Any = plain
    for part in path:
        inner = inner[part]
    inner[last] = value
    return plain


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("schema", 2, "has schema 2, and pytest-specdecode .* reads up to 1; upgrade pytest-specdecode"),
        ("schema", 0, 'expected "schema": 1, found 0'),
        ("schema", "1", 'expected "schema": 1, found "1"'),
        ("schema", True, 'expected "schema": 1, found true'),
        ("target", 5, "target: Expected `str`, got `int`"),
        ("target", "other", 'is of target "other" and machine "m", which its file name does not say'),
        ("machine", "other", "which its file name does not say"),
        ("cases", {}, "cases: Expected `array`"),
        ("cases.0.concurrency", "1", r"cases\[0\].concurrency: Expected `int`, got `str`"),
        ("cases.0.concurrency", 0, r"cases\[0\].concurrency: 0 is not 1 or more"),
        ("cases.0.config.steps", -1, r"cases\[0\].config.steps: -1 is not 0 \(off\) or more"),
        ("cases.0.config.stepz", 1, "unknown field `stepz`"),
        ("cases.0.flooor", {}, "unknown field `flooor`"),
        ("cases.0.floor", {"tok_s": 0}, r"cases\[0\].floor.tok_s: 0.0 is not a number above 0"),
        ("cases.0.floor", {"toks": 1}, r"cases\[0\].floor.toks: unknown metric 'toks'"),
        ("cases.0.identity", {}, r"cases\[0\].identity: missing beside recorded sessions"),
        ("cases.0.sessions.0.starts", [], r"cases\[0\].sessions\[0\].starts: is empty"),
        ("cases.0.sessions.0.starts.0.rounds", [], r"sessions\[0\].starts\[0\].rounds: is empty"),
        ("cases.0.sessions.0.starts.0.rounds.0.tok_s", -1, r"rounds\[0\].tok_s: -1.0 is not a number of 0"),
        ("cases.0.sessions.0.starts.0.rounds.0.tok_s", None, "Expected `float`, got `null`"),
        ("cases", good()["cases"] * 2, r"cases\[0\] and cases\[1\] are the same case"),
    ],
)
def test_a_wrong_file_is_refused_with_file_place_and_remedy(
    tmp_path: Path, where: str, value: Any, said: str
) -> None:
    path = tmp_path / "t@m.json"
    path.write_text(json.dumps(put(good(), where, value)))
    with pytest.raises(BaselineError, match=f"^{path}: .*{said}"):
        read_file(path)


def test_a_good_file_is_not_refused(tmp_path: Path) -> None:
    path = tmp_path / "t@m.json"
    path.write_text(json.dumps(good()))
    assert read_file(path).cases[0].config == StoredConfig(steps=2)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_says_how_to_get_it_back(tmp_path: Path, share: float) -> None:
    path = tmp_path / "t@m.json"
    whole = json.dumps(good())
    path.write_text(whole[: int(len(whole) * share)])
    with pytest.raises(
        BaselineError, match=r"is not whole JSON.*restore it from version control, or delete it"
    ):
        read_file(path)


def test_a_folder_in_the_files_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "t@m.json").mkdir()
    with pytest.raises(BaselineError, match=r"t@m\.json: cannot be read: Is a directory"):
        read_file(tmp_path / "t@m.json")


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        BaselineError, match=r"qwen@rack7\.json: cannot be written: .*; the old contents are kept"
    ):
        save(tmp_path / "none", [stored(case())])


def test_a_merge_conflict_is_told(tmp_path: Path) -> None:
    (tmp_path / "t@m.json").write_text("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> night\n")
    with pytest.raises(BaselineError, match="is not whole JSON"):
        read_file(tmp_path / "t@m.json")


def test_the_case_studys_table_is_notes_and_one_floor() -> None:
    path = Path(__file__).parents[2] / "baselines" / "qwen@4x-rtx-pro-6000.json"
    file = read_file(path)
    assert len(file.cases) == 10
    assert not any(stored.sessions for stored in file.cases)
    floors = [(c.config.steps, c.concurrency, c.floor) for c in file.cases if c.floor]
    assert floors == [(2, 1, {"tok_s": 180})]
    assert all("tok/s" in stored.note for stored in file.cases)

"""--spec-json: the names of the contract, complete, whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.errors import ConfigError
from pytest_specdecode.ledger import CaseMeasured, CommandRecord, Ledger, TargetRecord, TestRecord
from pytest_specdecode.model import Case, CaseStart, Outcome, Round, ServerStart, SpecConfig
from pytest_specdecode.report.jsonfile import report, write_report
from pytest_specdecode.report.junit import properties

CONFIG = SpecConfig.of(2, algorithm="EAGLE")
CASE = Case("qwen", CONFIG, 16)
VERDICT = {"outcome": "pass", "ratio": 1.004, "low": 0.991, "high": float("inf"), "slower": False}


def ledger() -> Ledger:
    found = Ledger(seconds=2460.0)
    found.add(TargetRecord("qwen", "4x-rtx-pro-6000", {"gpu": "x"}, {"driver": "580"}))
    found.add(ServerStart("s1", "qwen", CONFIG, 1, "2026-11-30T00:00:00Z", 412.0, "0.5.23", {"a": 1}, ("x",)))
    rounds = (Round({"tok_s": 108.0}, 9.0), Round({"tok_s": 108.4}, 9.0))
    found.add(CaseMeasured(CASE, CaseStart("s1", rounds)))
    bad = (Round({"tok_s": 1.0}, 9.0, ("the client was late",)),)
    found.add(CaseMeasured(CASE, CaseStart("s2", bad)))
    found.add(TestRecord("test_qwen.py::test_a", "qwen", Outcome.PASS, CONFIG, 16, 1, "", {"tok_s": VERDICT}))
    found.add(
        TestRecord("test_qwen.py::test_b", "qwen", Outcome.REGRESSED, CONFIG, 16, 1, "slow", failed=True)
    )
    found.add(TestRecord("test_qwen.py::test_sweep", "qwen", Outcome.MEASURED))
    found.add(CommandRecord("2026-11-30T00:00:00Z", "here", ("kill", "7"), 0, 0.08, "", (7,)))
    return found


def test_the_report_has_the_names_of_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_report(path, report(ledger(), target="qwen", machine=""))
    plain: dict[str, Any] = json.loads(path.read_text())
    assert (plain["schema"], plain["target"], plain["machine"]) == (1, "qwen", "4x-rtx-pro-6000")
    assert (plain["identity"], plain["context"]) == ({"gpu": "x"}, {"driver": "580"})
    assert plain["summary"].items() >= {"pass": 1, "regressed": 1, "starts": 1, "seconds": 2460.0}.items()
    assert set(plain["summary"]) == {*(o.value for o in Outcome), "starts", "seconds"}
    (case,) = plain["cases"]
    assert case["config"] == {"algorithm": "EAGLE", "steps": 2, "topk": 1, "draft_tokens": 3}
    assert (case["target"], case["concurrency"], case["outcome"]) == ("qwen", 16, "regressed")
    assert case["metrics"] == {"tok_s": pytest.approx(108.2)}
    first, second = case["tests"]
    assert (first["id"], first["outcome"], first["reason"]) == ("test_qwen.py::test_a", "pass", "")
    assert first["verdicts"]["tok_s"] == {**VERDICT, "high": None}
    assert (second["outcome"], second["reason"]) == ("regressed", "slow")
    assert [start["id"] for start in case["starts"]] == ["s1", "s2"]
    good, bad = case["starts"][0]["rounds"][0], case["starts"][1]["rounds"][0]
    assert (good["metrics"], good["valid"], good["reasons"]) == ({"tok_s": 108.0}, True, [])
    assert (bad["valid"], bad["reasons"]) == (False, ["the client was late"])
    (start,) = plain["starts"]
    assert start.items() >= {"id": "s1", "target": "qwen", "ready_s": 412.0, "version": "0.5.23"}.items()
    assert (start["settings"], start["config"]["steps"]) == ({"a": 1}, 2)
    (command,) = plain["audit"]
    assert set(command) >= {"at", "host", "argv", "status", "seconds", "killed"}
    assert (command["argv"], command["killed"]) == (["kill", "7"], [7])
    assert [test["id"] for test in plain["tests"]] == ["test_qwen.py::test_sweep"]


def test_a_run_that_got_nowhere_still_has_a_report() -> None:
    plain = report(Ledger(), target="qwen", machine="rack7")
    assert (plain["machine"], plain["cases"], plain["starts"], plain["audit"]) == ("rack7", [], [], [])


def test_a_server_that_never_got_ready_has_no_time(tmp_path: Path) -> None:
    found = Ledger()
    found.add(ServerStart("s1", "qwen", CONFIG, 1, "now"))
    write_report(tmp_path / "out.json", report(found, target="qwen", machine=""))
    assert json.loads((tmp_path / "out.json").read_text())["starts"][0]["ready_s"] is None


def test_a_place_that_cannot_be_written_is_told_and_the_old_report_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(ConfigError, match=r"^--spec-json=.*/file/out\.json: cannot be written: "):
        write_report(tmp_path / "file" / "out.json", {})
    assert (tmp_path / "file").read_text() == "old"


def test_junit_gets_scalars_alone() -> None:
    found = properties(ledger().cases[0])
    assert found == [
        ("target", "qwen"),
        ("algorithm", "EAGLE"),
        ("draft_tokens", 3),
        ("steps", 2),
        ("topk", 1),
        ("concurrency", 16),
        ("tok_s", 108.2),
    ]

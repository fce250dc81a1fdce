"""--update-baselines: what is stored, what is refused, and that nothing is lost on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.baselinefile import BaselineFile, StoredCase, StoredConfig, read_file
from pytest_specdecode.baselines import Store
from pytest_specdecode.errors import BaselineError
from pytest_specdecode.gating import Gate
from pytest_specdecode.model import Case, CaseStart, Outcome, Round
from pytest_specdecode.recording import Policy, Recording, Written, record

from .stored import CONTEXT, GATE, IDENTITY, MACHINE, TARGET, case, measured, save, stored

NOW = {**CONTEXT, "date": "2026-11-30", "engine_version": "0.5.23"}


def write(
    folder: Path, *recordings: Recording, identity: dict[str, Any] | None = None, **policy: Any
) -> list[Written]:
    options: dict[str, Any] = {"gate": GATE, **policy}
    return record(
        folder, MACHINE, recordings, identity=identity or IDENTITY, context=NOW, policy=Policy(**options)
    )


def recording(of: Case | None = None, speed: float = 100.0, **more: Any) -> Recording:
    return Recording(of or case(), measured(speed, night="now"), 3, **more)


def contents(folder: Path) -> BaselineFile:
    return read_file(folder / "qwen@rack7.json")


def test_a_first_recording_makes_the_file(tmp_path: Path) -> None:
    (written,) = write(tmp_path / "baselines", recording())
    assert written.refused == ""
    (change,) = written.changes
    assert (change.metric, change.old) == ("tok_s", None)
    assert change.new == pytest.approx(100, rel=0.01)
    assert change.resolvable is not None
    assert 0 < change.resolvable < 0.5
    file = contents(tmp_path / "baselines")
    assert (file.target, file.machine) == (TARGET, MACHINE)
    (found,) = file.cases
    assert found.config == StoredConfig.of(case().config)
    assert found.identity == IDENTITY
    assert found.sessions[0].context["engine_version"] == "0.5.23"
    assert [len(start.rounds) for start in found.sessions[0].starts] == [5, 5, 5]
    assert found.sessions[0].starts[0].rounds[0] == {"step_ms": 20.0, "tok_s": 100.0}


def test_what_was_recorded_is_found_by_the_next_run(tmp_path: Path) -> None:
    write(tmp_path, recording())
    found = Store(tmp_path, TARGET).stored(case(), machine=MACHINE, identity=IDENTITY, context=NOW)
    assert found.problem is None
    assert len(found.starts["tok_s"]) == 3


def test_a_recording_replaces_the_stored_sessions_and_says_old_and_new(tmp_path: Path) -> None:
    save(tmp_path, [stored(case(), 80)])
    (written,) = write(tmp_path, recording())
    (change,) = written.changes
    assert change.old == pytest.approx(80, rel=0.01)
    assert change.new == pytest.approx(100, rel=0.01)
    assert [start.id for s in contents(tmp_path).cases[0].sessions for start in s.starts] == [
        "now-0",
        "now-1",
        "now-2",
    ]


def test_extending_keeps_the_stored_sessions(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())])
    (written,) = write(tmp_path, recording(), extend=True)
    assert written.refused == ""
    sessions = contents(tmp_path).cases[0].sessions
    assert [s.context["date"] for s in sessions] == ["2026-11-02", "2026-11-30"]


def test_extending_with_another_identity_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, [stored(case())])
    before = path.read_bytes()
    (written,) = write(tmp_path, recording(), identity={**IDENTITY, "mig": "1g"}, extend=True)
    assert 'mig was unknown and is now "1g"' in written.refused
    assert "without --spec-extend-baselines" in written.refused
    assert path.read_bytes() == before


def test_replacing_with_another_identity_is_said(tmp_path: Path) -> None:
    save(tmp_path, [stored(case(), 300)])
    (written,) = write(tmp_path, recording(), identity={**IDENTITY, "mig": "1g"})
    assert written.refused == ""
    assert 'mig was unknown and is now "1g"' in written.replaced
    assert contents(tmp_path).cases[0].identity["mig"] == "1g"


def test_other_cases_floors_and_notes_stay(tmp_path: Path) -> None:
    by_hand = StoredCase(config=StoredConfig(steps=2), concurrency=16, floor={"tok_s": 90}, note="one run")
    others = [by_hand, stored(case(steps=3)), stored(case(concurrency=1))]
    save(tmp_path, [*others, stored(case(), 100, floor={"tok_s": 95}, note="keep")])
    write(tmp_path, recording(speed=50), accept_slower=True)
    cases = contents(tmp_path).cases
    assert all(other in cases for other in others)
    (found,) = [c for c in cases if c.config == StoredConfig.of(case().config) and c.concurrency == 16]
    assert (found.floor, found.note) == ({"tok_s": 95}, "keep")


def test_a_shown_slowdown_is_not_recorded(tmp_path: Path) -> None:
    path = save(tmp_path, [stored(case())])
    before = path.read_bytes()
    slower, fine = write(tmp_path, recording(speed=80), recording(case(steps=3)))
    assert slower.slower
    assert "tok_s is shown to be worse than what is stored (× 0.8" in slower.refused
    assert "--spec-accept-slower" in slower.refused
    assert not fine.slower
    assert not fine.refused
    assert path.read_bytes() != before
    assert stored(case()) in contents(tmp_path).cases


def test_a_slowdown_is_recorded_when_it_is_accepted(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())])
    (written,) = write(tmp_path, recording(speed=80), accept_slower=True)
    assert written.refused == ""
    assert written.changes[0].new == pytest.approx(80, rel=0.01)


def test_a_slowdown_in_time_is_one_too(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())])
    starts = [
        CaseStart(f"now-{i}", (Round({"tok_s": 100.0, "step_ms": 30.0 + i / 10}, 1.0),)) for i in range(3)
    ]
    gate = Gate(("step_ms",), tolerance=0.05, margin=0.01, confidence=0.99)
    (written,) = write(tmp_path, Recording(case(), starts, 3), gate=gate)
    assert written.slower


def test_a_case_is_held_to_the_gates_of_the_tests_that_compare_it(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())])
    in_time = Gate(("step_ms",), tolerance=0.05, margin=0.01, confidence=0.99)
    slower = [
        CaseStart(f"now-{i}", (Round({"tok_s": 100.0 + i, "step_ms": 30.0 + i / 10}, 1.0),)) for i in range(3)
    ]
    (written,) = write(tmp_path, Recording(case(), slower, 3, gates=(GATE, in_time)))
    assert "step_ms is shown to be worse" in written.refused
    (written,) = write(tmp_path, Recording(case(), slower, 3))
    assert written.refused == ""
    assert [change.metric for change in written.changes] == ["tok_s"]


def test_a_metric_that_no_test_compares_need_not_be_there(tmp_path: Path) -> None:
    in_time = Gate(("step_ms",), tolerance=0.05, margin=0.01, confidence=0.99)
    starts = [CaseStart(f"now-{i}", (Round({"step_ms": 20.0 + i / 100}, 1.0),)) for i in range(3)]
    (written,) = write(tmp_path, Recording(case(), starts, 3, gates=(in_time,)))
    assert (written.refused, [change.metric for change in written.changes]) == ("", ["step_ms"])


def test_what_a_baseline_resolves_is_compared_with_the_tightest_tolerance(tmp_path: Path) -> None:
    gates = tuple(Gate(("tok_s",), tolerance=t, margin=0.01, confidence=0.99) for t in (0.3, 0.002))
    (loose,) = write(tmp_path, recording(gates=gates[:1]))
    assert (loose.changes[0].tolerance, loose.changes[0].enough) == (0.3, True)
    (tight,) = write(tmp_path, recording(gates=gates))
    assert (tight.changes[0].tolerance, tight.changes[0].enough) == (0.002, False)


def test_a_metric_that_is_zero_is_recorded_without_a_comparison(tmp_path: Path) -> None:
    gate = Gate(("accept_rate",), tolerance=0.05, margin=0.01, confidence=0.99)
    nothing_accepted = [CaseStart("a", (Round({"accept_rate": 0.0}, 1.0),))]
    for _ in range(2):
        (written,) = write(tmp_path, Recording(case(), nothing_accepted, 1), gate=gate)
        assert written.refused == ""
        (change,) = written.changes
        assert (change.new, change.resolvable, change.enough) == (0.0, None, None)


def test_nothing_to_record_is_no_error(tmp_path: Path) -> None:
    assert write(tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_a_hand_written_configuration_is_no_way_round(tmp_path: Path) -> None:
    recorded = stored(case())
    loose = StoredCase(
        config=StoredConfig(steps=2), concurrency=16, identity=IDENTITY, sessions=recorded.sessions
    )
    save(tmp_path, [loose])
    (written,) = write(tmp_path, recording(speed=80))
    assert written.slower


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (Recording(case(), measured(100, 2), 3), "only 2 of 3 restarts were measured"),
        (Recording(case(), [], 3), "only 0 of 3 restarts were measured"),
        (Recording(case(), measured(100, 3, reasons=["a request failed"]), 3), "invalid: a request failed"),
        (Recording(case(), measured(100), 3, problem="broken: it crashed"), "broken: it crashed"),
        (Recording(case(), measured(float("nan")), 3), "tok_s is nan, not a number of 0 or more"),
        (
            Recording(case(), [CaseStart("a", (Round({"step_ms": 1.0}, 1.0),))], 1),
            "the gate needs it, and tok_s was not measured",
        ),
    ],
)
def test_a_case_without_a_whole_number_is_not_recorded(tmp_path: Path, bad: Recording, said: str) -> None:
    refused, fine = write(tmp_path, bad, recording(case(steps=3)))
    assert said in refused.refused
    assert not refused.slower
    assert fine.refused == ""
    assert [c.config.steps for c in contents(tmp_path).cases] == [3]


def test_when_nothing_may_be_written_the_file_is_untouched(tmp_path: Path) -> None:
    path = save(tmp_path, [stored(case())])
    inode = path.stat().st_ino
    write(tmp_path, Recording(case(), [], 3))
    assert path.stat().st_ino == inode


def test_a_broken_file_is_not_written_over(tmp_path: Path) -> None:
    path = save(tmp_path, [stored(case())])
    path.write_text(path.read_text()[:100])
    with pytest.raises(BaselineError, match="is not whole JSON"):
        write(tmp_path, recording())
    assert len(path.read_text()) == 100


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BaselineError, match=r"cannot be updated: Not a directory|File exists"):
        write(tmp_path / "file", recording())


def test_an_incomparable_baseline_is_compared_again_once_recorded(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())])
    now = {**IDENTITY, "workload": "new"}
    store = Store(tmp_path, TARGET)
    assert store.stored(case(), machine=MACHINE, identity=now, context=NOW).problem is Outcome.INCOMPARABLE
    write(tmp_path, recording(), identity=now)
    store.reload()
    assert store.stored(case(), machine=MACHINE, identity=now, context=NOW).problem is None


MERGE = """
import sys
from pathlib import Path
from tests.unit.stored import GATE, IDENTITY, MACHINE, case, measured
from pytest_specdecode.recording import Policy, Recording, record
for i in range(8):
    starts = measured(100.0, night=sys.argv[2])
    recording = Recording(case(steps=int(sys.argv[2]), concurrency=i + 1), starts, 3)
    record(Path(sys.argv[1]), MACHINE, [recording], identity=IDENTITY, context={}, policy=Policy(GATE))
"""


def test_two_processes_that_merge_at_once_lose_nothing(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    children = [
        subprocess.Popen([sys.executable, "-c", MERGE, str(tmp_path), str(steps)], cwd=root)
        for steps in (1, 2)
    ]
    assert [child.wait() for child in children] == [0, 0]
    found = {(c.config.steps, c.concurrency) for c in contents(tmp_path).cases}
    assert found == {(steps, c) for steps in (1, 2) for c in range(1, 9)}
    assert [p.name for p in tmp_path.iterdir()] == ["qwen@rack7.json"]


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.unit.stored import GATE, IDENTITY, MACHINE, case, measured
from pytest_specdecode import files
from pytest_specdecode.recording import Policy, Recording, record
files.os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
recording = Recording(case(steps=1), measured(100.0), 3)
record(Path(sys.argv[1]), MACHINE, [recording], identity=IDENTITY, context={}, policy=Policy(GATE))
"""


def test_killed_in_mid_write_leaves_the_old_file_and_blocks_nobody(tmp_path: Path) -> None:
    path = save(tmp_path, [stored(case())])
    before = path.read_bytes()
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=Path(__file__).parents[2], check=False
    )
    assert child.returncode < 0
    assert path.read_bytes() == before
    write(tmp_path, recording(case(steps=3)))
    assert [c.config.steps for c in contents(tmp_path).cases] == [2, 3]
    assert [p.name for p in tmp_path.iterdir()] == ["qwen@rack7.json"]

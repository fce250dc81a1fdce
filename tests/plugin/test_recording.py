"""``--update-baselines``: what is stored, what is refused, and what it says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .conftest import GATED, Project


def stored(project: Project) -> dict[str, Any]:
    (file,) = (project.pytester.path / "baselines").glob("fake@*.json")
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def test_the_file_holds_cases_sessions_starts_and_rounds(project: Project) -> None:
    project.configure(restarts=2)
    assert project.run("--update-baselines").ret == 0
    file = stored(project)
    assert (file["schema"], file["target"]) == (1, "fake")
    case = file["cases"][1]
    assert case["config"] == {"algorithm": "ngram-mod", "args": {}, "draft_tokens": 2, "steps": 1, "topk": 1}
    assert case["concurrency"] == 1
    (session,) = case["sessions"]
    assert [len(start["rounds"]) for start in session["starts"]] == [2, 2]
    assert abs(session["starts"][0]["rounds"][0]["tok_s"] - 400) < 40
    assert "workload" in case["identity"]
    assert session["context"]["engine"] == "llamacpp"


def test_it_says_what_it_wrote(project: Project) -> None:
    project.test_file("import pytest\n\n@pytest.mark.gate(metric=['tok_s', 'step_ms'])" + GATED)
    result = project.run("--update-baselines", "--spec-steps=1")
    result.stdout.fnmatch_lines(
        ["recorded: fake steps=1 c=1: tok_s * tok/s, step_ms * ms; resolves tok_s *the tolerance of 20%*"]
    )


def test_other_cases_stay(recorded: Project) -> None:
    before = stored(recorded)["cases"][0]
    assert recorded.run("--update-baselines", "--spec-steps=1").ret == 0
    assert [case["config"]["steps"] for case in stored(recorded)["cases"]] == [0, 1]
    assert stored(recorded)["cases"][0] == before


def test_extending_adds_a_session(recorded: Project) -> None:
    assert recorded.run("--update-baselines", "--spec-extend-baselines", "--spec-steps=1").ret == 0
    assert [len(case["sessions"]) for case in stored(recorded)["cases"]] == [1, 2]


def test_extending_with_another_identity_is_refused(recorded: Project) -> None:
    before = stored(recorded)
    file = recorded.pytester.path / "specdecode.toml"
    file.write_text(file.read_text().replace("output_tokens = 16", "output_tokens = 20"))
    result = recorded.run("--update-baselines", "--spec-extend-baselines", "--spec-steps=1")
    result.stdout.fnmatch_lines(["*stored sessions are of something else: workload was*"])
    assert result.ret == 11
    assert stored(recorded) == before


def test_a_shown_slowdown_is_not_recorded_by_itself(recorded: Project) -> None:
    before = stored(recorded)
    recorded.engine(tok_s=200)
    result = recorded.run("--update-baselines", "--spec-steps=1")
    result.stdout.fnmatch_lines(["*--spec-accept-slower records it all the same*"])
    assert result.ret == 1
    assert stored(recorded) == before


def test_a_slowdown_is_recorded_when_accepted(recorded: Project) -> None:
    recorded.engine(tok_s=200)
    assert recorded.run("--update-baselines", "--spec-accept-slower", "--spec-steps=1").ret == 0
    assert recorded.run("--spec-steps=1").ret == 0


def test_an_invalid_case_is_not_recorded(project: Project) -> None:
    project.engine(cut_share=0.2)
    result = project.run("--update-baselines", "--spec-steps=1")
    assert result.ret == 10
    assert not list((project.pytester.path / "baselines").glob("*.json"))


def test_a_case_is_recorded_whatever_the_tests_own_asserts_say(project: Project) -> None:
    project.test_file("def test_floor(measurement):\n    assert measurement.tok_s >= 900\n")
    assert project.run("--update-baselines", "--spec-steps=1").ret == 1
    assert len(stored(project)["cases"]) == 1


def test_a_hand_written_floor_stays_and_gates(recorded: Project) -> None:
    (path,) = (recorded.pytester.path / "baselines").glob("fake@*.json")
    content = json.loads(path.read_text())
    content["cases"][1] |= {"floor": {"tok_s": 900}, "note": "by hand"}
    path.write_text(json.dumps(content))
    assert recorded.run("--update-baselines", "--spec-steps=1").ret == 0
    assert stored(recorded)["cases"][1]["floor"] == {"tok_s": 900}
    result = recorded.run("--spec-steps=1")
    result.stdout.fnmatch_lines(["E*regressed: *misses its floor*"])
    assert result.ret == 1


def test_a_note_alone_never_gates_and_a_floor_alone_does(project: Project) -> None:
    assert project.run("--update-baselines").ret == 0
    (path,) = (project.pytester.path / "baselines").glob("fake@*.json")
    content = json.loads(path.read_text())
    for case in content["cases"]:
        del case["sessions"], case["identity"]
        case["note"] = "186 tok/s, workload unknown"
    content["cases"][1]["floor"] = {"tok_s": 180}
    path.write_text(json.dumps(content))
    result = project.run("--spec-steps=0,1", "--spec-json=report.json", "--spec-restarts=4")
    report = json.loads(Path(project.pytester.path / "report.json").read_text())
    assert [case["outcome"] for case in report["cases"]] == ["no-baseline", "pass"]
    assert result.ret == 11


def test_two_recordings_at_once_lose_nothing(project: Project) -> None:
    """From two checkouts into one folder; of one checkout the second would be refused."""
    folder = project.pytester.path
    other = folder / "other"
    other.mkdir()
    for name in ("specdecode.toml", "test_bench.py"):
        shutil.copy(folder / name, other / name)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "test_bench.py",
        "--update-baselines",
        "-p",
        "no:cacheprovider",
    ]
    both = [
        subprocess.Popen(
            [*command, f"--rootdir={place}", f"--spec-baselines={folder}/baselines", f"--spec-steps={steps}"],
            cwd=place,
            stdout=subprocess.DEVNULL,
        )
        for place, steps in ((folder, 0), (other, 1))
    ]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert [case["config"]["steps"] for case in stored(project)["cases"]] == [0, 1]

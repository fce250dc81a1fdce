"""``--spec-against``: two targets in one session, in turns, the tested one judged by the other's numbers."""

from __future__ import annotations

import json

import pytest

from .conftest import Project, configuration

BOTH = ("--spec-target=new", "--spec-against=old")


@pytest.fixture
def two(project: Project) -> Project:
    """Targets ``new`` and ``old``, each with an engine of its own behaviour; two restarts."""
    texts = []
    for name in ("new", "old"):
        text = configuration(project.pytester.path / f"{name}.json", steps=[1], restarts=2)
        texts.append(text.replace("target.fake", f"target.{name}"))
        behave(project, name)
    (project.pytester.path / "specdecode.toml").write_text("".join(texts))
    return project


def behave(project: Project, name: str, **behaviour: object) -> None:
    settings = {"tok_s": 400, "ttft_ms": 2, "starts_file": str(project.starts_file), **behaviour}
    (project.pytester.path / f"{name}.json").write_text(json.dumps(settings))


def test_a_slower_version_regresses_by_the_numbers_of_this_session(two: Project) -> None:
    behave(two, "new", tok_s=200, build="b2")
    behave(two, "old", build="b1")
    result = two.run(*BOTH, "--spec-json=report.json", "--benchmark-json=bench.json", "-rs")
    result.assert_outcomes(failed=1, skipped=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*regressed: new steps=1 c=1: tok_s is worse than that of old by *find the cause below",
            "*from old to new: *llamacpp b1 → b2*",
            "new against old on *",
            "PASS 0 · REGRESSED 1 *6 server starts *",
        ]
    )
    assert not (two.pytester.path / "baselines").exists()
    report = json.loads((two.pytester.path / "report.json").read_text())
    starts = report["starts"]
    assert [s["target"] for s in starts] == ["old", "new", "old", "new", "new", "old"]
    assert [bool(s["discarded"]) for s in starts] == [True, True, False, False, False, False]
    assert [(c["target"], c["outcome"]) for c in report["cases"]] == [("new", "regressed"), ("old", None)]
    kept = {s["id"] for s in starts if not s["discarded"]}
    assert {s["id"] for case in report["cases"] for s in case["starts"]} == kept
    entries = json.loads((two.pytester.path / "bench.json").read_text())["benchmarks"]
    assert sorted(entry["name"] for entry in entries) == ["new[steps1-c1-r1]", "new[steps1-c1-r2]"]
    assert {entry["extra_info"]["against"]["target"] for entry in entries} == {"old"}


def test_what_is_wrong_with_the_other_target_is_the_cases_own_error(two: Project) -> None:
    behave(two, "old", exit_after_s=0)
    result = two.run(*BOTH)
    result.assert_outcomes(errors=1, skipped=1)
    result.stdout.fnmatch_lines(["broken: old steps=1 c=1, to be compared with: the engine ended*"])
    assert result.ret == 10
    assert len(two.starts) == 2


def test_it_records_nothing(two: Project) -> None:
    result = two.run(*BOTH, "--update-baselines")
    result.stderr.fnmatch_lines(["ERROR: --spec-against=old judges by this session alone*"])
    assert result.ret == 4


def test_the_plan_shows_both(two: Project) -> None:
    result = two.run(*BOTH, "--spec-plan")
    result.stdout.fnmatch_lines(
        ["plan for new against old on *", "new:", "start with steps=1, *", "old:", "start with steps=1, *"]
    )
    assert result.ret == 0
    assert not two.starts

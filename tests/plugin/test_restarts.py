"""The restart axis: as many server starts as a verdict needs, and not one more."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from .conftest import Project


def test_configurations_are_started_once_whatever_uses_them(project: Project) -> None:
    project.configure(steps=[0, 1, 2, 3], concurrency=[1, 2, 4])
    for name, tests in {"test_one": "ab", "test_two": "c"}.items():
        project.test_file(
            "".join(f"def test_{t}(measurement):\n    assert measurement.tok_s > 0\n" for t in tests), name
        )
    (project.pytester.path / "test_bench.py").unlink()
    result = project.run("--spec-steps=0-3")
    result.assert_outcomes(passed=4 * 3 * 3)
    assert [start["k"] for start in project.starts] == [0, 1, 2, 3]


def test_a_clear_pass_takes_one_restart(recorded: Project) -> None:
    recorded.configure(restarts=3)
    before = len(recorded.starts)
    result = recorded.run("--spec-steps=0,1", "-rs")
    result.assert_outcomes(passed=2, skipped=4)
    result.stdout.fnmatch_lines(["SKIPPED*decided at r1: pass"])
    assert len(recorded.starts) - before == 2
    assert result.ret == 0


def test_an_undecided_case_goes_on_in_the_next_restart(project: Project) -> None:
    project.configure(steps=[1], restarts=2)
    assert project.run("--update-baselines").ret == 0
    file = project.pytester.path / "specdecode.toml"
    file.write_text(file.read_text().replace('tolerance = "20%"', 'tolerance = "0.1%"\nmargin = "0%"'))
    result = project.run("--spec-steps=1", "-v", "-rs")
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*inconclusive: fake steps=1 c=1: *after 2 of 2 restarts*"])
    result.stdout.fnmatch_lines(["SKIPPED*undecided: continues in …-r2"])
    assert result.ret == 11


@pytest.mark.parametrize(
    ("choice", "outcomes", "status"), [("skip", {"skipped": 2}, 0), ("pass", {"passed": 1, "skipped": 1}, 0)]
)
def test_inconclusive_counts_as_told(
    project: Project, choice: str, outcomes: dict[str, int], status: int
) -> None:
    project.configure(steps=[1], restarts=2)
    assert project.run("--update-baselines").ret == 0
    file = project.pytester.path / "specdecode.toml"
    file.write_text(file.read_text().replace('tolerance = "20%"', 'tolerance = "0.1%"\nmargin = "0%"'))
    result = project.run("--spec-steps=1", f"--spec-inconclusive={choice}")
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(["*INCONCLUSIVE 1*"])
    assert result.ret == status


def test_recording_runs_all_restarts(project: Project) -> None:
    project.configure(restarts=3)
    result = project.run("--update-baselines", "-rs")
    result.assert_outcomes(passed=2, skipped=4)
    result.stdout.fnmatch_lines(["SKIPPED*recording: continues in …-r2"])
    assert [start["k"] for start in project.starts] == [0, 1] * 3


def test_the_last_selected_restart_decides(recorded: Project) -> None:
    recorded.configure(restarts=3)
    recorded.engine(tok_s=200)
    result = recorded.run("--spec-steps=1", "-k", "r2")
    result.assert_outcomes(failed=1)
    assert len(recorded.starts) == 1


def test_last_failed_runs_what_failed(recorded: Project) -> None:
    recorded.engine(tok_s={"0": 400, "1": 200})
    assert recorded.run("--spec-steps=0,1").ret == 1
    before = len(recorded.starts)
    result = recorded.run("--spec-steps=0,1", "--lf")
    result.assert_outcomes(failed=1)
    assert [start["k"] for start in recorded.starts[before:]] == [1]
    assert result.ret == 1


def test_stopping_at_the_first_failure_leaves_no_server(recorded: Project) -> None:
    recorded.engine(tok_s=200)
    before = len(recorded.starts)
    result = recorded.run("--spec-steps=0,1", "-x")
    result.assert_outcomes(failed=1)
    assert len(recorded.starts) - before == 1
    assert result.ret == 1


@pytest.mark.parametrize("order", [["test_bench.py", "test_more.py"], ["test_more.py", "test_bench.py"]])
def test_pytest_order_does_not_multiply_starts(project: Project, order: Sequence[str]) -> None:
    project.test_file(
        """
        import pytest

        @pytest.mark.order(1)
        def test_second(measurement):
            assert measurement.tok_s > 0
        """,
        name="test_more",
    )
    project.configure(restarts=2)
    result = project.run("--update-baselines", *order, plugins=["order"])
    assert result.ret == 0
    assert len(project.starts) == 4


def test_a_rerun_measures_again(project: Project) -> None:
    project.test_file(
        """
        import pathlib

        def test_flaky(measurement):
            seen = pathlib.Path("seen.txt")
            old = seen.read_text() if seen.exists() else ""
            seen.write_text(old + f"{measurement.tok_s!r}\\n")
            assert old
        """
    )
    project.engine(noise_round=0.05)
    result = project.run("--spec-steps=1", "--reruns=1", plugins=["rerunfailures"])
    result.stdout.fnmatch_lines(["*1 passed*1 rerun*"])
    first, second = (project.pytester.path / "seen.txt").read_text().split()
    assert first != second
    assert len(project.starts) == 1


def test_a_rerun_of_a_failure_fails_again(recorded: Project) -> None:
    recorded.configure(steps=[1], restarts=2)
    recorded.engine(tok_s=200)
    result = recorded.run("--spec-steps=1", "--reruns=1", plugins=["rerunfailures"])
    result.stdout.fnmatch_lines(["*1 failed*1 rerun*"])
    assert result.ret == 1


def test_a_rerun_after_a_crash_starts_the_engine_again(project: Project) -> None:
    project.configure(steps=[1])
    project.test_file("def test_speed(measurement):\n    assert measurement.tok_s > 0\n")
    project.engine(die_at=3)
    project.pytester.makeconftest(
        f"""
        import json, pathlib

        def pytest_runtest_logreport(report):
            if report.outcome == "rerun":
                pathlib.Path({str(project.engine_file)!r}).write_text(json.dumps(
                    {{"tok_s": 400, "ttft_ms": 2, "starts_file": {str(project.starts_file)!r}}}))
        """
    )
    result = project.run("--spec-steps=1", "--reruns=1", plugins=["rerunfailures"])
    result.stdout.fnmatch_lines(["*1 passed*1 rerun*"])
    assert len(project.starts) == 2
    assert result.ret == 0

"""``sweep``: all cases of a session together, or a refusal that says what is missing."""

from __future__ import annotations

import pytest

from .conftest import GATED, Project

MEASURE = "def test_speed(measurement):\n    assert measurement.tok_s > 0\n\n"


def test_the_best_configuration_and_its_ratio(project: Project) -> None:
    project.configure(steps=[0, 1, 2])
    project.engine(tok_s={"0": 200, "1": 400, "2": 300})
    project.test_file(
        MEASURE
        + """
def test_crossover(sweep):
    assert sweep.best(concurrency=1).steps == 1
    gain = sweep.ratio(1, 0, concurrency=1)
    assert 1 < gain.low < gain.ratio < gain.high
    assert 1.6 < gain.ratio < 2.4
"""
    )
    result = project.run("--spec-steps=0-2", "--spec-rounds=4")
    result.assert_outcomes(passed=4)


def test_a_tie_goes_to_the_fewer_steps(project: Project) -> None:
    project.engine(tok_s={"0": 500, "1": 501}, noise_round=0.01, seed=1)
    project.test_file(MEASURE + "def test_tie(sweep):\n    assert sweep.best(concurrency=1).steps == 0\n")
    project.run("--spec-steps=0,1").assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("engine", "args", "message", "status"),
    [
        ({}, ["--spec-steps=1"], "*needs at least two configurations at concurrency 1*has steps=1*", 11),
        ({"cut_share": 0.2}, ["--spec-steps=0,1"], "*sweep at concurrency 1 is not whole: *invalid*", 10),
        ({"silent_off": True}, ["--spec-steps=0,1"], "*is not whole: steps=1: broken*", 10),
    ],
)
def test_half_a_sweep_is_refused(
    project: Project, engine: dict[str, object], args: list[str], message: str, status: int
) -> None:
    project.engine(**engine)
    project.test_file(
        MEASURE + "def test_crossover(sweep):\n    assert sweep.best(concurrency=1).steps == 1\n"
    )
    result = project.run(*args)
    result.stdout.fnmatch_lines([message])
    assert result.ret == status


def test_it_runs_over_all_restarts(recorded: Project) -> None:
    recorded.configure(restarts=2)
    recorded.test_file(
        GATED + "def test_crossover(sweep):\n    assert sweep.best(concurrency=1).steps == 0\n"
    )
    assert recorded.run("--spec-steps=0,1").ret == 0

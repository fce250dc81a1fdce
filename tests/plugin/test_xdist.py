"""One worker a host: several on one host would measure each other; a pool of hosts shares the cases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from .conftest import GATED, Project

HOSTS = """
import json, os, pathlib
from pytest_specdecode.hosts import CommandResult, registry
from pytest_specdecode.hosts.local import LocalHost
from pytest_specdecode.hosts.ship import words_of

HERE = pathlib.Path(__file__).parent

class Host(LocalHost):
    '''One of several hosts, all of them this machine; each has a lease of its own.'''

    def run(self, argv, *, timeout, stdin=b""):
        words = words_of(argv)
        if words and words[0] in ("beat", "release"):
            with open(HERE / f"{self.name}.leases", "a") as file:
                file.write(f"{words[0]} {words[1]}\\n")
            answer = {"held": True, "guarded": False, "holder": {}, "stale": [], "folder": "/nowhere"}
            return CommandResult(tuple(argv), 0, json.dumps(answer), "", 0.0)
        return super().run(argv, timeout=timeout, stdin=stdin)

registry._kind = lambda name: Host
"""
SWEEP = """
def test_crossover(sweep):
    assert sweep.best(concurrency=1).steps == 1
"""


@pytest.fixture
def pool(project: Project) -> Project:
    """A project whose target has a pool of two hosts."""
    project.configure(restarts=2, more='\n[target.fake.host]\npool = ["left", "right"]\n')
    (project.pytester.path / "conftest.py").write_text(HOSTS)
    project.test_file(GATED.replace("def", "import pytest\n@pytest.mark.gate(tolerance='90%')\ndef"))
    return project


def report(project: Project) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((project.pytester.path / "report.json").read_text())
    return content


def hosts(project: Project) -> dict[int, set[str]]:
    """By steps: where its servers ran."""
    found: dict[int, set[str]] = {}
    for start in report(project)["starts"]:
        found.setdefault(start["config"]["steps"], set()).add(start["host"])
    return found


def test_several_workers_on_one_host_are_a_usage_error(project: Project) -> None:
    result = project.run("--spec-steps=1", "-n2", plugins=["xdist"])
    result.stderr.fnmatch_lines(["ERROR: *one worker a host*target fake has one host; use -n0 or -n1*"])
    assert result.ret == 4
    assert project.starts == []


def test_one_worker_gives_the_same_report(recorded: Project) -> None:
    result = recorded.run("--spec-steps=0,1", "-n1", "--spec-json=report.json", plugins=["xdist"])
    assert result.ret == 0
    result.stdout.fnmatch_lines(["PASS 2 *2 server starts*"])
    content = report(recorded)
    assert [case["outcome"] for case in content["cases"]] == ["pass", "pass"]
    assert len(content["starts"]) == 2
    assert content["identity"]["workload"]


def test_one_worker_records(project: Project) -> None:
    assert project.run("--update-baselines", "-n1", plugins=["xdist"]).ret == 0
    assert len(list((project.pytester.path / "baselines").glob("fake@*.json"))) == 1


def test_settings_that_only_a_worker_sees_to_be_wrong_are_a_usage_error(project: Project) -> None:
    file = project.pytester.path / "specdecode.toml"
    file.write_text(file.read_text().replace('algorithm = "ngram-mod"', ""))
    result = project.run("--spec-steps=1", "-n1", plugins=["xdist"])
    assert result.ret == 4
    result.stdout.fnmatch_lines(["target fake: steps=1 needs an algorithm*"])


def test_a_pool_shares_the_configurations_and_makes_one_report(pool: Project) -> None:
    recorded = pool.run("--update-baselines", "-n2", plugins=["xdist"])
    assert recorded.ret == 0
    (file,) = (pool.pytester.path / "baselines").iterdir()
    cases = json.loads(file.read_text())["cases"]
    assert [len(case["sessions"][0]["starts"]) for case in cases] == [2, 2]
    assert [case["sessions"][0]["context"]["host"] for case in cases] == ["left", "right"]
    assert len({case["sessions"][0]["context"]["date"] for case in cases}) == 1
    pool.test_file(SWEEP, "test_over_all")
    result = pool.run("--spec-steps=0,1", "-n", "auto", "--spec-json=report.json", plugins=["xdist"])
    assert result.ret in (10, 11)  # the sweep's refusal, and what a busy machine makes invalid
    result.stdout.fnmatch_lines(["left: fake off c=1: tok_s *", "*at concurrency 1 are measured on several*"])
    assert hosts(pool) == {0: {"left"}, 1: {"right"}}
    assert set(report(pool)["context"]["hosts"]) == {"left", "right"}
    for name in ("left", "right"):
        taken = (pool.pytester.path / f"{name}.leases").read_text().split()
        assert len(set(taken[1::2])) == 2, "one lease a session"
    assert list((pool.pytester.path / ".specdecode").glob("*.jsonl")) == []


def test_what_a_dead_worker_had_left_is_broken_and_can_be_resumed(pool: Project) -> None:
    pool.test_file(
        "import os, pathlib\n"
        "def test_floor(measurement):\n"
        "    if measurement.config.steps and not pathlib.Path('again').exists():\n"
        "        os.kill(os.getpid(), 9)\n"
    )
    wanted = ("--spec-steps=0,1", "--spec-concurrency=1,2", "-n2", "--spec-json=report.json")
    result = pool.run(*wanted, plugins=["xdist"])
    assert result.ret == 10
    result.stdout.fnmatch_lines(["*worker gw1, which measured on right, is gone*", "*MEASURED 2*BROKEN 2*"])
    outcomes = [(case["config"]["steps"], case["outcome"]) for case in report(pool)["cases"]]
    assert outcomes == [(0, "measured"), (0, "measured"), (1, "broken"), (1, "broken")]
    (pool.pytester.path / "again").touch()
    before = len(pool.starts)
    result = pool.run("--spec-resume", *wanted, plugins=["xdist"])
    assert result.ret == 0
    result.stdout.fnmatch_lines(["gw0: resumed the run of *: 2 measurements were taken *", "*MEASURED 4*"])
    assert len(pool.starts) - before == 1, "what the other host measured is not measured again"

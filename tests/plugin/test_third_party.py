"""An engine that somebody else brings, by an entry point of their own package: measured as ours are."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from .conftest import GATED, Project

TOY = Path(__file__).parents[1] / "toy"
TOML = """
[target.toy]
engine = "toy"
steps = [0, 3]
concurrency = [1, 2]
[target.toy.service]
command = [{python}, {server}, "--listen", "{{port}}", "{{flags}}"]
ready_within = "20s"
[target.toy.workload]
output_tokens = 33
requests = "max(c, 2)"
rounds = 2
[target.toy.gate]
tolerance = "30%"
restarts = 1
"""


@pytest.fixture
def toy(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose engine is installed beside this plugin."""
    folder = project.pytester.path
    installed = folder / "installed" / "toy_engine-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-engine\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[pytest_specdecode.engines]\ntoy = toy_engine:Toy\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (TOY, installed.parent))))
    (folder / "specdecode.toml").write_text(
        TOML.format(python=json.dumps(sys.executable), server=json.dumps(str(TOY / "toy_server.py")))
    )
    project.test_file(GATED)
    return project


def test_it_is_recorded_by_its_own_figures(toy: Project) -> None:
    result = toy.run("--update-baselines", "--spec-json=report.json")
    assert result.ret == 0
    report = json.loads((toy.pytester.path / "report.json").read_text())
    assert {start["version"] for start in report["starts"]} == {"toy 1.2"}
    per_step = {
        (case["config"]["steps"], case["concurrency"]): case["metrics"]["tokens_per_step"]
        for case in report["cases"]
    }
    assert {place: round(value) for place, value in per_step.items()} == {
        (0, 1): 1,
        (0, 2): 1,
        (3, 1): 4,
        (3, 2): 4,
    }
    (file,) = (toy.pytester.path / "baselines").glob("toy@*.json")
    launch = json.loads(file.read_text())["cases"][0]["identity"]["launch"]
    assert "--listen" not in launch


def test_what_it_cannot_do_is_a_usage_error_in_its_own_words(toy: Project) -> None:
    config = toy.pytester.path / "specdecode.toml"
    table = "[target.toy.workload]\n"
    config.write_text(config.read_text().replace(table, f'{table}forced_acceptance = "80%"\n'))
    result = toy.run("--spec-steps=3")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*the toy's guesses are always right*"])

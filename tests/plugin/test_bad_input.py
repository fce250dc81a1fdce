"""Wrong usage: a clear message, the right exit status, and nothing started."""

from __future__ import annotations

import json
import socket
from fnmatch import fnmatch
from pathlib import Path

import pytest

from pytest_specdecode.plugin import SETTINGS

from .conftest import Project

USAGE, COLLECTION, NOTHING = 4, 2, 5


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--spec-steps=two"], "*--spec-steps=two: 'two' is not a number or a range*1,2,3 or 1-4*"),
        (["--spec-steps="], "*--spec-steps=: '' is not a number*"),
        (["--spec-steps=3-1"], "*'3-1' is not a number or a range*"),
        (["--spec-concurrency=0"], "*--spec-concurrency=0: '0' is not*"),
        (["--spec-target=nope"], "*--spec-target=nope: *specdecode.toml has no such target; it has: fake*"),
        (["--spec-steps=1", "--spec-restarts=0"], "*--spec-restarts=0: expected a whole number*"),
        (["--spec-steps=1", "--spec-inconclusive=maybe"], "*expected fail, skip or pass*"),
        (
            ["--spec-steps=1", "--spec-extend-baselines"],
            "*--spec-extend-baselines goes with --update-baselines*",
        ),
        (["--spec-steps=1", "--spec-accept-slower"], "*--spec-accept-slower goes with --update-baselines*"),
        (["--spec-steps=1", "--spec-config=gone.toml"], "*gone.toml*No such file*"),
        (["--spec-steps=1", "--spec-json=no/where/report.json"], "*--spec-json=*there is no folder*"),
        (["--spec-steps=1", "--spec-html=no/where/out.html"], "*--spec-html=*there is no folder*"),
        (["--spec-steps=1", "--spec-markdown=no/where/out.md"], "*--spec-markdown=*there is no folder*"),
        (["--spec-steps=1", "--benchmark-skip"], "*--benchmark-skip leaves nothing*"),
    ],
)
def test_options(project: Project, args: list[str], message: str) -> None:
    with pytest.raises(pytest.UsageError) as error:
        project.pytester.parseconfigure(*args)
    assert fnmatch(str(error.value), message)


def test_a_usage_error_is_one_line_and_exit_status_4(project: Project) -> None:
    result = project.run("--spec-steps=two")
    result.stderr.fnmatch_lines(["ERROR: --spec-steps=two: 'two' is not a number or a range*"])
    assert result.ret == USAGE
    assert project.starts == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[target.fake.gate]", "[target.fake.extra]\n[target.fake.gate]", "*target.fake.extra*"),
        ('tolerance = "20%"', "tolerance = 5", '*target.fake.gate.tolerance*5*"5%"*'),
        ('engine = "llamacpp"', 'engine = "lamacpp"', "*unknown engine 'lamacpp'; installed: *llamacpp*"),
        ("requests = ", "prompts = 'gone.jsonl'\nrequests = ", "*gone.jsonl*"),
    ],
)
def test_an_unusable_configuration_names_the_key(project: Project, old: str, new: str, message: str) -> None:
    file = project.pytester.path / "specdecode.toml"
    file.write_text(file.read_text().replace(old, new))
    result = project.run("--spec-steps=1")
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert result.ret == USAGE
    assert project.starts == []


def test_several_targets_and_none_chosen(project: Project) -> None:
    text = (project.pytester.path / "specdecode.toml").read_text()
    project.configure(more=text.replace("target.fake", "target.second"))
    result = project.run("--spec-steps=1")
    result.stderr.fnmatch_lines(["ERROR: *several targets (fake, second); choose one with --spec-target"])
    assert result.ret == USAGE


def test_steps_that_no_test_has(project: Project) -> None:
    project.test_file(
        """
        import pytest

        @pytest.mark.speculative(steps=[1, 2, 3])
        def test_gate(measurement, baseline):
            assert measurement >= baseline
        """
    )
    result = project.run("--spec-steps=7")
    result.stdout.fnmatch_lines(["*no test is left by --spec-steps=7 (tests have 1, 2, 3)*"])
    assert result.ret == NOTHING


def test_marker_arguments_are_one_line_each_at_collection(project: Project) -> None:
    wrong = {
        "speculative(step=[1])": "speculative: steps is missing; valid is speculative(steps, *",
        "speculative(steps=['a'])": "speculative: steps='a' is not a whole number*",
        "speculative(steps=[])": "speculative: the list of steps is empty*",
        "speculative(1, 2)": "*one positional argument (steps)*",
        "concurrency(0)": "concurrency: level=0 is not a whole number of at least 1*",
        "concurrency(level=3)": "concurrency: unknown argument 'level'; valid is concurrency([*]levels)*",
        "gate(tolerence='5%')": "gate: unknown argument 'tolerence'; valid is gate(tolerance=*",
        "gate(tolerance=5)": "gate: tolerance: 5 is not a percentage*",
        "gate(metric='speed')": "*unknown metric 'speed'; there are: tok_s*",
    }
    for number, marker in enumerate(wrong):
        project.test_file(
            f"import pytest\n\n@pytest.mark.{marker}\ndef test_gate(measurement, baseline):\n    ...\n",
            f"test_{number}",
        )
    result = project.run("--spec-steps=1")
    for message in wrong.values():
        result.stdout.fnmatch_lines([f"*{message}"])
    assert "Traceback" not in result.stdout.str()
    assert result.ret == COLLECTION


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": 1, "targ', "*fake@box.json*not whole JSON*"),
        (json.dumps({"schema": 99, "target": "fake", "machine": "box", "cases": []}), "*fake@box.json*99*"),
    ],
)
def test_a_baseline_file_that_cannot_be_used_is_found_before_anything_starts(
    project: Project, content: str, message: str
) -> None:
    folder = project.pytester.mkdir("baselines")
    (folder / "fake@box.json").write_text(content)
    result = project.run("--spec-steps=1")
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert result.ret == USAGE
    assert project.starts == []
    assert (folder / "fake@box.json").read_text() == content


def test_a_baseline_folder_that_cannot_be_written(project: Project) -> None:
    (project.pytester.path / "baselines").write_text("a file, not a folder")
    result = project.run("--update-baselines")
    result.stderr.fnmatch_lines(["ERROR: *baselines*cannot be written*"])
    assert result.ret == USAGE
    assert project.starts == []


def test_a_setting_that_the_engine_cannot_express(project: Project) -> None:
    project.test_file(
        """
        import pytest

        @pytest.mark.speculative(steps=[1], topk=4)
        def test_gate(measurement):
            assert measurement.tok_s > 0
        """
    )
    result = project.run("--spec-steps=1")
    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["ERROR: *topk*"])
    assert project.starts == []


def test_steps_without_an_algorithm_on_either_side(project: Project) -> None:
    file = project.pytester.path / "specdecode.toml"
    file.write_text(file.read_text().replace('algorithm = "ngram-mod"', ""))
    result = project.run("--spec-steps=1")
    result.stderr.fnmatch_lines(["ERROR: *steps=1 needs an algorithm*"])
    assert result.ret == USAGE
    assert project.starts == []


def test_a_port_that_is_taken(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        file = project.pytester.path / "specdecode.toml"
        file.write_text(
            file.read_text().replace(
                'engine = "llamacpp"', f'engine = "llamacpp"\nurl = "http://127.0.0.1:{port}"'
            )
        )
        result = project.run("--spec-steps=1")
    result.stdout.fnmatch_lines(["dirty: the environment is not clean*", f"*port {port} is held by pid*"])
    assert result.ret == 10


def test_a_configuration_that_is_external_runs_one(project: Project) -> None:
    Path(project.pytester.path / "specdecode.toml").write_text(
        '[target.fake]\nengine = "llamacpp"\nurl = "http://127.0.0.1:9"\nsteps = [1, 2]\n'
        "[target.fake.speculation]\nalgorithm = 'ngram-mod'\n[target.fake.service]\nexternal = true\n"
    )
    result = project.run("--spec-steps=1,2")
    result.stderr.fnmatch_lines(["ERROR: *external*one configuration*"])
    assert result.ret == USAGE


def test_a_number_in_the_native_toml_format_is_a_usage_error(project: Project) -> None:
    project.pytester.makepyprojecttoml("[tool.pytest]\nspecdecode_restarts = 3\n")
    result = project.run("--spec-steps=1")
    result.stderr.fnmatch_lines(["ERROR: *specdecode_restarts*expects a string, got int: 3*"])
    assert result.ret == USAGE


def test_an_ini_value_is_a_default(project: Project) -> None:
    project.pytester.makeini("[pytest]\nspecdecode_restarts = 2\n")
    assert project.pytester.parseconfigure("--spec-steps=1").stash[SETTINGS].restarts == 2
    assert (
        project.pytester.parseconfigure("--spec-steps=1", "--spec-restarts=4").stash[SETTINGS].restarts == 4
    )

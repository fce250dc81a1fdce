"""What is a benchmark, and which sessions run them."""

from __future__ import annotations

import pytest

from pytest_specdecode.plugin import SETTINGS

from .conftest import Project

HEAVY = ("paramiko", "httpx", "numpy", "scipy", "msgspec", "tabulate", "jinja2")


def test_without_an_option_a_benchmark_is_one_skipped_item(project: Project) -> None:
    (project.pytester.path / "specdecode.toml").write_text("this is no TOML and is never read")
    project.test_file(
        """
        import pytest

        @pytest.mark.speculative(steps=[1, 2, 3])
        @pytest.mark.concurrency(1, 4)
        def test_gate(measurement, baseline):
            assert measurement >= baseline

        def test_plain():
            pass
        """
    )
    result = project.run("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*SKIPPED*benchmark: pass --spec-steps"])
    assert result.ret == 0


def test_without_an_option_nothing_heavy_is_imported(project: Project) -> None:
    project.pytester.makeconftest(
        f"""
        import sys

        def pytest_sessionfinish():
            heavy = [name for name in {HEAVY} if name in sys.modules]
            print("imported:", ", ".join(heavy) or "nothing")
        """
    )
    result = project.run("-s")
    result.stdout.fnmatch_lines(["*imported: nothing*"])


def test_a_benchmark_session_collects_only_benchmarks(project: Project) -> None:
    project.test_file("def test_plain():\n    raise SystemExit('must not run')\n", name="test_other")
    result = project.run("--spec-steps=0", "--collect-only", "-q")
    result.stdout.fnmatch_lines(
        ["test_bench.py::test_gate[[]steps0-c1[]]", "*1/2 tests collected (1 deselected)*"]
    )
    assert project.starts == []


@pytest.mark.parametrize(
    "option", ["--spec-steps=1", "--spec-concurrency=1", "--spec-target=fake", "--update-baselines"]
)
def test_each_of_these_options_makes_a_benchmark_session(project: Project, option: str) -> None:
    assert project.pytester.parseconfigure(option).stash[SETTINGS].benchmark_session


def test_options_that_only_shape_a_session_make_none(project: Project) -> None:
    config = project.pytester.parseconfigure("--spec-rounds=2", "--spec-json=report.json")
    assert not config.stash[SETTINGS].benchmark_session


def test_ids_name_steps_concurrency_and_restart(project: Project) -> None:
    project.configure(steps=[2], concurrency=[16], restarts=2)
    result = project.run("--spec-steps=2", "--collect-only", "-q")
    result.stdout.fnmatch_lines(
        ["test_bench.py::test_gate[[]steps2-c16-r1[]]", "test_bench.py::test_gate[[]steps2-c16-r2[]]"]
    )


def test_only_tests_that_ask_for_the_baseline_have_restarts(project: Project) -> None:
    project.configure(steps=[1], restarts=3)
    project.test_file("def test_floor(measurement):\n    assert measurement.tok_s > 0\n")
    result = project.run("--spec-steps=1", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["test_bench.py::test_floor[[]steps1-c1[]]", "*1 test collected*"])


def test_order_is_restart_then_configuration_with_sweeps_last(project: Project) -> None:
    project.configure(restarts=2)
    project.test_file(
        """
        def test_sweep(sweep): ...
        def test_gate(measurement, baseline): ...
        def test_host(spec_host): ...
        def test_accuracy(spec_server): ...
        """
    )
    result = project.run("--spec-steps=0,1", "--collect-only", "-q")
    names = [line.partition("::")[2] for line in result.outlines if "::" in line]
    assert names == [
        "test_host",
        "test_gate[steps0-c1-r1]",
        "test_accuracy[steps0]",
        "test_gate[steps1-c1-r1]",
        "test_accuracy[steps1]",
        "test_gate[steps0-c1-r2]",
        "test_gate[steps1-c1-r2]",
        "test_sweep",
    ]


def test_markers_are_registered(project: Project) -> None:
    result = project.run("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.speculative(steps, *, algorithm=None*", "@pytest.mark.gate(*"])


def test_help_explains_every_option(project: Project) -> None:
    result = project.run("--help")
    result.stdout.fnmatch_lines(
        ["speculative-decoding benchmarks:", "*--spec-steps=LIST*", "*--update-baselines*"]
    )

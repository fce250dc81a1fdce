"""Each case ends in exactly one outcome, and the exit status says which kind."""

from __future__ import annotations

import json

import pytest

from .conftest import GATED, Project


def outcome(project: Project) -> str:
    """The outcome of the only case in the JSON report."""
    report = json.loads((project.pytester.path / "report.json").read_text())
    (case,) = report["cases"]
    return str(case["outcome"])


REPORT = "--spec-json=report.json"


def test_pass(recorded: Project) -> None:
    result = recorded.run("--spec-steps=1", REPORT)
    result.assert_outcomes(passed=1)
    assert (result.ret, outcome(recorded)) == (0, "pass")


def test_regressed_at_half_the_speed(recorded: Project) -> None:
    recorded.engine(tok_s=200)
    result = recorded.run("--spec-steps=1", REPORT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*regressed: fake steps=1 c=1: tok_s is worse than what is stored by [45]?%*",
            "E*tok_s: * → * tok/s, × 0.*",
            "since the baseline:*",
        ]
    )
    assert (result.ret, outcome(recorded)) == (1, "regressed")


def test_the_same_regression_twice_is_the_same_verdict(recorded: Project) -> None:
    recorded.engine(tok_s=200)
    assert [recorded.run("--spec-steps=1").ret for _ in range(2)] == [1, 1]


def test_no_baseline_names_the_command_that_records_one(project: Project) -> None:
    result = project.run("--spec-steps=1", REPORT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*no-baseline: *--spec-steps=1 --spec-concurrency=1 --update-baselines*"])
    assert (result.ret, outcome(project)) == (11, "no-baseline")


def test_incomparable_names_the_field_and_both_values(recorded: Project) -> None:
    file = recorded.pytester.path / "specdecode.toml"
    file.write_text(file.read_text().replace("output_tokens = 16", "output_tokens = 20"))
    result = recorded.run("--spec-steps=1", REPORT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*incomparable: *workload*was*is now*"])
    assert (result.ret, outcome(recorded)) == (11, "incomparable")


def test_invalid_when_requests_are_cut(recorded: Project) -> None:
    recorded.engine(cut_share=0.2)
    result = recorded.run("--spec-steps=1", REPORT)
    result.assert_outcomes(errors=1)
    assert (result.ret, outcome(recorded)) == (10, "invalid")


def test_broken_when_the_engine_ends_in_start_up(recorded: Project) -> None:
    recorded.engine(exit_after_s=0.1, exit_code=3)
    result = recorded.run("--spec-steps=1", REPORT)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["broken: the engine ended while it was starting: *3*", "*last log lines:*"])
    assert result.ret == 10


def test_broken_when_the_engine_hangs_in_start_up(recorded: Project) -> None:
    file = recorded.pytester.path / "specdecode.toml"
    file.write_text(file.read_text().replace('ready_within = "20s"', 'ready_within = "1s"'))
    recorded.engine(load_s=1e9)
    result = recorded.run("--spec-steps=1", REPORT)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["broken: the engine was not ready within 1 s (*service.ready_within*"])
    assert result.ret == 10


def test_broken_when_the_engine_dies_in_mid_round(recorded: Project) -> None:
    recorded.engine(die_at=4)
    result = recorded.run("--spec-steps=1", REPORT)
    result.assert_outcomes(errors=1)
    assert (result.ret, outcome(recorded)) == (10, "broken")


def test_broken_when_it_does_not_speculate_though_asked(recorded: Project) -> None:
    recorded.engine(silent_off=True)
    result = recorded.run("--spec-steps=1", REPORT)
    result.assert_outcomes(errors=1)
    assert (result.ret, outcome(recorded)) == (10, "broken")


def test_broken_when_fewer_requests_can_run_than_asked(recorded: Project) -> None:
    recorded.engine(slots=1)
    result = recorded.run("--spec-steps=1", "--spec-concurrency=2", REPORT)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*at most 1 requests together, fewer than concurrency 2*"])
    assert (result.ret, outcome(recorded)) == (10, "broken")


def test_broken_when_a_request_is_longer_than_the_engines_context(recorded: Project) -> None:
    config = recorded.pytester.path / "specdecode.toml"
    config.write_text(config.read_text().replace('"-c", "65536"', '"-c", "128"'))  # of eight slots
    result = recorded.run("--spec-steps=1", REPORT)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*longest request needs 18 tokens, and the engine's context has room for 16;*"]
    )
    assert (result.ret, outcome(recorded)) == (10, "broken")


def test_recorded(project: Project) -> None:
    result = project.run("--update-baselines", "--spec-steps=1", REPORT)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*RECORDED 1*"])
    assert (result.ret, outcome(project)) == (0, "recorded")


def test_measured_passes_or_fails_by_the_tests_own_asserts(project: Project) -> None:
    project.test_file("def test_floor(measurement):\n    assert measurement.tok_s >= 300\n")
    assert project.run("--spec-steps=1", REPORT).ret == 0
    assert outcome(project) == "measured"
    project.engine(tok_s=200)
    result = project.run("--spec-steps=1", REPORT)
    result.stdout.fnmatch_lines(["E*where *<fake steps=1 c=1: * tok/s, 1 start>.tok_s"])
    assert (result.ret, outcome(project)) == (1, "measured")


def test_asking_for_the_baseline_without_comparing_fails(recorded: Project) -> None:
    recorded.test_file("def test_forgetful(measurement, baseline):\n    assert measurement.tok_s > 0\n")
    result = recorded.run("--spec-steps=1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*asks for `baseline` but does not compare with it*"])
    assert result.ret == 1


def test_the_mirrored_comparison_is_the_same(recorded: Project) -> None:
    recorded.test_file("def test_gate(measurement, baseline):\n    assert baseline <= measurement\n")
    recorded.run("--spec-steps=1").assert_outcomes(passed=1)


def test_no_other_comparison_exists(recorded: Project) -> None:
    recorded.test_file("def test_gate(measurement, baseline):\n    assert measurement > baseline\n")
    result = recorded.run("--spec-steps=1")
    result.stdout.fnmatch_lines(["*TypeError: *`measurement >= baseline` is the only comparison*"])
    assert result.ret == 1


def test_a_missing_metric_never_passes(project: Project) -> None:
    project.test_file("def test_drafts(measurement):\n    assert measurement.accept_length > 1\n")
    result = project.run("--spec-steps=0")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*MissingMetricError: accept_length was not measured*"])


def test_a_case_that_failed_is_shared_like_a_number(recorded: Project) -> None:
    recorded.test_file(GATED + "\n\ndef test_again(measurement):\n    assert measurement.tok_s > 0\n")
    recorded.engine(cut_share=0.2)
    result = recorded.run("--spec-steps=1")
    result.assert_outcomes(errors=2)
    assert len(recorded.starts) == 1


@pytest.mark.parametrize("slow", [True, False])
def test_a_regression_outweighs_what_could_not_be_measured(recorded: Project, slow: bool) -> None:
    recorded.test_file(
        GATED + "\n\ndef test_broken(spec_server):\n    raise SystemExit if False else AssertionError\n"
    )
    recorded.engine(tok_s=200 if slow else 400)
    assert recorded.run("--spec-steps=1").ret == 1


def test_speculation_that_the_launch_command_sets_itself_gives_way(project: Project) -> None:
    file = project.pytester.path / "specdecode.toml"
    text = file.read_text().replace(
        '"--metrics"', '"--spec-type", "ngram-mod", "--spec-ngram-mod-n-max", "7", "--metrics"'
    )
    file.write_text(text.replace('algorithm = "ngram-mod"', ""))
    project.test_file("def test_speed(measurement):\n    assert measurement.tok_s > 0\n")
    assert project.run("--spec-steps=0,2", REPORT).ret == 0
    assert [start["k"] for start in project.starts] == [0, 2]

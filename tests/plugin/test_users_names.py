"""Installing the plugin breaks nobody: users have names of their own."""

from __future__ import annotations

import pytest

from .conftest import Project


@pytest.mark.parametrize(
    ("declared", "given"),
    [('action="store_true"', "--update-baselines"), ("type=str", "--update-baselines=all")],
)
def test_an_option_of_a_conftest_stays_theirs(project: Project, declared: str, given: str) -> None:
    project.pytester.makeconftest(
        f"""
        import pytest

        def pytest_addoption(parser):
            parser.addoption("--update-baselines", dest="theirs", {declared})

        @pytest.fixture
        def theirs(request):
            return request.config.getoption("theirs")
        """
    )
    project.test_file("def test_theirs(theirs):\n    assert theirs in (True, 'all')\n", name="test_theirs")
    result = project.run(given, "test_theirs.py")
    result.assert_outcomes(passed=1)


def test_ours_is_then_the_long_form(project: Project) -> None:
    project.pytester.makeconftest(
        "def pytest_addoption(parser):\n    parser.addoption('--update-baselines', action='store_true')\n"
    )
    result = project.run("--spec-update-baselines", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["test_bench.py::test_gate*"])


def test_a_baseline_fixture_and_a_concurrency_parameter_of_their_own(project: Project) -> None:
    project.test_file(
        """
        import pytest

        @pytest.fixture
        def baseline():
            return 7

        @pytest.fixture
        def measurement():
            return 8

        @pytest.mark.parametrize("concurrency", [1, 2])
        def test_theirs(measurement, baseline, concurrency):
            assert measurement >= baseline
        """
    )
    result = project.run()
    result.assert_outcomes(passed=2)


def test_their_baseline_beside_our_measurement_has_no_restarts(project: Project) -> None:
    project.configure(steps=[1], restarts=3)
    project.test_file(
        """
        import pytest

        @pytest.fixture
        def baseline():
            return 7

        def test_theirs(measurement, baseline):
            assert measurement.tok_s >= baseline
        """
    )
    result = project.run("--spec-steps=1")
    result.assert_outcomes(passed=1)
    assert len(project.starts) == 1

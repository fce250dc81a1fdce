"""A benchmark session of this repository runs the shipped suite; any other runs the project's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specdecode.plugin import SETTINGS

TESTS = Path(__file__).parent / "tests"

pytest_plugins = ["pytester"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if TESTS in collection_path.parents and config.stash[SETTINGS].benchmark_session else None

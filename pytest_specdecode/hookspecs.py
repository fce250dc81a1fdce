"""Hooks that this plugin offers."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookspec()
def pytest_specdecode_report(config: pytest.Config, report: dict[str, Any]) -> None:
    """The finished report of a benchmark session, as ``--spec-json`` writes it; called once, at its end."""

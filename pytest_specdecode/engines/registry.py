"""Engines by name: whatever is installed under the entry-point group, ours and third parties' alike."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from ..errors import ConfigError
from . import Engine

GROUP = "pytest_specdecode.engines"


def load_engine(name: str) -> Engine:
    """The adapter that ``engine = "name"`` means.

    :raises ConfigError: when there is none of that name (those installed are named) or it cannot be imported.
    """
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        there_are = ", ".join(sorted(found)) or "none; is pytest-specdecode itself installed?"
        raise ConfigError(f"unknown engine {name!r}; installed: {there_are} (entry-point group {GROUP})")
    point = found[name]
    try:
        return cast(Engine, point.load()())
    except (ImportError, AttributeError) as failed:
        raise ConfigError(f"engine {name!r} ({point.value}) cannot be loaded: {failed}") from failed

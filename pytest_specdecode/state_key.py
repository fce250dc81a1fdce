"""The stash key of the session's state, apart from it so that nothing heavy is imported with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .state import State

STATE: pytest.StashKey[State] = pytest.StashKey()

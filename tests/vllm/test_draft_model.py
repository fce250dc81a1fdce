"""A vLLM with a draft model of its own, and what is said when its engine dies after it was healthy."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_specdecode.errors import BrokenError
from pytest_specdecode.server import Server

from .conftest import Session

DRAFT = 'algorithm = "draft_model"\ndraft_model = "{models}/draft"'


def children(pid: int) -> list[int]:
    """The processes that ``pid`` started, and theirs."""
    direct = [
        int(n)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for n in (task / "children").read_text().split()
    ]
    return [p for child in direct for p in (child, *children(child))]


def engine_core(server: Server) -> int:
    """The process of the engine, which has renamed itself."""
    named = {Path(f"/proc/{p}/comm").read_text().strip(): p for p in children(os.getpid())}
    return next(pid for name, pid in named.items() if name.startswith("VLLM::EngineCor"))


def test_a_draft_model_drafts_in_every_step(session: Callable[..., Session]) -> None:
    made = session(model="target", speculation=DRAFT, output_tokens=16, rounds=1)
    server = made.start(2)
    assert (server.settings.algorithm, server.settings.steps) == ("draft_model", 2)
    (round_,) = made.measure(server, 1).rounds
    assert round_.reasons == ()
    figures = round_.metrics
    assert 1 < figures["tokens_per_step"] <= figures["accept_length"] * 1.02 < 3

    os.kill(engine_core(server), signal.SIGKILL)
    with pytest.raises(BrokenError, match=r"died|gone|failed"):
        made.measure(server, 1)

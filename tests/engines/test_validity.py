"""What makes a round invalid, done to a real engine: others' requests, a full batch, early ends, death."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from pytest_specdecode.config import Target, Workload
from pytest_specdecode.errors import BrokenError
from pytest_specdecode.load.crew import Crew
from pytest_specdecode.load.limits import Limits
from pytest_specdecode.load.measure import measure
from pytest_specdecode.model import CaseStart, SpecConfig
from tests.load import servers

from .servers import Running, command, free_port, launched


@pytest.fixture(scope="module")
def engine(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    port = free_port()
    argv = list(command(target, (), port))
    argv[argv.index("-np") + 1] = "2"
    with launched(argv, port, tmp_path_factory.mktemp("engine")) as server:
        server.wait_ready()
        yield server


def measured(
    target: Target,
    engine: Running,
    concurrency: int = 1,
    progress: Callable[[str], None] = lambda _: None,
    **workload: Any,
) -> CaseStart:
    server = servers.Running(
        engine.url, engine.http, engine.process, SpecConfig.of(0), model=target.model, argv=engine.argv
    )
    table = Workload(
        **{
            "prompts": target.workload.prompts, "output_tokens": 8, "requests": "2",
            "warmup_rounds": 0, **workload,
        }
    )  # fmt: skip
    with Crew(1, 1) as crew:
        return measure(
            server,
            table,
            concurrency,
            rounds=1,
            progress=progress,
            crew=crew,
            limits=Limits(settle_s=1.0),
        )


@contextlib.contextmanager
def somebody_else(url: str) -> Iterator[None]:
    """Another client that asks all the time."""
    enough = threading.Event()

    def ask() -> None:
        with httpx.Client(trust_env=False, timeout=60) as client:
            while not enough.is_set():
                client.post(f"{url}/v1/completions", json={"prompt": "I like", "max_tokens": 4})

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def test_the_requests_of_a_second_client(target: Target, engine: Running) -> None:
    assert measured(target, engine).valid
    with somebody_else(engine.url):
        start = measured(target, engine)
    assert any("in the engine's counters are not ours" in reason for reason in start.reasons), start.reasons


def test_more_requests_than_run_together(target: Target, engine: Running) -> None:
    start = measured(target, engine, 4, requests="2c", input_tokens=16, output_tokens=24)
    said = "at most [12] requests ran together at concurrency 4: the others waited in line"
    assert any(re.search(said, reason) for reason in start.reasons), start.reasons


def test_answers_that_end_early(target: Target, engine: Running) -> None:
    start = measured(target, engine, extra_body={"ignore_eos": False, "stop": ["e"]})
    assert any(re.search("requests fell short, .*finish_reason stop", r) for r in start.reasons), (
        start.reasons
    )


def test_an_engine_that_is_killed_in_mid_round(target: Target, engine: Running) -> None:
    """The last one here: nothing runs after it."""

    def kill(said: str) -> None:
        if said.startswith("round"):
            engine.process.kill()

    with pytest.raises(BrokenError, match=r"the server (died|was out of reach) in round 1/1"):
        measured(target, engine, progress=kill, output_tokens=400)

"""One vLLM that drafts three tokens from the text, at most four requests together: figures and end."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from pytest_specdecode.errors import BrokenError
from pytest_specdecode.load.metrics import delta
from pytest_specdecode.model import SpecConfig
from pytest_specdecode.server import Server

from .conftest import DEADLINE_S, Session

Events = list[dict[str, Any]]


@pytest.fixture(scope="module")
def running(session: Callable[..., Session]) -> tuple[Session, Server]:
    made = session(concurrency=[2])
    return made, made.start(3)


@contextlib.contextmanager
def stream(server: Server, prompt: str, tokens: int) -> Iterator[Iterator[str]]:
    """The lines of a request's answer, which stays open until the block ends."""
    path, fields = server.engine.request("completions")
    body = {**fields, "model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    with (
        httpx.Client(trust_env=False, timeout=DEADLINE_S) as client,
        client.stream("POST", server.url + path, json=body) as answer,
    ):
        yield answer.iter_lines()


def ask(server: Server, number: int) -> Events:
    """The events of one whole request; each has another text and length."""
    with stream(server, f"{number} times alpha beta " * 12, 60 + 3 * number) as lines:
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


def fewest_steps(server: Server, events: Events) -> int:
    """Moments at which the running count of a stream grew, after the first; steps may share a moment."""
    counts = [server.engine.progress(event).tokens for event in events]
    return len({count for count in counts if count}) - 1


def test_it_runs_what_was_asked(running: tuple[Session, Server]) -> None:
    _, server = running
    told = server.settings
    assert (told.speculating, told.algorithm, told.steps, told.max_running) == (True, "ngram", 3, 4)
    assert (told.models, told.context_tokens) == (("tiny",), 2048)
    assert told.raw["speculative_config"]["prompt_lookup_max"] == 4
    assert server.engine.mismatches(SpecConfig.of(2, algorithm="ngram"), told)
    assert len(server.counters().accepted_by_position) == 3  # before the first draft


def test_counters_are_the_sum_of_what_the_requests_tell(running: tuple[Session, Server]) -> None:
    _, server = running
    before = server.counters()
    with ThreadPoolExecutor(4) as pool:
        answers: Sequence[Events] = list(pool.map(lambda n: ask(server, n), range(4)))
    counted = delta(before, server.counters())
    usages = [server.engine.usage(events) for events in answers]
    assert all(usages)
    assert counted.generated_tokens == sum(u.completion_tokens for u in usages if u)
    assert counted.draft_tokens == sum(u.draft_tokens or 0 for u in usages if u)
    assert counted.accepted_tokens == sum(u.accepted_tokens or 0 for u in usages if u)
    assert counted.drafts == sum(u.drafts or 0 for u in usages if u)
    assert counted.accepted_by_position == tuple(
        sum(u.accepted_by_position[place] for u in usages if u) for place in range(3)
    )
    assert sum(fewest_steps(server, events) for events in answers) <= (counted.steps or 0)
    plain = sum(u.completion_tokens - 1 - (u.accepted_tokens or 0) for u in usages if u)
    assert plain <= (counted.steps or 0) <= plain + 3 * len(answers)  # accepted beyond the answers' ends


def test_steps_are_the_engines_iterations_when_it_has_one_request(running: tuple[Session, Server]) -> None:
    _, server = running
    before = server.counters()
    ask(server, 5)
    counted = delta(before, server.counters())
    assert counted.steps == counted.raw["iteration_tokens_total_count"] - 1  # the prefill
    assert (counted.drafts or 0) <= counted.steps


def test_the_prefix_cache_is_emptied_when_idle_and_not_when_busy(running: tuple[Session, Server]) -> None:
    _, server = running
    ask(server, 0)
    assert (server.engine.usage(ask(server, 0)) or pytest.fail("cut")).cached_tokens
    assert server.engine.flush(server.http)
    assert (server.engine.usage(ask(server, 0)) or pytest.fail("cut")).cached_tokens == 0
    with stream(server, "alpha beta", 1900) as lines:
        next(lines)
        assert server.http.post("/reset_prefix_cache").json() == {"success": False}


def test_more_requests_than_it_runs_together_are_refused(running: tuple[Session, Server]) -> None:
    made, server = running
    with pytest.raises(BrokenError, match="runs at most 4 requests together, fewer than concurrency 5"):
        made.measure(server, 5)


def test_another_clients_traffic_makes_a_round_invalid(running: tuple[Session, Server]) -> None:
    made, server = running
    done = threading.Event()

    def other() -> None:
        while not done.is_set():
            ask(server, 1)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        (round_,) = made.measure(server, 2).rounds
    finally:
        done.set()
        thread.join()
    assert "somebody else uses the server" in " ".join(round_.reasons)


def test_a_stop_ends_it_although_a_stream_is_open(running: tuple[Session, Server]) -> None:
    made, server = running
    with stream(server, "alpha beta", 1900) as lines:
        next(lines)
        began = time.monotonic()
        made.run.stop()
        assert time.monotonic() - began < 2 * float(made.target.cleanup.within)
        assert made.run.service.leftovers() == {}
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", urlsplit(server.url).port or 0)) != 0

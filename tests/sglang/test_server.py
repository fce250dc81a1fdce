"""What the adapter says of a real server is what that server does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_specdecode.engines.traffic import in_flight
from pytest_specdecode.load.metrics import delta
from pytest_specdecode.model import SpecConfig

from .servers import ENGINE, Running

STANDALONE = ("--speculative-algorithm", "STANDALONE", "--speculative-num-steps", "2")


@pytest.fixture(scope="module")
def server(serve: Callable[..., Any], folder: Any) -> Iterator[Running]:
    """Asked for seven draft tokens at two steps, which SGLang makes three."""
    draft = ("--speculative-draft-model-path", str(folder / "models/draft"), "--speculative-eagle-topk", "1")
    with serve("target", *STANDALONE, *draft, "--speculative-num-draft-tokens", "7") as running:
        yield running


def test_settings_that_sglang_adjusted_are_caught(server: Running) -> None:
    settings = ENGINE.settings(server.http, ())
    assert (settings.algorithm, settings.steps, settings.topk, settings.draft_tokens) == (
        "STANDALONE",
        2,
        1,
        3,
    )
    assert (settings.max_running, settings.context_tokens, settings.models) == (8, 2048, ("tiny",))
    assert ENGINE.mismatches(SpecConfig.of(2, algorithm="STANDALONE"), settings) == ()
    (said,) = ENGINE.mismatches(SpecConfig.of(2, algorithm="STANDALONE", draft_tokens=7), settings)
    assert "SGLang adjusted them" in said
    assert ENGINE.version(server.http) == "0.5.23"


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_a_streams_figures_agree_with_the_counters(server: Running, endpoint: str) -> None:
    assert ENGINE.flush(server.http)
    before = ENGINE.counters(server.http)
    told = server.ask(24, endpoint=endpoint)
    usage = ENGINE.usage(told)
    assert usage is not None
    grown = delta(before, _settled(server, before.generated_tokens or 0.0, 24))
    assert usage.completion_tokens == grown.generated_tokens == 24
    assert usage.prompt_tokens == grown.prompt_tokens
    assert usage.steps == grown.steps == usage.drafts
    assert usage.draft_tokens == 2 * (usage.drafts or 0)
    assert 0 <= 1 + (usage.steps or 0) + (usage.accepted_tokens or 0) - 24 <= 2
    assert sum(usage.accepted_by_position) == usage.accepted_tokens
    counts = [ENGINE.progress(event).tokens for event in told if ENGINE.progress(event).text]
    assert (counts[0], counts[-1]) == (1, 24)


def _settled(server: Running, before: float, tokens: int) -> Any:
    """Counters are brought up to date when a request has ended."""
    deadline = time.monotonic() + 5
    while True:
        counted = ENGINE.counters(server.http)
        if (counted.generated_tokens or 0) >= before + tokens or time.monotonic() > deadline:
            return counted
        time.sleep(0.1)


def test_health_probes_are_in_no_counter(server: Running) -> None:
    before = ENGINE.counters(server.http)
    assert ENGINE.ready(server.http).ready
    assert ENGINE.counters(server.http).generated_tokens == before.generated_tokens


def test_a_flush_empties_the_cache(server: Running) -> None:
    server.ask(8)
    kept = ENGINE.usage(server.ask(8))
    assert ENGINE.flush(server.http)
    flushed = ENGINE.usage(server.ask(8))
    assert kept is not None
    assert flushed is not None
    assert (kept.cached_tokens or 0) > 20
    assert (flushed.cached_tokens or 0) <= 1


def test_a_lone_request_is_seen_and_keeps_the_cache(server: Running) -> None:
    assert in_flight(server.http, watch_s=0.3) == 0
    client = threading.Thread(target=server.ask, args=(200,))
    client.start()
    time.sleep(0.5)
    try:
        assert (in_flight(server.http, watch_s=60) or 0) >= 1
        assert not ENGINE.flush(server.http)
    finally:
        client.join()

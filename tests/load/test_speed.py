"""Against an engine of exactly known speed the numbers are right."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from pytest_specdecode.config import Workload
from pytest_specdecode.load import eventloop
from pytest_specdecode.load.crew import Crew
from pytest_specdecode.load.measure import measure
from pytest_specdecode.model import CaseStart

from .servers import Running, fake_engine

TTFT_MS = 10.0


def quiet(_: str) -> None:
    """Nobody to tell."""


def measured(server: Running, concurrency: int, rounds: int = 3, **workload: Any) -> CaseStart:
    table = Workload(**{"warmup_rounds": 0, "requests": "2c", **workload})
    return measure(server, table, concurrency, rounds=rounds, progress=quiet, crew=Crew(1, 1))


def median(start: CaseStart, name: str) -> float:
    """Over rounds: one that a busy machine disturbed does not count."""
    assert start.values(name), start.reasons
    return statistics.median(start.values(name))


@pytest.mark.parametrize(
    ("concurrency", "rounds", "tok_s", "tokens_per_event", "output_tokens"),
    [
        (1, 3, 100.0, 1, 80),
        (4, 1, 250.0, 3, 100),
        (64, 1, 50.0, [1, 4, 3], 40),
    ],
)
def test_speed_of_one_and_of_all_within_one_percent(
    concurrency: int, rounds: int, tok_s: float, tokens_per_event: int | list[int], output_tokens: int
) -> None:
    settings: dict[str, Any] = {"tok_s": tok_s, "tokens_per_event": tokens_per_event, "ttft_ms": TTFT_MS}
    with fake_engine(parallel=concurrency, **settings) as server:
        start = measured(
            server,
            concurrency,
            rounds,
            output_tokens=output_tokens,
            requests="1" if concurrency == 1 else "2c" if concurrency == 64 else "4c",
            warmup_rounds=int(concurrency > 1),
        )
    first = tokens_per_event[0] if isinstance(tokens_per_event, list) else tokens_per_event
    each_s = median(start, "ttft_ms_p50") / 1000 + (output_tokens - first) / tok_s
    assert median(start, "tok_s") == pytest.approx(tok_s, rel=0.01)
    assert median(start, "total_tok_s") == pytest.approx(concurrency * output_tokens / each_s, rel=0.01)
    assert TTFT_MS <= median(start, "ttft_ms_p50") < TTFT_MS + 20
    assert median(start, "itl_ms_p50") == pytest.approx(1000 / tok_s, rel=0.01)


def test_without_running_counts_tokens_are_placed_by_their_text() -> None:
    with fake_engine(tok_s=300, tokens_per_event=3, ttft_ms=TTFT_MS) as server:
        fields = {"timings_per_token": False}
        start = measured(server, 2, rounds=1, output_tokens=150, requests="2", extra_body=fields)
    assert median(start, "tok_s") == pytest.approx(300, rel=0.02)


def test_events_of_one_step_that_come_together_count_as_one_moment() -> None:
    """As llama.cpp sends them: an event a token, the tokens of a step at once."""
    with fake_engine(3, tok_s=200, accept=0.75, event_per_token=True) as server:
        start = measured(server, 2, rounds=1, output_tokens=150, requests="2")
    assert start.valid
    assert median(start, "tok_s") == pytest.approx(200, rel=0.02)


def test_steps_and_acceptance_come_from_the_engine() -> None:
    with fake_engine(2, tok_s=400, accept=[0.8, 0.5]) as server:
        start = measured(server, 2, rounds=1, output_tokens=100, requests="8")
    per_step = 1 + 0.8 + 0.8 * 0.5
    assert start.valid
    assert median(start, "accept_rate_pos_0") == pytest.approx(0.8, rel=0.03)
    assert median(start, "accept_rate_pos_1") == pytest.approx(0.4, rel=0.06)
    assert median(start, "accept_length") == pytest.approx(per_step, rel=0.03)
    assert median(start, "accept_rate") == pytest.approx(0.6, rel=0.03)
    assert median(start, "tokens_per_step") == pytest.approx(per_step, rel=0.04)
    assert median(start, "step_ms") == pytest.approx(
        1000 * median(start, "tokens_per_step") / median(start, "tok_s"), rel=0.01
    )


def test_the_same_numbers_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventloop, "_loop_factory", lambda: None)
    with fake_engine(tok_s=200, ttft_ms=TTFT_MS) as server:
        start = measured(server, 4, rounds=1, output_tokens=150, endpoint="chat", requests="c")
    assert start.valid
    assert median(start, "tok_s") == pytest.approx(200, rel=0.02)


def test_an_odd_but_legal_stream_is_read_right() -> None:
    """Packets that end anywhere, CRLF, comments, a 1 MB line, characters of several bytes."""
    odd = {"split_bytes": 7, "crlf": True, "comments": True, "unicode": True}
    with fake_engine(tok_s=50, tokens_per_event=2, **odd) as server:
        split = measured(server, 2, rounds=1, output_tokens=40, requests="2")
    with fake_engine(tok_s=50, tokens_per_event=2, line_bytes=1_000_000, framing="close") as server:
        long_line = measured(server, 2, rounds=1, output_tokens=40, requests="2")
    assert split.valid
    assert long_line.valid
    assert median(split, "tok_s") == pytest.approx(50, rel=0.03)
    assert median(long_line, "tok_s") == pytest.approx(50, rel=0.03)

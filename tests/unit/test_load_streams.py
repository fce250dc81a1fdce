"""Stored streams → tokens and their moments, on real recordings and on small ones."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.load.client import Trace
from pytest_specdecode.load.streams import Stream, read_stream

RECORDED = Path(__file__).parents[1] / "recordings" / "llamacpp"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def trace(events: list[bytes], times_s: list[float] | None = None) -> Trace:
    """One packet an event, the head with the first; by default one packet a second from t = 1 on."""
    stored = Trace(0, 0, sent_s=0.0, ended_s=len(events) + 1.0, status=200)
    stored.packets = [data if i else HEAD + data for i, data in enumerate(events)]
    stored.times = array("d", times_s or [i + 1.0 for i in range(len(events))])
    return stored


def read(events: list[bytes], times_s: list[float] | None = None, wanted: int = 24) -> Stream:
    return read_stream(trace(events, times_s), wanted, LlamaCpp())


def event(text: str = "", count: int | None = None, **more: Any) -> bytes:
    timings = {"timings": {"predicted_n": count}} if count is not None else {}
    choice = {"text": text, "finish_reason": more.pop("finish_reason", None)}
    return f"data: {json.dumps({'choices': [choice], **timings, **more})}\n\n".encode()


def finish(tokens: int, count: int | None = None) -> bytes:
    usage = {"completion_tokens": tokens, "prompt_tokens": 5}
    return event("", count, finish_reason="length", usage=usage) + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "file",
    ["off/completions_stream.txt", "off/chat_stream.txt", "ngram-mod-3/completions_stream.txt",
     "ngram-mod-3/completions_stream_continuous_usage.txt", "draft-simple-2/chat_stream.txt"],
)  # fmt: skip
def test_recorded_streams_of_24_tokens(file: str) -> None:
    events = [e + b"\n\n" for e in (RECORDED / file).read_bytes().split(b"\n\n") if e]
    stream = read(events)
    assert stream.failure is None
    assert stream.total == stream.wanted == 24
    assert stream.tokens.sum() == 24
    assert stream.finish_reason == "length"
    role = "chat" in file
    assert stream.ttft_s == (2.0 if role else 1.0), "a role event is no first token"


def test_tokens_of_one_step_at_one_moment() -> None:
    """llama.cpp sends them as events of their own, in one packet."""
    events = [event("a", 1), event("b", 2) + event("c", 3), event("d", 4), finish(4, 4)]
    stream = read(events)
    assert list(stream.times_s) == [1.0, 2.0, 3.0]
    assert list(stream.tokens) == [1, 2, 1]
    assert (stream.decode_tokens, stream.decode_s) == (3, 2.0)


def test_without_running_counts_as_many_events_as_tokens_are_one_each() -> None:
    stream = read([event("a"), event("long text"), event("c"), finish(3)])
    assert list(stream.tokens) == [1, 1, 1]


def test_without_running_counts_text_places_tokens_and_usage_counts_them() -> None:
    stream = read([event("ab"), event("abcdef"), event("abcd"), finish(6)])
    assert list(stream.tokens) == [1, 3, 2]


def test_a_count_in_the_last_event_alone_is_no_running_count() -> None:
    stream = read([event("ab"), event("abcdef"), event("abcd"), finish(6, 6)])
    assert list(stream.tokens) == [1, 3, 2]


def test_a_token_without_text_counts_when_the_engine_says_so() -> None:
    """A character of several tokens shows with its last one."""
    stream = read([event("a", 1), event("", 2), event("é", 3), finish(3, 3)])
    assert list(stream.tokens) == [1, 1, 1]


def test_a_last_token_that_was_not_streamed_joins_the_last_that_was() -> None:
    stream = read([event("a", 1), event("b", 2), finish(3, 3)])
    assert list(stream.tokens) == [1, 1, 1]
    assert read([event("a", 1), event("b", 2), finish(3)]).tokens.sum() == 3


def test_chat_with_reasoning_begins_with_the_first_reasoning_token() -> None:
    def delta(**fields: str) -> bytes:
        return f"data: {json.dumps({'choices': [{'delta': fields}]})}\n\n".encode()

    stream = read([delta(role="assistant"), delta(reasoning_content="hm"), delta(content="ok"), finish(2)])
    assert list(stream.times_s) == [2.0, 3.0]


@given(
    st.lists(st.tuples(st.text("abc", max_size=5), st.integers(0, 4)), min_size=1, max_size=30),
    st.booleans(),
    st.integers(0, 2),
)
def test_tokens_always_sum_up_to_the_usage(parts: list[tuple[str, int]], counted: bool, unsent: int) -> None:
    events, count = [], 0
    for text, size in parts:
        count += size
        events.append(event(text, count if counted else None))
    total = count + unsent
    stream = read([*events, finish(total)])
    if stream.failure is None:
        assert stream.tokens.sum() == pytest.approx(total)
        assert all(stream.tokens > 0)
        assert list(stream.times_s) == sorted(set(stream.times_s))
    else:
        assert "no event carried any" in stream.failure


def test_an_event_came_when_its_last_byte_came() -> None:
    whole = event("a", 1)
    stored = trace([whole[:9], whole[9:], finish(1, 1)])
    assert list(read_stream(stored, 1, LlamaCpp()).times_s) == [2.0]


@pytest.mark.parametrize(
    "odd",
    [
        b'data: {"choices": [{"text": 5}]}\n\n',
        b'data: {"choices": [{"text": "a", "finish_reason": ["x"]}]}\n\n',
        b'data: {"choices": [], "usage": {"completion_tokens": "abc"}}\n\n',
        b'data: {"choices": [], "usage": {"completion_tokens": 1}, "timings": {"draft_n": null}}\n\n',
        b'data: {"choices": [], "usage": {"completion_tokens": -3}}\n\n',
        b"data: {" + b'"a": [' * 5000 + b"\n\n",
    ],
)
def test_an_answer_of_another_form_is_a_failure(odd: bytes) -> None:
    assert read([event("a", 1), odd, b"data: [DONE]\n\n"]).failure


def test_an_answer_ends_with_its_last_bytes_however_late_the_connection_closes() -> None:
    stored = trace([event("a"), finish(1)])
    stored.ended_s = 20.0
    assert read_stream(stored, 1, LlamaCpp()).ended_s == 2.0

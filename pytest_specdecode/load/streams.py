"""What one stored stream said: when which tokens came, what the engine says of the request. Pure.

Token counts come from the engine: running counts where its events carry them, else its usage. In that case
events only place tokens in time: one token each when there are as many events as tokens, else in proportion
to the length of their text, and always so that they add up to the usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..engines import Engine, Usage
from .client import Trace
from .http1 import BadAnswerError, read_body, read_events, read_head

_DONE = b"[DONE]"
_ENDS = frozenset({None, "length", "stop"})
_JSON = msgspec.json.Decoder(type=dict[str, Any])

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """One request. ``times_s`` (s, of ``time.perf_counter``) and ``tokens`` have one entry for each moment at
    which tokens came; ``tokens`` sums up to the usage. With a ``failure`` nothing else is to be relied on.
    """

    number: int
    worker: int
    wanted: int
    sent_s: float
    ended_s: float
    times_s: Floats = field(default_factory=lambda: np.empty(0))
    tokens: Floats = field(default_factory=lambda: np.empty(0))
    usage: Usage | None = None
    finish_reason: str | None = None
    failure: str | None = None
    status: int = 0
    """Of the HTTP answer; 0 when there was none."""
    refused: bool = False
    """No connection came about: the server is gone."""

    @property
    def total(self) -> int:
        return self.usage.completion_tokens if self.usage else 0

    @property
    def first_s(self) -> float:
        return float(self.times_s[0])

    @property
    def last_s(self) -> float:
        return float(self.times_s[-1])

    @property
    def decode_tokens(self) -> float:
        """All tokens but those of the first event."""
        return float(self.tokens[1:].sum())

    @property
    def decode_s(self) -> float:
        return self.last_s - self.first_s

    @property
    def ttft_s(self) -> float:
        return self.first_s - self.sent_s

    @property
    def e2e_s(self) -> float:
        return self.ended_s - self.sent_s


class _FailureError(Exception):
    """Why a stream is of no use."""


def read_stream(trace: Trace, wanted: int, engine: Engine) -> Stream:
    """The stream in ``trace``, of which ``wanted`` tokens were asked. Never raises for what a server sent."""
    stream = Stream(
        trace.number,
        trace.worker,
        wanted,
        trace.sent_s,
        trace.ended_s,
        status=trace.status,
        refused=trace.refused,
    )
    try:
        if trace.failure:
            raise _FailureError(trace.failure)
        return _read(trace, stream, engine)
    except (_FailureError, BadAnswerError) as exc:
        return replace(stream, failure=str(exc))
    except Exception as exc:  # noqa: BLE001  (an adapter reads what it expects, and a server may send anything)
        return replace(stream, failure=f"the answer is not of the engine's form: {type(exc).__name__}: {exc}")


def _read(trace: Trace, stream: Stream, engine: Engine) -> Stream:
    raw = b"".join(trace.packets)
    head = read_head(raw)
    if head is None:
        raise _FailureError("the connection was closed without an answer")
    pieces, complete = read_body(raw, head)
    if head.status != 200:
        text = b"".join(data for _, data in pieces).decode("utf-8", "replace")
        raise _FailureError(f"HTTP {head.status}: {text[:200]}".rstrip(": "))
    events: list[Mapping[str, Any]] = []
    ends: list[int] = []
    for data, end in read_events(pieces):
        if data != _DONE:
            events.append(_decode(data, len(events)))
            ends.append(end)
    progresses = [engine.progress(event) for event in events]
    if error := next((p.error for p in progresses if p.error), None):
        raise _FailureError(f"the server reported: {error[:200]}")
    reason = next((p.finish_reason for p in reversed(progresses) if p.finish_reason), None)
    if not complete:
        raise _FailureError(f"cut in mid-stream, after {len(events)} events")
    if reason not in _ENDS:
        raise _FailureError(f"ended with finish_reason {reason!r}")
    usage = engine.usage(events)
    if usage is None or usage.completion_tokens < 0:
        raise _FailureError(f"ended without usage, after {len(events)} events")
    tokens = _placed([(p.text, p.tokens) for p in progresses], usage.completion_tokens)
    packet_ends = np.cumsum([len(packet) for packet in trace.packets])
    times, tokens = _moments(np.asarray(trace.times)[np.searchsorted(packet_ends, ends)], tokens)
    if usage.completion_tokens > 0 and not times.size:
        raise _FailureError(f"{usage.completion_tokens} tokens according to usage, but no event carried any")
    ended_s = trace.times[-1]  # of its last bytes, however late the connection was closed
    return replace(stream, times_s=times, tokens=tokens, usage=usage, finish_reason=reason, ended_s=ended_s)


def _decode(data: bytes, number: int) -> Mapping[str, Any]:
    try:
        return _JSON.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _FailureError(f"event {number + 1} is not a JSON object: {data[:60]!r}") from None


def _placed(events: list[tuple[str, int | None]], total: int) -> Floats:
    """Tokens of each event, given its text and running count; they sum up to ``total`` where any came."""
    counted = [count or 0 for _, count in events]
    if any(counted) and max(counted) <= total and all(count for text, count in events if text):
        running = np.maximum.accumulate(counted)
        tokens = np.diff(running, prepend=0).astype(float)
        tokens[int(np.flatnonzero(tokens)[-1])] += total - running[-1]
        return tokens
    lengths = np.array([len(text) for text, _ in events], dtype=float)
    weights = np.sign(lengths) if np.count_nonzero(lengths) == total else lengths
    scale = weights.sum()
    return weights * (total / scale) if scale else weights


def _moments(times: Floats, tokens: Floats) -> tuple[Floats, Floats]:
    """Without events that carried nothing; those that came at the same moment are one."""
    carried = tokens > 0
    times, tokens = times[carried], tokens[carried]
    if not times.size:
        return times, tokens
    begins = np.flatnonzero(np.diff(times, prepend=-np.inf) > 0)
    return times[begins], np.add.reduceat(tokens, begins)

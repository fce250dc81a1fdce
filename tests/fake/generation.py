"""One request in the fake engine, from its slot to its last byte."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

from tests.fake import llama
from tests.fake.schedule import Drafts, events_of, moments_of

if TYPE_CHECKING:
    from tests.fake.server import Connection, Engine

WORDS = ("the", " quick", " brown", " fox", " jumps", " over", " lazy", " dog")
WIDE_WORDS = ("día", " 日本", " ёлка", " 🦊", " größe", " naïve", " 中文", " π")


def prompt_of(request: dict[str, Any]) -> str:
    if "messages" in request:
        return "".join(str(m.get("content")) for m in request["messages"])
    return str(request.get("prompt", ""))


class Generation:
    """Sends its events at absolute moments: a late one does not delay those after it."""

    def __init__(
        self, engine: Engine, connection: Connection, request: dict[str, Any], *, chat: bool, number: int
    ) -> None:
        s = engine.settings
        self._engine, self._connection, self._request, self._number = engine, connection, request, number
        self._form = llama.Form(chat=chat, model=engine.command.name, number=number)
        prompt = prompt_of(request)
        self.prompt_tokens = len(prompt) // 4 + 1
        self._cached = int(s.cached_share * self.prompt_tokens)
        if request.get("cache_prompt", True) and prompt in engine.seen:
            self._cached = self.prompt_tokens - 1
        engine.seen.add(prompt)
        self._stream = bool(request.get("stream"))
        self._running_counts = bool(request.get("timings_per_token"))
        self._drafts = Drafts()
        self._sent_events = self._sent_tokens = 0
        self._handle: asyncio.TimerHandle | None = None
        self._done = False
        self._plan()

    def _plan(self) -> None:
        s = self._engine.settings
        wanted = int(self._request.get("max_tokens") or self._request.get("n_predict") or 16)
        tokens, self._reason = min(wanted, self._engine.command.context - self.prompt_tokens), "length"
        if s.meets(s.stop_share, self._number):
            tokens, self._reason = max(1, tokens // 2), "stop"
        natural = s.meets(s.natural_share, self._number) and not self._request.get("ignore_eos")
        if natural and s.natural_tokens < tokens:
            tokens, self._reason = s.natural_tokens, "stop"
        self._events = events_of(s, max(1, tokens), self._engine.k, self._drafts)
        self._tokens = sum(self._events)
        middle = len(self._events) // 2
        self._dies = middle if s.die_at == self._number else None
        self._cuts = middle if s.meets(s.cut_share, self._number) else None
        self._stalls = middle if s.meets(s.stall_share, self._number) else None
        self._garbage = middle if s.meets(s.garbage_share, self._number) else None

    def begin(self) -> None:
        """Called once a slot is free."""
        loop = asyncio.get_running_loop()
        self._speed = self._engine.speed()
        self._start = loop.time()
        self._moments = moments_of(self._events, self._engine.settings.ttft_ms / 1000, self._speed)
        if self._stream:
            self._head()
        self._handle = loop.call_at(self._start + self._moments[0], self._next)

    def _head(self) -> None:
        chunked = self._engine.settings.framing == "chunked"
        framing = "Transfer-Encoding: chunked" if chunked else "Connection: close"
        head = f"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nContent-Type: text/event-stream\r\n{framing}\r\n\r\n"
        self._connection.transport.write(head.encode())
        self._write(self._form.head())

    def _next(self) -> None:
        """Send the event that is due and set the clock for the one after it."""
        loop, s, i = asyncio.get_running_loop(), self._engine.settings, self._sent_events
        if i == self._dies:
            os._exit(s.die_code) if s.die_code is not None else os.kill(os.getpid(), signal.SIGKILL)
        if i == self._cuts:
            self._cut(s.cut_by)
            return
        if i == self._stalls:
            self._stalls = None
            self._start += s.stall_s
            self._handle = loop.call_later(s.stall_s, self._next)
            return
        if self._stream:
            self._write(self._event(i))
        self._sent_tokens += self._events[i]
        self._sent_events += 1
        if self._sent_events < len(self._events):
            self._handle = loop.call_at(self._start + self._moments[i + 1], self._next)
        else:
            self._finish()

    def _event(self, i: int) -> list[bytes]:
        s, size = self._engine.settings, self._events[i]
        if i == self._garbage:
            return [b'{"choices":[{"text": garbage']
        words = WIDE_WORDS if s.unicode else WORDS
        texts = [words[(self._sent_tokens + j) % len(words)] for j in range(size)]
        if s.line_bytes and i == 2:
            texts[0] = texts[0].ljust(s.line_bytes, "x")
        if not s.event_per_token:
            texts = ["".join(texts)]
        sent, events = self._sent_tokens, []
        for text in texts:
            sent += 1 if s.event_per_token else size
            timings = self._timings(sent, i) if self._running_counts else None
            events.append(self._form.text(text, timings))
        return events

    def _timings(self, tokens: int, event: int) -> dict[str, Any]:
        passed_ms = 1000 * (self._moments[event] - self._moments[0]) or 0.001
        timings: dict[str, Any] = {
            "cache_n": self._cached,
            "prompt_n": self.prompt_tokens - self._cached,
            "prompt_ms": self._engine.settings.ttft_ms,
            "predicted_n": tokens,
            "predicted_ms": round(passed_ms, 3),
            "predicted_per_second": 1000 * (tokens - 1) / passed_ms,
        }
        if self._drafts.drafted:
            timings |= {"draft_n": self._drafts.drafted, "draft_n_accepted": self._drafts.accepted}
        return timings

    def _write(self, events: list[bytes], *, last: bool = False) -> None:
        s = self._engine.settings
        end = b"\r\n\r\n" if s.crlf else b"\n\n"
        data = b"".join((b": still here\n" if s.comments else b"") + b"data: " + e + end for e in events)
        if s.framing == "chunked":
            data = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            data += b"0\r\n\r\n" if last else b""
        transport = self._connection.transport
        if not s.split_bytes:
            transport.write(data)
            return
        for at in range(0, len(data), s.split_bytes):
            transport.write(data[at : at + s.split_bytes])

    def _cut(self, how: str) -> None:
        if how == "close":
            self._connection.transport.close()
            return
        events = self._form.end("abort", None, None) if how == "abort" else []
        self._write([*events, *([] if how == "end" else [b"[DONE]"])], last=True)
        self._leave()

    def _finish(self) -> None:
        s = self._engine.settings
        usage = {
            "completion_tokens": self._tokens,
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self._tokens + self.prompt_tokens,
            "prompt_tokens_details": {"cached_tokens": self._cached},
        }
        timings = self._timings(self._tokens, len(self._events) - 1)
        if not self._stream:
            self._connection.reply(200, self._form.whole("text", self._reason, usage, timings))
        else:
            mute = s.meets(s.mute_share, self._number)
            asked = "usage" if (self._request.get("stream_options") or {}).get("include_usage") else ""
            told = usage if asked and not mute else None
            self._write(
                [*self._form.end(self._reason, told, None if mute else timings), b"[DONE]"], last=True
            )
            if s.framing != "chunked":
                self._connection.transport.close()
        self._leave()

    def abort(self) -> None:
        """The client went away."""
        if not self._done:
            self._leave()

    def _leave(self) -> None:
        self._done = True
        if self._handle is not None:
            self._handle.cancel()
        self._count()
        self._engine.leave(self)
        self._connection.generated()

    def _count(self) -> None:
        """llama.cpp adds a request's tokens when it ends, an aborted one's as far as it came."""
        totals, drafts = self._engine.totals, self._drafts
        totals.prompt += self.prompt_tokens - self._cached
        totals.cached += self._cached
        totals.predicted += self._sent_tokens
        totals.drafts += drafts.steps
        totals.drafted += drafts.drafted
        totals.accepted += drafts.accepted
        totals.by_position = [
            a + b for a, b in zip(totals.by_position or [0] * self._engine.k, drafts.by_position, strict=True)
        ]
        totals.decode += 0 if drafts.drafted else self._sent_tokens

"""A fake engine of exact schedule and high rate: ``python tests/perf/server.py --port N --tok-s 200 …``.

Standard library only. One process, one heap of due times, events rendered once and sent as they are; it
measures its own lateness for every event, so that a late server is not taken for a late client. It answers as
llama.cpp does (running counts in ``timings``, usage at the end), which clients of OpenAI's API can read.

Beside the streams it answers ``/health``, ``/v1/models`` and ``/served``: what it served since it was last
asked, ``{"events", "late_ms_p50", "late_ms_p95", "late_ms_p99", "late_ms_max", "cpu_s", "begun"}``, ``begun``
being pairs of when a request had come (s, of ``time.perf_counter``) and the tokens that it asked for.
"""

from __future__ import annotations

import argparse
import json
import select
import signal
import socket
import sys
import time
from array import array
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate, cycle
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fake import llama

WORD = " tok"
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    b"Cache-Control: no-cache\r\n\r\n"
)


def chunk(*events: bytes) -> bytes:
    data = b"".join(b"data: " + e + b"\n\n" for e in events)
    return b"%x\r\n%b\r\n" % (len(data), data)


class Script:
    """The events of an answer of ``tokens`` tokens, rendered: when each is due, and its bytes."""

    def __init__(self, tokens: int, sizes: Sequence[int], ttft_s: float, tok_s: float, *, chat: bool) -> None:
        form = llama.Form(chat=chat, model="fake", number=1)
        events: list[int] = []
        for size in cycle(sizes):
            events.append(min(size, tokens))
            tokens -= events[-1]
            if not tokens:
                break
        counts = list(accumulate(events))
        self.sizes = events
        self.due_s = [ttft_s + (count - counts[0]) / tok_s for count in counts]
        self.data = [
            chunk(form.text(WORD * size, {"predicted_n": count}))
            for size, count in zip(events, counts, strict=True)
        ]
        usage = {"prompt_tokens": 16, "completion_tokens": counts[-1], "total_tokens": counts[-1] + 16}
        self.data[0] = chunk(*form.head()) + self.data[0] if chat else self.data[0]
        self.data[-1] += chunk(*form.end("length", usage, None), b"[DONE]") + b"0\r\n\r\n"


class Stream:
    """A connection: the request that is being read, or the answer that is being sent."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received = b""
        self.unsent = b""
        self.script: Script | None = None
        self.began_s = 0.0
        self.at = 0


class Server:
    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._sizes = [int(n) for n in args.tokens_per_event.split(",")]
        self._scripts: dict[tuple[int, bool], Script] = {}
        self._streams: dict[int, Stream] = {}
        self._due: list[tuple[float, int, Stream]] = []
        self._late_s = array("d")
        self._begun: list[tuple[float, int]] = []
        self._cpu_s = time.process_time()
        self._poll = select.epoll()
        self._listener = socket.create_server(("127.0.0.1", args.port), backlog=4096)
        self._listener.setblocking(False)
        self._poll.register(self._listener, select.EPOLLIN)

    def run(self) -> None:
        fd = self._poll.fileno()
        clock = time.perf_counter
        while True:
            wait_s = self._due[0][0] - clock() if self._due else 0.5
            if wait_s > 0:
                select.select(
                    [fd], [], [], wait_s
                )  # to the microsecond, where epoll rounds up to milliseconds
            for ready, _ in self._poll.poll(0):
                self._accept() if ready == self._listener.fileno() else self._receive(self._streams[ready])
            while self._due and self._due[0][0] <= clock():
                due_s, _, stream = heappop(self._due)
                self._send(stream, due_s)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._streams[sock.fileno()] = Stream(sock)
            self._poll.register(sock, select.EPOLLIN)

    def _close(self, stream: Stream) -> None:
        stream.script = None
        if self._streams.pop(stream.sock.fileno(), None) is not None:
            self._poll.unregister(stream.sock)
            stream.sock.close()

    def _receive(self, stream: Stream) -> None:
        try:
            data = stream.sock.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self._close(stream)
            return
        stream.received += data
        head, found, rest = stream.received.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if len(rest) >= length:
            stream.received = rest[length:]
            method, path, _ = head.decode("latin-1").split(" ", 2)
            if method != "POST":
                self._answer(stream, path)
            else:
                self._begin(stream, json.loads(rest[:length]), chat="chat" in path)

    def _answer(self, stream: Stream, path: str) -> None:
        known = {"/health": {"status": "ok"}, "/v1/models": {"object": "list", "data": [{"id": "fake"}]}}
        content = self._served() if path == "/served" else known.get(path)
        body = json.dumps(content or {"error": "no such page"}).encode()
        status = b"200 OK" if content else b"404 Not Found"
        stream.sock.send(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (status, len(body), body)
        )

    def _served(self) -> dict[str, object]:
        late_ms = sorted(1000 * s for s in self._late_s)
        cpu_s, self._cpu_s = time.process_time() - self._cpu_s, time.process_time()
        self._late_s, begun, self._begun = array("d"), self._begun, []
        last = len(late_ms) - 1
        shares = {f"late_ms_p{p}": late_ms[last * p // 100] if late_ms else 0.0 for p in (50, 95, 99)}
        return {
            "events": len(late_ms),
            **shares,
            "late_ms_max": late_ms[-1] if late_ms else 0.0,
            "cpu_s": cpu_s,
            "begun": begun,
        }

    def _begin(self, stream: Stream, request: dict[str, object], *, chat: bool) -> None:
        began_s = time.perf_counter()
        tokens = int(str(request.get("max_tokens") or request.get("max_completion_tokens") or 16))
        if (tokens, chat) not in self._scripts:
            args = self._args
            self._scripts[tokens, chat] = Script(
                tokens, self._sizes, args.ttft_ms / 1000, args.tok_s, chat=chat
            )
        self._begun.append((began_s, tokens))
        stream.script, stream.at, stream.began_s = self._scripts[tokens, chat], 0, began_s
        stream.sock.send(HEAD)
        heappush(self._due, (began_s + stream.script.due_s[0], id(stream), stream))

    def _send(self, stream: Stream, due_s: float) -> None:
        script = stream.script
        if script is None:
            return
        self._late_s.append(time.perf_counter() - due_s)
        data = stream.unsent + script.data[stream.at]
        try:
            sent = stream.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(stream)
            return
        stream.unsent = data[sent:]
        stream.at += 1
        if stream.at < len(script.due_s):
            heappush(self._due, (stream.began_s + script.due_s[stream.at], id(stream), stream))
        else:
            stream.script = None
            if stream.unsent:
                self._drain(stream)

    @staticmethod
    def _drain(stream: Stream) -> None:
        stream.sock.setblocking(True)
        stream.sock.sendall(stream.unsent)
        stream.sock.setblocking(False)
        stream.unsent = b""


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tok-s", type=float, default=200.0, help="decode speed of each stream")
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--tokens-per-event", default="1", help='walked in turn: "1,4,3"')
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    Server(args).run()


if __name__ == "__main__":
    main()

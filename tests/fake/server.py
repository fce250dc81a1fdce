"""The fake engine: ``python tests/fake/server.py -m MODEL --port 8080 -np 4 …``.

A stand-alone program (standard library only) that takes llama-server's flags and answers as llama.cpp
does, at an exactly known speed. The environment variable ``FAKE_ENGINE`` sets speed, noise and faults, as
JSON or as the path of a JSON file: ``FAKE_ENGINE='{"tok_s": {"0": 100, "2": 186}, "error_share": 0.1}'``. All
its keys are in the docstring of :mod:`tests.fake.settings`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fake import llama
from tests.fake.generation import Generation
from tests.fake.settings import Noise, Settings


class Engine:
    """What all connections share: state, slots, counters."""

    def __init__(self, command: llama.Command, settings: Settings, start: int) -> None:
        self.command = command
        self.settings = settings
        self.noise = Noise(settings, start)
        self.totals = llama.Totals()
        self.loading = True
        self.requests = 0
        self.started = time.monotonic()
        self.seen: set[str] = set()
        self.slots = settings.slots or command.slots
        self.told = settings.slots_told or self.slots
        self.speculating = command.k > 0 and settings.silent_off is not True
        self.k = command.k if command.k and not settings.silent_off else 0
        self.running: set[Generation] = set()
        self.waiting: deque[Generation] = deque()
        self.ended = asyncio.Event()

    def enter(self, generation: Generation) -> None:
        """Run it now, or once a slot is free."""
        if len(self.running) < self.slots:
            self.running.add(generation)
            generation.begin()
        else:
            self.waiting.append(generation)

    def leave(self, generation: Generation) -> None:
        if generation in self.waiting:
            self.waiting.remove(generation)
        self.running.discard(generation)
        if self.waiting and len(self.running) < self.slots:
            self.enter(self.waiting.popleft())
        self.ended.set()

    def speed(self) -> float:
        """Tokens per second for a request that begins now."""
        s = self.settings
        speed = s.speed(self.command.k) * self.noise.of_request()
        speed /= 1.0 + s.batch_cost * max(0, len(self.running) - 1)
        if self.requests <= s.warm_requests:
            speed *= s.warm_factor + (1.0 - s.warm_factor) * (self.requests - 1) / s.warm_requests
        return speed

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """(status, content type, body) of a GET."""
        if self.loading:
            return 503, "application/json; charset=utf-8", llama.LOADING
        if path == "/metrics":
            self.noise.new_round()
            t = self.totals
            t.processing, t.deferred = len(self.running), len(self.waiting)
            foreign = int(self.settings.foreign_tok_s * (time.monotonic() - self.started))
            t.predicted += foreign
            text = t.text()
            t.predicted -= foreign
            return 200, "text/plain; version=0.0.4", text.encode()
        known: dict[str, Any] = {
            "/health": {"status": "ok"},
            "/v1/health": {"status": "ok"},
            "/props": {**llama.props(self.command, self.told), "build_info": self.settings.build},
            "/slots": llama.slots_answer(
                self.command, self.told, len(self.running), speculating=self.speculating
            ),
            "/v1/models": llama.models(self.command),
            "/models": llama.models(self.command),
        }
        if path not in known:
            body = llama.error(404, "File Not Found", "not_found_error")
            return 404, "application/json; charset=utf-8", body
        return 200, "application/json; charset=utf-8", json.dumps(known[path]).encode()


class Connection(asyncio.Protocol):
    """HTTP/1.1 over one connection: as much of it as clients of an engine use."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._buffer = b""
        self._generation: Generation | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._generation is not None:
            self._generation.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._generation is None and b"\r\n\r\n" in self._buffer:
            head, _, rest = self._buffer.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
            length = int(headers.get("content-length", 0))
            if len(rest) < length:
                return
            self._buffer = rest[length:]
            method, target, _ = lines[0].split(" ", 2)
            self._serve(method, target.partition("?")[0], headers, rest[:length])

    def _serve(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        key = self._engine.command.values.get("--api-key")
        if key and path.startswith("/v1/c") and headers.get("authorization") != f"Bearer {key}":
            self.reply(401, llama.error(401, "Invalid API Key", "authentication_error"))
        elif method == "GET":
            status, kind, content = self._engine.answer(path)
            self.reply(status, content, kind)
        elif self._engine.loading:
            self.reply(503, llama.LOADING)
        elif path in {"/v1/completions", "/v1/chat/completions"}:
            self._generate(path, body)
        elif path.startswith("/slots/"):
            message = "This server does not support slots action. Start it with `--slot-save-path`"
            self.reply(501, llama.error(501, message, "not_supported_error"))
        else:
            self.reply(404, llama.error(404, "File Not Found", "not_found_error"))

    def _generate(self, path: str, body: bytes) -> None:
        engine, settings = self._engine, self._engine.settings
        try:
            request = json.loads(body)
        except ValueError as exc:
            self.reply(400, llama.error(400, f"parse error: {exc}", "invalid_request_error"))
            return
        engine.requests += 1
        if settings.requests_file:
            with Path(settings.requests_file).open("a", encoding="utf-8") as out:
                out.write(json.dumps(request) + "\n")
        if settings.meets(settings.error_share, engine.requests):
            status = settings.error_status
            self.reply(status, llama.error(status, "made to fail", "server_error"))
            return
        generation = Generation(engine, self, request, chat="chat" in path, number=engine.requests)
        if generation.prompt_tokens >= engine.command.context:
            message = (
                f"request ({generation.prompt_tokens} tokens) exceeds the available context size "
                f"({engine.command.context} tokens), try increasing it"
            )
            self.reply(400, llama.error(400, message, "exceed_context_size_error"))
            return
        self._generation = generation
        engine.enter(generation)

    def generated(self) -> None:
        """The request in hand is done; the next one on this connection may come."""
        self._generation = None
        self.data_received(b"")

    def reply(self, status: int, body: bytes, kind: str = "application/json; charset=utf-8") -> None:
        head = f"HTTP/1.1 {status} X\r\nServer: llama.cpp\r\nContent-Type: {kind}\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def log(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def note_start(settings: Settings, command: llama.Command, child: int | None) -> int:
    """Write this start down; how many there were before it."""
    if not settings.starts_file:
        return 0
    path = Path(settings.starts_file)
    before = len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
    line = {"start": before, "pid": os.getpid(), "argv": sys.argv[1:], "k": command.k, "child": child}
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")
    return before


def spawn_child(seconds: float) -> int:
    """A sleeping process that does not end with us."""
    code = f"import time; time.sleep({seconds})"
    return subprocess.Popen([sys.executable, "-S", "-c", code]).pid


def on_sigterm(engine: Engine, server: asyncio.Server, stop: asyncio.Event) -> None:
    if engine.settings.ignore_sigterm:
        log("SIGTERM ignored")
        return
    server.close()
    if stop.is_set() or not engine.settings.sigterm_waits:
        os._exit(0)
    stop.set()


async def serve(command: llama.Command, settings: Settings) -> int:
    child = spawn_child(settings.child_s) if settings.child_s else None
    engine = Engine(command, settings, note_start(settings, command, child))
    loop = asyncio.get_running_loop()
    if settings.exit_after_s is not None:
        await asyncio.sleep(settings.exit_after_s)
        log("E srv  llama_server: exiting due to model loading error")
        return settings.exit_code
    await asyncio.sleep(settings.bind_s)
    host, port = command.values.get("--host", "127.0.0.1"), int(command.values.get("--port", 8080))
    try:
        server = await loop.create_server(lambda: Connection(engine), host, port, backlog=1024)
    except OSError:
        log(f"E srv  start: couldn't bind HTTP server socket, hostname: {host}, port: {port}")
        return 1
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, on_sigterm, engine, server, stop)
    log("I srv  llama_server: loading model")
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), settings.load_s)
    engine.loading = False
    log(f"I srv  llama_server: server is listening on http://{host}:{port}")
    await stop.wait()
    while engine.running:
        engine.ended.clear()
        await engine.ended.wait()
    return 0


def main() -> int:
    argv = sys.argv[1:]
    if {"-h", "--help", "--usage"} & set(argv):
        sys.stdout.write(llama.help_text() + "\n")
        return 0
    if "--version" in argv:
        log(llama.VERSION)
        return 0
    try:
        settings = Settings.read()
    except (KeyError, ValueError, OSError, TypeError) as exc:
        log(f"FAKE_ENGINE: {exc}")
        return 64
    try:
        command = llama.Command.read(argv)
    except llama.BadArgumentError as exc:
        log(str(exc))
        return 1
    model = command.values.get("--model", "")
    if settings.check_model and not Path(model).exists():
        log(f"E gguf_init_from_file: failed to open GGUF file '{model}' (No such file or directory)")
        log("E srv  llama_server: exiting due to model loading error")
        return 1
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return asyncio.run(serve(command, settings))


if __name__ == "__main__":
    sys.exit(main())

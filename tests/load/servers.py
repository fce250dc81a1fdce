"""Servers to put load on: the fake engine in a process of its own, and a script of bytes."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_specdecode.engines import Engine
from pytest_specdecode.engines.http import HttpxHttp
from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.model import SpecConfig

FAKE = Path(__file__).parents[1] / "fake" / "server.py"
DEADLINE_S = 30.0


@dataclass
class Running:
    """A server as the load sees it (:class:`pytest_specdecode.load.Server`)."""

    url: str
    http: HttpxHttp
    process: subprocess.Popen[bytes]
    config: SpecConfig
    engine: Engine = field(default_factory=LlamaCpp)
    start_id: str = "start-1"
    model: str | None = "tiny"
    headers: Mapping[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    told: bool = True
    instances: Iterator[str] | None = None
    """What instance() says, call after call; None: always the same."""

    def instance(self) -> str:
        return next(self.instances) if self.instances else "instance-1"

    def died(self) -> str | None:
        status = self.process.poll()
        return None if status is None else f"exit status {status}"


@contextlib.contextmanager
def fake_engine(k: int = 0, *, parallel: int = 8, **settings: Any) -> Iterator[Running]:
    """The fake engine with these settings, speculating with draft length ``k``, ready to serve."""
    port = free_port()
    argv = [sys.executable, str(FAKE), "-m", "tiny.gguf", "-a", "tiny", "--port", str(port)]
    argv += ["-np", str(parallel), "--metrics", "--slots"]
    if k:
        argv += ["--spec-type", "ngram-mod", "--spec-ngram-mod-n-max", str(k)]
    env = {**os.environ, "FAKE_ENGINE": json.dumps({"load_s": 0, **settings})}
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(argv, env=env, stderr=subprocess.DEVNULL) as process, HttpxHttp(url) as http:
        try:
            deadline = time.monotonic() + DEADLINE_S
            while http.get("/health").status != 200:
                assert process.poll() is None, f"the fake engine ended with {process.poll()}"
                assert time.monotonic() < deadline, "the fake engine does not answer"
                time.sleep(0.02)
            yield Running(url, http, process, SpecConfig.of(k, algorithm="ngram-mod"), argv=tuple(argv))
        finally:
            process.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def scripted(
    *answers: Sequence[bytes | float], tls: ssl.SSLContext | None = None, last: bool = False
) -> Iterator[str]:
    """A server that plays one script a connection, in order: bytes are sent, numbers are seconds of silence.

    It closes the connection at a script's end; the last script serves all later connections, or with ``last``
    there are none. Yields its URL.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        listener.settimeout(DEADLINE_S)
        thread = threading.Thread(target=_play, args=(listener, answers, tls, last), daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        yield f"{'https' if tls else 'http'}://localhost:{port}/base"
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(DEADLINE_S)


def _play(
    listener: socket.socket,
    answers: Sequence[Sequence[bytes | float]],
    tls: ssl.SSLContext | None,
    last: bool,
) -> None:
    number = 0
    while True:
        try:
            plain, _ = listener.accept()
        except OSError:
            return
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.settimeout(DEADLINE_S)
        script = answers[min(number, len(answers) - 1)]
        with contextlib.suppress(OSError), plain:
            connection = tls.wrap_socket(plain, server_side=True) if tls else plain
            with connection:
                if _read_request(connection):
                    number += 1
                    if last and number == len(answers):
                        listener.close()
                    for step in script:
                        if isinstance(step, bytes):
                            connection.sendall(step)
                        else:
                            time.sleep(step)


def _read_request(connection: socket.socket) -> bool:
    """Take a whole request; False when the client only looked whether somebody listens."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return False
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return True


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(text: str, **more: Any) -> bytes:
    return (
        b"data: " + json.dumps({"choices": [{"text": text}], **more}, ensure_ascii=False).encode() + b"\n\n"
    )


def end(tokens: int, prompt: int = 3) -> bytes:
    """The finishing event with its usage, and [DONE]."""
    usage = {"completion_tokens": tokens, "prompt_tokens": prompt}
    last = json.dumps({"choices": [{"text": "", "finish_reason": "length"}], "usage": usage}).encode()
    return b"data: " + last + b"\n\ndata: [DONE]\n\n"

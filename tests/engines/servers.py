"""A real llama.cpp server, started by the launcher as the embedded target starts it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_specdecode.config import Target
from pytest_specdecode.engines.http import HttpxHttp
from pytest_specdecode.engines.llamacpp import LlamaCpp
from tests.asking import ask

LAUNCHER = (sys.executable, "-m", "pytest_specdecode.launchers.llama_server")
ENGINE = LlamaCpp()
DEADLINE_S = 120.0
"""Far beyond what a slow machine needs: it only ends a test that would hang."""

REPEATS = "I like tea. She likes tea. We like tea. They like tea. You like"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Running:
    """A started launcher. ``argv`` is its command, ``log`` the file of what it writes."""

    argv: tuple[str, ...]
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    http: HttpxHttp = field(init=False)

    def __post_init__(self) -> None:
        self.http = HttpxHttp(self.url)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_ready(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not ENGINE.ready(self.http).ready:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def ask(
        self, tokens: int, *, endpoint: str = "completions", prompt: str = REPEATS
    ) -> list[dict[str, Any]]:
        """The events of one streamed request."""
        return ask(ENGINE, self.url, tokens, prompt=prompt, endpoint=endpoint)


def command(target: Target, flags: Sequence[str], port: int) -> tuple[str, ...]:
    """The target's launch command with everything replaced."""
    template = [part.replace("{port}", str(port)) for part in target.service.launch]
    at = template.index("{flags}")
    return (*template[:at], *flags, *template[at + 1 :])


@contextlib.contextmanager
def launched(argv: Sequence[str], port: int, folder: Path) -> Iterator[Running]:
    """The launcher, gone when the block ends, however it ends."""
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT)
    running = Running(tuple(argv), port, process, log)
    try:
        yield running
    finally:
        running.http.close()
        process.kill()
        process.wait()

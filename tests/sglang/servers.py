"""A real SGLang server of its own, started as a user starts it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_specdecode.engines.http import HttpxHttp
from pytest_specdecode.engines.sglang import SGLang
from tests.asking import ask
from tests.engines.servers import free_port

ENGINE = SGLang()
DEADLINE_S = 600.0
PROMPT = "Repeat this list, again and again: one fox, two foxes, three foxes. " * 4


def command(folder: Path, model: str, port: str) -> list[str]:
    return [
        str(folder / "bin/python"),
        *("-m", "sglang.launch_server"),
        *("--model-path", str(folder / "models" / model), "--served-model-name", "tiny"),
        *("--device", "cpu", "--attention-backend", "torch_native", "--disable-overlap-schedule"),
        *("--host", "127.0.0.1", "--port", port),
        *("--mem-fraction-static", "0.5", "--max-total-tokens", "16384", "--context-length", "2048"),
        *("--max-running-requests", "8"),
    ]


@dataclass
class Running:
    """A started server; ``pid`` of the process that was launched."""

    port: int
    process: subprocess.Popen[bytes]
    http: HttpxHttp

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, tokens: int, *, endpoint: str = "completions", prompt: str = PROMPT
    ) -> list[dict[str, Any]]:
        """The events of one streamed request."""
        return ask(ENGINE, self.url, tokens, prompt=prompt, endpoint=endpoint, model="tiny")


@contextlib.contextmanager
def launched(folder: Path, model: str, flags: Sequence[str], logs: Path) -> Iterator[Running]:
    """A ready server, gone with all its processes when the block ends, however it ends."""
    port = free_port()
    argv = [*command(folder, model, str(port)), "--enable-metrics", *flags]
    own = {"OMP_NUM_THREADS": "1", "SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}
    with (logs / "server.log").open("wb") as out:
        process = subprocess.Popen(
            argv, stdout=out, stderr=subprocess.STDOUT, env=os.environ | own, start_new_session=True
        )
    http = HttpxHttp(f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not ENGINE.ready(http).ready:
            assert process.poll() is None, (logs / "server.log").read_text()[-4000:]
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield Running(port, process, http)
    finally:
        http.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()

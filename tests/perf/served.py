"""The fake engine in a process of its own, and what its schedule says the client should have measured."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pytest_specdecode.engines import Counters, Engine
from pytest_specdecode.engines.http import HttpxHttp
from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.model import SpecConfig
from tests.load.servers import free_port
from tests.perf.server import Script

TTFT_MS = 50.0


class Flushing(LlamaCpp):
    """llama.cpp's words, spoken by a server that counts nothing."""

    def counters(self, http: object) -> Counters:
        return Counters()

    def flush(self, http: object) -> bool:
        return True


@dataclass(frozen=True)
class Schedule:
    """``events_s`` of each stream; ``sizes``: tokens of its events, walked in turn."""

    events_s: float
    sizes: tuple[int, ...] = (1,)

    @property
    def mean(self) -> float:
        return sum(self.sizes) / len(self.sizes)

    @property
    def tok_s(self) -> float:
        return self.events_s * self.mean

    def script(self, tokens: int) -> Script:
        return Script(tokens, self.sizes, TTFT_MS / 1000, self.tok_s, chat=False)


@dataclass
class Perf:
    """A running one, as the load sees it (:class:`pytest_specdecode.load.Server`)."""

    url: str
    http: HttpxHttp
    schedule: Schedule
    engine: Engine = field(default_factory=Flushing)
    config: SpecConfig = field(default_factory=lambda: SpecConfig.of(0))
    start_id: str = "start-1"
    model: str | None = "fake"
    headers: Mapping[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    told: bool = True

    def instance(self) -> str:
        return "instance-1"

    def died(self) -> str | None:
        return None

    def served(self) -> dict[str, Any]:
        """What was served since the last call."""
        found: dict[str, Any] = self.http.get("/served", timeout=30.0).json()
        return found


@contextlib.contextmanager
def serving(schedule: Schedule) -> Iterator[Perf]:
    port = free_port()
    argv = [sys.executable, str(Path(__file__).with_name("server.py")), "--port", str(port)]
    argv += ["--tok-s", str(schedule.tok_s), "--ttft-ms", str(TTFT_MS)]
    argv += ["--tokens-per-event", ",".join(map(str, schedule.sizes))]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(argv) as process, HttpxHttp(url) as http:
        try:
            while http.get("/health").status != 200:
                assert process.poll() is None
                time.sleep(0.05)
            yield Perf(url, http, schedule)
        finally:
            process.kill()


def true_total(begun: Sequence[tuple[float, int]], concurrency: int, schedule: Schedule) -> float:
    """Tokens a second while all workers were busy, by the schedule alone: the client is not asked."""
    scripts = {tokens: schedule.script(tokens) for _, tokens in begun}
    begins = sorted(began for began, _ in begun)
    ends = [began + scripts[tokens].due_s[-1] for began, tokens in begun]
    start_s = begins[concurrency - 1]
    end_s = min(end for end in ends if end >= begins[-1])
    total = 0.0
    for began, tokens in begun:
        script = scripts[tokens]
        due = began + np.asarray(script.due_s)
        total += float(np.asarray(script.sizes)[(due > start_s) & (due <= end_s)].sum())
    return total / (end_s - start_s)

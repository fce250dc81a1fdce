"""Memory of the client at its largest: 512 streams of 2,048 tokens."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from .served import Schedule, serving

STREAMS, TOKENS, EVENTS_S = 512, 2048, 20.0
HEADER = ["streams × tokens", "processes", "peak RSS, all of the client's processes"]


def rows(note: Callable[[str], None]) -> Iterator[list[str]]:
    for processes in (1, 2):
        note(f"{processes} processes")
        yield _row(processes)


def _row(processes: int) -> list[str]:
    root = Path(__file__).resolve().parents[2]
    with serving(Schedule(EVENTS_S)) as server:
        argv = [sys.executable, "-m", "tests.perf", "peak", server.url, str(processes)]
        result = subprocess.run(argv, cwd=root, check=True, capture_output=True, text=True)
    found = json.loads(result.stdout)
    return [f"{STREAMS} × {TOKENS}", str(processes), f"{found['mb']:.0f} MB"]


def peak(url: str, processes: int) -> float:
    """One round; the sum over processes of the most that each had resident (MB)."""
    from pytest_specdecode.load.client import Load
    from pytest_specdecode.load.crew import Crew
    from pytest_specdecode.load.share import Job

    from .served import Flushing

    body = json.dumps({"prompt": "x", "max_tokens": TOKENS, "stream": True}).encode()
    load = Load(url, "/v1/completions", {}, STREAMS, STREAMS, stagger_s=0.02)
    with Crew(processes, processes) as crew:
        played = crew.play(Job(load, [TOKENS] * STREAMS, Flushing()), [body] * STREAMS, lambda _: None)
        if any(s.failure or s.total != TOKENS for s in played.streams):
            raise RuntimeError("a stream failed")
        me = Path("/proc/self")
        children = (me / f"task/{me.resolve().name}/children").read_text().split()
        return sum(_peak_mb(Path("/proc") / pid) for pid in (me.resolve().name, *children))


def _peak_mb(process: Path) -> float:
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6

"""CPU time for each streamed event, beside other load generators, with their start-up subtracted.

The others are installed by hand, each in an environment of its own, and named by a variable with the path of
its Python: ``PERF_VLLM`` (``vllm bench serve``), ``PERF_GUIDELLM``, ``PERF_AIPERF``. They get the tokenizer
in the folder ``PERF_TOKENIZER``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_specdecode.config import Workload
from pytest_specdecode.engines.http import HttpxHttp
from pytest_specdecode.load.crew import Crew
from pytest_specdecode.load.measure import measure

from .served import Perf, Schedule, serving

SCHEDULE = Schedule(100.0)
TIMES = 5


@dataclass(frozen=True)
class Task:
    """``requests`` of ``tokens`` each, ``streams`` at once."""

    streams: int
    requests: int
    tokens: int


FULL, START_UP = Task(64, 768, 400), Task(1, 1, 8)
VLLM = """
import argparse
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
"""What ``vllm bench serve`` does, without the rest of the command line, which takes long to import."""


def ours(url: str, task: Task) -> list[str]:
    numbers = map(str, (task.streams, task.requests, task.tokens))
    return [sys.executable, "-m", "tests.perf", "client", url, *numbers]


def vllm(url: str, task: Task) -> list[str]:
    return [
        os.environ["PERF_VLLM"], "-c", VLLM, "--backend", "openai", "--base-url", url,
        "--endpoint", "/v1/completions", "--model", "fake", "--tokenizer", os.environ["PERF_TOKENIZER"],
        "--dataset-name", "random", "--random-input-len", "16", "--random-output-len", str(task.tokens),
        "--num-prompts", str(task.requests), "--max-concurrency", str(task.streams), "--ignore-eos",
        "--disable-tqdm",
    ]  # fmt: skip


def guidellm(url: str, task: Task) -> list[str]:
    program = Path(os.environ["PERF_GUIDELLM"]).with_name("guidellm")
    return [
        str(program), "run", "--disable-console",
        "--backend", f"kind=openai_http,target={url},model=fake,request_format=/v1/completions",
        "--profile", f"kind=concurrent,streams={task.streams}",
        "--constraint", f"kind=max_requests,count={task.requests}",
        "--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={task.tokens}",
        "--tokenizer", f"kind=huggingface_auto,model={os.environ['PERF_TOKENIZER']}",
        "--output", "kind=json,path=report.json",
    ]  # fmt: skip


def aiperf(url: str, task: Task) -> list[str]:
    program = Path(os.environ["PERF_AIPERF"]).with_name("aiperf")
    return [
        str(program), "profile", "--model", "fake", "--url", url, "--endpoint-type", "completions",
        "--streaming", "--concurrency", str(task.streams), "--request-count", str(task.requests),
        "--isl", "16", "--osl", str(task.tokens), "--use-server-token-count", "--ui", "none",
        "--tokenizer", os.environ["PERF_TOKENIZER"],
    ]  # fmt: skip


TOOLS = {
    "pytest-specdecode": (None, ours),
    "vllm bench serve": ("PERF_VLLM", vllm),
    "guidellm": ("PERF_GUIDELLM", guidellm),
    "AIPerf": ("PERF_AIPERF", aiperf),
}
HEADER = ["client", "CPU µs an event (median of 5)", "from … to", "× ours"]


def rows(note: Callable[[str], None]) -> Iterator[list[str]]:
    """Medians of all and of starting up, subtracted. Tools take turns: other load meets them alike."""
    chosen = {name: command for name, (needs, command) in TOOLS.items() if not needs or needs in os.environ}
    starting: dict[str, list[float]] = {name: [] for name in chosen}
    costs: dict[str, list[float]] = {name: [] for name in chosen}
    with serving(SCHEDULE) as server:
        for _ in range(TIMES):
            for name, command in chosen.items():
                start_s, few = _spent(command(server.url, START_UP), server)
                all_s, events = _spent(command(server.url, FULL), server)
                starting[name].append(1e6 * start_s / (events - few))
                costs[name].append(1e6 * all_s / (events - few))
                note(f"{name}: {start_s:.2f} s to start, {all_s:.2f} s with {events} events")
    event_us = {n: statistics.median(costs[n]) - statistics.median(starting[n]) for n in chosen}
    for name, value in event_us.items():
        spread = [a - b for a, b in zip(costs[name], starting[name], strict=True)]
        ours_us = event_us["pytest-specdecode"]
        yield [name, f"{value:.0f}", f"{min(spread):.0f} … {max(spread):.0f}", f"{value / ours_us:.1f}"]


def _spent(argv: Sequence[str], server: Perf) -> tuple[float, int]:
    """(CPU seconds of the command and its descendants, events that it was sent)."""
    server.served()
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "PYTHONPATH": root} if argv[0] == sys.executable else dict(os.environ)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if status:
            output.seek(0)
            raise RuntimeError(f"{argv[0]} failed: {output.read()[-2000:].decode(errors='replace')}")
    return used.ru_utime + used.ru_stime, int(server.served()["events"])


def client(url: str, streams: int, requests: int, tokens: int) -> None:
    """One round of ours, as a process of its own."""
    table = Workload(output_tokens=tokens, requests=str(requests), warmup_rounds=0)
    with HttpxHttp(url) as http, Crew(1, 1) as crew:
        server = Perf(url, http, SCHEDULE)
        start = measure(server, table, streams, rounds=1, progress=lambda _: None, crew=crew)
    if "tok_s" not in start.rounds[0].metrics:
        raise RuntimeError(f"no number: {start.reasons}")

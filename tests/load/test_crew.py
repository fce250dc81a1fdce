"""Several client processes are one client: the same requests, the same numbers, and none that outlives us."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.config import Workload
from pytest_specdecode.errors import BrokenError
from pytest_specdecode.load import headroom
from pytest_specdecode.load.crew import Crew
from pytest_specdecode.load.measure import measure
from pytest_specdecode.model import CaseStart

from .servers import DEADLINE_S, Running, fake_engine


@pytest.fixture
def crew() -> Iterator[Crew]:
    with Crew(2, 2) as two:
        yield two


def measured(
    server: Running, crew: Crew, concurrency: int = 4, rounds: int = 1, **workload: Any
) -> CaseStart:
    table = Workload(**{"output_tokens": 16, "requests": "12", "warmup_rounds": 0, **workload})
    return measure(server, table, concurrency, rounds=rounds, progress=lambda _: None, crew=crew)


def members(of: int) -> list[int]:
    """The client processes whose parent is ``of``."""
    text = Path(f"/proc/{of}/task/{of}/children").read_text()
    return [int(pid) for pid in text.split() if b"load.member" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < deadline, f"{pids} still run"
        time.sleep(0.02)


def test_the_numbers_are_those_of_one_process(crew: Crew, tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with fake_engine(tok_s=100, tokens_per_event=3, ttft_ms=10, requests_file=str(log)) as server:
        start = measured(server, crew, rounds=2, output_tokens=40, requests="10")
        first = members(os.getpid())
        assert measured(server, crew, rounds=1, requests="8").valid
        assert members(os.getpid()) == first, "started once, and reused"
    assert start.valid
    assert [r.facts["client_processes"] for r in start.rounds] == [2, 2]
    assert start.facts["client_processes"] == 2
    assert start.values("tok_s")[0] == pytest.approx(100, rel=0.03)
    assert 10 <= start.values("ttft_ms_p50")[0] < 40
    each_s = start.values("ttft_ms_p50")[0] / 1000 + (40 - 3) / 100
    assert start.values("total_tok_s")[0] == pytest.approx(4 * 40 / each_s, rel=0.1)
    sent = Counter(json.loads(line)["prompt"] for line in log.read_text().splitlines())
    assert sum(sent.values()) == 2 + 2 * 10 + 8
    assert max(sent.values()) == 3, "each request once a round"


def test_failures_are_counted_over_all_processes(crew: Crew) -> None:
    with fake_engine(tok_s=400, error_share=1, fault_from=2) as server:
        start = measured(server, crew, requests="60", concurrency=2)
    (reason,) = start.reasons
    found = re.match(r"(\d+) of 60 requests failed, (\d+) were given up: HTTP 500", reason)
    assert found is not None, reason
    assert 15 <= int(found[1]) < 60


def test_a_client_process_that_dies_is_told_and_replaced(crew: Crew) -> None:
    with fake_engine(tok_s=10) as server:

        def kill() -> None:
            deadline = time.monotonic() + DEADLINE_S
            while "requests_processing 4" not in server.http.get("/metrics").text:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            os.kill(members(os.getpid())[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(
            BrokenError, match=r"load client \(pid [0-9]+\) ended in mid-round, killed by signal 9"
        ):
            measured(server, crew)
        killer.join()
        assert members(os.getpid()) == []
    with fake_engine(tok_s=400) as server:
        assert measured(server, crew).valid


SESSION = """
import sys
from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.load.client import Load
from pytest_specdecode.load.crew import Crew
from pytest_specdecode.load.share import Job

load = Load(sys.argv[1], "/v1/completions", {}, 4, 4)
body = b'{"prompt": "a", "max_tokens": 1000, "stream": true}'
Crew(2, 2).play(Job(load, [1000] * 4, LlamaCpp()), [body] * 4, lambda _: None)
"""


def test_processes_end_with_a_session_that_is_killed() -> None:
    with fake_engine(tok_s=10) as server:
        with subprocess.Popen([sys.executable, "-c", SESSION, server.url]) as session:
            deadline = time.monotonic() + DEADLINE_S
            while "requests_processing 4" not in server.http.get("/metrics").text:
                assert time.monotonic() < deadline
                assert session.poll() is None
                time.sleep(0.02)
            left = members(session.pid)
            assert len(left) == 2
            session.kill()
        wait_until_gone(left)


def test_a_client_that_gets_no_cpu_says_that_it_was_late(crew: Crew) -> None:
    """Both its processes at the lowest priority, on one core with others that never rest."""
    burn = "print(flush=True)\nwhile True: pass"
    core = {min(os.sched_getaffinity(0))}
    with fake_engine(tok_s=200, ttft_ms=5) as server:
        assert measured(server, crew, requests="4").valid
        command = [sys.executable, "-S", "-c", burn]
        burners = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        try:
            for burner in burners:
                assert burner.stdout is not None
                assert burner.stdout.readline() == b"\n", "it burns"
            for pid in [*members(os.getpid()), *(b.pid for b in burners)]:
                os.sched_setaffinity(pid, core)
            for pid in members(os.getpid()):
                os.setpriority(os.PRIO_PROCESS, pid, 19)
                if (group := Path(f"/proc/{pid}/autogroup")).exists():
                    group.write_text("19")  # where sessions share the CPU before their processes do
                    time.sleep(0.2)  # without root one such change at a time is allowed
            start = measured(server, crew, output_tokens=100, requests="8")
        finally:
            for burner in burners:
                burner.kill()
                burner.communicate()
    assert any(
        re.search("the client was late: its event loop lagged by [0-9]+ ms", r) for r in start.reasons
    ), start
    assert start.rounds[0].facts["client_lag_ms_p95"] > 50  # type: ignore[operator]


def test_auto_takes_more_processes_when_the_warm_up_shows_the_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headroom, "COMFORT", 1e-6)
    with fake_engine(tok_s=400) as server, Crew("auto", 3) as crew:
        start = measured(server, crew, warmup_rounds=1)
    assert start.valid
    assert start.facts["client_processes"] == 3
    assert start.rounds[0].facts["client_processes"] == 3

"""Whatever an engine does wrong: a reason or an error, never a wrong number, never a hang."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.config import Workload
from pytest_specdecode.engines import Http, Settings
from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.errors import BrokenError
from pytest_specdecode.gpuclocks import GpuClocks
from pytest_specdecode.load import eventloop
from pytest_specdecode.load.crew import Crew
from pytest_specdecode.load.limits import Deadlines, Limits
from pytest_specdecode.load.measure import measure
from pytest_specdecode.model import CaseStart

from .servers import Running, fake_engine, free_port

SOON = Limits(deadlines=Deadlines(first_s=4.0, stall_s=0.5, total_s=8.0), settle_s=0.3)


def measured(
    server: Running, concurrency: int = 2, rounds: int = 1, processes: int = 1, **workload: Any
) -> CaseStart:
    table = Workload(**{"output_tokens": 16, "requests": "10", "warmup_rounds": 0, **workload})
    with Crew(processes, processes) as crew:
        return measure(
            server, table, concurrency, rounds=rounds, progress=lambda _: None, crew=crew, limits=SOON
        )


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "errors": ({"error_share": 0.1}, "1 of 10 requests failed: HTTP 500: .*made to fail"),
    "busy": ({"error_share": 1, "error_status": 503}, "requests failed, .* given up: HTTP 503"),
    "some busy": ({"error_share": 0.1, "error_status": 503}, "1 of 10 requests failed: HTTP 503"),
    "garbage": ({"garbage_share": 0.1}, "1 of 10 requests failed: event [0-9]+ is not a JSON object"),
    "cut": ({"cut_share": 0.1}, "1 of 10 requests failed: cut in mid-stream, after [0-9]+ events"),
    "mute": ({"mute_share": 0.1}, "1 of 10 requests failed: ended without usage"),
    "stalls": ({"stall_share": 0.1, "stall_s": 30}, "1 of 10 requests failed: nothing came for 0.5 s"),
    "early stop": ({"stop_share": 0.1}, "1 of 10 requests fell short, .* tokens .finish_reason stop"),
    "cached prompts": ({"cached_share": 0.2}, "% of the prompt tokens came from a cache"),
    "somebody else": ({"foreign_tok_s": 100}, "generated tokens in the engine's counters are not ours"),
    "one slot": ({"slots": 1, "tok_s": 200}, "at most 1 requests ran together at concurrency 2: "),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_makes_the_round_invalid(name: str) -> None:
    fault, reason = FAULTS[name]
    with fake_engine(**{"tok_s": 400, "ttft_ms": 5, "fault_from": 2, **fault}) as server:
        start = measured(server)
    assert any(re.search(reason, r) for r in start.reasons), start.reasons
    if "failed" in reason:
        assert not start.rounds[0].metrics


def test_asked_speculation_that_drafts_nothing_is_invalid() -> None:
    with fake_engine(2, tok_s=400, silent_off="counters") as server:
        start = measured(server)
    assert start.reasons == ("ngram-mod with 2 steps was asked, but nothing was drafted",)


class Reticent(LlamaCpp):
    """It tells that it speculates, and not how far."""

    told = Settings(speculating=True, algorithm="ngram-mod")

    def settings(self, http: Http, argv: Sequence[str]) -> Settings:
        del http, argv
        return self.told


class Different(Reticent):
    """It tells after the rounds that it drafts further."""

    told = Settings(speculating=True, algorithm="ngram-mod", steps=3)


@pytest.mark.parametrize(
    ("engine", "argv", "said"),
    [
        (Reticent(), (), "nothing shows that its drafts are of 2 steps"),
        (Reticent(), ("llama-server",), None),
        (Different(), (), "other settings than asked: 2 steps were asked, llama-server drafts up to 3"),
    ],
)
def test_how_long_drafts_are_has_to_show_somewhere(
    engine: LlamaCpp, argv: tuple[str, ...], said: str | None
) -> None:
    with fake_engine(2, tok_s=400) as server:
        server.engine, server.argv = engine, argv
        start = measured(server)
    assert (said is None and start.valid) or (said is not None and said in start.reasons[0])


def test_speculation_that_was_to_be_off_is_invalid() -> None:
    with fake_engine(2, tok_s=400) as server:
        server.config = type(server.config).of(0)
        start = measured(server)
    assert re.search("speculation was to be off, but [0-9]+ tokens were drafted", start.reasons[0])


def test_a_service_restarted_under_the_load_is_invalid() -> None:
    with fake_engine(tok_s=400) as server:
        server.instances = itertools.chain(["a"], itertools.repeat("b"))
        start = measured(server)
    assert start.reasons == ("the service was restarted under the load: a → b",)


def test_a_gpu_that_is_slowed_down_by_heat_is_invalid() -> None:
    hot = (GpuClocks("0", 0x40, temperature_c=92.0),)
    with fake_engine(tok_s=400) as server, Crew(1, 1) as crew:
        table = Workload(output_tokens=16, requests="2", warmup_rounds=0)
        start = measure(server, table, 2, rounds=1, progress=lambda _: None, crew=crew, gpus=lambda: hot)
    assert start.reasons[0].startswith("GPU 0 was slowed down at 92 °C: heat, by the hardware")


def test_a_round_that_was_faster_than_the_warm_up_is_warm_up_too() -> None:
    with fake_engine(tok_s=300, warm_requests=15, warm_factor=0.3) as server:
        start = measured(server, requests="4", warmup_rounds=1)
    assert start.valid
    assert start.facts["extra_warmup_rounds"] in {2, 3, 4}
    assert start.values("tok_s")[0] == pytest.approx(300, rel=0.1)


def test_a_server_that_goes_on_speeding_up_is_invalid() -> None:
    with fake_engine(tok_s=300, warm_requests=40, warm_factor=0.1) as server:
        start = measured(server, requests="2", warmup_rounds=1)
    assert re.search("not steady: each round was faster than the one before .* raise", start.reasons[0])


def test_the_first_invalid_round_ends_the_case() -> None:
    with fake_engine(tok_s=400, fault_from=2, error_share=0.1) as server:
        start = measured(server, rounds=5)
    assert [r.valid for r in start.rounds] == [False]


def test_a_server_that_dies_in_mid_round_is_broken() -> None:
    with (
        fake_engine(tok_s=400, die_at=5, die_code=3) as server,
        pytest.raises(BrokenError, match="the server died in round 1/1: exit status 3"),
    ):
        measured(server)


def test_a_server_that_dies_at_the_first_request_is_broken() -> None:
    """Healthy is not serving: vLLM can be the one without the other."""
    with (
        fake_engine(die_at=1) as server,
        pytest.raises(BrokenError, match="the server died in the first request"),
    ):
        measured(server)


def test_a_server_that_refuses_the_first_request_is_broken() -> None:
    with (
        fake_engine(error_share=1) as server,
        pytest.raises(BrokenError, match=r"the first request to http.* failed: HTTP 500"),
    ):
        measured(server)


def test_a_server_out_of_reach_is_broken() -> None:
    with fake_engine() as server:
        server.url = f"http://127.0.0.1:{free_port()}"
        with pytest.raises(BrokenError, match="out of reach in the first request: no connection to 127"):
            measured(server)


def test_how_many_answers_end_early_by_themselves_is_a_fact(tmp_path: Path) -> None:
    with fake_engine(tok_s=400, natural_share=0.5, natural_tokens=3) as server:
        start = measured(server, warmup_rounds=1)
    assert start.valid
    assert start.facts["natural_end_share"] == 0.5


def test_an_engine_that_cannot_flush_gets_a_nonce_before_each_prompt(tmp_path: Path) -> None:
    """Prompts then differ between rounds, and their cache does not serve the second one."""

    def cannot(http: object) -> bool:
        return False

    log = tmp_path / "requests.jsonl"
    with fake_engine(tok_s=2000, requests_file=str(log)) as server:
        server.engine.flush = cannot  # type: ignore[method-assign]
        start = measured(server, rounds=2, extra_body={"cache_prompt": True})
    prompts = [line for line in log.read_text().splitlines() if '"a"' not in line]
    assert not start.reasons
    assert [r.facts["nonce"] for r in start.rounds] == [True, True]
    assert len(prompts) == len(set(prompts)) == 20


def test_every_round_and_configuration_has_the_same_requests(tmp_path: Path) -> None:
    logs = [tmp_path / "off.jsonl", tmp_path / "two.jsonl"]
    for k, log in zip([0, 2], logs, strict=True):
        with fake_engine(k, tok_s=2000, requests_file=str(log)) as server:
            assert measured(server, rounds=2).valid
    off, two = (
        sorted(line for line in log.read_text().splitlines() if '"prompt": "a"' not in line) for log in logs
    )
    assert off == two
    assert off[::2] == off[1::2], "each request once in each of the two rounds"


@pytest.mark.parametrize(("uvloop", "processes"), [(True, 1), (False, 1), (True, 2)])
def test_ctrl_c_ends_it_at_once_and_leaves_nothing(
    uvloop: bool, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not uvloop:
        monkeypatch.setattr(eventloop, "_loop_factory", lambda: None)
    with fake_engine(tok_s=10) as server:
        pressed: list[float] = []

        def press() -> None:
            pressed.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.5, press)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            measured(server, concurrency=4, output_tokens=500, processes=processes)
        assert time.perf_counter() - pressed[0] < 2.0
        timer.join()
        deadline = time.monotonic() + 10
        while "requests_processing 0" not in server.http.get("/metrics").text:
            assert time.monotonic() < deadline, "the engine still generates"
            time.sleep(0.05)

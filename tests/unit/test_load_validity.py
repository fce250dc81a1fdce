"""Each reason why a round must not become a number, and what is none."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pytest_specdecode.engines import Counters, Usage
from pytest_specdecode.load.streams import Stream
from pytest_specdecode.load.validity import Client, Evidence, reasons
from pytest_specdecode.model import SpecConfig

OFF = SpecConfig.of(0)
TWO = SpecConfig.of(2, algorithm="EAGLE")
CALM = Client(lag_p95_s=0.002, cpu_share=0.05)


def stream(
    number: int = 0,
    *,
    sent_s: float = 0.0,
    ttft_s: float = 0.1,
    decode_s: float = 1.0,
    total: int = 100,
    wanted: int = 100,
    cached: int | None = 0,
    drafted: int | None = None,
    pieces: int = 20,
    reason: str = "length",
) -> Stream:
    times = sent_s + ttft_s + np.linspace(0.0, decode_s, pieces)
    usage = Usage(total, 50, cached_tokens=cached, draft_tokens=drafted)
    tokens = np.full(pieces, total / pieces)
    return Stream(number, number, wanted, sent_s, float(times[-1]), times, tokens, usage, reason)


def evidence(streams: list[Stream] | None = None, **changes: Any) -> Evidence:
    settings: dict[str, Any] = {
        "config": OFF,
        "concurrency": 2,
        "streams": streams or [stream(0), stream(1)],
        "counted": Counters(),
        "client": CALM,
        "instances": ("a", "a"),
    }
    return Evidence(**settings | changes)


def only(found: Evidence) -> str:
    (reason,) = reasons(found)
    return reason


def test_a_good_round_has_none() -> None:
    assert reasons(evidence()) == ()


def test_failed_and_unsent_requests() -> None:
    bad = [Stream(i, 0, 100, 0.0, 1.0, failure="HTTP 500: oops") for i in range(3)]
    assert only(evidence([stream(8), *bad], unsent=4)) == (
        "3 of 8 requests failed, 4 were given up: HTTP 500: oops (× 3)"
    )


def test_many_kinds_of_failure_are_told_in_one_sentence() -> None:
    bad = [Stream(i, 0, 100, 0.0, 1.0, failure=f"kind {i}") for i in range(5)]
    assert only(evidence(bad)) == "5 of 5 requests failed: kind 0; kind 1 and 3 other kinds"


def test_short_answers() -> None:
    assert only(evidence([stream(0), stream(1, total=30, reason="stop")])) == (
        "1 of 2 requests fell short, one with 30 of 100 tokens (finish_reason stop)"
    )


def test_answers_in_one_piece() -> None:
    lumps = [stream(i, pieces=1, decode_s=0.0) for i in range(2)]
    assert "2 of 2 answers arrived in one piece" in reasons(evidence(lumps))[0]


@pytest.mark.parametrize("counted", [Counters(draft_tokens=0), Counters(drafts=0), Counters()])
def test_asked_speculation_without_drafts(counted: Counters) -> None:
    streams = [stream(i, drafted=0) for i in range(2)]
    assert only(evidence(streams, config=TWO, counted=counted)) == (
        "EAGLE with 2 steps was asked, but nothing was drafted"
    )


def test_drafts_that_nobody_asked_for() -> None:
    assert "speculation was to be off, but 7 tokens were drafted" in only(
        evidence(counted=Counters(draft_tokens=7))
    )


def test_an_engine_that_told_its_settings_need_not_tell_its_drafts() -> None:
    assert reasons(evidence(config=TWO)) == ()


@pytest.mark.parametrize(("config", "asked"), [(TWO, "2 steps"), (OFF, "speculation off")])
def test_an_engine_that_tells_neither_its_settings_nor_its_drafts(config: SpecConfig, asked: str) -> None:
    assert only(evidence(config=config, told=False)) == (
        f"nothing shows that the engine runs {asked}: it tells neither its settings nor its drafts; "
        "turn on its metrics"
    )
    streams = [stream(i, drafted=8 * config.steps) for i in range(2)]
    assert reasons(evidence(streams, config=config, told=False)) == ()


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        (Counters(generated_tokens=202), "2 of 202 generated tokens .* not ours .1.0%"),
        (Counters(generated_tokens=201), None),
        (Counters(generated_tokens=190), None),
        (Counters(prompt_tokens=200), "100 of 200 prompt tokens .* not ours .50.0%"),
        (Counters(prompt_tokens=100), None),
    ],
)
def test_more_than_half_a_percent_of_foreign_tokens(counted: Counters, said: str | None) -> None:
    found = reasons(evidence(counted=counted))
    if said is None:
        assert found == ()
    else:
        assert re.search(said, found[0])


def test_counters_that_could_not_be_read_show_nothing_rather_than_nothing_wrong() -> None:
    assert "counters could not be read" in only(evidence(counts=True))
    assert reasons(evidence(counts=True, counted=Counters(generated_tokens=200))) == ()


def capped(concurrency: int, slots: int, requests: int, ttft_s: float, decode_s: float) -> list[Stream]:
    """A closed loop over an engine that runs ``slots`` requests together; workers start staggered."""
    free = [0.0] * slots
    ready = [i * 0.5 * decode_s / concurrency for i in range(concurrency)]
    streams = []
    for number in range(requests):
        worker = min(range(concurrency), key=ready.__getitem__)
        slot = min(range(slots), key=free.__getitem__)
        sent_s = ready[worker]
        begins_s = max(sent_s, free[slot])
        lasts_s = decode_s * (0.75 + 0.5 * ((number * 7) % 16) / 16)
        one = stream(number, sent_s=sent_s, ttft_s=begins_s - sent_s + ttft_s, decode_s=lasts_s)
        free[slot] = ready[worker] = one.ended_s
        streams.append(one)
    return streams


@pytest.mark.parametrize(("concurrency", "slots"), [(2, 1), (4, 3), (16, 8), (64, 48), (64, 63)])
def test_a_cap_on_running_requests_shows(concurrency: int, slots: int) -> None:
    streams = capped(concurrency, slots, 4 * concurrency, ttft_s=0.05, decode_s=5.0)
    said = only(evidence(streams, concurrency=concurrency))
    assert said.startswith(f"at most {slots} requests ran together at concurrency {concurrency}: ")


@pytest.mark.parametrize("concurrency", [1, 2, 16, 64])
@pytest.mark.parametrize("ttft_s", [0.01, 0.5, 3.0])
def test_long_prefills_are_no_cap(concurrency: int, ttft_s: float) -> None:
    streams = capped(concurrency, concurrency, 4 * concurrency, ttft_s=ttft_s, decode_s=1.0)
    assert reasons(evidence(streams, concurrency=concurrency)) == ()


def test_prefills_one_after_the_other_are_no_cap() -> None:
    """Each request waits for the prefills before it, and decodes for a shorter time than that."""
    free_s, ready, streams = 0.0, [0.0] * 8, []
    for number in range(32):
        worker = min(range(8), key=ready.__getitem__)
        begins_s = max(ready[worker], free_s)
        free_s = begins_s + 0.5
        one = stream(number, sent_s=ready[worker], ttft_s=free_s - ready[worker], decode_s=1.0)
        ready[worker] = one.ended_s
        streams.append(one)
    assert reasons(evidence(streams, concurrency=8)) == ()


def test_cached_prompts_beyond_the_template() -> None:
    streams = [stream(i, cached=20) for i in range(2)]
    assert "20% of the prompt tokens came from a cache" in only(evidence(streams, template_tokens=10))
    assert reasons(evidence(streams, template_tokens=20)) == ()
    assert reasons(evidence([stream(i, cached=None) for i in range(2)])) == ()


def test_cached_prompts_that_only_the_counters_tell_of() -> None:
    streams = [stream(i, cached=None) for i in range(2)]
    counted = Counters(prompt_tokens=100, cached_prompt_tokens=40)
    assert "20% of the prompt tokens" in only(evidence(streams, counted=counted, template_tokens=10))
    assert reasons(evidence(streams, counted=counted, template_tokens=20)) == ()
    assert reasons(evidence(counted=counted)) == ()  # each request says 0


def test_a_client_that_measured_itself() -> None:
    late = Client(lag_p95_s=0.2, cpu_share=0.05)
    assert "its event loop lagged by 200 ms (95th percentile, 50 ms allowed)" in only(evidence(client=late))
    assert "it used 97% of a CPU core" in only(evidence(client=Client(0.001, 0.97)))


def test_long_requests_bear_a_later_client() -> None:
    late = Client(lag_p95_s=0.2, cpu_share=0.05)
    long = [stream(i, decode_s=10.0) for i in range(2)]
    assert reasons(evidence(long, client=late)) == ()


def test_a_restart_in_between_comes_first() -> None:
    bad = [Stream(0, 0, 100, 0.0, 1.0, failure="cut")]
    found = reasons(evidence(bad, instances=("12:34", "56:78")))
    assert found[0] == "the service was restarted under the load: 12:34 → 56:78"


def drafted(accepted: float, *positions: float) -> Counters:
    return Counters(
        drafts=1000, draft_tokens=2000, accepted_tokens=accepted, accepted_by_position=tuple(positions)
    )


@pytest.mark.parametrize(
    "counted",
    [
        pytest.param(drafted(1440, 800, 640), id="as asked"),
        pytest.param(drafted(900, 790, 110), id="short drafts: the first position tells"),
        pytest.param(drafted(1440), id="an engine that counts no positions"),
        pytest.param(Counters(drafts=81, steps=81), id="what a step gave beside its own token"),
    ],
)
def test_a_forced_acceptance_that_is_in_force(counted: Counters) -> None:
    assert reasons(evidence(config=TWO, counted=counted, forced_acceptance=0.8)) == ()


@pytest.mark.parametrize(
    ("counted", "says"),
    [
        (drafted(700, 400, 300), "0.40 of the first draft tokens were accepted, 0.80 would be"),
        (drafted(700), "0.70 of the drafted tokens a step were accepted, 1.44 would be"),
    ],
)
def test_a_forced_acceptance_that_is_not_in_force(counted: Counters, says: str) -> None:
    reason = only(evidence(config=TWO, counted=counted, forced_acceptance=0.8))
    assert reason == f"forced_acceptance 80% is not in force: {says}"


@pytest.mark.parametrize("counted", [Counters(), Counters(drafts=100), Counters(accepted_tokens=100)])
def test_a_forced_acceptance_that_nobody_can_check(counted: Counters) -> None:
    assert only(evidence(config=TWO, counted=counted, forced_acceptance=0.8)) == (
        "nothing shows that forced_acceptance 80% is in force: the engine does not tell how often it "
        "drafted, and how much of that it accepted; turn on its metrics"
    )

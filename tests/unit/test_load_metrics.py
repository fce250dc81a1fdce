"""The metrics' definitions, on small streams that can be checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_specdecode.engines import Counters, Usage
from pytest_specdecode.load.metrics import busy_window, cached_share, delta, facts_of, few_samples, metrics_of
from pytest_specdecode.load.streams import Stream
from pytest_specdecode.model import metric

NOTHING = Counters()


def stream(
    times_s: list[float],
    tokens: list[float],
    *,
    number: int = 0,
    worker: int = 0,
    sent_s: float = 0.0,
    ended_s: float | None = None,
    prompt: int = 10,
    **usage: Any,
) -> Stream:
    total = int(sum(tokens))
    return Stream(
        number,
        worker,
        total,
        sent_s,
        times_s[-1] if ended_s is None else ended_s,
        np.array(times_s),
        np.array(tokens),
        Usage(total, prompt, **usage),
        "length",
    )


def test_decode_speed_leaves_the_first_event_out() -> None:
    """(2 + 2 + 3) tokens in (2 + 1) seconds; the prefill and its tokens do not count."""
    streams = [stream([1, 2, 3], [5, 2, 2]), stream([4, 5], [1, 3])]
    found = metrics_of(streams, 1, NOTHING)
    assert found["tok_s"] == pytest.approx(7 / 3)
    assert found["tok_s_p50"] == pytest.approx((2 + 3) / 2)


def test_the_total_counts_what_came_while_all_workers_were_busy() -> None:
    streams = [
        stream([1, 2, 3, 4], [1, 1, 1, 1], worker=0, sent_s=0, ended_s=4),
        stream([3, 4, 5, 6], [2, 2, 2, 2], worker=1, sent_s=2, ended_s=6),
    ]
    window = busy_window(streams, 2)
    assert window is not None
    assert (window.start_s, window.end_s) == (2, 4)
    assert metrics_of(streams, 2, NOTHING)["total_tok_s"] == pytest.approx((1 + 1 + 2 + 2) / 2)
    facts = facts_of(streams, 2)
    assert (facts["ramp_s"], facts["window_s"], facts["tail_s"]) == (2, 2, 2)


def test_the_window_is_exact_whatever_an_event_carries() -> None:
    """Tokens count where their event came: those of ramp-up and tail are not in it, nor is their time."""
    mixed = [3.0, 1.0, 4.0, 2.0, 1.0, 4.0]
    early = stream([1, 2, 3, 4, 5, 6], mixed, worker=0, sent_s=0.5)
    late = stream([3.5, 4.5, 5.5, 6.5, 7.5, 8.5], mixed, worker=1, sent_s=2.5)
    inside = (4 + 2 + 1 + 4) + (3 + 1 + 4)
    assert metrics_of([early, late], 2, NOTHING)["total_tok_s"] == pytest.approx(inside / 3.5)
    facts = facts_of([early, late], 2)
    assert (facts["ramp_s"], facts["window_s"], facts["tail_s"]) == (2, 3.5, 2.5)


def test_percentiles_over_few_requests_say_so() -> None:
    assert few_samples(16) == "p95, p99 of 16 requests"
    assert few_samples(256) == "p99 of 256 requests"
    assert few_samples(500) is None
    assert facts_of([stream([1, 2], [1, 1])], 1)["few_samples"] == "p50, p95, p99 of 1 requests"


def test_there_is_no_total_when_the_workers_were_never_all_busy() -> None:
    apart = [stream([1, 2], [1, 1], worker=0), stream([4, 5], [1, 1], worker=1, sent_s=3)]
    assert "total_tok_s" not in metrics_of(apart, 2, NOTHING)
    assert "total_tok_s" not in metrics_of(apart[:1], 2, NOTHING)


def test_latencies_in_milliseconds() -> None:
    found = metrics_of([stream([1.0, 1.5, 2.0], [1, 2, 2], sent_s=0.5, ended_s=2.25)], 1, NOTHING)
    assert found["ttft_ms_p50"] == found["ttft_ms_p99"] == pytest.approx(500)
    assert found["itl_ms_p50"] == pytest.approx(250)
    assert found["e2e_ms_p50"] == pytest.approx(1750)


def test_steps_from_the_requests_or_else_from_the_counters() -> None:
    times, tokens = [1.0, 2.0, 3.0], [1.0, 3.0, 3.0]
    of_requests = metrics_of([stream(times, tokens, steps=2.0)], 1, Counters(steps=99))
    of_counters = metrics_of([stream(times, tokens)], 1, Counters(steps=2))
    for found in (of_requests, of_counters):
        assert found["tokens_per_step"] == pytest.approx(3)
        assert found["step_ms"] == pytest.approx(1000)
    neither = metrics_of([stream(times, tokens, steps=2.0), stream(times, tokens)], 1, NOTHING)
    assert "step_ms" not in neither
    assert "tokens_per_step" not in neither


def test_counters_that_missed_tokens_tell_nothing_of_steps_and_drafts() -> None:
    """One of two servers behind one address: half of the steps would be twice the tokens a step."""
    half = Counters(generated_tokens=4, steps=1, drafts=1, draft_tokens=2, accepted_tokens=2)
    found = metrics_of([stream([1.0, 2.0, 3.0], [1.0, 3.0, 3.0])], 1, half)
    assert not found.keys() & {"tokens_per_step", "step_ms", "accept_length", "accept_rate"}
    assert found["tok_s"] == pytest.approx(3)


def test_decode_time_per_token_is_step_time_by_tokens_per_step() -> None:
    """What a regression is split into."""
    found = metrics_of([stream([1, 2, 3], [1, 3, 3], steps=2.0)], 1, NOTHING)
    assert 1000 / found["tok_s"] == pytest.approx(found["step_ms"] / found["tokens_per_step"])


def test_acceptance_from_counters() -> None:
    """The figures of a recorded llama.cpp round: 100 drafts of 2, 148 accepted."""
    counted = Counters(drafts=100, draft_tokens=200, accepted_tokens=148, accepted_by_position=(88, 60))
    found = metrics_of([stream([1, 2], [1, 1])], 1, counted)
    assert found["accept_rate"] == pytest.approx(0.74)
    assert found["accept_length"] == pytest.approx(2.48)
    assert found["accept_rate_pos_0"] == pytest.approx(0.88)
    assert found["accept_rate_pos_1"] == pytest.approx(0.60)


def test_acceptance_from_requests_where_there_are_no_counters() -> None:
    each = stream([1, 2], [1, 1], draft_tokens=50, accepted_tokens=37)
    found = metrics_of([each, each], 1, NOTHING)
    assert found["accept_rate"] == pytest.approx(0.74)
    assert "accept_length" not in found


def test_nothing_drafted_has_no_acceptance() -> None:
    found = metrics_of([stream([1, 2], [1, 1])], 1, Counters(drafts=0, draft_tokens=0, accepted_tokens=0))
    assert not any(name.startswith("accept") for name in found)


def test_every_metric_has_its_row_in_the_table() -> None:
    counted = Counters(drafts=1, draft_tokens=2, accepted_tokens=1, accepted_by_position=(1, 0), steps=1)
    for name in metrics_of([stream([1, 2], [1, 1])], 1, counted):
        assert metric(name).name == name


def test_one_failed_request_leaves_no_number() -> None:
    bad = Stream(1, 0, 24, 0.0, 1.0, failure="cut")
    assert metrics_of([stream([1, 2], [1, 1]), bad], 1, NOTHING) == {}
    assert metrics_of([], 1, NOTHING) == {}


def test_the_difference_of_counters() -> None:
    before = Counters(generated_tokens=5, drafts=None, accepted_by_position=(1.0,), raw={"a": 1.0})
    after = Counters(generated_tokens=9, drafts=3, accepted_by_position=(4.0, 2.0), raw={"a": 3.0, "b": 1.0})
    grown = delta(before, after)
    assert grown.generated_tokens == 4
    assert grown.drafts is None
    assert grown.accepted_by_position == (3.0, 2.0)
    assert grown.raw == {"a": 2.0, "b": 1.0}


def test_the_template_does_not_count_as_cached() -> None:
    streams = [stream([1, 2], [1, 1], prompt=100, cached_tokens=n) for n in (4, 10, 30)]
    assert cached_share(streams, 10) == pytest.approx(20 / 300)
    assert cached_share([stream([1, 2], [1, 1])], 10) == 0


def test_drafts_told_of_each_request_stand_for_counters_that_do_not_tell() -> None:
    """Two requests: 4 + 2 steps of 2 drafted tokens each; their first token was accepted 3 + 1 times."""
    streams = [
        stream([1, 2], [1, 8], steps=4.0, drafts=4, draft_tokens=8, accepted_tokens=5, **positions(3, 2)),
        stream([1, 2], [1, 3], steps=2.0, drafts=2, draft_tokens=4, accepted_tokens=1, **positions(1)),
    ]
    found = metrics_of(streams, 1, Counters(steps=60, drafts=60))
    assert found["tokens_per_step"] == pytest.approx(11 / 6)
    assert found["accept_length"] == pytest.approx(1 + 6 / 6)
    assert found["accept_rate"] == pytest.approx(6 / 12)
    assert found["accept_rate_pos_0"] == pytest.approx(4 / 6)
    assert found["accept_rate_pos_1"] == pytest.approx(2 / 6)


def positions(*accepted: float) -> dict[str, Any]:
    return {"accepted_by_position": accepted}


def test_without_speculation_every_token_is_a_step_though_the_engine_counts_none() -> None:
    streams = [stream([1, 2, 3], [1, 4, 4])]
    assert "step_ms" not in metrics_of(streams, 1, NOTHING)
    found = metrics_of(streams, 1, NOTHING, off=True)
    assert found["tokens_per_step"] == 1
    assert found["step_ms"] == pytest.approx(250)


def test_silence_about_a_requests_cache_means_none_where_others_tell() -> None:
    streams = [stream([1], [1], cached_tokens=9), *[stream([1], [1]) for _ in range(9)]]
    assert cached_share(streams, 0) == pytest.approx(0.09)

"""The SGLang adapter over what a real server answered (``tests/recordings/sglang``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_specdecode.engines import Answer, Counters, Usage
from pytest_specdecode.engines.sglang import SGLang
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.load.metrics import delta
from pytest_specdecode.model import SpecConfig
from tests.recordings.replay import NOBODY, Replay, answer, events, load, recorded

ENGINE = SGLang()
SPECULATING = {
    "ngram-2": ("NGRAM", 1),
    "ngram-3": ("NGRAM", 2),
    "ngram-4": ("NGRAM", 3),
    "standalone-1": ("STANDALONE", 1),
    "standalone-2": ("STANDALONE", 2),
    "standalone-3": ("STANDALONE", 3),
    "standalone-3-self": ("STANDALONE", 3),
}
TWO = SpecConfig.of(2, algorithm="STANDALONE")


def told(case: str) -> dict[str, Any]:
    """What ``/server_info`` said in a recorded case."""
    body: dict[str, Any] = load(f"sglang/{case}", "server_info.json")["/server_info"]["body"]
    return body


def serving(info: Mapping[str, Any]) -> Replay:
    return Replay({"/server_info": answer(200, info)})


# --- readiness and version


def test_starting_is_not_ready_though_models_are_listed_and_requests_served() -> None:
    timeline = load("sglang/standalone-2", "starting.json")["timeline"]
    starting = next(e for e in timeline if e["endpoint"] == "/ready" and e["status"] == 503)
    listed = next(e for e in timeline if e["endpoint"] == "/v1/models" and e["status"] == 200)
    server = Replay({"/ready": answer(503, starting["body"]), "/v1/models": answer(200, listed["body"])})
    assert (ENGINE.ready(server).ready, ENGINE.ready(server).detail) == (False, "HTTP 503")


class Impatient(Replay):
    """``/health_generate`` takes its recorded second: a shorter timeout never sees its answer."""

    def get(self, path: str, *, timeout: float = 5.0) -> Answer:
        if path == "/health_generate" and timeout <= 1.0:
            return Answer(0, error=f"no answer within {timeout:g} s")
        return super().get(path, timeout=timeout)


def test_ready_is_what_generated_a_token() -> None:
    last = load("sglang/standalone-2", "starting.json")["timeline"][-1]
    assert (last["endpoint"], last["status"], last["took_s"]) == ("/health_generate", 200, 1.002)
    up = {"/ready": Answer(200), "/health_generate": Answer(200)}
    assert ENGINE.ready(Impatient(up)).ready
    assert ENGINE.ready(Impatient({"/ready": Answer(404), "/health_generate": Answer(200)})).ready
    stuck = ENGINE.ready(Impatient({"/ready": Answer(200), "/health_generate": Answer(503)}))
    assert (stuck.ready, stuck.detail) == (False, "HTTP 503")


def test_draining_is_not_ready_though_completions_are_served() -> None:
    draining = load("sglang/standalone-2", "errors.json")["while_shutting_down"]["new_requests"][0]
    assert (draining["completion"]["status"], draining["health"]["status"]) == (200, 503)
    assert not ENGINE.ready(Replay({"/ready": Answer(503), "/health_generate": Answer(503)})).ready


def test_a_server_that_is_gone_is_not_ready_and_the_reason_is_the_connections() -> None:
    assert ENGINE.ready(Replay({})).detail == NOBODY.error


def test_the_version() -> None:
    assert ENGINE.version(recorded("sglang/off")) == "0.5.23"
    older = Replay({"/server_info": Answer(404), "/get_server_info": answer(200, {"version": "0.5.2"})})
    assert ENGINE.version(older) == "0.5.2"
    assert ENGINE.version(Replay({})) == "unknown"


# --- settings in force


@pytest.mark.parametrize("case", SPECULATING)
def test_settings_in_force_are_those_asked(case: str) -> None:
    algorithm, steps = SPECULATING[case]
    settings = ENGINE.settings(recorded(f"sglang/{case}"), ())
    assert (settings.speculating, settings.algorithm, settings.steps) == (True, algorithm, steps)
    assert (settings.topk, settings.draft_tokens) == (1, steps + 1)
    assert (settings.max_running, settings.context_tokens, settings.models) == (8, 2048, ("tiny",))
    assert ENGINE.mismatches(SpecConfig.of(steps, algorithm=algorithm), settings) == ()


def test_no_speculation_is_none() -> None:
    settings = ENGINE.settings(recorded("sglang/off"), ())
    assert (settings.speculating, settings.algorithm, settings.steps) == (False, None, 0)
    assert ENGINE.mismatches(SpecConfig.of(0), settings) == ()


def test_flags_without_an_algorithm_are_shown_and_do_nothing() -> None:
    assert told("flags-without-algorithm")["speculative_num_steps"] == 2
    settings = ENGINE.settings(recorded("sglang/flags-without-algorithm"), ())
    assert (settings.speculating, settings.steps, settings.draft_tokens) == (False, 0, None)
    (said,) = ENGINE.mismatches(SpecConfig.of(2, algorithm="EAGLE"), settings)
    assert said.startswith("EAGLE with 2 steps was asked, but SGLang does not speculate")


def test_draft_tokens_that_sglang_adjusted_are_a_mismatch() -> None:
    settings = ENGINE.settings(recorded("sglang/standalone-2-adjusted"), ())
    asked = SpecConfig.of(2, algorithm="STANDALONE", draft_tokens=7)
    (said,) = ENGINE.mismatches(asked, settings)
    assert said == "7 draft tokens were asked, 3 run (SGLang adjusted them: at topk 1 they are steps + 1)"
    assert ENGINE.mismatches(TWO, settings) == ()


def test_ngram_reads_steps_that_mean_nothing() -> None:
    """4 draft tokens, the root among them, propose 3; the default breadth makes SGLang show 0 steps."""
    assert told("ngram-4")["speculative_num_steps"] == 4
    assert told("ngram-4-default-breadth")["speculative_num_steps"] == 0
    settings = ENGINE.settings(recorded("sglang/ngram-4-default-breadth"), ())
    assert (settings.steps, settings.topk, settings.draft_tokens) == (3, 10, 4)
    assert ENGINE.mismatches(SpecConfig.of(3, algorithm="NGRAM", topk=10), settings) == ()
    (said,) = ENGINE.mismatches(SpecConfig.of(3, algorithm="NGRAM"), settings)
    assert said == "topk 1 was asked, 10 runs"


def test_other_steps_another_algorithm_or_none_are_mismatches() -> None:
    settings = ENGINE.settings(recorded("sglang/standalone-2"), ())
    three = ENGINE.mismatches(SpecConfig.of(3, algorithm="EAGLE3"), settings)
    assert three == (
        "algorithm EAGLE3 was asked, STANDALONE runs",
        "3 steps were asked, 2 run",
        "4 draft tokens were asked, 3 run",
    )
    assert ENGINE.mismatches(SpecConfig.of(0), settings) == (
        "speculation was to be off, but it runs with STANDALONE",
    )


@pytest.mark.parametrize(
    ("asked", "runs"), [("NEXTN", "EAGLE"), ("eagle", "EAGLE"), ("NEXTN", "FROZEN_KV_MTP")]
)
def test_an_algorithm_may_run_under_another_name(asked: str, runs: str) -> None:
    settings = ENGINE.settings(serving({**told("standalone-2"), **replicas(1, algorithm=runs)}), ())
    assert ENGINE.mismatches(SpecConfig.of(2, algorithm=asked), settings) == ()
    assert ENGINE.mismatches(SpecConfig.of(2, algorithm="EAGLE3"), settings)


def replicas(number: int, *, algorithm: str = "STANDALONE", **other: Any) -> dict[str, Any]:
    """Fields of a server with so many data-parallel replicas, the last of which has ``other``."""
    (one,) = told("standalone-2")["internal_states"]
    one = {**one, "speculative_algorithm": algorithm}
    states = [*[one] * (number - 1), {**one, **other}]
    return {
        "dp_size": number,
        "speculative_algorithm": algorithm,
        "internal_states": [{k: v for k, v in state.items() if v is not None} for state in states],
    }


def test_requests_together_are_those_of_all_replicas() -> None:
    settings = ENGINE.settings(serving({**told("standalone-2"), **replicas(4)}), ())
    assert settings.max_running == 4 * 8
    assert ENGINE.mismatches(TWO, settings) == ()


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"speculative_num_steps": 1}, "replica 3 runs speculative_num_steps 1, the server says 2"),
        (
            {"speculative_algorithm": None},
            "replica 3 runs speculative_algorithm None, the server says STANDALONE",
        ),
    ],
)
def test_a_replica_that_runs_something_else_is_a_mismatch(other: dict[str, Any], says: str) -> None:
    settings = ENGINE.settings(serving({**told("standalone-2"), **replicas(4, **other)}), ())
    assert ENGINE.mismatches(TWO, settings) == (says,)


def test_speculation_lowers_the_limit_of_requests_together() -> None:
    capped = {**told("standalone-2"), "max_running_requests": 48}
    capped["internal_states"] = [{"effective_max_running_requests_per_dp": 48}]
    assert ENGINE.settings(serving(capped), ()).max_running == 48


def test_adaptive_steps_are_no_steps() -> None:
    settings = ENGINE.settings(serving({**told("standalone-2"), "speculative_adaptive": True}), ())
    assert ENGINE.mismatches(TWO, settings) == (
        "it changes its number of steps while it runs (speculative_adaptive)",
    )


@pytest.mark.parametrize(("status", "says"), [(401, "HTTP 401: Unauthorized"), (0, "refused")])
def test_settings_that_cannot_be_read_are_not_taken_for_granted(status: int, says: str) -> None:
    body = json.dumps({"error": "Unauthorized"}) if status else ""
    settings = ENGINE.settings(Replay({"/server_info": Answer(status, body, "refused")}), ())
    for config in (SpecConfig.of(0), TWO):
        assert ENGINE.mismatches(config, settings) == (
            f"what runs is not known: /server_info answered {says}",
        )


def test_without_metrics_nothing_can_be_trusted_and_the_remedy_is_named() -> None:
    blind = serving({**told("off"), "enable_metrics": False})
    (said,) = ENGINE.mismatches(SpecConfig.of(0), ENGINE.settings(blind, ()))
    assert 'extra_args = ["--enable-metrics"]' in said
    assert ENGINE.counters(Replay({"/metrics": Answer(404)})) == Counters()


# --- counters


@pytest.mark.parametrize("case", [*SPECULATING, "off"])
def test_counters_around_a_round_are_what_its_requests_used(case: str) -> None:
    name = f"sglang/{case}"
    before = ENGINE.counters(recorded(name, metrics="metrics_before.txt"))
    grown = delta(before, ENGINE.counters(recorded(name)))
    used = [r["answer_without_choices"]["usage"] for r in load(name, "round.json")["requests"]]
    assert grown.generated_tokens == sum(u["completion_tokens"] for u in used) == 4 * 64
    assert grown.prompt_tokens == sum(u["prompt_tokens"] for u in used)
    verified = [v for k, v in load(name, "round.json")["delta"].items() if "spec_verify_calls_total" in k]
    assert [grown.steps] == (verified or [None])
    assert grown.drafts == grown.steps
    assert grown.draft_tokens is None


def test_prompt_tokens_count_cached_ones_too() -> None:
    before = ENGINE.counters(recorded("sglang/standalone-2", metrics="metrics_before.txt"))
    grown = delta(before, ENGINE.counters(recorded("sglang/standalone-2")))
    assert (grown.prompt_tokens, grown.cached_prompt_tokens) == (4 * 253, 15)


def test_the_engines_own_averages_are_no_figures() -> None:
    """They cover the last logged window: 0 while nothing was logged, stale afterwards."""
    case = "sglang/ngram-2"
    assert (
        "sglang:spec_num_steps{"
        in (text := recorded(case, metrics="metrics_before.txt")).get("/metrics").text
    )
    assert ENGINE.settings(text, ()).steps == 1
    assert not [n for n in ENGINE.counters(recorded(case)).raw if "accept" in n or "throughput" in n]


LABELS = 'engine_type="unified",model_name="tiny"'


def test_replicas_are_summed_and_the_processes_of_one_are_not() -> None:
    lines = [
        f'sglang:generation_tokens_total{{{LABELS},dp_rank="{dp}",tp_rank="{tp}",is_streaming="{s}"}} {n}'
        for dp, n in ((0, 100), (1, 30))
        for tp in (0, 1, 2, 3)
        for s in ("true", "false")
    ]
    found = ENGINE.counters(Replay({"/metrics": Answer(200, "\n".join(lines))}))
    assert found.generated_tokens == 2 * 130


# --- requests and streams

STREAMS = [
    (case, f"{endpoint}_stream.txt")
    for case in ("off", "standalone-2-adjusted", *SPECULATING)
    for endpoint in ("completions", "chat")
]


@pytest.mark.parametrize(("case", "name"), STREAMS)
def test_a_recorded_stream_is_24_tokens(case: str, name: str) -> None:
    stream = events(f"sglang/{case}", name)
    usage = ENGINE.usage(stream)
    assert usage is not None
    assert usage.completion_tokens == 24
    assert usage.steps is None
    progress = [ENGINE.progress(event) for event in stream]
    assert [p.finish_reason for p in progress if p.finish_reason] == ["length"]
    assert not [p for p in progress if p.error]


def test_a_chats_role_event_is_no_text() -> None:
    first = events("sglang/off", "chat_stream.txt")[0]
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert ENGINE.progress(first).text == ""


def test_a_stream_that_was_asked_for_details_tells_steps_drafts_and_positions() -> None:
    found = ENGINE.usage(events("sglang/standalone-2", "completions_stream_details.txt"))
    assert found == Usage(
        completion_tokens=24,
        prompt_tokens=103,
        cached_tokens=0,
        steps=18.0,
        draft_tokens=36,
        accepted_tokens=6,
        drafts=18,
        accepted_by_position=(5.0, 1.0),
    )
    again = ENGINE.usage(events("sglang/standalone-2", "completions_stream_details_again.txt"))
    assert again is not None
    assert again.cached_tokens == 102
    chat = ENGINE.usage(events("sglang/standalone-2", "chat_stream_details.txt"))
    assert chat is not None
    assert (chat.steps, chat.accepted_tokens, chat.accepted_by_position) == (17, 6, (5, 1))


@pytest.mark.parametrize("name", ["completions_stream_details.txt", "chat_stream_details.txt"])
@pytest.mark.parametrize("case", ["standalone-2", "ngram-4"])
def test_every_token_is_the_prefills_a_steps_or_an_accepted_one(case: str, name: str) -> None:
    usage = ENGINE.usage(events(f"sglang/{case}", name))
    assert usage is not None
    beyond = 1 + (usage.steps or 0) + (usage.accepted_tokens or 0) - usage.completion_tokens
    assert 0 <= beyond <= 3, "what the last step accepted beyond the asked length"
    assert sum(usage.accepted_by_position) == usage.accepted_tokens


def test_without_speculation_a_stream_tells_no_steps_and_cached_tokens_only_where_there_are_any() -> None:
    plain = ENGINE.usage(events("sglang/off", "completions_stream_details.txt"))
    again = ENGINE.usage(events("sglang/off", "completions_stream_details_again.txt"))
    assert plain is not None
    assert again is not None
    assert (plain.steps, plain.draft_tokens, plain.cached_tokens) == (None, None, None)
    assert (again.steps, again.cached_tokens) == (None, 102)


@pytest.mark.parametrize(
    ("case", "name"),
    [
        *((c, f"{e}_stream_details.txt") for c in ("standalone-2", "off") for e in ("completions", "chat")),
        ("ngram-3", "completions_stream_continuous_usage.txt"),
    ],
)
def test_running_counts_come_with_the_tokens_and_reach_the_usage(case: str, name: str) -> None:
    stream = events(f"sglang/{case}", name)
    progress = [ENGINE.progress(event) for event in stream]
    assert all(p.tokens for p in progress if p.text)
    counts = [p.tokens for p in progress if p.tokens]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, 24)


def test_a_cut_stream_has_no_usage_though_every_event_carries_one() -> None:
    whole = events("sglang/standalone-2", "completions_stream_details.txt")
    text = [event for event in whole if event["choices"]]
    assert all(event["usage"] for event in text)
    assert ENGINE.usage(text) is None
    assert ENGINE.usage([]) is None


def test_the_cache_report_of_the_server_is_read_too() -> None:
    reported = {"completion_tokens": 4, "prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 7}}
    usage = ENGINE.usage([{"choices": [], "usage": reported}])
    assert usage is not None
    assert usage.cached_tokens == 7


def test_reasoning_is_text() -> None:
    event = {"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": None}]}
    assert ENGINE.progress(event).text == "hm"


def test_an_error_is_told_in_its_own_words_flat_or_not() -> None:
    flat = load("sglang/standalone-2", "errors.json")["prompt_beyond_context"]["body"]
    assert "longer than the model's context length" in (ENGINE.progress(flat).error or "")
    assert ENGINE.progress({"error": {"message": "out of memory", "code": 500}}).error == "out of memory"


def test_an_unknown_model_is_served_so_names_are_compared() -> None:
    echoed = load("sglang/standalone-2", "errors.json")["unknown_model"]
    assert (echoed["status"], echoed["body"]["model"]) == (200, "no-such-model")
    assert ENGINE.settings(recorded("sglang/standalone-2"), ()).models == ("tiny",)


def test_requests_are_full_length_and_ask_for_all_figures() -> None:
    path, body = ENGINE.request("completions")
    assert path == "/v1/completions"
    assert body["ignore_eos"]
    assert body["return_spec_tokens_details"]
    assert body["return_cached_tokens_details"]
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert ENGINE.request("chat")[0] == "/v1/chat/completions"
    with pytest.raises(ConfigError, match="completions, chat"):
        ENGINE.request("generate")


def test_a_busy_server_is_not_flushed_and_that_is_known() -> None:
    flushed = load("sglang/standalone-2", "flush.json")
    idle, busy = (flushed[f"{state} POST /flush_cache?timeout=5"] for state in ("idle", "busy"))
    assert (idle["status"], busy["status"]) == (200, 400)
    assert ENGINE.flush(Replay({"/flush_cache?timeout=5": answer(200, idle["body"])}))
    assert not ENGINE.flush(Replay({"/flush_cache?timeout=5": answer(400, busy["body"])}))

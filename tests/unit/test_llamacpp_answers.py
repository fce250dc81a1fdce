"""The llama.cpp adapter over what a real llama-server answered (``tests/recordings/llamacpp``)."""

from __future__ import annotations

import pytest

from pytest_specdecode.engines import Answer, Counters
from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.model import SpecConfig
from tests.recordings.replay import NOBODY, Replay, answer, argv, events, load, recorded

ENGINE = LlamaCpp()
SPECULATING = {
    "ngram-mod-1": ("ngram-mod", 1),
    "ngram-mod-2": ("ngram-mod", 2),
    "ngram-mod-3": ("ngram-mod", 3),
    "ngram-mod-3-default-min": ("ngram-mod", 3),
    "draft-simple-2": ("draft-simple", 2),
}
SILENT = ("off", "draft-silent-off")


# --- readiness and version


def test_a_server_that_loads_its_model_is_not_ready_and_says_so() -> None:
    loading = next(
        entry for entry in load("llamacpp/off", "starting.json")["timeline"] if entry["status"] == 503
    )
    told = ENGINE.ready(Replay({"/health": answer(503, loading["body"])}))
    assert (told.ready, told.detail) == (False, "HTTP 503: Loading model")


def test_a_server_that_is_gone_is_not_ready_and_the_reason_is_the_connections() -> None:
    told = ENGINE.ready(Replay({}))
    assert (told.ready, told.detail) == (False, NOBODY.error)


def test_a_ready_server_tells_its_build() -> None:
    assert ENGINE.ready(recorded("llamacpp/off")).ready
    assert ENGINE.version(recorded("llamacpp/off")) == "b11434-unknown"
    assert ENGINE.version(Replay({})) == "unknown"


def test_a_library_build_is_known_by_its_launchers_tag() -> None:
    tagged = Replay(
        {
            "/props": answer(200, {"build_info": "b0-unknown"}),
            "/v1/models": answer(200, {"data": [{"id": "m", "tags": ["xllamacpp-2026.10"]}]}),
        }
    )
    assert ENGINE.version(tagged) == "xllamacpp-2026.10"
    tagged.answers["/v1/models"] = answer(200, {"data": [{"id": "m", "tags": []}]})
    assert ENGINE.version(tagged) == "b0-unknown"


# --- settings in force


@pytest.mark.parametrize("case", SPECULATING)
def test_settings_in_force_are_those_asked(case: str) -> None:
    algorithm, steps = SPECULATING[case]
    settings = ENGINE.settings(recorded(f"llamacpp/{case}"), argv(f"llamacpp/{case}"))
    assert (settings.speculating, settings.algorithm, settings.steps) == (True, algorithm, steps)
    assert (settings.max_running, settings.context_tokens, settings.models) == (4, 2048, ("tiny",))
    assert ENGINE.mismatches(SpecConfig.of(steps, algorithm=algorithm), settings) == ()


def test_the_longest_draft_is_told_by_the_counted_positions_when_the_command_is_unknown() -> None:
    case = "llamacpp/draft-simple-2"
    assert ENGINE.settings(recorded(case), ()).steps == 2
    before = recorded(case)
    before.answers["/metrics"] = Answer(501, "")
    assert ENGINE.settings(before, ()).steps is None
    assert ENGINE.settings(before, argv(case)).steps == 2


def test_the_engines_own_count_of_positions_is_believed_over_the_command() -> None:
    settings = ENGINE.settings(recorded("llamacpp/draft-simple-2"), argv("llamacpp/ngram-mod-3"))
    assert settings.steps == 2
    told = ENGINE.mismatches(SpecConfig.of(3, algorithm="draft-simple"), settings)
    assert told == ("3 steps were asked, llama-server drafts up to 2",)


@pytest.mark.parametrize("case", SILENT)
def test_silent_non_speculation_is_a_mismatch_though_the_server_is_healthy(case: str) -> None:
    settings = ENGINE.settings(recorded(f"llamacpp/{case}"), argv(f"llamacpp/{case}"))
    assert (settings.speculating, settings.steps) == (False, 0)
    assert ENGINE.mismatches(SpecConfig.of(0), settings) == ()
    (told,) = ENGINE.mismatches(SpecConfig.of(2, algorithm="draft-simple"), settings)
    assert "does not speculate" in told
    assert "without --spec-type" in told


def test_speculation_that_was_to_be_off_is_a_mismatch() -> None:
    settings = ENGINE.settings(recorded("llamacpp/ngram-mod-2"), argv("llamacpp/ngram-mod-2"))
    (told,) = ENGINE.mismatches(SpecConfig.of(0), settings)
    assert told == "speculation was to be off, but it runs with ngram-mod"


def test_another_algorithm_is_a_mismatch() -> None:
    settings = ENGINE.settings(recorded("llamacpp/ngram-mod-2"), argv("llamacpp/ngram-mod-2"))
    (told,) = ENGINE.mismatches(SpecConfig.of(2, algorithm="draft-simple"), settings)
    assert told == "algorithm draft-simple was asked, ngram-mod runs"


def test_a_server_that_shows_no_slots_leaves_open_whether_it_speculates() -> None:
    hidden = recorded("llamacpp/draft-simple-2")
    hidden.answers["/slots"] = answer(501, {"error": {"message": "This server does not support slots"}})
    settings = ENGINE.settings(hidden, argv("llamacpp/draft-simple-2"))
    assert (settings.speculating, settings.algorithm, settings.steps) == (None, "draft-simple", 2)
    assert settings.max_running == 4
    assert ENGINE.mismatches(SpecConfig.of(2, algorithm="draft-simple"), settings) == ()


# --- counters


def test_counters_around_a_round_are_what_was_generated() -> None:
    case = "llamacpp/draft-simple-2"
    before = ENGINE.counters(recorded(case, metrics="metrics_before.txt"))
    after = ENGINE.counters(recorded(case))
    assert None not in (after.generated_tokens, before.generated_tokens)
    assert (after.generated_tokens or 0) - (before.generated_tokens or 0) == 4 * 64
    assert (after.prompt_tokens or 0) - (before.prompt_tokens or 0) == 4 * 176
    assert (after.drafts or 0) - (before.drafts or 0) == 84
    assert (after.draft_tokens or 0) - (before.draft_tokens or 0) == 168
    assert (after.accepted_tokens, after.accepted_by_position) == (169, (85, 84))
    assert after.cached_prompt_tokens == 1
    assert after.steps is None


def test_without_metrics_nothing_is_counted() -> None:
    assert ENGINE.counters(Replay({"/metrics": Answer(501, "")})) == Counters()
    assert ENGINE.counters(Replay({})) == Counters()


# --- requests and streams

STREAMS = [
    (case, name) for case in (*SILENT, *SPECULATING) for name in ("completions_stream.txt", "chat_stream.txt")
]


@pytest.mark.parametrize(("case", "name"), STREAMS)
def test_a_recorded_stream_is_24_tokens_and_24_texts(case: str, name: str) -> None:
    stream = events(f"llamacpp/{case}", name)
    usage = ENGINE.usage(stream)
    assert usage is not None
    assert usage.completion_tokens == 24
    assert usage.prompt_tokens in {176, 198}
    assert (usage.cached_tokens or 0) <= 1
    progress = [ENGINE.progress(event) for event in stream]
    assert len([p for p in progress if p.text]) in {23, 24}  # a token may be the empty text
    assert [p.finish_reason for p in progress if p.finish_reason] == ["length"]
    assert not [p for p in progress if p.error]


def test_a_chats_role_event_is_no_text() -> None:
    first = events("llamacpp/off", "chat_stream.txt")[0]
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert ENGINE.progress(first).text == ""


def test_reasoning_is_text() -> None:
    event = {"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": None}]}
    assert ENGINE.progress(event).text == "hm"


@pytest.mark.parametrize("case", ["off", "ngram-mod-3", "draft-simple-2"])
def test_decode_steps_are_the_distinct_moments_after_the_first_token(case: str) -> None:
    stream = events(f"llamacpp/{case}", "completions_stream_continuous_usage.txt")
    moments = {e["timings"]["predicted_ms"] for e in stream if e["timings"]["predicted_n"] > 1}
    usage = ENGINE.usage(stream)
    assert usage is not None
    assert usage.steps == len(moments)
    assert usage.steps == 23 - (usage.accepted_tokens or 0)
    counts = [ENGINE.progress(event).tokens for event in stream]
    assert counts == sorted(counts, key=lambda n: n or 0)
    assert counts[-1] == 24


@pytest.mark.parametrize("case", SPECULATING)
def test_the_steps_of_a_round_are_drafted_ones_and_draftless_ones(case: str) -> None:
    told = load(f"llamacpp/{case}", "round.json")
    usages = [ENGINE.usage([r["answer_without_choices"]]) for r in told["requests"]]
    drafts = told["delta"]["llamacpp:spec_decode_num_drafts_total"]
    accepted = told["delta"]["llamacpp:spec_decode_num_accepted_tokens_total"]
    steps = sum(u.steps or 0 for u in usages if u)
    assert steps == 4 * 63 - accepted
    assert steps >= drafts


def test_without_drafts_every_token_is_a_step() -> None:
    usage = ENGINE.usage(events("llamacpp/off", "completions_stream.txt"))
    assert usage is not None
    assert (usage.steps, usage.draft_tokens, usage.accepted_tokens) == (23, 0, 0)


def test_a_cut_stream_has_no_usage() -> None:
    assert ENGINE.usage(events("llamacpp/off", "completions_stream.txt")[:-1]) is None
    assert ENGINE.usage([]) is None


def test_a_server_without_timings_tells_no_steps() -> None:
    usage = ENGINE.usage([{"choices": [], "usage": {"completion_tokens": 5, "prompt_tokens": 3}}])
    assert usage is not None
    assert (usage.completion_tokens, usage.steps, usage.draft_tokens) == (5, None, None)


def test_an_error_event_is_told_in_its_own_words() -> None:
    refused = load("llamacpp/off", "errors.json")["prompt_beyond_context"]["body"]
    assert "exceeds the available context size" in (ENGINE.progress(refused).error or "")
    assert ENGINE.progress({"error": "gone"}).error == "gone"


def test_requests_are_full_length_uncached_and_counted() -> None:
    path, body = ENGINE.request("completions")
    assert path == "/v1/completions"
    assert (body["ignore_eos"], body["cache_prompt"], body["timings_per_token"]) == (True, False, True)
    assert ENGINE.request("chat")[0] == "/v1/chat/completions"
    with pytest.raises(ConfigError, match="completions, chat"):
        ENGINE.request("embeddings")


def test_nothing_needs_flushing_since_no_request_uses_the_cache() -> None:
    assert ENGINE.flush(Replay({}))

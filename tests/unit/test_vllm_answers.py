"""The vLLM adapter over what a real vLLM 0.32 answered (``tests/recordings/vllm``)."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specdecode.engines import Answer, Counters
from pytest_specdecode.engines import vllm as module
from pytest_specdecode.engines.vllm import Vllm
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.load.metrics import delta
from pytest_specdecode.model import SpecConfig
from tests.recordings.replay import HERE, NOBODY, Replay, answer, argv, events, load, recorded

ENGINE = Vllm()
SPECULATING = {
    "ngram-1": ("ngram", 1),
    "ngram-2": ("ngram", 2),
    "ngram-3": ("ngram", 3),
    "ngram-3-detailed": ("ngram", 3),
    "draft-3": ("draft_model", 3),
}
INFO = "/server_info?config_format=json"


def without_dev_mode(case: str) -> Replay:
    server = recorded(f"vllm/{case}")
    told = load("vllm", "no_dev_mode_and_queue.json")
    for path, key in ((INFO, f"GET {INFO}"), ("/reset_prefix_cache", "POST /reset_prefix_cache")):
        server.answers[path] = answer(told[key]["status"], told[key]["body"])
    return server


# --- readiness and version


def test_it_refuses_until_it_is_ready_and_then_tells_its_version() -> None:
    waiting = ENGINE.ready(Replay({}))
    assert (waiting.ready, waiting.detail) == (False, NOBODY.error)
    assert ENGINE.ready(Replay({"/health": Answer(200)})).ready
    assert ENGINE.version(recorded("vllm/off")) == "0.32.0"
    assert ENGINE.version(Replay({})) == "unknown"


def test_a_server_whose_engine_has_died_is_not_ready() -> None:
    told = ENGINE.ready(Replay({"/health": Answer(503)}))
    assert (told.ready, told.detail) == (False, "HTTP 503: its engine has died")


# --- settings in force


@pytest.mark.parametrize("case", SPECULATING)
@pytest.mark.parametrize("dev_mode", [True, False])
def test_settings_in_force_are_those_asked_with_dev_mode_or_without(case: str, dev_mode: bool) -> None:
    algorithm, steps = SPECULATING[case]
    server = recorded(f"vllm/{case}") if dev_mode else without_dev_mode(case)
    settings = ENGINE.settings(server, argv(f"vllm/{case}"))
    assert (settings.speculating, settings.algorithm, settings.steps) == (True, algorithm, steps)
    assert (settings.max_running, settings.context_tokens, settings.models) == (8, 2048, ("tiny",))
    assert ENGINE.mismatches(SpecConfig.of(steps, algorithm=algorithm), settings) == ()


@pytest.mark.parametrize("dev_mode", [True, False])
def test_off_is_off_and_speculation_that_was_asked_is_missed(dev_mode: bool) -> None:
    server = recorded("vllm/off") if dev_mode else without_dev_mode("off")
    settings = ENGINE.settings(server, argv("vllm/off"))
    assert (settings.speculating, settings.algorithm, settings.steps) == (False, None, 0)
    assert ENGINE.mismatches(SpecConfig.of(0), settings) == ()
    (told,) = ENGINE.mismatches(SpecConfig.of(2, algorithm="ngram"), settings)
    assert told == "ngram with 2 steps was asked, but vLLM does not speculate"


@pytest.mark.parametrize("dev_mode", [True, False])
def test_speculation_that_nobody_asked_for_is_seen_and_its_source_guessed(dev_mode: bool) -> None:
    server = recorded("vllm/ngram-3") if dev_mode else without_dev_mode("ngram-3")
    (told,) = ENGINE.mismatches(SpecConfig.of(0), ENGINE.settings(server, argv("vllm/off")))
    assert told.startswith("speculation was to be off, but it runs with ")
    assert "--config" in told


def test_the_engines_own_word_is_believed_over_the_command() -> None:
    settings = ENGINE.settings(recorded("vllm/draft-3"), argv("vllm/ngram-2"))
    told = ENGINE.mismatches(SpecConfig.of(2, algorithm="ngram"), settings)
    assert told == (
        "algorithm ngram was asked, draft_model runs",
        "2 steps were asked, vLLM drafts up to 3",
    )


def test_heads_of_single_models_are_reported_as_mtp() -> None:
    server = recorded("vllm/draft-3")
    body = server.answers[INFO].json()
    body["vllm_config"]["speculative_config"]["method"] = "mtp"
    server.answers[INFO] = answer(200, body)
    assert ENGINE.mismatches(SpecConfig.of(3, algorithm="qwen3_5_mtp"), ENGINE.settings(server, ())) == ()


def test_without_dev_mode_and_metrics_nothing_is_known_and_nothing_claimed() -> None:
    server = without_dev_mode("ngram-3")
    server.answers["/metrics"] = Answer(404, "")
    settings = ENGINE.settings(server, ())
    assert (settings.speculating, settings.steps, settings.max_running) == (None, None, None)
    assert ENGINE.mismatches(SpecConfig.of(2, algorithm="ngram"), settings) == ()


def test_data_parallel_engines_run_their_limits_together() -> None:
    for server in (two_engines("ngram-3"), without_dev_mode("ngram-3")):
        server.answers["/metrics"] = two_engines("ngram-3").answers["/metrics"]
        assert ENGINE.settings(server, argv("vllm/ngram-3")).max_running == 16


def test_the_lower_limit_on_running_requests_counts() -> None:
    server = recorded("vllm/off")
    body = server.answers[INFO].json()
    body["vllm_config"]["scheduler_config"]["max_num_active_seqs"] = 3
    server.answers[INFO] = answer(200, body)
    assert ENGINE.settings(server, ()).max_running == 3


# --- counters


def two_engines(case: str) -> Replay:
    server = recorded(f"vllm/{case}")
    text = server.answers["/metrics"].text
    server.answers["/metrics"] = Answer(200, text + text.replace('engine="0"', 'engine="1"'))
    return server


@pytest.mark.parametrize("case", SPECULATING)
def test_counters_around_a_round_are_what_was_generated_drafted_and_accepted(case: str) -> None:
    told = load(f"vllm/{case}", "round.json")["delta"]
    grown = delta(
        ENGINE.counters(recorded(f"vllm/{case}", metrics="metrics_before.txt")),
        ENGINE.counters(recorded(f"vllm/{case}")),
    )
    label = '{engine="0",model_name="tiny"}'
    assert (grown.generated_tokens, grown.prompt_tokens) == (4 * 64, 4 * 253)
    assert grown.cached_prompt_tokens == 0
    assert grown.drafts == told[f"vllm:spec_decode_num_drafts_total{label}"]
    assert grown.draft_tokens == told[f"vllm:spec_decode_num_draft_tokens_total{label}"]
    assert grown.accepted_tokens == told[f"vllm:spec_decode_num_accepted_tokens_total{label}"]
    assert sum(grown.accepted_by_position) == grown.accepted_tokens
    assert len(grown.accepted_by_position) == SPECULATING[case][1]


def test_steps_are_counted_with_draftless_ones_and_beyond_the_accepted_tokens() -> None:
    """Five requests of 264 tokens: 259 decode tokens in 114 steps, 73 of which drafted. 259 − 150 accepted
    would be 109: the last steps' drafts were accepted beyond the answers' ends."""
    counted = ENGINE.counters(recorded("vllm/ngram-3"))
    assert (counted.steps, counted.drafts, counted.accepted_tokens) == (114, 73, 150)
    assert (counted.generated_tokens or 0) - 5 - (counted.accepted_tokens or 0) < (counted.steps or 0)


def test_without_speculation_nothing_is_drafted_rather_than_unknown() -> None:
    counted = ENGINE.counters(recorded("vllm/off"))
    assert (counted.drafts, counted.draft_tokens, counted.accepted_tokens) == (0, 0, 0)
    assert counted.accepted_by_position == ()


def test_counters_of_all_engines_are_added_up() -> None:
    one, two = ENGINE.counters(recorded("vllm/ngram-3")), ENGINE.counters(two_engines("ngram-3"))
    assert (two.generated_tokens, two.steps, two.drafts) == (528, 228, 146)
    assert two.accepted_by_position == tuple(2 * n for n in one.accepted_by_position)


def test_without_metrics_nothing_is_counted() -> None:
    assert ENGINE.counters(Replay({"/metrics": Answer(200, "python_info 1.0\n")})) == Counters()
    assert ENGINE.counters(Replay({})) == Counters()


# --- flush


def flushing(*successes: bool) -> tuple[Replay, list[str]]:
    """A server whose resets succeed or not, one after the other, and the paths that were posted to."""
    left, posted = list(successes), []

    class Server(Replay):
        def post(self, path: str, body: Any = None, *, timeout: float = 30.0) -> Answer:
            posted.append(path)
            return answer(200, {"success": left.pop(0) if len(left) > 1 else left[0]})

    return Server({}), posted


def test_a_flush_while_blocks_are_held_is_http_200_and_no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = load("vllm/ngram-3", "flush.json")["busy POST /reset_prefix_cache"]
    assert (busy["status"], busy["body"]) == (200, {"success": False})
    monkeypatch.setattr(module, "FLUSH_PATIENCE_S", 0.0)
    assert not ENGINE.flush(flushing(False)[0])


def test_a_flush_is_tried_again_for_a_moment() -> None:
    server, posted = flushing(False, True)
    assert ENGINE.flush(server)
    assert posted == ["/reset_prefix_cache"] * 2


def test_without_dev_mode_there_is_no_flush() -> None:
    assert not ENGINE.flush(without_dev_mode("off"))
    assert not ENGINE.flush(Replay({}))


# --- requests and streams

STREAMS = [
    (case, name)
    for case in ("off", *SPECULATING)
    for name in ("completions_stream.txt", "chat_stream.txt")
    if (HERE / "vllm" / case / name).exists()
]


@pytest.mark.parametrize(("case", "name"), STREAMS)
def test_a_recorded_stream_is_24_tokens_in_fewer_events(case: str, name: str) -> None:
    stream = events(f"vllm/{case}", name)
    usage = ENGINE.usage(stream)
    assert usage is not None
    assert usage.completion_tokens == 24
    assert usage.prompt_tokens in {254, 255, 259}
    progress = [ENGINE.progress(event) for event in stream]
    texts = [p.text for p in progress if p.text]
    assert len(texts) <= 24
    assert len(texts) < 24 or case in {"off", "draft-3"}
    assert [p.finish_reason for p in progress if p.finish_reason] == ["length"]
    assert not [p for p in progress if p.error]


def test_a_chats_role_event_is_no_text() -> None:
    first = events("vllm/off", "chat_stream.txt")[0]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert ENGINE.progress(first).text == ""


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_is_text(key: str) -> None:
    event = {"choices": [{"delta": {key: "hm", "content": None}, "finish_reason": None}]}
    assert ENGINE.progress(event).text == "hm"


@pytest.mark.parametrize("case", ["off", "ngram-3"])
def test_continuous_usage_counts_the_tokens_of_each_event(case: str) -> None:
    stream = events(f"vllm/{case}", "completions_stream_continuous_usage.txt")
    counts = [ENGINE.progress(event).tokens or 0 for event in stream]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, 24)
    steps = len(set(counts)) - 1
    assert steps == (10 if case == "ngram-3" else 23)


def test_running_counts_of_a_cut_stream_are_no_usage() -> None:
    stream = events("vllm/ngram-3", "completions_stream_continuous_usage.txt")
    assert ENGINE.usage(stream) is not None
    assert ENGINE.usage(stream[:-1]) is None
    assert ENGINE.usage([]) is None


def test_figures_per_request_are_read_where_they_are_sent() -> None:
    usage = ENGINE.usage(events("vllm/ngram-3-detailed", "completions_stream.txt"))
    assert usage is not None
    assert (usage.draft_tokens, usage.accepted_tokens, usage.cached_tokens) == (14, 14, 0)
    assert (usage.drafts, usage.accepted_by_position) == (6, (6, 4, 4))
    plain = ENGINE.usage(events("vllm/ngram-3", "completions_stream.txt"))
    assert plain is not None
    assert (plain.draft_tokens, plain.drafts, plain.cached_tokens) == (None, None, None)


def test_steps_are_never_told_per_request() -> None:
    """24 tokens came in the first and 10 more steps (the same stream, event by event), while the figures per
    request tell of 6 drafted steps and 14 accepted tokens: 24 − 1 − 14 = 9."""
    usage = ENGINE.usage(events("vllm/ngram-3-detailed", "completions_stream.txt"))
    assert usage is not None
    assert usage.steps is None


def test_an_aborted_answer_is_an_error_though_done_follows() -> None:
    ended = load("vllm/ngram-3-detailed", "errors.json")["while_shutting_down"]["in_flight"]["last_events"]
    assert ended[-1] == "data: [DONE]"
    text = ended[0].removeprefix("data: ")
    told = ENGINE.progress(answer(200, text).json())
    assert told.error == "the engine ended the answer with finish_reason 'abort'"


def test_an_error_event_is_told_in_its_own_words() -> None:
    ended = load("vllm/off", "errors.json")["while_shutting_down"]["in_flight"]["last_events"]
    (event,) = [text.removeprefix("data: ") for text in ended if '"error"' in text]
    assert "EngineCore encountered an issue" in (ENGINE.progress(answer(200, event).json()).error or "")
    assert ENGINE.progress({"error": "gone"}).error == "gone"


def test_requests_are_full_length_with_running_counts() -> None:
    path, body = ENGINE.request("completions")
    assert path == "/v1/completions"
    assert body["ignore_eos"] is True
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert ENGINE.request("chat")[0] == "/v1/chat/completions"
    with pytest.raises(ConfigError, match="completions, chat"):
        ENGINE.request("embeddings")

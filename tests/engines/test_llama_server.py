"""The launcher and the adapter with a real llama.cpp server and a real model."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from pytest_specdecode.config import Speculation, Target
from pytest_specdecode.engines.prometheus import samples
from pytest_specdecode.launchers import llama_options, llama_server
from pytest_specdecode.model import SpecConfig
from tests.recordings.replay import HERE, events, load

from .conftest import Serve
from .servers import DEADLINE_S, ENGINE, LAUNCHER, Running, command, free_port

SIMPLE = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-m")
SHORT = ("--spec-ngram-simple-size-n", "1")


def model_of(target: Target) -> str:
    launch = target.service.launch
    return launch[launch.index("-m", 3) + 1]


def keys_of(event: Any) -> set[str]:
    """Every key of an event, nested ones too."""
    if isinstance(event, list):
        return {key for item in event for key in keys_of(item)}
    return set(event) | {k for v in event.values() for k in keys_of(v)} if isinstance(event, dict) else set()


# --- it serves what llama-server serves


def test_it_answers_as_the_recorded_llama_server(serve: Serve) -> None:
    server = serve()
    recorded = load("llamacpp/off", "server_info.json")
    slots = server.http.get("/slots").json()
    assert len(slots) == 4
    assert {"id", "n_ctx", "speculative", "is_processing"} <= slots[0].keys()
    assert keys_of(recorded["/v1/models"]["body"]["data"]) - {"args"} <= keys_of(
        server.http.get("/v1/models").json()
    )
    names = {s.name for s in samples((HERE / "llamacpp/off/metrics_after.txt").read_text())}
    assert names <= {s.name for s in samples(server.http.get("/metrics").text)}
    for endpoint in ("completions", "chat"):
        told = server.ask(9, endpoint=endpoint)
        assert keys_of(events("llamacpp/off", f"{endpoint}_stream.txt")) <= keys_of(told)
    settings = ENGINE.settings(server.http, server.argv)
    assert (settings.speculating, settings.max_running, settings.models) == (False, 4, ("gemma-3-270m",))
    assert settings.context_tokens == 256
    assert ENGINE.version(server.http).startswith("xllamacpp-")
    assert ENGINE.mismatches(SpecConfig.of(0), settings) == ()


def test_without_speculation_every_token_after_the_first_is_a_step(serve: Serve) -> None:
    told = serve().ask(12)
    usage = ENGINE.usage(told)
    assert usage is not None
    assert (usage.completion_tokens, usage.steps, usage.draft_tokens) == (12, 11, 0)
    assert usage.cached_tokens == 0


# --- speculation is what was asked, and its figures agree with each other


def steps_seen(told: Sequence[dict[str, Any]]) -> int:
    """Moments at which tokens came, after the first token: one a decode step."""
    return len({e["timings"]["predicted_ms"] for e in told if e.get("timings", {}).get("predicted_n", 0) > 1})


@pytest.mark.parametrize("steps", [1, 3])
def test_drafts_from_the_text_itself(serve: Serve, steps: int) -> None:
    server = serve(*SIMPLE, str(steps), *SHORT)
    config = SpecConfig.of(steps, algorithm="ngram-simple")
    assert ENGINE.mismatches(config, ENGINE.settings(server.http, server.argv)) == ()
    before = ENGINE.counters(server.http)
    assert (before.drafts, before.accepted_by_position) == (0, ())
    accepted = emitted = counted = 0.0
    for endpoint in ("completions", "chat"):
        told = server.ask(24, endpoint=endpoint)
        usage = ENGINE.usage(told)
        assert usage is not None
        assert usage.steps == steps_seen(told)
        assert [ENGINE.progress(e).tokens for e in told if ENGINE.progress(e).text][-1] == 24
        accepted += usage.accepted_tokens or 0
        emitted += usage.completion_tokens
        counted += usage.steps or 0
    after = ENGINE.counters(server.http)
    assert after.generated_tokens == emitted
    assert after.accepted_tokens == accepted == sum(after.accepted_by_position) > 0
    assert len(after.accepted_by_position) == steps
    assert 0 < (after.drafts or 0) <= counted == emitted - 2 - accepted
    told_again = ENGINE.settings(server.http, ())
    assert (told_again.algorithm, told_again.steps) == ("ngram-simple", steps)


def test_a_model_that_drafts_for_itself_is_always_right(serve: Serve, target: Target) -> None:
    server = serve("-md", model_of(target), "--spec-type", "draft-simple", "--spec-draft-n-max", "2")
    told = server.ask(16)
    usage = ENGINE.usage(told)
    assert usage is not None
    assert usage.accepted_tokens == usage.draft_tokens == 10
    assert usage.steps == steps_seen(told) == 5
    settings = ENGINE.settings(server.http, server.argv)
    assert ENGINE.mismatches(SpecConfig.of(2, algorithm="draft-simple"), settings) == ()
    assert ENGINE.mismatches(SpecConfig.of(3, algorithm="draft-simple"), settings)


@pytest.mark.parametrize("silent", ["draft model without type", "type without draft model"])
def test_silent_non_speculation_is_seen_before_the_first_request(
    serve: Serve, target: Target, silent: str
) -> None:
    flags = ("-md", model_of(target)) if silent.startswith("draft model") else ("--spec-type", "draft-simple")
    server = serve(*flags, "--spec-draft-n-max", "2")
    settings = ENGINE.settings(server.http, server.argv)
    (told,) = ENGINE.mismatches(SpecConfig.of(2, algorithm="draft-simple"), settings)
    assert "does not speculate" in told


def test_a_forced_acceptance_holds_whatever_was_drafted(serve: Serve, target: Target) -> None:
    """Drafts of the model itself would all be right."""
    config = SpecConfig.of(2, algorithm="draft-simple")
    said = Speculation(draft_model=model_of(target))
    server = serve(*ENGINE.flags(config, said, help_text=llama_options.help_text(), forced_acceptance=0.5))
    server.ask(120)
    counted = ENGINE.counters(server.http)
    assert counted.drafts
    first, second = (n / counted.drafts for n in counted.accepted_by_position)
    assert 0.3 < first < 0.7
    assert 0.1 < second < 0.4


def test_a_lookup_longer_than_the_draft_speculates_in_name_only(serve: Serve) -> None:
    server = serve(*SIMPLE, "2")  # the adapter refuses this: the lookup is 12 by default
    assert ENGINE.settings(server.http, server.argv).speculating
    server.ask(16)
    assert ENGINE.counters(server.http).drafts == 0


# --- it ends


def stream_until_cut(server: Running, began: threading.Event, cut: threading.Event) -> None:
    body = {"prompt": "a", "max_tokens": 200, "stream": True, "ignore_eos": True}
    try:
        with (
            httpx.Client(trust_env=False, timeout=DEADLINE_S) as client,
            client.stream("POST", f"{server.url}/v1/completions", json=body) as answer,
        ):
            for _ in answer.iter_lines():
                began.set()
    except httpx.HTTPError:
        cut.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_under_load(serve: Serve, number: signal.Signals) -> None:
    server = serve()
    began, cut = threading.Event(), threading.Event()
    client = threading.Thread(target=stream_until_cut, args=(server, began, cut))
    client.start()
    assert began.wait(DEADLINE_S)
    asked = time.monotonic()
    server.process.send_signal(number)
    assert server.process.wait(DEADLINE_S) == 0
    assert time.monotonic() - asked < 15  # llama-server itself: until its clients leave, 30 s as recorded
    client.join(DEADLINE_S)
    assert cut.is_set()
    assert ENGINE.ready(server.http).detail.startswith("ConnectError")


def test_a_signal_during_start_up_ends_it(serve: Serve) -> None:
    server = serve(ready=False)
    deadline = time.monotonic() + DEADLINE_S
    while "loading model" not in server.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    server.process.terminate()
    assert server.process.wait(DEADLINE_S) in {0, -signal.SIGTERM}


# --- it refuses


def refused(argv: Sequence[str]) -> str:
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert ended.returncode == 1, ended.stderr
    return ended.stderr


def test_a_wrong_flag_is_refused(target: Target) -> None:
    told = refused(command(target, ("--no-such-flag", "1"), free_port()))
    assert told == "error: invalid argument: --no-such-flag\n"


def test_a_wrong_speculation_type_is_refused(target: Target) -> None:
    told = refused(command(target, ("--spec-type", "ngram"), free_port()))
    assert told.startswith(load("llamacpp", "bad_launch.json")["bad_spec_type"]["last_lines"][0])


@pytest.mark.parametrize("flag", ["-m", "-md"])
def test_a_missing_model_is_refused(target: Target, flag: str) -> None:
    told = refused(command(target, (flag, "/no/such.gguf"), free_port()))
    assert told == "error: failed to load model '/no/such.gguf': no such file\n"


def test_no_model_at_all_is_refused(target: Target) -> None:
    assert refused(LAUNCHER) == "error: no model given; pass -m FNAME\n"


def test_a_port_that_is_taken_is_refused(serve: Serve, target: Target) -> None:
    server = serve()
    told = refused(command(target, (), server.port))
    assert f"couldn't bind HTTP server socket, hostname: 127.0.0.1, port: {server.port}" in told
    assert f"error: cannot serve on 127.0.0.1:{server.port}" in told
    assert ENGINE.ready(server.http).ready


# --- the table of flags fits the engine


def test_every_flag_sets_a_field_that_the_engine_has(target: Target) -> None:
    engine = pytest.importorskip("xllamacpp")
    tries = ("1", "0.5", "auto", "f16", "ngram-mod", "on", "greedy")
    for option in (o for _, section in llama_options.SECTIONS for o in section if o.field):
        params = engine.CommonParams()
        value = _first_value(option, tries) if option.metavar else True
        llama_server._set(params, option.field, value)
        found = params
        for name in option.field.split("."):
            found = getattr(found, name)
        assert found == (pytest.approx(value) if isinstance(value, float | list) else value), option.spellings


def _first_value(option: llama_options.Option, tries: Sequence[str]) -> Any:
    for text in tries:
        try:
            return option.convert(text)
        except ValueError:
            continue
    raise AssertionError(f"none of {tries} is a value of {option.spellings}")


def test_version_names_the_engine(target: Target) -> None:
    said = subprocess.run(
        (*LAUNCHER, "--version"), capture_output=True, text=True, check=True, env=os.environ
    )
    assert said.stdout.startswith("version: xllamacpp-")

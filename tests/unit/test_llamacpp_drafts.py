"""Steps become llama-server's flags, in the words that this server's --help knows."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specdecode.config import Speculation
from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.launchers.llama_options import help_text
from pytest_specdecode.model import SpecConfig

CURRENT = help_text()
COMMON = (
    "-c,    --ctx-size N                     size of the prompt context\n-m,    --model FNAME   model path\n"
)
DRAFT = (
    "-md,   --model-draft FNAME              draft model for speculative decoding (default: unused)\n"
    "--draft-max, --draft, --draft-n N       tokens to draft for speculative decoding (default: 16)\n"
    "--draft-min, --draft-n-min N            minimum number of draft tokens (default: 0)\n"
)
BEFORE_TYPES = COMMON + DRAFT
SHARED_NGRAM = BEFORE_TYPES + (
    "--spec-type [none|ngram-cache|ngram-simple|ngram-map-k|ngram-map-k4v|ngram-mod]\n"
    "                                        type of speculative decoding to use when no draft model is\n"
    "                                        provided (default: none)\n"
    "--spec-ngram-size-n N                   ngram size N (default: 12)\n"
    "--spec-ngram-size-m N                   ngram size M (default: 48)\n"
)


def flags(asked_algorithm: str | None, steps: int, *, help_: str = CURRENT, **said: Any) -> str:
    config = {k: said.pop(k) for k in ("topk", "draft_tokens") if k in said}
    engine_args = said.pop("engine_args", None)
    asked = SpecConfig.of(steps, algorithm=asked_algorithm, args=engine_args, **config)
    return " ".join(LlamaCpp().flags(asked, Speculation(**said), help_text=help_))


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("ngram-mod", "--spec-type ngram-mod --spec-ngram-mod-n-max 3"),
        ("ngram-map-k", "--spec-type ngram-map-k --spec-ngram-map-k-size-m 3"),
        ("ngram-map-k4v", "--spec-type ngram-map-k4v --spec-ngram-map-k4v-size-m 3"),
        ("draft-simple", "--spec-draft-model d.gguf --spec-type draft-simple --spec-draft-n-max 3"),
        ("draft-eagle3", "--spec-draft-model d.gguf --spec-type draft-eagle3 --spec-draft-n-max 3"),
        ("draft-mtp", "--spec-draft-model d.gguf --spec-type draft-mtp --spec-draft-n-max 3"),
    ],
)
def test_each_type_has_its_own_flag_for_the_longest_draft(algorithm: str, expected: str) -> None:
    assert flags(algorithm, 3, draft_model="d.gguf") == expected
    assert flags(algorithm, 3, draft_model="d.gguf", help_="") == expected


def test_own_prediction_layers_need_no_draft_model() -> None:
    assert flags("draft-mtp", 1) == "--spec-type draft-mtp --spec-draft-n-max 1"


def test_types_may_be_combined() -> None:
    combined = flags("ngram-mod,draft-simple", 2, draft_model="d.gguf")
    assert combined == (
        "--spec-draft-model d.gguf --spec-type ngram-mod,draft-simple "
        "--spec-ngram-mod-n-max 2 --spec-draft-n-max 2"
    )


@pytest.mark.parametrize(
    ("algorithm", "help_", "expected"),
    [
        ("draft-simple", BEFORE_TYPES, "--model-draft d.gguf --draft-max 3 --draft-min 0"),
        ("draft-simple", SHARED_NGRAM, "--model-draft d.gguf --draft-max 3 --draft-min 0"),
        ("ngram-mod", SHARED_NGRAM, "--spec-type ngram-mod --draft-max 3 --draft-min 0"),
        ("ngram-cache", SHARED_NGRAM, "--spec-type ngram-cache --draft-max 3 --draft-min 0"),
        (
            "ngram-map-k",
            SHARED_NGRAM,
            "--spec-type ngram-map-k --spec-ngram-size-m 3 --draft-max 3 --draft-min 0",
        ),
    ],
)
def test_older_servers_get_the_names_they_know(algorithm: str, help_: str, expected: str) -> None:
    assert flags(algorithm, 3, help_=help_, draft_model="d.gguf") == expected


def test_off_sets_nothing_but_what_is_no_speculation_flag() -> None:
    assert flags(None, 0, algorithm="ngram-mod", draft_model="d.gguf") == ""
    both = {"spec_ngram_mod_n_match": 3, "threads": 2, "cont_batching": False}
    assert flags(None, 0, engine_args=both) == "--no-cont-batching --threads 2"


def test_a_tests_own_arguments_come_before_the_targets() -> None:
    said = flags(
        "ngram-mod", 2, args={"spec-ngram-mod-n-match": 8}, engine_args={"spec_ngram_mod_n_match": 3}
    )
    assert said.endswith("--spec-ngram-mod-n-match 3")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("topk must be 1", {"algorithm": "ngram-mod", "steps": 2, "topk": 4, "draft_tokens": 3}),
        ("steps \\+ 1 = 3", {"algorithm": "ngram-mod", "steps": 2, "draft_tokens": 8}),
        ("'EAGLE' is unknown .* there are: draft-simple", {"algorithm": "EAGLE", "steps": 2}),
        ("2 steps need an algorithm", {"algorithm": None, "steps": 2}),
        ("needs a draft model: set draft_model", {"algorithm": "draft-simple", "steps": 2}),
        ("needs a draft model", {"algorithm": "draft-eagle3", "steps": 2}),
        (
            r"drafts nothing when steps \(2\) is below its lookup length \(12\); set args.spec-ngram-simple",
            {"algorithm": "ngram-simple", "steps": 2},
        ),
        ("always drafts up to 8 tokens", {"algorithm": "ngram-cache", "steps": 2}),
        ("remove it from args", {"algorithm": "ngram-mod", "steps": 2, "args": {"spec-ngram-mod-n-max": 9}}),
        ("no flag --warp-speed", {"algorithm": "ngram-mod", "steps": 2, "args": {"warp_speed": 9}}),
        ("cannot do 'draft-mtp'", {"algorithm": "draft-mtp", "steps": 2, "help_": SHARED_NGRAM}),
        ("it has no --spec-type", {"algorithm": "ngram-mod", "steps": 2, "help_": BEFORE_TYPES}),
    ],
)
def test_what_llama_cpp_cannot_do_is_refused_in_words(words: str, said: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=words):
        flags(said.pop("algorithm"), said.pop("steps"), **said)


def test_ngram_simple_with_a_short_lookup_and_ngram_cache_with_eight_are_fine() -> None:
    short = {"spec-ngram-simple-size-n": "1"}
    assert flags("ngram-simple", 1, args=short).endswith("--spec-ngram-simple-size-n 1")
    assert flags("ngram-cache", 8) == "--spec-type ngram-cache"


def test_a_forced_acceptance_becomes_the_share_accepted_up_to_each_position() -> None:
    said = LlamaCpp().flags(
        SpecConfig.of(3, algorithm="ngram-mod"), Speculation(), help_text=CURRENT, forced_acceptance=0.8
    )
    assert said[-2:] == ("--spec-synth-rates", "0.8,0.64,0.512")
    off = LlamaCpp().flags(SpecConfig.of(0), Speculation(), help_text=CURRENT, forced_acceptance=0.8)
    assert off == ()


def test_a_server_that_cannot_force_acceptance_or_is_told_twice_is_refused() -> None:
    asked = SpecConfig.of(2, algorithm="ngram-mod")
    with pytest.raises(ConfigError, match="no flag --spec-synth-rates"):
        LlamaCpp().flags(asked, Speculation(), help_text=SHARED_NGRAM, forced_acceptance=0.8)
    twice = Speculation(args={"spec-synth-len": 2})
    with pytest.raises(ConfigError, match=r"args\.spec-synth-len: workload\.forced_acceptance sets"):
        LlamaCpp().flags(asked, twice, help_text=CURRENT, forced_acceptance=0.8)

"""vLLM's command line, as its adapter reads and writes it."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from pytest_specdecode.config import Speculation
from pytest_specdecode.engines import Launch
from pytest_specdecode.engines.vllm import Vllm
from pytest_specdecode.engines.vllm_flags import NOT_IDENTITY, SPECULATION, known
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.model import SpecConfig
from tests.recordings.replay import argv

ENGINE = Vllm()
NGRAM = Speculation(algorithm="ngram", args={"prompt_lookup_max": 4})
CASES = {
    "off": (None, None, None),
    "ngram-1": ("ngram", 1, None),
    "ngram-3-detailed": ("ngram", 3, None),
    "draft-3": ("draft_model", 3, "/models/draft"),
}


def read(command: str) -> Launch:
    return ENGINE.read_launch(shlex.split(command))


def flags(steps: int, speculation: Speculation, **more: Any) -> tuple[str, ...]:
    forced = more.pop("forced_acceptance", None)
    config = SpecConfig.of(steps, algorithm=speculation.algorithm if steps else None, **more)
    return ENGINE.flags(config, speculation, help_text="", forced_acceptance=forced)


# --- launch commands


@pytest.mark.parametrize("case", CASES)
def test_a_launch_command_tells_what_it_sets(case: str) -> None:
    launch = ENGINE.read_launch(argv(f"vllm/{case}"))
    assert (launch.algorithm, launch.steps, launch.draft_model) == CASES[case]
    assert (launch.port, launch.nodes) == (18111, 1)
    assert launch.model == ("/models/target" if case == "draft-3" else "/models/tiny")


ASKED = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}'


@pytest.mark.parametrize(
    "said",
    [
        f"--speculative-config '{ASKED}'",
        f"--speculative-config='{ASKED}'",
        f"--speculative_config '{ASKED}'",
        f"-sc '{ASKED}'",
        f"-sc='{ASKED}'",
        f"--specul '{ASKED}'",
        "--speculative-config.method ngram --speculative-config.num_speculative_tokens=3 "
        "--speculative_config.prompt_lookup_max 4",
        "-sc.method=ngram -sc.num_speculative_tokens 3 -sc.prompt_lookup_max=4",
        "--spec-method ngram --spec-tokens 3 -sc.prompt_lookup_max 4",
        "--spec_me=ngram --spec-t=3 -sc '{\"prompt-lookup-max\": 4}'",
        f"--speculative-config '{{\"method\": \"eagle\"}}' -sc '{ASKED}'",
        '--speculative-config \'{"method": "eagle"}\' -sc.method ngram -sc.num_speculative_tokens 3 '
        "-sc.prompt_lookup_max 4",
    ],
)
def test_every_way_to_write_a_configuration_is_read_and_removed(said: str) -> None:
    command = f"vllm serve org/m -tp 2 {said} --port 80"
    launch = read(command)
    assert (launch.algorithm, launch.steps, launch.args) == ("ngram", 3, {"prompt_lookup_max": 4})
    assert (launch.model, launch.port) == ("org/m", 80)
    plain = ENGINE.without_speculation(shlex.split(command))
    assert shlex.join(plain) == "vllm serve org/m -tp 2 --port 80"


def test_what_a_launch_command_says_further_holds_for_each_configuration() -> None:
    said = (
        '--speculative-config \'{"method": "eagle3", "model": "org/head", "num_speculative_tokens": 2, '
        '"draft_tensor_parallel_size": 1, "from_tomorrow": [1, 2]}\' '
        "--per-request-spec-decode-metrics summary"
    )
    launch = read(f"vllm serve org/m {said}")
    complete = launch.complete(Speculation())
    assert (complete.algorithm, complete.draft_model) == ("eagle3", "org/head")
    name, config, *rest = flags(3, complete)
    assert name == "--speculative-config"
    assert json.loads(config) == {
        "method": "eagle3",
        "model": "org/head",
        "num_speculative_tokens": 3,
        "draft_tensor_parallel_size": 1,
        "from_tomorrow": [1, 2],
    }
    assert rest == ["--per-request-spec-decode-metrics", "summary"]
    assert flags(0, complete) == ()  # vLLM refuses metrics of speculation where there is none


def test_nothing_is_what_none_and_an_empty_configuration_say() -> None:
    for said in ("None", "''", "'{}'", "'no json'"):
        assert read(f"vllm serve org/m --speculative-config {said}").algorithm is None


@pytest.mark.parametrize(
    ("command", "model", "port"),
    [
        ("vllm serve org/m --port 81", "org/m", 81),
        ("vllm serve org/m", "org/m", 8000),
        ("/opt/venv/bin/vllm serve /m/x --por=81", "/m/x", 81),
        ("python3 -m vllm.entrypoints.openai.api_server --model org/m --port {port}", "org/m", None),
        ("env A=1 numactl -m 0 python3.12 -u -m vllm.entrypoints.cli.main serve org/m", "org/m", 8000),
        ("/venv/bin/python /venv/bin/vllm serve --tensor-parallel-size 2 --model=org/m", "org/m", 8000),
        ("vllm serve {flags} --config serve.yaml", None, 8000),
        ("./run.sh --fast", None, None),
    ],
)
def test_the_model_and_the_port_are_found(command: str, model: str | None, port: int | None) -> None:
    launch = read(command)
    assert (launch.model, launch.port) == (model, port)


@pytest.mark.parametrize(
    ("said", "nodes"),
    [
        ("--nnodes 2 --node-rank 0", 2),
        ("-n 4", 4),
        ("--data-parallel-size 4", 1),
        ("-dp 4 --data-parallel-size-local 2", 2),
        ("-dp=4 -dpl=0", 2),
        ("--distributed-executor-backend ray", 2),
        ("-dp 2 --data-parallel-backend=ray", 2),
        ("--distributed-executor-backend mp", 1),
        ("-dp 2 --data-parallel-hybrid-lb", 2),
    ],
)
def test_an_engine_over_several_machines_is_known_by_its_flags(said: str, nodes: int) -> None:
    assert read(f"vllm serve org/m {said}").nodes == nodes


def test_every_spelling_of_every_speculation_flag_goes() -> None:
    for flag in SPECULATION:
        for spelling in (
            *flag.spellings,
            flag.shortest,
            flag.spellings[0].replace("-", "_").replace("__", "--"),
        ):
            for said in ([spelling, "7"], [f"{spelling}=7"]):
                command = ["vllm", "serve", "org/m", *said, "--enforce-eager"]
                plain = ENGINE.without_speculation(command)
                assert plain == ("vllm", "serve", "org/m", "--enforce-eager"), spelling


def test_an_abbreviation_that_vllm_would_refuse_is_no_flag() -> None:
    assert known("--spec") is None
    assert known("--data-parallel-s") is None
    assert known("speculative-config") is None


def test_a_baseline_does_not_depend_on_place_port_log_key_or_spelling() -> None:
    one = (
        "/usr/bin/vllm serve /models/qwen --host 0.0.0.0 --port 8080 --max-num-seqs 64 --api-key a b "
        "--uvicorn-log-level info --disable-uvicorn-access-log --max_model_len=4096 -sc '{}' "
        "--async-scheduling"
    )
    two = (
        "python -m vllm.entrypoints.openai.api_server --model=/srv/qwen --max-num-se=64 --port 9 "
        "--max-model-len 4096 --async_scheduling"
    )
    wanted = ("--model", "qwen", "--max-num-seqs", "64", "--max-model-len", "4096", "--async-scheduling")
    assert ENGINE.identity_args(shlex.split(one)) == wanted
    assert ENGINE.identity_args(shlex.split(two)) == wanted
    assert ENGINE.identity_args(["vllm", "serve", "org/m"]) == ("--model", "org/m")
    assert {"--host", "--api-key"} <= {flag.spellings[0] for flag in NOT_IDENTITY}


def test_no_help_is_asked_since_it_takes_longer_than_a_start() -> None:
    assert ENGINE.help_argv(["vllm", "serve", "org/m"]) == ()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("--max-num-seqs 2", "at most 2 requests together, fewer than concurrency 4; raise --max-num-seqs"),
        ("--max_num_seqs=8 --max-num-active-seqs 3", "at most 3 requests together"),
        ("--disable-log-stats", "--disable-log-stats leaves /metrics empty"),
    ],
)
def test_what_could_not_be_measured_is_refused_before_anything_is_stopped(said: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ENGINE.check_launch(shlex.split(f"vllm serve org/m {said}"), SpecConfig.of(0), 4)


def test_engines_of_one_server_share_the_requests() -> None:
    ENGINE.check_launch(shlex.split("vllm serve org/m -dp 2 --max-num-seqs 2"), SpecConfig.of(0), 4)
    ENGINE.check_launch(shlex.split("vllm serve org/m"), SpecConfig.of(0), 4)


# --- configurations


def test_steps_are_drafted_tokens_and_off_leaves_the_configuration_out() -> None:
    name, config = flags(2, NGRAM)
    assert name == "--speculative-config"
    assert json.loads(config) == {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4}
    assert flags(0, NGRAM) == ()


@pytest.mark.parametrize(
    ("algorithm", "draft_model", "model"),
    [
        ("draft_model", "org/small", "org/small"),
        ("eagle", "org/head", "org/head"),
        ("eagle3", "org/head", "org/head"),
        ("mtp", None, None),
        ("qwen3_5_mtp", "org/head", "org/head"),
        ("ngram", "org/left-over", None),
    ],
)
def test_a_draft_model_goes_where_the_method_takes_one(
    algorithm: str, draft_model: str | None, model: str | None
) -> None:
    _, config = flags(1, Speculation(algorithm=algorithm, draft_model=draft_model))
    assert json.loads(config).get("model") == model


def test_flags_that_are_none_of_speculation_hold_with_speculation_off_too() -> None:
    table = Speculation(algorithm="ngram", args={"max_num_seqs": 8, "async-scheduling": False})
    assert flags(0, table) == ("--max-num-seqs", "8", "--no-async-scheduling")
    assert flags(1, table)[2:] == ("--max-num-seqs", "8", "--no-async-scheduling")


def test_args_of_a_test_come_before_those_of_the_target() -> None:
    _, config = flags(1, NGRAM, args={"prompt_lookup_max": 2, "speculative_config.from_tomorrow": True})
    assert json.loads(config)["prompt_lookup_max"] == 2
    assert json.loads(config)["from_tomorrow"] is True


def test_forced_acceptance_is_synthetic_rejection_by_shares_of_whole_drafts() -> None:
    _, config = flags(3, NGRAM, forced_acceptance=0.8)
    assert json.loads(config)["rejection_sample_method"] == "synthetic"
    assert json.loads(config)["synthetic_acceptance_rates"] == [0.8, 0.64, 0.512]
    assert flags(0, NGRAM, forced_acceptance=0.8) == ()


@pytest.mark.parametrize(
    ("speculation", "more", "message"),
    [
        (Speculation(), {}, "need an algorithm"),
        (Speculation(algorithm="EAGLE"), {}, "'EAGLE' is no method of vLLM"),
        (Speculation(algorithm="draft-simple"), {}, "is no method of vLLM"),
        (Speculation(algorithm="eagle3"), {}, "needs a draft model"),
        (NGRAM, {"topk": 4}, "topk = 4"),
        (NGRAM, {"draft_tokens": 7}, r"verifies steps \+ 1 = 3"),
        (NGRAM, {"args": {"num_speculative_tokens": 2}}, "num_speculative_tokens: steps, algorithm"),
        (NGRAM, {"args": {"spec-method": "eagle"}}, "spec-method: steps, algorithm"),
        (NGRAM, {"args": {"speculative_config": "{}"}}, "speculative_config: steps, algorithm"),
        (
            Speculation(algorithm="ngram", args={"synthetic_acceptance_length": 2.0}),
            {"forced_acceptance": 0.5},
            "keep one of the two",
        ),
    ],
)
def test_what_vllm_cannot_do_is_refused_by_name(
    speculation: Speculation, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        flags(2, speculation, **more)

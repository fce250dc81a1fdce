"""SGLang's command line as its adapter reads it, and the one it writes for a configuration."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specdecode.config import Speculation, load_targets
from pytest_specdecode.engines import ChecksLaunch
from pytest_specdecode.engines import sglang_flags as f
from pytest_specdecode.engines.registry import load_engine
from pytest_specdecode.engines.sglang import SGLang
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.model import SpecConfig
from tests.recordings.replay import HERE, argv, load

ENGINE = SGLang()
OPTIONS = frozenset((HERE / "sglang/options.txt").read_text().split())
HELP = "usage: sglang serve\n" + "".join(f"  --{name} X  text\n" for name in sorted(OPTIONS))
SERVER = "python -m sglang.launch_server --model-path /models/tiny"
CASES = {
    "off": (None, None, None, None),
    "flags-without-algorithm": (None, 2, None, None),
    "ngram-2": ("NGRAM", 1, 1, None),
    "ngram-4-default-breadth": ("NGRAM", 3, 10, None),
    "standalone-2": ("STANDALONE", 2, 1, "/models/draft"),
    "standalone-2-adjusted": ("STANDALONE", 2, 1, "/models/draft"),
}


# --- reading


@pytest.mark.parametrize("case", CASES)
def test_a_launch_command_tells_what_it_sets(case: str) -> None:
    launch = ENGINE.read_launch(argv(f"sglang/{case}"))
    assert (launch.algorithm, launch.steps, launch.topk, launch.draft_model) == CASES[case]
    assert (launch.port, launch.nodes, launch.args, launch.draft_tokens) == (30111, 1, {}, None)
    assert launch.model in {"/models/tiny", "/models/target"}


@pytest.mark.parametrize(
    "words",
    [
        "--speculative-algorithm EAGLE --speculative-num-steps 2 --speculative-draft-model-path d",
        "--speculative-algorithm=EAGLE --speculative-num-steps=2 --speculative-draft-model-path=d",
        "--speculative-algo EAGLE --speculative-num-s 2 --speculative-draft-model d",
        "--speculative-algo=NGRAM --speculative-algo=EAGLE --speculative-num-steps 2 --speculative-draft d",
    ],
)
def test_every_way_to_write_a_flag_is_read_and_taken_out(words: str) -> None:
    for head in (
        SERVER,
        "sglang serve /models/tiny",
        "numactl -m 0 python3.12 launch_server.py --model /models/tiny",
    ):
        command = [*head.split(), *words.split(), "--tp", "4"]
        launch = ENGINE.read_launch(command)
        assert (launch.algorithm, launch.steps, launch.draft_model) == ("EAGLE", 2, "d")
        assert launch.model == "/models/tiny"
        assert ENGINE.without_speculation(command) == (*head.split(), "--tp", "4")


@pytest.mark.parametrize(
    "option", sorted(n for n in OPTIONS if n.removeprefix("no-").startswith("speculative-"))
)
def test_every_option_of_speculation_goes_with_its_value_and_no_other(option: str) -> None:
    value = [] if option in f.SWITCHES else ["7"]
    command = ["sglang", "serve", f"--{option}", *value, "/models/tiny", "--tp", "1"]
    assert ENGINE.without_speculation(command) == ("sglang", "serve", "/models/tiny", "--tp", "1")


def test_no_other_option_is_taken_for_an_abbreviation() -> None:
    for option in OPTIONS:
        name = f.canonical(option)
        assert name == option or {option, name} <= {
            "model",
            "model-path",
            "speculative-draft-model",
            f.DRAFT_MODEL,
        }


def test_the_place_of_the_flags_is_never_a_flags_value() -> None:
    template = [*SERVER.split(), "--speculative-some-new-switch", "{flags}", "--port", "{port}"]
    assert ENGINE.without_speculation(template) == (*SERVER.split(), "{flags}", "--port", "{port}")
    assert ENGINE.read_launch(template).port is None


def test_what_the_target_leaves_unsaid_comes_from_the_launch_command() -> None:
    words = (
        "--speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 4 "
        "--speculative-num-draft-tokens 16 --speculative-draft-model-path d --speculative-token-map m.pt "
        "--speculative-use-rejection-sampling"
    )
    launch = ENGINE.read_launch([*SERVER.split(), *words.split()])
    said = launch.complete(Speculation())
    assert (said.algorithm, said.topk, said.draft_tokens, said.draft_model) == ("EAGLE3", 4, 16, "d")
    assert said.args == {"speculative-token-map": "m.pt", "speculative-use-rejection-sampling": True}
    chain = launch.complete(Speculation(topk=1))
    assert (chain.topk, chain.draft_tokens) == (1, None)


def test_port_and_nodes() -> None:
    assert ENGINE.read_launch(SERVER.split()).port == 30000
    assert ENGINE.read_launch(["./serve.sh", "{port}", "{flags}"]).port is None
    assert ENGINE.read_launch([]).port is None
    assert ENGINE.read_launch([*SERVER.split(), "--nnodes", "2", "--node-rank=0"]).nodes == 2


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        (SERVER, "python -m sglang.launch_server --help"),
        (
            "env A=1 numactl -m 0 /opt/v/bin/sglang serve m",
            "env A=1 numactl -m 0 /opt/v/bin/sglang serve --help",
        ),
        ("docker run --rm img python -m sglang.launch_server --tp 4", ""),
        ("srun sglang serve m", ""),
        ("./start.sh --fast", ""),
    ],
)
def test_help_is_asked_of_sglang_itself_only(command: str, asks: str) -> None:
    assert ENGINE.help_argv(command.split()) == tuple(asks.split())


def test_a_baseline_does_not_depend_on_place_port_log_key_or_spelling() -> None:
    one = (
        "sglang serve /models/tiny --tp-size 4 --api-key k --host 0.0.0.0 --speculative-algo EAGLE "
        "--log-requests --log-level=debug --log-requests-target stdout /tmp/x --enable-metrics"
    )
    other = "sglang serve --enable-metrics --port 1 /data/tiny --tp-size=4"
    assert ENGINE.identity_args(one.split()) == ENGINE.identity_args(other.split())
    assert ENGINE.identity_args(one.split()) == ("tiny", "--enable-metrics", "--tp-size", "4")
    assert ENGINE.identity_args(["sglang", "serve", "--model", "Qwen/Q"]) == ("--model-path", "Qwen/Q")


# --- checks before anything is stopped


def test_a_command_without_metrics_is_refused_before_anything_is_stopped() -> None:
    with pytest.raises(ConfigError, match=r'extra_args = \["--enable-metrics"\]'):
        ENGINE.check_launch(SERVER.split(), SpecConfig.of(0), 1)
    ENGINE.check_launch([*SERVER.split(), "--enable-metrics"], SpecConfig.of(0), 64)


def test_requests_that_could_not_run_together_are_refused_before_anything_is_stopped() -> None:
    plain = [*SERVER.split(), "--enable-metrics"]
    two = SpecConfig.of(2, algorithm="EAGLE")
    ENGINE.check_launch(plain, two, 48)
    ENGINE.check_launch([*plain, "--max-running-requests", "64"], two, 64)
    with pytest.raises(ConfigError, match=r"at most 48 requests .* add --max-running-requests 64"):
        ENGINE.check_launch(plain, two, 64)
    with pytest.raises(ConfigError, match="limits SGLang to 2 requests together"):
        ENGINE.check_launch([*plain, "--max-running-requests=2"], SpecConfig.of(0), 4)


# --- writing


def flags(
    algorithm: str | None, steps: int, *, help_text: str = HELP, forced: float | None = None, **more: Any
) -> str:
    shape = {k: more.pop(k) for k in ("topk", "draft_tokens") if k in more}
    config = SpecConfig.of(steps, algorithm=algorithm, **shape)
    written = ENGINE.flags(config, Speculation(**more), help_text=help_text, forced_acceptance=forced)
    return " ".join(written).replace("--speculative-", "")


@pytest.mark.parametrize("case", ["standalone-1", "standalone-2", "standalone-3", "ngram-2", "ngram-4"])
def test_the_flags_are_those_of_the_recorded_server(case: str) -> None:
    command = argv(f"sglang/{case}")
    launch = ENGINE.read_launch(command)
    assert launch.steps is not None
    config = SpecConfig.of(launch.steps, algorithm=launch.algorithm, topk=launch.topk)
    written = ENGINE.flags(config, launch.complete(Speculation()), help_text="")
    assert (*ENGINE.without_speculation(command), *written) == tuple(command)


def test_each_family_counts_steps_in_its_own_way() -> None:
    assert flags("eagle", 3) == "algorithm EAGLE num-steps 3 eagle-topk 1 num-draft-tokens 4"
    assert flags("NGRAM", 3) == "algorithm NGRAM num-draft-tokens 4 ngram-max-bfs-breadth 1"
    assert flags("NGRAM", 7, topk=2) == "algorithm NGRAM num-draft-tokens 8 ngram-max-bfs-breadth 2"
    dflash = flags("DFLASH", 7, draft_model="d")
    assert dflash == "algorithm DFLASH draft-model-path d num-draft-tokens 8"
    tree = flags("EAGLE3", 3, topk=4, draft_tokens=16, draft_model="d")
    assert tree == "algorithm EAGLE3 draft-model-path d num-steps 3 eagle-topk 4 num-draft-tokens 16"


def test_no_steps_is_no_flag_of_speculation() -> None:
    assert flags(None, 0, args={"speculative-token-map": "m", "disable-overlap-schedule": True}) == (
        "--disable-overlap-schedule"
    )


def test_further_settings_in_any_spelling() -> None:
    more = {"speculative_attention_mode": "decode", "speculative-use-rejection-sampling": True}
    assert flags("EAGLE", 1, args=more).endswith("2 attention-mode decode use-rejection-sampling")
    assert flags("EAGLE", 1, args={"speculative-adaptive": False}) == flags("EAGLE", 1)


@pytest.mark.parametrize(
    ("algorithm", "more", "says"),
    [
        (None, {}, "steps need an algorithm"),
        ("EAGLE4", {}, "algorithm 'EAGLE4' is unknown"),
        ("EAGLE", {"draft_tokens": 7}, r"draft_tokens = 7: with EAGLE and 2 steps at topk 1 there are 3"),
        ("NGRAM", {"draft_tokens": 2}, "draft_tokens = 2: with NGRAM and 2 steps there are 3"),
        ("EAGLE", {"topk": 4}, r"topk = 4: a tree needs draft_tokens, .* \(2 to 21 with 2 steps"),
        ("EAGLE", {"topk": 4, "draft_tokens": 22}, "a tree of 2 steps at topk 4 has 2 to 21"),
        ("DFLASH", {"topk": 2, "draft_tokens": 3, "draft_model": "d"}, "drafts one token a position"),
        ("STANDALONE", {}, r"needs a draft model: .* \(without one SGLang starts"),
        ("DFLASH", {}, "needs a draft model"),
        ("EAGLE", {"args": {"speculative-algo": "NGRAM"}}, r"args\.speculative-algorithm: algorithm sets it"),
        ("NGRAM", {"args": {"speculative-ngram-max-bfs-breadth": 4}}, "topk sets it"),
        ("EAGLE", {"args": {"speculative-adaptive": True}}, "changes the number of steps while it runs"),
        ("EAGLE", {"args": {"speculative-no-such": 1}}, "this SGLang has no flag --speculative-no-such"),
        ("DSPARK", {"forced": 0.8}, r"workload\.forced_acceptance: .* with DSPARK"),
    ],
)
def test_what_sglang_cannot_do_or_would_change_is_refused(
    algorithm: str, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        flags(algorithm, 2, **more)


def test_text_that_is_not_sglangs_help_counts_as_unknown() -> None:
    assert f.offered(HELP) >= OPTIONS - {"help"}
    assert f.offered("Usage: docker [OPTIONS]\n  --model-path X") == frozenset()


def test_a_standalone_server_without_its_draft_model_serves() -> None:
    assert load("sglang", "bad_launch.json")["standalone_without_draft_path"]["exit_code"] is None


# --- forced acceptance


@pytest.mark.parametrize(
    ("config", "rate", "length", "tokens"),
    [
        (SpecConfig.of(3, algorithm="EAGLE"), 0.5, "1.875", "real-draft-token"),
        (SpecConfig.of(2, algorithm="NGRAM"), 1.0, "3", "fixed"),
        (SpecConfig.of(3, algorithm="EAGLE", topk=4, draft_tokens=8), 0.8, "2.952", "fixed"),
    ],
)
def test_a_forced_acceptance_is_a_length(config: SpecConfig, rate: float, length: str, tokens: str) -> None:
    assert ENGINE.environment(config, rate) == {
        "SGLANG_SIMULATE_ACC_LEN": length,
        "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
        "SGLANG_SIMULATE_ACC_TOKEN_MODE": tokens,
    }
    assert ENGINE.environment(config, None) == {}
    assert ENGINE.environment(SpecConfig.of(0), rate) == {}


def test_the_example_can_be_measured() -> None:
    target = load_targets(HERE.parents[1] / "examples/qwen/specdecode.toml")["qwen"]
    engine = load_engine(target.engine)
    assert isinstance(engine, ChecksLaunch)
    for steps in target.steps:
        config = SpecConfig.of(steps, algorithm=target.speculation.algorithm, topk=target.speculation.topk)
        written = engine.flags(config, target.speculation, help_text=HELP)
        command = [*SERVER.split(), *target.service.extra_args, *written]
        engine.check_launch(command, config, max(target.concurrency))
        assert engine.read_launch(command).steps == steps

"""llama-server's command line and --help, as its adapter reads them."""

from __future__ import annotations

import pytest

from pytest_specdecode.config import Speculation
from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.engines.llamacpp_flags import SPECULATION, Help, known
from pytest_specdecode.launchers.llama_options import help_text
from tests.recordings.replay import argv

ENGINE = LlamaCpp()
CASES = {
    "off": (None, None),
    "draft-silent-off": (None, None),
    "draft-simple-2": ("draft-simple", 2),
    "ngram-mod-1": ("ngram-mod", 1),
    "ngram-mod-3": ("ngram-mod", 3),
    "ngram-mod-3-default-min": ("ngram-mod", 3),
}


@pytest.mark.parametrize("case", CASES)
def test_a_launch_command_tells_what_it_sets(case: str) -> None:
    launch = ENGINE.read_launch(argv(f"llamacpp/{case}"))
    assert (launch.algorithm, launch.steps) == CASES[case]
    assert (launch.model, launch.port, launch.nodes) == ("/models/gemma.gguf", 18211, 1)


def test_what_the_target_leaves_unsaid_comes_from_the_launch_command() -> None:
    launch = ENGINE.read_launch(argv("llamacpp/ngram-mod-3"))
    said = launch.complete(Speculation(args={"spec-ngram-mod-n-match": 4}))
    assert said.algorithm == "ngram-mod"
    assert said.args == {"spec-ngram-mod-n-match": 4, "spec-ngram-mod-n-min": "1"}
    draft = ENGINE.read_launch(argv("llamacpp/draft-simple-2")).complete(Speculation(algorithm="draft-mtp"))
    assert (draft.algorithm, draft.draft_model) == ("draft-mtp", "/models/d16.gguf")


def test_long_flags_may_have_underscores_and_the_last_of_two_holds() -> None:
    launch = ENGINE.read_launch(["llama-server", "--spec_type", "ngram-mod", "--port", "1", "--port", "2"])
    assert (launch.algorithm, launch.port) == ("ngram-mod", 2)


def test_older_names_are_read_too() -> None:
    words = "llama-server -hf org/model --spec-type ngram-simple --draft-max 5 --spec-ngram-size-n 3"
    launch = ENGINE.read_launch(words.split())
    assert (launch.steps, launch.model, launch.args) == (5, "org/model", {"spec-ngram-size-n": "3"})


@pytest.mark.parametrize(
    ("rpc", "nodes"),
    [("10.0.0.1:50052,10.0.0.2:50052", 3), ("127.0.0.1:50052", 1), ("10.0.0.1:1,10.0.0.1:2", 2)],
)
def test_rpc_servers_elsewhere_are_nodes(rpc: str, nodes: int) -> None:
    assert ENGINE.read_launch(["llama-server", "--rpc", rpc]).nodes == nodes


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("/opt/llama.cpp/llama-server -m x.gguf", "/opt/llama.cpp/llama-server"),
        ("numactl -m 0 llama-server -m x.gguf", "numactl -m 0 llama-server"),
        ("python3.12 -m some.launcher -m x.gguf", "python3.12 -m some.launcher"),
        ("env A=1 taskset -c 0 ./server -m x.gguf", "env A=1 taskset -c 0 ./server"),
        ("llama serve -m x.gguf", "llama serve"),
        ("./run.sh --fast", "./run.sh"),
    ],
)
def test_help_is_asked_of_the_program_behind_its_wrappers(command: str, program: str) -> None:
    assert ENGINE.help_argv(command.split()) == (*program.split(), "--help")


def test_without_speculation_nothing_else_changes() -> None:
    plain = ENGINE.without_speculation(argv("llamacpp/draft-simple-2"))
    assert plain[:-2] == tuple(argv("llamacpp/off"))
    assert plain[-2:] == ("--slot-save-path", "/slots/")


def test_every_spelling_of_every_speculation_flag_goes() -> None:
    for flag in SPECULATION:
        for spelling in flag.spellings:
            values = ["7"] * flag.values
            command = ["llama-server", "-c", "512", spelling, *values, "-t", "1"]
            assert ENGINE.without_speculation(command) == ("llama-server", "-c", "512", "-t", "1"), spelling


def test_a_baseline_does_not_depend_on_place_port_log_or_key() -> None:
    words = (
        "/usr/bin/llama-server -m /models/gemma.gguf --host 0.0.0.0 --port 8080 -c 512 --api-key k -lv 4 "
        "--log-file /var/log/x -md d.gguf --spec-type draft-simple --verbose --metrics"
    )
    assert ENGINE.identity_args(words.split()) == ("-m", "gemma.gguf", "-c", "512", "--metrics")


def test_help_lists_flags_that_work_and_leaves_out_removed_ones() -> None:
    current = Help.read(help_text())
    assert {"--spec-draft-n-max", "-md", "--model-draft", "--no-slots"} <= current.flags.keys()
    assert not {"--draft-max", "--draft", "--spec-ngram-size-m", "N", "-"} & current.flags.keys()
    assert {"none", "draft-simple", "ngram-map-k4v", "ngram-cache"} <= current.types()


def test_text_that_is_not_llama_servers_help_counts_as_unknown() -> None:
    for text in (
        "",
        "Usage: docker [OPTIONS]\n\n-v, --version   Print version",
        "-x, --model FILE   a model",
    ):
        assert Help.read(text).flags == {}


@pytest.mark.parametrize("name", ["spec-draft-n-min", "spec_draft_n_min", "--spec-draft-n-min"])
def test_settings_are_known_by_any_way_to_write_them(name: str) -> None:
    flag = known(name)
    assert flag is not None
    assert flag.name == "spec-draft-n-min"
    assert known("no-such-thing") is None

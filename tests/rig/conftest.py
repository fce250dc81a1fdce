"""Brings the rig up once, and each test a tidy one. Needs root on Debian 12, and to be asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.config import Target, read_targets
from pytest_specdecode.hosts.registry import make_host
from pytest_specdecode.hosts.roads import RoadHost
from pytest_specdecode.ledger import Ledger
from pytest_specdecode.run import Run

from . import bed

TOOLS = ("mmdebstrap", "ssh", "ssh-keygen", "ip", "nsenter", "unshare")
HOST = '[target.t.host]\nssh = "root@10.77.0.129"\n'
HYPERVISOR = '[target.t.hypervisor]\nssh = "root@10.77.0.2"\ncontainer = 129\n'
TOML = """
[target.t]
engine = "llamacpp"
url = "http://10.77.0.129:30000"
steps = [0, 1]
concurrency = [1]
{top}
[target.t.speculation]
algorithm = "ngram-mod"
{host}
{hypervisor}
[target.t.service]
systemd = "sglang-qwen.service"
ready_within = "20s"
{service}
[target.t.cleanup]
within = "{within}"
{cleanup}
[target.t.workload]
output_tokens = 16
requests = "max(c, 2)"
warmup_rounds = 1
rounds = 2
"""


def missing() -> str | None:
    """Why the rig cannot be used here."""
    if os.environ.get("SPECDECODE_RIG") != "1":
        return "the rig is not asked for (make test-rig, or SPECDECODE_RIG=1)"
    if os.geteuid() != 0:
        return "the rig needs root: it makes namespaces, mounts and a container"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"the rig needs {', '.join(absent)} (see tests/rig/README.md)" if absent else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    why = missing() if here else None
    if why is not None:
        for item in here:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def _bed() -> Iterator[bed.Rig]:
    rig = bed.bring_up()
    left = bed.in_network(os.environ.get("RIG_NAME", "rig"))
    home = os.environ.get("HOME", "/root")
    os.environ["HOME"] = str(rig.home)
    yield rig
    os.environ["HOME"] = home
    bed.join(left)
    bed.take_down()


@pytest.fixture
def rig(_bed: bed.Rig) -> bed.Rig:
    """The rig, tidy: unit stopped and as written by default, nothing else on the machines."""
    _bed.reset()
    return _bed


def toml(
    *,
    top: str = "",
    host: str = HOST,
    hypervisor: str = HYPERVISOR,
    service: str = "",
    cleanup: str = "",
    within: str = "10s",
) -> str:
    return TOML.format(
        top=top, host=host, hypervisor=hypervisor, service=service, cleanup=cleanup, within=within
    )


def target(**settings: str) -> Target:
    return read_targets(toml(**settings), Path("/"))["t"]


class Session:
    """What a benchmark session does with a machine, without pytest around it."""

    def __init__(self, **settings: Any) -> None:
        self.target = target(**settings)
        self.ledger = Ledger()
        self.said: list[str] = []
        host = make_host(self.target, self.ledger.add)
        self.run = Run(self.target, self.ledger, host=host, folder=Path("/"), say=self.said.append)

    def begin(self, steps: Sequence[int] = (0,)) -> Session:
        self.run.check([self.config(n) for n in steps], [1])
        return self

    @staticmethod
    def config(steps: int) -> Any:
        from pytest_specdecode.model import SpecConfig

        return SpecConfig.of(steps, algorithm="ngram-mod")

    @property
    def host(self) -> RoadHost:
        return self.run.host


@pytest.fixture
def session(rig: bed.Rig) -> Iterator[Any]:
    """Makes sessions; all are closed at the end."""
    made: list[Session] = []

    def make(**settings: Any) -> Session:
        made.append(Session(**settings))
        return made[-1]

    yield make
    for one in made:
        one.run.close()


TEST = """
def test_no_slower_than_baseline(measurement):
    assert measurement.tok_s > 0
"""


class Project:
    """A folder as a user has it: configuration, a test, and pytest in a process of its own."""

    def __init__(self, folder: Path, rig: bed.Rig) -> None:
        self.folder = folder
        self.rig = rig
        self.configure()
        (folder / "test_bench.py").write_text(TEST)

    def configure(self, **settings: Any) -> None:
        (self.folder / "specdecode.toml").write_text(toml(**settings))

    def start(self, *args: str) -> subprocess.Popen[str]:
        unused = (
            "order",
            "rerunfailures",
            "cov",
            *(() if any(a.startswith("-n") for a in args) else ("xdist",)),
        )
        off = [part for name in unused for part in ("-p", f"no:{name}")]
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *off, *args],
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def pytest(self, *args: str, status: int = 0) -> str:
        """What a whole run prints."""
        process = self.start(*args)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == status, said
        return said


@pytest.fixture
def project(rig: bed.Rig, tmp_path: Path) -> Project:
    return Project(tmp_path, rig)

"""Clean means proven; what cannot be proven is dirty, and says what is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pytest_specdecode import procfs
from pytest_specdecode.cleanroom import Finding, Room, Step, clean
from pytest_specdecode.errors import DirtyError, UnknownRunError
from pytest_specdecode.hosts.audit import AuditedHost
from pytest_specdecode.hosts.local import LocalHost
from pytest_specdecode.services import ServiceState
from pytest_specdecode.services.command import CommandService
from pytest_specdecode.services.external import ExternalService
from pytest_specdecode.services.registry import free_port
from tests.processes import DAEMONISES, LISTENS, SLEEPS, dies, lives, program, told


def ignore(text: str) -> None:
    pass


@pytest.fixture
def host() -> Iterator[AuditedHost]:
    audited = AuditedHost(LocalHost(), lambda record: None)
    yield audited
    audited.close()


class Stubborn:
    """A service with one process that needs ``rounds`` kills; -1: none helps."""

    kind = "stubborn"
    managed = True
    killed: Sequence[int] = ()

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def command(self, flags: Sequence[str], port: int) -> tuple[str, ...]:
        return ()

    def start(self, flags: Sequence[str], port: int, env: Mapping[str, str] | None = None) -> None: ...

    def state(self) -> ServiceState:
        return ServiceState(False)

    def instance(self) -> str:
        return ""

    def stop(self, *, within_s: float) -> None: ...

    def leftovers(self) -> Mapping[int, str]:
        return {4711: "sglang::scheduler_TP0 (root, in uninterruptible sleep)"} if self.rounds else {}

    def kill_leftovers(self) -> None:
        self.rounds -= 1

    def log_tail(self, lines: int = 20) -> list[str]:
        return []

    def restore(self) -> None: ...


def test_a_running_engine_is_stopped_and_its_end_proven(host: AuditedHost, tmp_path: Path) -> None:
    port = free_port()
    service = CommandService(host, program(LISTENS, tmp_path, "{port}"))
    service.start([], port)
    engine = told(tmp_path, "engine")
    said: list[str] = []
    proof = clean(host, service, port=port, within_s=60, progress=said.append)
    assert not lives(engine)
    assert engine[0] in proof.killed
    assert proof.proven == (
        "the service is stopped",
        "no process of an earlier start is left",
        f"port {port} is closed",
    )
    assert any(engine[0] in record.killed for record in proof.audit)
    assert said == [f"cleaning up: stop: the service still runs: {service.instance()}"]


def test_what_is_clean_already_is_left_alone(host: AuditedHost) -> None:
    proof = clean(host, CommandService(host, ["true"]), port=None, within_s=60, progress=ignore)
    assert len(proof.proven) == 2
    assert proof.seconds > 0


def test_children_of_a_dead_engine_are_ended(host: AuditedHost, tmp_path: Path) -> None:
    service = CommandService(host, program(DAEMONISES, tmp_path))
    service.start([], free_port())
    engine, daemon = told(tmp_path, "engine"), told(tmp_path, "daemon")
    procfs.send(*engine, signal.SIGKILL)
    dies(engine)
    assert lives(daemon)
    assert daemon[0] in service.leftovers()
    proof = clean(host, service, port=None, within_s=60, progress=ignore)
    assert not lives(daemon)
    assert daemon[0] in proof.killed


def test_what_an_earlier_session_could_not_end_is_ended(host: AuditedHost, tmp_path: Path) -> None:
    mark = f"4194304.1.{procfs.pid_namespace()}"
    process = subprocess.Popen(program(SLEEPS, tmp_path), env={**os.environ, procfs.MARK: mark})
    try:
        # Another session on this machine may be faster, so who ended it is not looked at.
        clean(host, CommandService(host, ["true"]), port=None, within_s=60, progress=ignore)
        assert process.wait() in {-signal.SIGTERM, -signal.SIGKILL}
    finally:
        process.kill()
        process.wait()


def test_a_foreign_process_on_the_port_is_named_and_never_killed(host: AuditedHost, tmp_path: Path) -> None:
    port = free_port()
    foreign = subprocess.Popen(program(LISTENS, tmp_path, port, "--api-key", "hidden"))
    engine = told(tmp_path, "engine")
    try:
        with pytest.raises(DirtyError) as error:
            clean(host, Stubborn(0), port=port, within_s=0.3, progress=ignore)
        lines = str(error.value).splitlines()
        assert "step 'port'" in lines[0]
        assert "not ours to kill" in lines[0]
        assert lines[1].startswith(f"  port {port} is held by pid {foreign.pid}: ")
        assert f"({procfs.owner(foreign.pid)})" in lines[1]
        assert "hidden" not in str(error.value)
        assert lives(engine)
    finally:
        foreign.kill()
        foreign.wait()


def test_it_waits_for_a_port_that_is_closing(host: AuditedHost, tmp_path: Path) -> None:
    port = free_port()
    foreign = subprocess.Popen(program(LISTENS, tmp_path, port))
    told(tmp_path, "engine")
    said: list[str] = []

    def progress(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            foreign.kill()
            foreign.wait()

    proof = clean(host, Stubborn(0), port=port, within_s=60, progress=progress)
    assert f"port {port} is closed" in proof.proven
    assert len(said) >= 2


def test_what_does_not_die_is_dirty_with_what_was_tried() -> None:
    with pytest.raises(DirtyError) as error:
        clean(LocalHost(), Stubborn(-1), port=None, within_s=1.3, progress=ignore)
    message = str(error.value)
    assert "pid 4711: sglang::scheduler_TP0 (root, in uninterruptible sleep)" in message
    assert "after SIGTERM, then SIGKILL (" in message
    assert "cleanup.within" in message


def test_acting_is_repeated_until_it_helps() -> None:
    service = Stubborn(2)
    proof = clean(LocalHost(), service, port=None, within_s=60, progress=ignore)
    assert service.rounds == 0
    assert "no process of an earlier start is left" in proof.proven


def test_a_host_that_cannot_be_looked_at_is_dirty() -> None:
    def blind(room: Room) -> list[Finding]:
        raise UnknownRunError("rack7: the link broke")

    step = Step("look", blind, "looking", "seen")
    with pytest.raises(DirtyError, match=r"cannot prove .* step 'look' .*rack7: the link broke"):
        clean(LocalHost(), Stubborn(0), port=None, within_s=1, progress=ignore, steps=[step])


def test_a_supervisor_that_does_not_answer_is_no_clean_environment(
    host: AuditedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = CommandService(host, program(SLEEPS, tmp_path))
    service.start([], free_port())
    engine = told(tmp_path, "engine")
    supervisor = procfs.table()[engine[0]].parent
    monkeypatch.setattr("pytest_specdecode.hosts.child._ANSWER_S", 0.2)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        assert "nobody knows whether it runs" in service.state().detail
        with pytest.raises(
            DirtyError, match=r"could not look or act: the supervisor of pid \d+ did not answer"
        ):
            clean(host, service, port=None, within_s=1, progress=ignore)
    finally:
        os.kill(supervisor, signal.SIGCONT)
        monkeypatch.undo()
    clean(host, service, port=None, within_s=60, progress=ignore)
    assert not lives(engine)


def test_many_findings_are_counted() -> None:
    step = Step("look", lambda room: [Finding(f"pid {n}") for n in range(9)], "looking", "seen")
    with pytest.raises(DirtyError, match="and 5 more") as error:
        clean(LocalHost(), Stubborn(0), port=None, within_s=0, progress=ignore, steps=[step])
    assert len(str(error.value).splitlines()) <= 7


def test_an_external_engine_is_described_and_nothing_is_proven(host: AuditedHost, tmp_path: Path) -> None:
    port = free_port()
    child = host.spawn(program(LISTENS, tmp_path, port))
    engine = told(tmp_path, "engine")
    service = ExternalService(host, f"http://127.0.0.1:{port}")
    proof = clean(host, service, port=None, within_s=1, progress=ignore)
    assert proof.proven == ()
    assert proof.notes == ("external: nothing was stopped, killed or proven", f"it runs as {child.instance}")
    assert lives(engine)

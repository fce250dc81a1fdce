"""Services with real processes: launched, seen to die, stopped."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_specdecode import procfs
from pytest_specdecode.errors import BrokenError
from pytest_specdecode.hosts import processes
from pytest_specdecode.hosts.audit import AuditedHost
from pytest_specdecode.hosts.local import LocalHost
from pytest_specdecode.ledger import CommandRecord
from pytest_specdecode.services.command import CommandService
from pytest_specdecode.services.external import ExternalService
from pytest_specdecode.services.portwatch import local_port
from pytest_specdecode.services.registry import free_port
from pytest_specdecode.services.startstop import StartStopService
from tests.processes import LISTENS, SLEEPS, dies, lives, program, told, until


@pytest.fixture
def trail() -> list[CommandRecord]:
    return []


@pytest.fixture
def host(trail: list[CommandRecord]) -> Iterator[AuditedHost]:
    audited = AuditedHost(LocalHost(), trail.append)
    yield audited
    audited.close()


def detached(folder: Path) -> StartStopService:
    """A service of the user's own: start leaves a daemon behind, stop ends it by the pid that it told."""
    words = program(LISTENS, folder, "{port}", "{flags}")
    start = ["sh", "-c", '"$@" > /dev/null 2>&1 &', "sh", *words]
    stop = ["sh", "-c", f"cat {folder}/engine | xargs kill"]
    return StartStopService(LocalHost(), start, stop, key="target.t.service")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[StartStopService]:
    service = detached(tmp_path)
    yield service
    service.restore()
    if (tmp_path / "engine").exists():
        found = procfs.process(int((tmp_path / "engine").read_text()))
        if found is not None:
            procfs.send(found.pid, found.start, signal.SIGKILL)


def test_a_command_runs_until_it_is_stopped(host: AuditedHost, tmp_path: Path) -> None:
    service = CommandService(host, program(SLEEPS, tmp_path, "{port}", "{flags}"), extra_args=["--metrics"])
    assert not service.state().running
    service.start(["--draft", "2"], free_port())
    engine = told(tmp_path, "engine")
    assert service.state().running
    assert service.instance() == f"{engine[0]}:{engine[1]}"
    assert procfs.argv(engine[0])[-3:] == ["--draft", "2", "--metrics"]
    service.stop(within_s=30)
    assert not lives(engine)
    assert service.state().detail == "killed by SIGTERM"
    assert engine[0] not in service.leftovers()
    assert service.killed == (engine[0],)


def test_another_start_is_another_instance(host: AuditedHost, tmp_path: Path) -> None:
    service = CommandService(host, program(SLEEPS, tmp_path))
    service.start([], free_port())
    first = service.instance()
    with pytest.raises(BrokenError, match="has not ended, stop it first: pid"):
        service.start([], free_port())
    service.stop(within_s=30)
    service.start([], free_port())
    assert service.instance() != first


def test_a_start_that_dies_is_seen_with_status_and_log(host: AuditedHost) -> None:
    script = "echo 'args: api_key=$KEY, model=m.gguf'; echo \"api_key='$A_KEY'\"; exit 4"
    service = CommandService(host, ["sh", "-c", script], env={"A_KEY": "hidden value"}, secrets=["model"])
    service.start([], free_port())
    until(lambda: not service.state().running)
    assert service.state().detail == "exit status 4"
    assert service.log_tail() == ["args: api_key=***, ***=m.gguf", "api_key=***"]


def test_an_end_by_somebody_else_is_told_apart(host: AuditedHost, tmp_path: Path) -> None:
    service = CommandService(host, program(SLEEPS, tmp_path))
    service.start([], free_port())
    procfs.send(*told(tmp_path, "engine"), signal.SIGKILL)
    until(lambda: not service.state().running)
    assert service.state().detail.startswith("killed by SIGKILL, and not by us")


def test_a_missing_program_is_broken_at_once(host: AuditedHost) -> None:
    with pytest.raises(BrokenError, match="could not be launched: local: `nonesuch`"):
        CommandService(host, ["nonesuch"]).start([], free_port())


def test_a_taken_port_names_its_holder(host: AuditedHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(BrokenError, match=rf"port {port} is taken by pid {os.getpid()}: "):
            CommandService(host, ["true"]).start([], port)


def test_restore_ends_it_and_never_raises(host: AuditedHost, tmp_path: Path) -> None:
    service = CommandService(host, program(SLEEPS, tmp_path))
    service.restore()
    service.start([], free_port())
    engine = told(tmp_path, "engine")
    service.restore()
    dies(engine)


def test_users_own_commands_start_and_stop(own: StartStopService, tmp_path: Path) -> None:
    port = free_port()
    own.start(["--draft", "2"], port)
    engine = told(tmp_path, "engine")
    assert procfs.argv(engine[0])[-2:] == ["--draft", "2"]
    assert own.instance() == f"{engine[0]}:{engine[1]}"
    assert own.state().running
    own.stop(within_s=30)
    dies(engine)
    assert not own.state().running
    assert own.leftovers() == {}


def test_users_own_engine_that_dies_is_seen(
    own: StartStopService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_specdecode.services.portwatch._LOOK_EVERY_S", 0.0)
    port = free_port()
    own.start([], port)
    engine = told(tmp_path, "engine")
    assert own.state().running
    procfs.send(*engine, signal.SIGKILL)
    dies(engine)
    assert own.state().detail == f"nothing listens on port {port} any more"


def test_a_start_command_that_fails_is_broken_with_what_it_said() -> None:
    start = ["sh", "-c", "echo no such image >&2; exit 125", "--api-key", "hidden"]
    service = StartStopService(LocalHost(), start, ["true"])
    with pytest.raises(BrokenError, match=r"(?s)'\*\*\*'` failed with status 125:.*no such image") as error:
        service.start([], free_port())
    assert "hidden" not in str(error.value)


def test_a_start_command_that_stays_in_the_foreground_is_told_where_it_belongs() -> None:
    service = StartStopService(LocalHost(), ["sleep", "600"], ["true"], start_within_s=0.2)
    with pytest.raises(BrokenError, match=r"belongs into service\.command"):
        service.start([], free_port())


def test_a_stop_command_that_fails_is_quoted(own: StartStopService, tmp_path: Path) -> None:
    port = free_port()
    own.start([], port)
    engine = told(tmp_path, "engine")
    (tmp_path / "engine").rename(tmp_path / "elsewhere")
    own.stop(within_s=30)
    state = own.state()
    assert state.running
    assert f"port {port} is held by pid {engine[0]}: " in state.detail
    assert "service.stop ended with status 123" in state.detail
    (tmp_path / "elsewhere").rename(tmp_path / "engine")


def test_what_ran_before_us_runs_again_afterwards(tmp_path: Path) -> None:
    port = free_port()
    detached(tmp_path).start([], port)
    before = told(tmp_path, "engine")
    words = program(LISTENS, tmp_path, "{port}", "{flags}")
    service = StartStopService(
        LocalHost(),
        ["sh", "-c", '"$@" > /dev/null 2>&1 &', "sh", *words],
        ["sh", "-c", f"cat {tmp_path}/engine | xargs kill"],
        port=port,
    )
    service.stop(within_s=30)
    dies(before)
    (tmp_path / "engine").unlink()
    service.restore()
    again = told(tmp_path, "engine")
    until(lambda: not processes.port_use(LocalHost(), port).closed)
    procfs.send(*again, signal.SIGKILL)
    dies(again)


def test_a_plan_of_the_users_own_commands_runs_none_of_them() -> None:
    port = free_port()
    service = StartStopService(
        LocalHost(), ["up", "{port}", "{flags}"], ["down", "{port}"], port=port, env={"GPU": "1"}
    )
    assert service.stop_plan() == []  # nothing listens
    assert service.start_plan(["--steps", "2"], port) == [("env", "GPU=1", "up", str(port), "--steps", "2")]
    assert service.restore_plan() == [("env", "GPU=1", "down", str(port))]
    assert StartStopService(LocalHost(), ["up", "{flags}"], ["down", "{port}"]).restore_plan() == [
        ("down", "{port}")
    ]


def test_an_external_engine_is_never_touched(
    tmp_path: Path, trail: list[CommandRecord], host: AuditedHost
) -> None:
    port = free_port()
    child = LocalHost().spawn(program(LISTENS, tmp_path, port))
    engine = told(tmp_path, "engine")
    service = ExternalService(host, f"http://127.0.0.1:{port}")
    service.start([], port)
    service.stop(within_s=0.1)
    service.kill_leftovers()
    service.restore()
    assert lives(engine)
    assert service.state().running
    assert service.instance() == child.instance
    assert all(record.argv[1:3] == ("-", "port") for record in trail)
    assert child.stop(within_s=30)


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://127.0.0.1:8000", 8000),
        ("http://localhost", 80),
        ("https://[::1]/v1", 443),
        ("http://192.0.2.7:8000", None),
        (None, None),
    ],
)
def test_listeners_are_looked_for_on_this_machine_alone(url: str | None, port: int | None) -> None:
    assert local_port(url) == port

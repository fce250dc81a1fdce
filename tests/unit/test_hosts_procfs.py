"""Processes and ports as /proc tells them, and signals that reach the right process or none."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdecode import procfs, questions
from pytest_specdecode.errors import UnknownRunError
from pytest_specdecode.hosts import CommandResult, processes
from pytest_specdecode.hosts.local import LocalHost
from pytest_specdecode.services.registry import free_port
from tests.processes import LISTENS, SLEEPS, lives, program, told, until

HOST = LocalHost()
NUMBERS = st.integers(0, 2**31)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def key(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    found = procfs.process(process.pid)
    assert found is not None
    return found.pid, found.start


@given(
    name=st.text(st.characters(exclude_characters="\0"), max_size=15),
    pid=NUMBERS,
    parent=NUMBERS,
    start=NUMBERS,
    state=st.sampled_from("RSDZTtXI"),
    flags=NUMBERS,
)
def test_stat_is_read_whatever_the_process_calls_itself(
    name: str, pid: int, parent: int, start: int, state: str, flags: int
) -> None:
    tail = [state, parent, 5, 5, 0, -1, flags, *[0] * 12, start, 1000, 20]
    found = procfs.parse_stat(f"{pid} ({name}) {' '.join(map(str, tail))}\n")
    assert found == procfs.Process(pid, start, parent, state, bool(flags & 0x200000))
    assert found.alive == (state not in "ZX")


@given(st.lists(st.tuples(st.integers(1, 65535), st.sampled_from(["0A", "01", "06"]), NUMBERS), max_size=20))
def test_only_listeners_of_the_port_are_found(rows: list[tuple[int, str, int]]) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
    lines = [
        f" {i}: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 0  1000   0 {inode} 1"
        for i, (port, state, inode) in enumerate(rows)
    ]
    for wanted in {port for port, _, _ in rows} | {30000}:
        expected = {inode: 1000 for port, state, inode in rows if port == wanted and state == "0A"}
        assert procfs.parse_tcp("\n".join([head, *lines]), wanted) == expected


@given(st.dictionaries(st.integers(1, 30), st.integers(0, 30), max_size=30))
def test_descendants_of_any_table_are_found_once(parents: dict[int, int]) -> None:
    table = {pid: procfs.Process(pid, pid, parent, "S", False) for pid, parent in parents.items()}
    for root in range(31):
        found = [p.pid for p in procfs.descendants(table, root)]
        assert len(found) == len(set(found))
        assert root not in found
        for pid in table:
            above = [table[p].parent for p in procfs.lineage(table, pid)]
            assert (pid in found) == (root in above and pid != root)


def test_a_process_is_signalled_by_pid_and_start_time_together(bystander: subprocess.Popen[bytes]) -> None:
    pid, start = key(bystander)
    assert not procfs.send(pid, start + 1, signal.SIGKILL)
    assert lives((pid, start))
    assert procfs.send(pid, start, signal.SIGKILL)
    bystander.wait()
    assert not procfs.send(pid, start, signal.SIGKILL)


def test_never_killed_whatever_is_asked(bystander: subprocess.Popen[bytes]) -> None:
    kernel = next((p for p in procfs.table().values() if p.kernel), None)
    ancestors = procfs.lineage(procfs.table(), os.getpid())
    keys = [(pid, found.start) for pid in {1, *ancestors} if (found := procfs.process(pid)) is not None]
    keys += [(kernel.pid, kernel.start)] if kernel is not None else []
    # Signal 0 checks alone: were a rule missing, this test would fail, not end the machine.
    outcome = processes.send(HOST, signal.Signals.SIGCONT, keys)
    assert outcome.signalled == ()
    assert set(outcome.refused) == {pid for pid, _ in keys}
    assert outcome.refused[1] == "PID 1"
    assert "own process or an ancestor" in outcome.refused[os.getpid()]
    assert processes.send(HOST, signal.SIGCONT, [key(bystander)]).signalled == (bystander.pid,)


def test_names_are_protected_by_executable_not_by_title(tmp_path: Path) -> None:
    copy = tmp_path / "nvidia-cuda-mps-server-long-name"
    copy.write_bytes(Path("/bin/sleep").read_bytes())
    copy.chmod(0o755)
    process = subprocess.Popen(["harmless", "600"], executable=copy)
    try:
        until(lambda: procfs.program(process.pid) == copy.name)
        outcome = processes.send(HOST, signal.SIGKILL, [key(process)])
        assert outcome.refused == {process.pid: f"protected by name ({copy.name})"}
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_port_names_its_holder(tmp_path: Path) -> None:
    port = free_port()
    child = HOST.spawn(program(LISTENS, tmp_path, port, "--api-key", "hidden"))
    told(tmp_path, "engine")
    use = processes.port_use(HOST, port)
    assert not use.closed
    assert use.instances == (child.instance,)
    assert [p.pid for p in use.holders] == [child.pid]
    assert "hidden" not in str(use)
    assert f"pid {child.pid}: " in str(use)
    assert child.stop(within_s=30)
    assert processes.port_use(HOST, port).closed


def test_a_listener_without_a_visible_holder_is_still_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "holders", lambda inodes: {})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = questions.ask_port(str(listener.getsockname()[1]))
    assert found["holders"] == []
    assert len(found["sockets"]) == 1
    assert found["answers"]


def test_a_socket_table_that_cannot_be_read_is_no_closed_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(procfs, "PROC", tmp_path)
    with pytest.raises(OSError, match="tcp"):
        procfs.listening(30000)


def test_a_free_port_can_be_bound_and_is_no_outgoing_one() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in (free_port(), free_port(HOST)):
        assert port < lowest
        socket.create_server(("127.0.0.1", port)).close()


def test_what_a_dead_supervisor_left_is_an_orphan_in_its_own_pid_namespace_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A namespace that is not this one, so that no other session takes it for an orphan of its own.
    process = subprocess.Popen(program(SLEEPS, tmp_path), env={**os.environ, procfs.MARK: "4194304.1.4242"})
    try:
        engine = told(tmp_path, "engine")
        assert engine not in {p.key for p in processes.orphans(HOST)}
        monkeypatch.setattr(procfs, "pid_namespace", lambda pid="self": "4242")
        assert engine[0] in {p["pid"] for p in questions.ask_orphans()}
        monkeypatch.setattr(procfs, "owner", str)
        assert engine[0] not in {p["pid"] for p in questions.ask_orphans()}
    finally:
        process.kill()
        process.wait()


def test_a_living_supervisor_has_no_orphans(tmp_path: Path) -> None:
    child = HOST.spawn(program(SLEEPS, tmp_path))
    engine = told(tmp_path, "engine")
    assert engine not in {p.key for p in processes.orphans(HOST)}
    assert child.stop(within_s=30)


def test_a_question_that_fails_says_where_and_why() -> None:
    class NoPython(LocalHost):
        def run(self, argv: object, *, timeout: float, stdin: bytes = b"") -> CommandResult:
            return CommandResult((), 127, "", "sh: python3: not found\n", 0.0)

    with pytest.raises(UnknownRunError, match=r"rack7: .*status 127.*python3: not found"):
        processes.port_use(NoPython("rack7"), 1)

"""Nothing that was started outlives the session, however that ends. Real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_specdecode import procfs, proctree, supervisor
from pytest_specdecode.errors import NotRunError
from pytest_specdecode.hosts.local import LocalHost
from tests.processes import (
    DAEMON_IGNORES_SIGTERM,
    DAEMONISES,
    IGNORES_SIGTERM,
    SECOND_SIGTERM,
    SLEEPS,
    Key,
    dies,
    lives,
    program,
    told,
    until,
)

# A session of its own process: starts the program, then waits to be ended.
SESSION = """\
import os, sys, time
from pytest_specdecode.hosts.local import LocalHost
child = LocalHost().spawn(sys.argv[2:])
if os.path.exists(os.path.join(sys.argv[1], "fork")) and os.fork() == 0:
    open(os.path.join(sys.argv[1], "forked.new"), "w").write(str(os.getpid()))
    os.rename(os.path.join(sys.argv[1], "forked.new"), os.path.join(sys.argv[1], "forked"))
time.sleep(600)
"""


@pytest.fixture
def host() -> Iterator[LocalHost]:
    with_children = LocalHost()
    yield with_children
    with_children.close()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-c", SESSION, str(tmp_path), *program(DAEMON_IGNORES_SIGTERM, tmp_path)]
    (tmp_path / "fork").touch()
    process = subprocess.Popen(argv, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def supervisors(pid: int) -> tuple[int, int]:
    """(keeper, supervisor) above a program."""
    processes = procfs.table()
    return processes[processes[pid].parent].parent, processes[pid].parent


def test_kill_9_of_the_session_leaves_nothing(session: subprocess.Popen[bytes], tmp_path: Path) -> None:
    engine, daemon, forked = (told(tmp_path, name) for name in ("engine", "daemon", "forked"))
    session.kill()
    try:
        # Even though a fork of the session still holds the supervisor's pipe open.
        dies(engine, daemon)
        assert lives(forked)
    finally:
        procfs.send(*forked, signal.SIGKILL)


def test_ctrl_c_reaches_the_session_and_not_the_program(
    session: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    engine, forked = told(tmp_path, "engine"), told(tmp_path, "forked")
    assert os.getsid(engine[0]) != os.getsid(session.pid)
    os.killpg(session.pid, signal.SIGINT)
    session.wait()
    procfs.send(*forked, signal.SIGKILL)
    dies(engine)


@pytest.mark.parametrize("victim", ["keeper", "supervisor"])
def test_the_tree_ends_when_its_supervisor_is_killed(host: LocalHost, tmp_path: Path, victim: str) -> None:
    child = host.spawn(program(DAEMONISES, tmp_path))
    engine, daemon = told(tmp_path, "engine"), told(tmp_path, "daemon")
    keeper, inner = supervisors(child.pid)
    os.kill(keeper if victim == "keeper" else inner, signal.SIGKILL)
    dies(engine, daemon)
    assert child.poll() is not None
    assert child.stop(within_s=5)


def test_a_program_whose_supervisors_are_all_killed_dies_with_them(host: LocalHost, tmp_path: Path) -> None:
    child = host.spawn(program(SLEEPS, tmp_path))
    engine = told(tmp_path, "engine")
    for pid in supervisors(child.pid):
        os.kill(pid, signal.SIGKILL)
    dies(engine)


def test_stop_ends_children_that_left_by_double_fork(host: LocalHost, tmp_path: Path) -> None:
    child = host.spawn(program(DAEMONISES, tmp_path))
    engine, daemon = told(tmp_path, "engine"), told(tmp_path, "daemon")
    assert set(child.descendants()) == {engine[0], daemon[0]}
    assert child.stop(within_s=30)
    assert not lives(engine)
    assert not lives(daemon)
    assert set(child.killed) == {engine[0], daemon[0]}
    assert child.descendants() == {}


def test_who_ignores_sigterm_is_killed(host: LocalHost, tmp_path: Path) -> None:
    child = host.spawn(program(IGNORES_SIGTERM, tmp_path))
    told(tmp_path, "engine")
    assert child.stop(within_s=3)
    assert child.poll() == -signal.SIGKILL


def test_who_needs_a_second_sigterm_gets_it(host: LocalHost, tmp_path: Path) -> None:
    child = host.spawn(program(SECOND_SIGTERM, tmp_path))
    told(tmp_path, "engine")
    assert child.stop(within_s=10)
    assert child.poll() == 7


def test_an_end_is_seen_with_its_status_and_last_lines(host: LocalHost) -> None:
    source = (
        "import sys; print('loading\\rloading 50%'); print('no such model', file=sys.stderr); sys.exit(3)"
    )
    child = host.spawn([sys.executable, "-c", source])
    until(lambda: child.poll() is not None)
    assert child.poll() == 3
    assert sorted(child.log_tail()) == ["loading 50%", "no such model"]
    assert child.stop(within_s=5)
    assert child.log_tail(1) != []


def test_a_missing_program_did_not_run(host: LocalHost) -> None:
    with pytest.raises(NotRunError, match=r"nonesuch.*No such file"):
        host.spawn(["nonesuch", "--api-key", "abc"])


def test_environment_and_arguments_arrive(host: LocalHost) -> None:
    words = ["a b", "", "quo\"te's", "$HOME", "new\nline", "ü"]
    source = "import os, sys; print(ascii(sys.argv[1:]), os.environ['KNOB'])"
    child = host.spawn([sys.executable, "-c", source, *words], env={"KNOB": "7"})
    until(lambda: child.poll() == 0)
    assert child.log_tail() == [f"{words!a} 7"]


def test_closing_the_host_ends_everything(tmp_path: Path) -> None:
    host = LocalHost()
    child = host.spawn(program(DAEMONISES, tmp_path))
    keys: list[Key] = [told(tmp_path, "engine"), told(tmp_path, "daemon")]
    above = supervisors(child.pid)
    host.close()
    assert not any(map(lives, keys))
    assert not any(procfs.process(pid) for pid in above)


def test_protected_descendants_are_left_alone(host: LocalHost, tmp_path: Path) -> None:
    copy = tmp_path / "nvidia-cuda-mps-control"
    copy.write_bytes(Path("/bin/sleep").read_bytes())
    copy.chmod(0o755)
    script = f"cd {tmp_path}; {copy} 600 & echo $! > mps.new; mv mps.new mps; wait"
    child = host.spawn(["sh", "-c", script])
    key = told(tmp_path, "mps")
    until(lambda: procfs.program(key[0]) == copy.name)
    try:
        assert child.stop(within_s=10)
        assert lives(key)
        assert key[0] not in child.killed
    finally:
        procfs.send(*key, signal.SIGKILL)


def test_the_log_keeps_its_newest_part_while_the_program_writes() -> None:
    log = supervisor.Log(limit=4000)
    writer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log.fileno(), text=True)
    assert writer.stdin is not None
    writer.stdin.writelines(f"line {i} {'x' * 20}\n" for i in range(300))
    writer.stdin.flush()
    until(lambda: any("line 299" in line for line in log.tail(1)))
    log.shorten()
    assert os.fstat(log.fileno()).st_size < 1200
    writer.stdin.write("after\n")
    writer.stdin.close()
    writer.wait()
    lines = log.tail(1000)
    assert lines[0] == "[older output dropped]"
    assert lines[-2].startswith("line 299")
    assert lines[-1] == "after"
    log.close()


@pytest.mark.parametrize(
    ("now", "asked", "is_root", "root_lives", "expected"),
    [
        (0.0, [], True, True, signal.SIGTERM),
        (0.0, [], False, True, None),
        (0.0, [], False, False, signal.SIGTERM),
        (1.0, [0.0], True, True, None),
        (5.0, [0.0], True, True, signal.SIGTERM),
        (6.0, [0.0, 5.0], True, True, None),
        (5.0, [], False, True, signal.SIGTERM),
        (2.1, [0.0], False, False, signal.SIGKILL),
        (20.0, [0.0, 5.0], True, True, signal.SIGKILL),
        (20.0, [], False, True, signal.SIGKILL),
    ],
)
def test_signals_come_in_order(
    now: float, asked: list[float], is_root: bool, root_lives: bool, expected: signal.Signals | None
) -> None:
    assert proctree.due(now, 60.0, asked, is_root=is_root, root_lives=root_lives) == expected

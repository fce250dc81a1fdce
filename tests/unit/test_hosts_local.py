"""Commands on this machine: they run to their end, are known not to have run, or nobody knows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdecode import procfs
from pytest_specdecode.errors import NotRunError, UnknownRunError
from pytest_specdecode.hosts.local import LocalHost
from tests.processes import DAEMONISES, IGNORES_SIGTERM, dies, lives, program, told, until

HOST = LocalHost()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which processes tell their pids; what still lives there afterwards is ended."""
    yield tmp_path
    for name in ("engine", "daemon"):
        if (tmp_path / name).exists():
            found = procfs.process(int((tmp_path / name).read_text()))
            if found is not None:
                procfs.send(found.pid, found.start, signal.SIGKILL)


def test_a_command_that_fails_is_a_result() -> None:
    result = HOST.run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=60)
    assert (result.status, result.stdout, result.stderr) == (3, "out\n", "err\n")


def test_death_by_a_signal_is_a_negative_status() -> None:
    assert HOST.run(["sh", "-c", "kill -9 $$"], timeout=60).status == -9


def test_a_missing_program_did_not_run() -> None:
    with pytest.raises(NotRunError, match="`nonesuch --api-key '\\*\\*\\*'` cannot be run"):
        HOST.run(["nonesuch", "--api-key", "abc"], timeout=60)


@pytest.mark.parametrize("argv", [[], ["true", "nul\0byte"]])
def test_what_cannot_be_a_command_did_not_run(argv: list[str]) -> None:
    with pytest.raises(NotRunError):
        HOST.run(argv, timeout=60)


def test_large_output_on_both_streams_arrives_whole() -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' a; head -c 3000000 /dev/zero | tr '\\0' b >&2"
    result = HOST.run(["sh", "-c", script], timeout=60)
    assert (result.stdout, result.stderr) == ("a" * 3_000_000, "b" * 3_000_000)


def test_stdin_arrives_and_ends() -> None:
    assert HOST.run(["wc", "-c"], timeout=60, stdin=b"x" * 2_000_000).stdout.strip() == "2000000"
    assert HOST.run(["cat"], timeout=60).stdout == ""


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20), max_size=5))
def test_arguments_arrive_as_they_are(words: list[str]) -> None:
    result = HOST.run(["printf", "%s\\0", "-", *words], timeout=60)
    assert result.stdout.split("\0")[1:-1] == words


def test_a_deadline_kills_the_whole_process_group(folder: Path) -> None:
    script = f'echo working >&2; {sys.executable} -S -c "$1" {folder} & wait'
    with pytest.raises(UnknownRunError, match="did not end within 2 s and was killed; it said: working"):
        HOST.run(["sh", "-c", script, "sh", IGNORES_SIGTERM], timeout=2)
    found = procfs.process(int((folder / "engine").read_text())) if (folder / "engine").exists() else None
    if found is not None:
        dies((found.pid, found.start))


def test_a_daemon_left_behind_neither_holds_up_nor_dies_of_its_closed_output(folder: Path) -> None:
    script = "(while true; do echo tick; sleep 0.01; done) & echo $! > engine.new; mv engine.new engine"
    HOST.run(["sh", "-c", f"cd {folder}; {script}"], timeout=60)
    daemon = told(folder, "engine")
    time.sleep(0.1)  # time to write, and to die of it
    assert lives(daemon)


def test_ctrl_c_ends_the_running_command(folder: Path) -> None:
    def interrupt() -> None:
        until((folder / "engine").exists)
        os.kill(os.getpid(), signal.SIGINT)

    waiter = threading.Thread(target=interrupt)
    waiter.start()
    with pytest.raises(KeyboardInterrupt):
        HOST.run(program(IGNORES_SIGTERM, folder), timeout=60)
    waiter.join()
    assert procfs.process(int((folder / "engine").read_text())) is None


def test_a_forgotten_session_needs_no_close(folder: Path) -> None:
    script = (
        "import sys; from pytest_specdecode.hosts.local import LocalHost\n"
        "child = LocalHost().spawn(sys.argv[2:])\n"
        "while not child.log_tail() and not __import__('os').path.exists(sys.argv[1] + '/daemon'): pass"
    )
    argv = [sys.executable, "-W", "ignore", "-c", script, str(folder), *program(DAEMONISES, folder)]
    assert subprocess.run(argv, check=False).returncode == 0
    for name in ("engine", "daemon"):
        if (folder / name).exists() and (found := procfs.process(int((folder / name).read_text()))):
            dies((found.pid, found.start))

"""Small programs that misbehave in one way each, and how to see whether they live."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from pytest_specdecode import procfs

DEADLINE_S = 60.0
"""Far beyond what a slow machine needs: it only ends a test that would hang."""

Key = tuple[int, int]

_WRITE = """\
import os, signal, sys, time
def tell(name):
    with open(os.path.join(sys.argv[1], name + ".new"), "w") as file:
        file.write(str(os.getpid()))
    os.rename(file.name, os.path.join(sys.argv[1], name))
"""
SLEEPS = _WRITE + "tell('engine'); time.sleep(600)"
IGNORES_SIGTERM = _WRITE + "signal.signal(signal.SIGTERM, signal.SIG_IGN); tell('engine'); time.sleep(600)"
SECOND_SIGTERM = _WRITE + (
    "seen = []\n"
    "def term(*_):\n"
    "    seen.append(1)\n"
    "    if len(seen) == 2: sys.exit(7)\n"
    "signal.signal(signal.SIGTERM, term); tell('engine')\n"
    "while True: time.sleep(0.01)"
)
DAEMONISES = _WRITE + (
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "    tell('daemon'); time.sleep(600)\n"
    "os.wait(); tell('engine'); time.sleep(600)"
)
DAEMON_IGNORES_SIGTERM = DAEMONISES.replace(
    "tell('daemon')", "signal.signal(signal.SIGTERM, signal.SIG_IGN); tell('daemon')"
)
LISTENS = _WRITE + (
    "import socket\n"
    "listener = socket.create_server(('127.0.0.1', int(sys.argv[2]))); tell('engine'); time.sleep(600)"
)


def program(source: str, *words: object) -> list[str]:
    """The argv of one of the programs above; its first word is the folder where it tells its pid."""
    return [sys.executable, "-S", "-c", source, *map(str, words)]


def until(what: Callable[[], object], *, within_s: float = DEADLINE_S) -> None:
    """Wait until ``what()`` is true."""
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, f"not so within {within_s:g} s"
        time.sleep(0.01)


def told(folder: Path, name: str) -> Key:
    """(pid, start time) of the process that tells its pid under ``name``."""
    until((folder / name).exists)
    found = procfs.process(int((folder / name).read_text()))
    assert found is not None, f"{name} lives no more"
    return found.pid, found.start


def lives(key: Key) -> bool:
    found = procfs.process(key[0])
    return found is not None and found.start == key[1] and found.alive


def dies(*keys: Key) -> None:
    """Wait until none of them lives."""
    until(lambda: not any(map(lives, keys)))

"""Runs one program and ends it with all its descendants when its own parent goes, however that ends.

Two processes: the *supervisor* starts the program, answers on stdin/stdout and ends the tree; the *keeper*
above it does nothing but end what is left if the supervisor is killed. Both are subreapers: what daemonises
is re-parented to them instead of to PID 1. If the keeper is killed, the supervisor ends the tree; if both
are, the kernel kills the program itself (PR_SET_PDEATHSIG), and by the mark in its environment the next run
finds what is left.

Standard library only and nothing beyond Python 3.9: it is sent to the machine where the program runs.

Protocol, one JSON object a line: the first line is ``{"argv", "env", "cwd", "watch"}``, answered
by ``{"pid", "start"}``, or ``{"error"}`` when the program was not started; then requests ``{"id", "do", …}``
(:data:`REQUESTS`), each answered with its id. End of stdin, SIGTERM, or the end of the watched
``[pid, start]`` ends everything.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from pytest_specdecode.procfs import MARK, Process, describe, pid_namespace, process
from pytest_specdecode.proctree import Tree

GRACE_S = 4.0
"""How long the tree may take to end once nobody is there to wait for it."""
LOG_LIMIT = 16 * 2**20
"""Bytes of output that are kept; older output is dropped, the newest quarter stays."""
_TICK_S = 2.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


class Log:
    """The program's output: a nameless file that it appends to itself, so that logging wakes nobody."""

    def __init__(self, limit: int = LOG_LIMIT) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        # Both of us append, whatever was cut off in between.
        fcntl.fcntl(self._file, fcntl.F_SETFL, fcntl.fcntl(self._file, fcntl.F_GETFL) | os.O_APPEND)
        self._limit = limit

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()

    def shorten(self) -> None:
        """Drop the oldest output once there is too much."""
        size = os.fstat(self.fileno()).st_size
        if size > self._limit:
            newest = os.pread(self.fileno(), self._limit // 4, size - self._limit // 4)
            os.ftruncate(self.fileno(), 0)
            os.write(self.fileno(), b"[older output dropped]\n" + newest)

    def tail(self, lines: int) -> list[str]:
        size = os.fstat(self.fileno()).st_size
        text = os.pread(self.fileno(), 2**18, max(0, size - 2**18)).decode(errors="replace")
        # A progress bar rewrites its line with carriage returns: its last state is what counts.
        found = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
        return [line for line in found if line][-lines:] if lines > 0 else []


class Supervisor:
    """The program, its log, and the loop that answers for it."""

    def __init__(self, request: dict[str, Any], keeper: tuple[int, int]) -> None:
        self._tree = Tree()
        self._log = Log()
        self._ending = False
        self._watch: tuple[int, int] | None = tuple(request["watch"]) if request.get("watch") else None
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        self._sources = [0, self._wake]
        if self._watch is not None and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # noticed at the next tick where the kernel has none
                self._sources.append(os.pidfd_open(self._watch[0]))
        # Handlers, not SIG_IGN: an ignored signal would stay ignored in the program.
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._asked_to_end)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != keeper[0]:
            self._ending = True
        self.pid, self.start = self._launch(request, keeper)
        self._tree.root = (self.pid, self.start)

    def _asked_to_end(self, *_: object) -> None:
        self._ending = True

    def _launch(self, request: dict[str, Any], keeper: tuple[int, int]) -> tuple[int, int]:
        own = os.getpid()

        def die_with_supervisor() -> None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != own:
                os._exit(1)

        environment = dict(request["env"])
        environment[MARK] = f"{keeper[0]}.{keeper[1]}.{pid_namespace()}"
        program = subprocess.Popen(
            request["argv"],
            stdin=subprocess.DEVNULL,
            stdout=self._log.fileno(),
            stderr=subprocess.STDOUT,
            cwd=request.get("cwd") or None,
            env=environment,
            start_new_session=True,
            preexec_fn=die_with_supervisor,  # noqa: PLW1509  (this process has one thread)
        )
        seen = process(program.pid)
        program.returncode = 0  # its end is noticed here, not by subprocess
        return program.pid, seen.start if seen is not None else -1

    def _status(self) -> int | None:
        self._tree.reap()
        return self._tree.status

    def state(self, **_: Any) -> dict[str, Any]:
        return {"status": self._status()}

    def tree(self, **_: Any) -> dict[str, Any]:
        return {"processes": [self._describe(p) for p in self._tree.living()]}

    def _describe(self, p: Process) -> dict[str, Any]:
        return dict(describe(p), denied=p.pid in self._tree.denied)

    def log(self, lines: int = 20, **_: Any) -> dict[str, Any]:
        return {"lines": self._log.tail(lines)}

    def stop(self, within: float = GRACE_S, **_: Any) -> dict[str, Any]:
        before = len(self._tree.signalled)
        left = self._tree.end(within, self._pause)
        return {
            "left": [self._describe(p) for p in left],
            "killed": self._tree.signalled[before:],
            "status": self._status(),
        }

    def _pause(self, seconds: float) -> None:
        if select.select([self._wake], [], [], seconds)[0]:
            self._drain_wake()
        self._log.shorten()

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 4096):
                pass

    def _parent_lives(self) -> bool:
        if self._watch is None:
            return True
        seen = process(self._watch[0])
        return seen is not None and seen.start == self._watch[1] and seen.alive

    def serve(self, pending: bytes) -> None:
        """Answer until stdin ends or somebody asks us to end; then end the tree."""
        while not self._ending:
            line, found, rest = pending.partition(b"\n")
            if found:
                pending = rest
                request = json.loads(line)
                _answer(dict(REQUESTS[request["do"]](self, **request), id=request["id"]))
                continue
            readable = select.select(self._sources, [], [], _TICK_S)[0]
            if self._wake in readable:
                self._drain_wake()
                self._tree.reap()
            if 0 in readable:
                more = os.read(0, 65536)
                if not more:
                    break
                pending += more
            self._log.shorten()
            if not self._parent_lives():
                break
        self._tree.end(GRACE_S, self._pause)


REQUESTS = {
    "state": Supervisor.state,
    "tree": Supervisor.tree,
    "log": Supervisor.log,
    "stop": Supervisor.stop,
}


def _answer(message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    with contextlib.suppress(OSError):  # nobody reads any more: stdin ends too, and that is acted upon
        while data:
            data = data[os.write(1, data) :]


def _first_line() -> tuple[bytes, bytes]:
    data = b""
    while b"\n" not in data:
        more = os.read(0, 65536)
        if not more:
            sys.exit(0)
        data += more
    line, _, rest = data.partition(b"\n")
    return line, rest


def _supervise(request: dict[str, Any], keeper: tuple[int, int], pending: bytes) -> int:
    try:
        supervisor = Supervisor(request, keeper)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        _answer({"error": str(error)})
        return 1
    _answer({"pid": supervisor.pid, "start": supervisor.start})
    supervisor.serve(pending)
    return 0


def _keep(supervisor: int) -> None:
    """Wait for the supervisor; end what it left. Its streams are closed here, so that they end with it."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(supervisor, signal.SIGTERM))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    while os.wait()[0] != supervisor:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Tree().end(GRACE_S, time.sleep)


def main(_words: Sequence[str]) -> None:
    line, pending = _first_line()
    request = json.loads(line)
    if not sys.platform.startswith("linux"):
        _answer({"error": f"a program can be started under Linux only, not {sys.platform}"})
        return
    with contextlib.suppress(PermissionError):
        os.setsid()  # Ctrl-C in the terminal is the session's business
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    own = process(os.getpid())
    keeper = (os.getpid(), own.start if own is not None else 0)
    supervisor = os.fork()
    if supervisor == 0:
        os._exit(_supervise(request, keeper, pending))
    _keep(supervisor)

"""This machine."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

from .. import procfs
from ..errors import HostError, NotRunError, UnknownRunError
from . import Child, CommandResult
from .child import MODULES, SupervisedChild
from .redaction import redact
from .ship import shipped

_CLOSE_S = 15.0


class LocalHost:
    """Commands run in a session of their own: Ctrl-C in the terminal reaches pytest alone."""

    def __init__(self, name: str = "local") -> None:
        self._name = name
        self._children: list[SupervisedChild] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def python(self) -> str:
        return sys.executable

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """As :class:`~pytest_specdecode.hosts.Host` says.

        Output goes to nameless files, not pipes: a daemon that the command leaves behind neither holds this
        up nor gets SIGPIPE later.
        """
        begin = time.monotonic()
        with contextlib.ExitStack() as files:
            source, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            source.write(stdin)
            source.seek(0)
            process = self._popen(argv, source, out, err)
            try:
                ended = _wait(process, timeout)
            except BaseException:
                _kill_group(process)
                raise
            if not ended:
                _kill_group(process)
                said = _text(err).strip().splitlines()[-1:]
                raise UnknownRunError(
                    f"{self.name}: `{_shown(argv)}` did not end within {timeout:g} s and was killed"
                    + (f"; it said: {said[0]}" if said else "")
                )
            return CommandResult(
                tuple(argv), process.returncode, _text(out), _text(err), time.monotonic() - begin
            )

    def _popen(
        self, argv: Sequence[str], source: IO[bytes], out: IO[bytes], err: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(argv, stdin=source, stdout=out, stderr=err, start_new_session=True)
        except (OSError, ValueError, IndexError) as error:
            raise NotRunError(f"{self.name}: `{_shown(argv)}` cannot be run: {error}") from error

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Child:
        own = procfs.process(os.getpid())
        first = {
            "argv": list(argv),
            "env": {**os.environ, **(env or {})},
            "cwd": os.getcwd(),  # noqa: PTH109
            "watch": [own.pid, own.start] if own is not None else None,
        }
        command, source = shipped(self.python, MODULES, ["supervise"])
        child = SupervisedChild(PipeChannel(command), source, first, host=self.name)
        self._children.append(child)
        return child

    def close(self) -> None:
        """End every program that was started here, with its descendants. Never raises."""
        while self._children:
            child = self._children.pop()
            with contextlib.suppress(HostError):
                child.stop(within_s=_CLOSE_S)
            child.close()


class PipeChannel:
    """The channel to a supervisor that is a child process of ours."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close)
        self._process = subprocess.Popen(
            argv,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._pending = b""

    def send(self, data: bytes) -> None:
        if self._in.closed:
            raise BrokenPipeError("its channel is closed")
        view = memoryview(data)
        while view:
            view = view[os.write(self._in.fileno(), view) :]

    def line(self, timeout: float) -> bytes | None:
        deadline = time.monotonic() + timeout
        while b"\n" not in self._pending:
            if not _readable(self._out.fileno(), deadline - time.monotonic()):
                raise TimeoutError(f"no answer within {timeout:g} s")
            more = os.read(self._out.fileno(), 65536)
            if not more:
                return None
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def close(self, timeout: float) -> str:
        if self._in.closed:
            return ""
        self._in.close()
        if not _wait(self._process, timeout):
            _kill_group(self._process)
        self._out.close()
        said = _text(self._errors).strip()
        self._errors.close()
        return said


def _readable(descriptor: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout) * 1000))


def _wait(process: subprocess.Popen[bytes], timeout: float) -> bool:
    """Whether it ended in time; noticed at once where the kernel has pidfds (Popen.wait polls)."""
    if process.poll() is None and hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(process.pid)
            try:
                if not _readable(handle, timeout):
                    return False
            finally:
                os.close(handle)
            process.wait()
            return True
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Only while it is not reaped: its pid and its group cannot belong to somebody else."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _text(file: IO[bytes]) -> str:
    # Not read(): the offset is shared with a daemon that may still be writing.
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode(errors="replace")


def _shown(argv: Sequence[str]) -> str:
    return shlex.join(redact(argv))

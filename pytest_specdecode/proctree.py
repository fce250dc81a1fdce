"""Everything below this process, and how it is ended: asked first, killed if need be.

Standard library only and nothing beyond Python 3.9: part of what is sent with the supervisor.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from pytest_specdecode.procfs import Process, descendants, protected, send, table


def _reap() -> tuple[dict[int, int], bool]:
    """(exit statuses of children that have ended by pid, negative: the signal; whether there are others)."""
    found: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return found, True
            found[pid] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    except ChildProcessError:
        return found, False


class Tree:
    """Everything below this process; ended from the root: SIGTERM, then SIGKILL, always by (pid, start)."""

    def __init__(self) -> None:
        self.root: tuple[int, int] | None = None
        self.status: int | None = None
        """Exit status of the root."""
        self.signalled: list[int] = []
        self.denied: set[int] = set()
        """Pids that may not be signalled: they run as somebody else."""

    def living(self) -> list[Process]:
        """Living descendants, protected ones apart."""
        if not self.reap():
            return []  # what descends from a subreaper hangs on a child of it
        return [p for p in descendants(table(), os.getpid()) if not protected(p.pid)]

    def reap(self) -> bool:
        """Whether any child is left."""
        ended, more = _reap()
        if self.status is None and self.root is not None:
            self.status = ended.get(self.root[0])
        return more

    def _signal(self, p: Process, number: int) -> None:
        try:
            if send(p.pid, p.start, number) and p.pid not in self.signalled:
                self.signalled.append(p.pid)
        except PermissionError:
            self.denied.add(p.pid)

    def end(self, within_s: float, wait: Callable[[float], None]) -> list[Process]:
        """End it all; what still lives after ``within_s``. ``wait(seconds)`` may return early."""
        begin = time.monotonic()
        asked: dict[tuple[int, int], list[float]] = {}
        pause = 0.005
        while True:
            left = self.living() or self.living()  # a fork can hide from one look at a changing table
            now = time.monotonic() - begin
            if not left or now >= within_s:
                return left
            root_lives = any((p.pid, p.start) == self.root for p in left)
            for p in left:
                times = asked.setdefault((p.pid, p.start), [])
                is_root = (p.pid, p.start) == self.root
                number = due(now, within_s, times, is_root=is_root, root_lives=root_lives)
                if number is not None:
                    times.append(now)
                    self._signal(p, number)
            wait(min(pause, max(0.0, within_s - now)))
            pause = min(pause * 1.5, 0.1)


def due(
    now: float, within_s: float, asked: Sequence[float], *, is_root: bool, root_lives: bool
) -> signal.Signals | None:
    """Which signal a process gets now, ``asked`` being the times of its earlier ones (seconds).

    The root is asked first, since it knows how to end its workers, and asked again after a while, because
    llama.cpp under load ends at the second SIGTERM only. Others are asked once the root is gone or has been
    asked twice. Who does not go is killed.
    """
    again_s, kill_s, patience_s = min(within_s / 3, 5.0), min(within_s * 2 / 3, 20.0), min(within_s / 4, 2.0)
    if now >= kill_s or (not root_lives and asked and now - asked[0] >= patience_s):
        return signal.SIGKILL
    if not asked and (is_root or not root_lives or now >= again_s):
        return signal.SIGTERM
    if is_root and len(asked) == 1 and now >= again_s:
        return signal.SIGTERM
    return None

"""SIGTERM, then SIGKILL, to exactly these processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence

from .processes import Key, Signalled

Send = Callable[[signal.Signals, Sequence[Key]], Signalled]


class Reaper:
    """Remembers whom it asked, and when: asked in vain for ``grace_s`` seconds, a process is killed."""

    def __init__(self, send: Send, *, grace_s: float = 3.0) -> None:
        self._send = send
        self._grace_s = grace_s
        self._asked: dict[Key, float] = {}
        self.killed: list[int] = []
        """Pids that were signalled, each process once."""
        self.refused: dict[int, str] = {}

    def press(self, keys: Iterable[Key]) -> None:
        """One round: new ones are asked to end, old ones are made to."""
        now = time.monotonic()
        wanted = list(dict.fromkeys(keys))
        new = [key for key in wanted if key not in self._asked]
        due = [key for key in wanted if key in self._asked and now - self._asked[key] >= self._grace_s]
        for number, some in ((signal.SIGTERM, new), (signal.SIGKILL, due)):
            if not some:
                continue
            told = self._send(number, some)
            self._asked.update((key, now) for key in some if number is signal.SIGTERM)
            self.killed.extend(pid for pid in told.signalled if pid not in self.killed)
            self.refused.update(told.refused)

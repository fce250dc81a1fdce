"""SIGTERM, then SIGKILL, to exactly these processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence

from .processes import Key, Signalled
from .scan import Scan, Seen

Send = Callable[[signal.Signals, Sequence[Key]], Signalled]


class Reaper:
    """Remembers whom it asked, and when: asked in vain for ``grace_s`` seconds, a process is killed."""

    def __init__(self, send: Send, *, grace_s: float = 3.0) -> None:
        self._send = send
        self._grace_s = grace_s
        self._asked: dict[Key, float] = {}
        self._known: dict[Key, Seen] = {}
        self.killed: list[int] = []
        """Pids that were signalled, each process once."""
        self.refused: dict[int, str] = {}

    def press(self, processes: Iterable[Seen]) -> None:
        """One round: new ones are asked to end, old ones are made to.

        :raises HostError: when the signals could not be sent, or it is not known whether they were.
        """
        now = time.monotonic()
        wanted = {p.key: p for p in processes}
        new = [key for key in wanted if key not in self._asked]
        due = [key for key in wanted if key in self._asked and now - self._asked[key] >= self._grace_s]
        for number, keys in ((signal.SIGTERM, new), (signal.SIGKILL, due)):
            if not keys:
                continue
            self._known.update((key, wanted[key]) for key in keys)
            told = self._send(number, keys)
            if number is signal.SIGTERM:
                self._asked.update((key, now) for key in keys)
            self.killed.extend(pid for pid in told.signalled if pid not in self.killed)
            self.refused.update(told.refused)

    def describe(self, p: Seen, scan: Scan) -> str:
        """The process, and what makes it hard to get rid of."""
        before = [
            q for q in self._known.values() if q.argv == p.argv and q.key != p.key and q.pid in self.killed
        ]
        parent = scan.by_pid.get(p.parent)
        notes = [
            *([f"not signalled: {self.refused[p.pid]}"] if p.pid in self.refused else []),
            *([f"survived {self._survived(p)}"] if p.key in self._asked else []),
            *(
                [f"came back {len(before)} times after it was killed, started by {_short(parent)}"]
                if before
                else []
            ),
            *(["its parent is gone, so it now belongs to pid 1"] if p.parent == 1 and not p.cgroups else []),
        ]
        return f"{p}" + "".join(f"; {note}" for note in notes)

    def _survived(self, p: Seen) -> str:
        long_ago = time.monotonic() - self._asked[p.key] >= self._grace_s
        return "SIGTERM and SIGKILL" if long_ago else "SIGTERM so far"


def _short(p: Seen | None) -> str:
    return f"pid {p.pid} ({' '.join(p.argv)[:60]})" if p is not None else "a process outside"

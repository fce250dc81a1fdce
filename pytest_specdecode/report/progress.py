"""What is going on now: one line that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

LIVE_EVERY_S = 0.1
PLAIN_EVERY_S = 30.0
_CLEAR = "\r\x1b[2K"


@dataclass(slots=True)
class Progress:
    """Told often, writes seldom.

    :param write: puts text where people see it, nothing added
    :param live: whether that is a terminal whose current line can be written over
    :param prepare: called before a live line begins, so that it does not end up behind other output
    """

    write: Callable[[str], object]
    live: bool = False
    width: Callable[[], int] = lambda: 80
    prepare: Callable[[], object] = lambda: None
    clock: Callable[[], float] = time.monotonic
    _at: float | None = field(default=None, init=False)
    _subject: str = field(default="", init=False)
    _showing: bool = field(default=False, init=False)

    def say(self, text: str) -> None:
        """Show ``text``, unless the last one was only just shown. A new subject (first word) always is."""
        line = one_line(text)
        subject = line.partition(" ")[0].rstrip(",:")
        now = self.clock()
        pause = LIVE_EVERY_S if self.live else PLAIN_EVERY_S
        if subject == self._subject and self._at is not None and now - self._at < pause:
            return
        self._at, self._subject = now, subject
        if self.live:
            if not self._showing:
                self.prepare()
            self.write(_CLEAR + cut(line, self.width() - 1))
            self._showing = True
        else:
            self.write(f"{line}\n")

    def clear(self) -> None:
        """Take the live line away, before somebody else writes."""
        if self._showing:
            self.write(_CLEAR)
            self._showing = False


def one_line(text: str) -> str:
    """``text`` without line ends and control characters: log lines of engines have both."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"

"""What is going on now: one line that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .text import columns, cut

LIVE_EVERY_S = 0.1
PLAIN_EVERY_S = 30.0
_CLEAR = "\r\x1b[2K"
_LEAST_TEXT = 20
"""Columns without which a line says nothing; its ending gives way first."""


def _no_frame() -> tuple[str, str]:
    return "", ""


@dataclass(slots=True)
class Progress:
    """Told often, writes seldom.

    On a terminal the line stands below what is being written there, and :meth:`clear` leaves the cursor where
    it was found.

    :param write: puts text where people see it, nothing added
    :param live: whether that is a terminal whose lines can be written over
    :param column: how far the terminal's current line is written
    :param prepare: called before a plain line, so that it does not end up behind other output
    :param frame: what stands before and after each text: how far it is, how long it takes
    """

    write: Callable[[str], object]
    live: bool = False
    width: Callable[[], int] = lambda: 80
    column: Callable[[], int] = lambda: 0
    prepare: Callable[[], object] = lambda: None
    frame: Callable[[], tuple[str, str]] = _no_frame
    clock: Callable[[], float] = time.monotonic
    _at: float | None = field(default=None, init=False)
    _subject: str = field(default="", init=False)
    _back: str | None = field(default=None, init=False)
    """What takes the live line away; None while there is none."""

    def say(self, text: str) -> None:
        """Show ``text``, unless one on the same subject was only just shown."""
        line, now = one_line(text), self.clock()
        subject = shape(line) if self.live else phase(line)
        pause = LIVE_EVERY_S if self.live else PLAIN_EVERY_S
        if subject == self._subject and self._at is not None and now - self._at < pause:
            return
        self._at, self._subject = now, subject
        before, after = self.frame()
        if self.live:
            self._draw(before + line, after)
        else:
            self.prepare()
            self.write(f"{before}{line}{after}\n")

    def _draw(self, line: str, after: str) -> None:
        width, begin = max(2, self.width()), _CLEAR
        if self._back is None:
            column = max(0, self.column())
            place = column % width
            # A line that is exactly full goes on in the next one anyway.
            self._back = f"{_CLEAR}\x1b[A\x1b[{place + 1}G" if place else _CLEAR
            begin = "\n" + _CLEAR if column else _CLEAR
        self.write(begin + fit(line, after, width - 1))

    @property
    def showing(self) -> bool:
        """Whether there is a live line."""
        return self._back is not None

    def clear(self) -> None:
        """Take the live line away, before somebody else writes."""
        if self._back is not None:
            self.write(self._back)
            self._back = None


def one_line(text: str) -> str:
    """``text`` without line ends and control characters: log lines of engines have both."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def fit(line: str, after: str, width: int) -> str:
    """Both in ``width`` columns: the line is cut; the ending goes where hardly any line is left."""
    room = width - columns(after)
    return cut(line, room) + after if room >= _LEAST_TEXT else cut(line, width)


def phase(line: str) -> str:
    """What a line is about, whatever its numbers: ``steps=2 c=16`` of ``steps=2 c=16 round 3/5``, else the
    first word, and the one after it where the first is a name (``qwen: starting``)."""
    words = [word.rstrip(",") for word in line.split()[:4]]
    named = bool(words) and words[0].endswith(":")
    settings = [word for word in words[:3] if "=" in word]
    return " ".join(settings or words[: 1 + named])


def shape(line: str) -> str:
    """A line without its numbers."""
    return re.sub(r"[\d.]+", "", line)

"""What is going on: a live line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import re

import pytest

from pytest_specdecode.report.progress import Progress, fit, one_line, phase
from pytest_specdecode.report.text import about, columns, cut, stopwatch

CLEAR = "\r\x1b[2K"


class Screen:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.now = 0.0
        self.prepared = 0

    def progress(
        self, *, live: bool, width: int = 80, column: int = 0, frame: tuple[str, str] = ("", "")
    ) -> Progress:
        return Progress(
            self.texts.append,
            live=live,
            width=lambda: width,
            column=lambda: column,
            prepare=self._prepare,
            frame=lambda: frame,
            clock=lambda: self.now,
        )

    def _prepare(self) -> None:
        self.prepared += 1


def test_elsewhere_a_line_is_written_every_half_minute() -> None:
    screen = Screen()
    progress = screen.progress(live=False)
    for second in range(61):
        screen.now = float(second)
        progress.say(f"starting steps=1, {second} s")
    assert screen.texts == [f"starting steps=1, {n} s\n" for n in (0, 30, 60)]
    assert screen.prepared == 3


def test_elsewhere_a_new_phase_is_written_at_once() -> None:
    screen = Screen()
    progress = screen.progress(live=False)
    progress.say("starting steps=2, 1 s")
    progress.say("steps=2 c=16 warm-up 1/1, 0/64 requests")
    progress.say("steps=2 c=16 round 2/5 108.2 tok/s")
    progress.say("steps=2 c=32 warm-up 1/1, 0/128 requests")
    assert screen.texts == [
        "starting steps=2, 1 s\n",
        "steps=2 c=16 warm-up 1/1, 0/64 requests\n",
        "steps=2 c=32 warm-up 1/1, 0/128 requests\n",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("steps=2 c=16 round 3/5, 1/64 requests", "steps=2 c=16"),
        ("qwen: steps=2 c=16 round 3/5 108.2 tok/s", "steps=2 c=16"),
        ("starting steps=2, 3 min 12 s: loading a=b c=d", "steps=2"),
        ("cleaning up: kill: pid 12: x --a=b", "cleaning"),
        ("qwen: cleaning up: kill: pid 12", "qwen: cleaning"),
        ("", ""),
    ],
)
def test_a_phase_is_what_does_not_change_by_itself(line: str, expected: str) -> None:
    assert phase(line) == expected


def test_on_a_terminal_the_line_is_written_over_and_taken_away() -> None:
    screen = Screen()
    progress = screen.progress(live=True)
    progress.say("c=1 round 1/2, 1/9 requests")
    screen.now = 0.05
    progress.say("c=1 round 1/2, 2/9 requests")
    progress.say("c=1 round 1/2 108.2 tok/s")
    progress.clear()
    progress.clear()
    assert screen.texts == [
        f"{CLEAR}c=1 round 1/2, 1/9 requests",
        f"{CLEAR}c=1 round 1/2 108.2 tok/s",
        CLEAR,
    ]
    assert screen.prepared == 0


@pytest.mark.parametrize(("column", "back"), [(14, "\x1b[A\x1b[15G"), (80, ""), (94, "\x1b[A\x1b[15G")])
def test_the_line_stands_below_a_begun_one_which_then_goes_on_where_it_was(column: int, back: str) -> None:
    screen = Screen()
    progress = screen.progress(live=True, column=column)
    progress.say("starting")
    progress.say("stopping")
    progress.clear()
    assert screen.texts == [f"\n{CLEAR}starting", f"{CLEAR}stopping", f"{CLEAR}{back}"]


def test_elsewhere_there_is_nothing_to_take_away_and_no_escape_code() -> None:
    screen = Screen()
    progress = screen.progress(live=False, column=14, frame=("[1/2] ", " · 3 s"))
    progress.say("starting\x1b[31m")
    progress.clear()
    assert screen.texts == ["[1/2] starting[31m · 3 s\n"]


def test_a_line_fits_the_terminal_and_its_ending_stays() -> None:
    screen = Screen()
    screen.progress(live=True, width=50, frame=("[5/24] ", " · about 18 min left")).say("x" * 90)
    assert screen.texts == [f"{CLEAR}[5/24] {'x' * 21}… · about 18 min left"]


def test_on_a_narrow_terminal_the_ending_goes_first() -> None:
    assert fit("steps=2 c=16 round 3/5", " · 12 min 3 s, about 18 min left", 40) == "steps=2 c=16 round 3/5"


def test_wide_and_combining_characters_are_counted_as_they_are_shown() -> None:
    assert columns("加载e\u0301") == 5
    assert cut("加载模型", 6) == "加载…"
    assert cut("加载模型", 8) == "加载模型"
    assert cut("anything", 0) == ""


def test_an_engines_log_line_cannot_move_the_cursor() -> None:
    assert one_line("loading\r\n\x1b[31mweights\x07 50%") == "loading [31mweights 50%"


def test_time_that_goes_by_shows_its_seconds_and_an_estimate_does_not_pretend_to() -> None:
    assert [stopwatch(s) for s in (0.9, 723.4, 7265)] == ["0 s", "12 min 3 s", "2 h 1 min 5 s"]
    said = [about(s) for s in (0, 7.4, 43, 94, 95, 1085, 5399, 5400, 7800)]
    assert said == [
        "about 1 s",
        "about 7 s",
        "about 45 s",
        "about 95 s",
        "about 2 min",
        "about 18 min",
        "about 1 h 30 min",
        "about 1 h 30 min",
        "about 2 h 10 min",
    ]
    assert not [text for text in said if re.search(r"-|\b0 ", text)]

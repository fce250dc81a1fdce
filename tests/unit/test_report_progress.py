"""What is going on: a live line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from pytest_specdecode.report.progress import Progress, cut, one_line

CLEAR = "\r\x1b[2K"


class Screen:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.now = 0.0
        self.prepared = 0

    def progress(self, *, live: bool, width: int = 80) -> Progress:
        return Progress(
            self.texts.append, live=live, width=lambda: width, prepare=self._prepare, clock=lambda: self.now
        )

    def _prepare(self) -> None:
        self.prepared += 1


def test_elsewhere_a_line_is_written_every_half_minute() -> None:
    screen = Screen()
    progress = screen.progress(live=False)
    for second in range(61):
        screen.now = float(second)
        progress.say(f"starting, {second} s")
    assert screen.texts == ["starting, 0 s\n", "starting, 30 s\n", "starting, 60 s\n"]


def test_a_new_subject_is_written_at_once() -> None:
    screen = Screen()
    progress = screen.progress(live=False)
    progress.say("starting, 1 s")
    progress.say("steps=2 c=16 round 1/5")
    progress.say("steps=2 c=16 round 2/5")
    assert screen.texts == ["starting, 1 s\n", "steps=2 c=16 round 1/5\n"]


def test_on_a_terminal_the_line_is_written_over_and_taken_away() -> None:
    screen = Screen()
    progress = screen.progress(live=True)
    progress.say("starting, 1 s")
    screen.now = 0.05
    progress.say("starting, too soon")
    screen.now = 1.0
    progress.say("starting, 2 s")
    progress.clear()
    progress.clear()
    assert screen.texts == [f"{CLEAR}starting, 1 s", f"{CLEAR}starting, 2 s", CLEAR]
    assert screen.prepared == 1


def test_elsewhere_there_is_nothing_to_take_away() -> None:
    screen = Screen()
    progress = screen.progress(live=False)
    progress.say("starting")
    progress.clear()
    assert screen.texts == ["starting\n"]
    assert screen.prepared == 0


def test_a_line_fits_the_terminal() -> None:
    screen = Screen()
    screen.progress(live=True, width=10).say("x" * 50)
    assert screen.texts == [f"{CLEAR}{'x' * 8}…"]


def test_an_engines_log_line_cannot_move_the_cursor() -> None:
    assert one_line("loading\r\n\x1b[31mweights\x07 50%") == "loading [31mweights 50%"
    assert cut("short", 10) == "short"

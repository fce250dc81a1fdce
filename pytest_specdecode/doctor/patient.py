"""What is examined, and what an examination is made of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ..config import Target
from ..markers import SpeculativeMark, configurations
from ..model import Case, SpecConfig
from ..planning import Planning
from ..run import Run
from ..services.portwatch import local_port


class Grade(StrEnum):
    """How it stands with one thing."""

    OK = "ok"
    WARNING = "warning"
    """A run goes on; what it says should be known."""
    WRONG = "not ok"
    """A run would not go on, or its numbers would not be judged."""
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, and, unless it is in order, what to do."""

    grade: Grade
    what: str
    text: str


@dataclass(frozen=True)
class Patient:
    """A target and the folders that belong to it. Nothing connects before it is asked."""

    run: Run
    folder: Path
    """Where its prompts are looked up."""
    baselines: Path

    @property
    def target(self) -> Target:
        return self.run.target

    @functools.cached_property
    def configs(self) -> tuple[SpecConfig, ...]:
        """One for each of the target's steps."""
        return configurations(SpeculativeMark(tuple(self.target.steps)), self.run.defaults)

    @property
    def cases(self) -> list[Case]:
        levels = self.target.concurrency
        return [Case(self.target.name, config, level) for config in self.configs for level in levels]

    @property
    def elsewhere(self) -> bool:
        """Whether the engine runs on a machine that cannot be asked."""
        away = self.target.host.ssh is None and local_port(self.target.url) is None
        return not self.run.service.managed and away

    @functools.cached_property
    def running(self) -> bool:
        """Whether the service runs now, as far as it is one that can be asked."""
        return self.run.service.managed and self.run.service.state().running

    def know_service(self) -> None:
        """Have the service learn which processes are its own."""
        if isinstance(self.run.service, Planning):
            self.run.service.stop_plan()


Seen = tuple[Grade, str]
Look = Callable[[Patient], Iterable[Seen]]


@dataclass(frozen=True, slots=True)
class Check:
    """``look`` at one thing, after those in ``needs`` were found in order."""

    name: str
    look: Look
    needs: tuple[str, ...] = ()


def ok(text: str) -> Seen:
    return Grade.OK, text


def warning(text: str) -> Seen:
    return Grade.WARNING, text


def wrong(text: str) -> Seen:
    return Grade.WRONG, text


def some(texts: Iterable[object], most: int = 3) -> str:
    """The first few of them on one line."""
    found: list[str] = [str(text) for text in texts]
    more = [f"and {len(found) - most} more"] if len(found) > most else []
    return "; ".join([*found[:most], *more])


Looked = Iterator[Seen]

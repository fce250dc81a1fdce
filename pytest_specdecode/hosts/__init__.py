"""Run this argv there. A host is the machine that the engine runs on, whatever the road to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that ran to its end. ``status`` is its exit status; negative: killed by that signal."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    seconds: float


class Child(Protocol):
    """A long-lived program that was started through a host and ends with this session at the latest."""

    @property
    def pid(self) -> int:
        """The program's own pid on the host."""
        ...

    @property
    def instance(self) -> str:
        """``pid:start time``: names this very process, whatever becomes of its pid."""
        ...

    @property
    def killed(self) -> Sequence[int]:
        """Pids that :meth:`stop` has signalled so far."""
        ...

    def poll(self) -> int | None:
        """Exit status once it has ended, else None."""
        ...

    def stop(self, *, within_s: float) -> bool:
        """End it and all its descendants (SIGTERM, then SIGKILL); True when none is left."""
        ...

    def descendants(self) -> Mapping[int, str]:
        """Living processes that descend from it: pid → command line and owner. Empty when all are gone."""
        ...

    def log_tail(self, lines: int = 20) -> list[str]:
        """The last lines it wrote to stdout and stderr."""
        ...


class Runner(Protocol):
    """A road into a machine: commands only.

    ``run`` always has its own deadline, drains both streams, and tells apart: ran (a result, whatever its
    status), known not to have run (:class:`~pytest_specdecode.errors.NotRunError`), unknown whether it ran
    (:class:`~pytest_specdecode.errors.UnknownRunError`). Every argument arrives as it was given.
    """

    @property
    def name(self) -> str: ...

    @property
    def python(self) -> str:
        """A Python interpreter over there (3.9 or newer), for the questions that we bring along."""
        ...

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult: ...


class Host(Runner, Protocol):
    """A machine on which commands run and programs live."""

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Child: ...

    def close(self) -> None: ...

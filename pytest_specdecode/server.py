"""A running, checked server: what the ``spec_server`` fixture gives. No pytest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .engines import Counters, Engine, Settings
from .engines.http import HttpxHttp
from .errors import BrokenError, HostError
from .model import ServerStart, SpecConfig
from .services import Service
from .startup import log_lines


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """A machine that stops answering is a broken case, whoever asked it."""
    try:
        yield
    except HostError as error:
        raise BrokenError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Server:
    """A running, checked server: the ``spec_server`` fixture."""

    start: ServerStart
    url: str
    model: str | None
    engine: Engine
    http: HttpxHttp
    argv: tuple[str, ...]
    reported: Settings
    service: Service
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def start_id(self) -> str:
        return self.start.id

    @property
    def config(self) -> SpecConfig:
        return self.start.config

    @property
    def settings(self) -> Settings:
        """What the engine itself says it runs."""
        return self.reported

    @property
    def told(self) -> bool:
        """Whether the engine says, before the first request, whether it speculates. A launch command without
        a flag for it shows nothing: a file or the model may set it."""
        return self.reported.speculating is not None

    def counters(self) -> Counters:
        """The engine's running totals, now."""
        return self.engine.counters(self.http)

    def log_tail(self, lines: int = 20) -> list[str]:
        """The last lines of the engine's log."""
        return self.service.log_tail(lines)

    @answering()
    def instance(self) -> str:
        return self.service.instance()

    @answering()
    def died(self) -> str | None:
        state = self.service.state()
        return None if state.running else f"{state.detail}{log_lines(self.service)}"

"""The load: prompts, the streaming client, trace → metrics, validity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..engines import Engine, Http
from ..model import SpecConfig


class Server(Protocol):
    """A running server, as the load sees it."""

    @property
    def start_id(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def model(self) -> str | None:
        """The name to send in requests."""
        ...

    @property
    def config(self) -> SpecConfig: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def http(self) -> Http: ...
    @property
    def headers(self) -> Mapping[str, str]:
        """What each request carries (authorization); never logged."""
        ...

    @property
    def argv(self) -> tuple[str, ...]:
        """The launch command where it is known, else empty."""
        ...

    @property
    def told(self) -> bool:
        """Whether it is known, before the first request, whether the engine speculates."""
        ...

    def instance(self) -> str:
        """Names the running instance; a change in a round makes it invalid."""
        ...

    def died(self) -> str | None:
        """Why it no longer runs; None while it does."""
        ...

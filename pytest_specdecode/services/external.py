"""An engine that runs whatever we do: ``service.external = true``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ..config import Target
from ..hosts import Host
from . import ServiceState
from .portwatch import PortWatch, local_port


class ExternalService:
    """Never stopped, started or killed; measured as it is."""

    keys: ClassVar[tuple[str, ...]] = ("external",)
    kind = "external"
    managed = False

    def __init__(self, host: Host, url: str | None) -> None:
        self._watch = PortWatch(host)
        self._watch.follow(local_port(url))

    @classmethod
    def of(cls, target: Target, host: Host) -> ExternalService:
        return cls(host, target.url)

    def command(self, flags: Sequence[str], port: int) -> tuple[str, ...]:
        del flags, port
        return ()

    def start(self, flags: Sequence[str], port: int, env: Mapping[str, str] | None = None) -> None:
        """Nothing: whether it runs what was asked shows in the settings that it reports."""
        del flags, port, env

    def state(self) -> ServiceState:
        return self._watch.state()

    def instance(self) -> str:
        return self._watch.instance()

    def stop(self, *, within_s: float) -> None:
        """Nothing."""
        del within_s

    def leftovers(self) -> Mapping[int, str]:
        return {}

    def kill_leftovers(self) -> None:
        """Nothing."""

    @property
    def killed(self) -> Sequence[int]:
        return ()

    def log_tail(self, lines: int = 20) -> list[str]:
        del lines
        return []

    def restore(self) -> None:
        """Nothing."""

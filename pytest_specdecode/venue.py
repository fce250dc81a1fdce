"""Where a run takes place: the machine and our claim to it. No pytest."""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from .cleanroom import Site
from .cleanroom.policy import Policy
from .config import Target
from .engines.http import HttpxHttp
from .engines.traffic import in_flight
from .errors import BrokenError
from .hosts import Host
from .hosts.audit import AuditedHost, Sink
from .hosts.roads import RoadHost
from .hosts.tunnel import Tunnel
from .services import Service
from .services.guard import relieve


@runtime_checkable
class Adopting(Protocol):
    """A service that a dead run may have left changed."""

    def adopt(self) -> None:
        """Undo what is left of that; from now on the service is ours to change."""
        ...


class Venue:
    """One machine over one session. ``site`` None: a machine of our own, with nothing on it to look out
    for.
    """

    def __init__(self, target: Target, host: Host, sink: Sink) -> None:
        self._target = target
        self.host: RoadHost = host if isinstance(host, RoadHost) else RoadHost(AuditedHost(host, sink))
        self.site = self._site() if _shared(target) else None
        self._tunnel: Tunnel | None = None
        self._asked_about_traffic = False

    def _site(self) -> Site:
        table = self._target.cleanup
        policy = Policy(
            kill=tuple(table.kill),
            devices=tuple(table.devices),
            protect=tuple(table.protect),
            gpu_memory_below=int(table.gpu_memory_below),
        )
        return Site(
            self.host,
            policy,
            self.host.scanner(policy.devices),
            self.host.reaper(),
            self.host.hypervisor,
        )

    def claim(self, service: Service, *, wait_s: float, say: Callable[[str], None]) -> None:
        """Take the machine's lease, and have what a dead run left behind put back first.

        :raises BrokenError: when somebody else has it.
        :raises HostError: when the machine does not answer.
        """
        if self.site is None or not service.managed:
            return
        for token in self.host.lease.take(wait_s=wait_s, say=say):
            say(f"putting back what a dead run left on {self.host.name}")
            relieve(self.host, token, folder=self.host.lease.folder)
        if isinstance(service, Adopting):
            service.adopt()

    def refuse_traffic(self, service: Service, port: int | None, headers: Mapping[str, str]) -> None:
        """Before the first stop: nobody's requests are cut.

        :raises BrokenError: when the service is answering some.
        """
        if self._asked_about_traffic or self.site is None or not service.managed or port is None:
            return
        if not self._target.service.exclusive and service.state().running:
            with contextlib.closing(HttpxHttp(self.url(port), headers)) as http:
                count = in_flight(http)
            if count:
                raise BrokenError(
                    f"{count:.0f} requests are in flight at {self._target.url}; stopping the service "
                    f"would cut "
                    "them. Take it out of traffic first, or say that it is ours alone: service.exclusive "
                    "= true"
                )
        self._asked_about_traffic = True

    def url(self, port: int | None) -> str:
        """Where the engine is reached from here."""
        if self._target.tunnel and self.host.ssh is not None:
            parts = urlsplit(self._target.url or "")
            if self._tunnel is None:
                self._tunnel = Tunnel(self.host.ssh, (parts.hostname or "127.0.0.1", port or 80))
            return f"{parts.scheme}://127.0.0.1:{self._tunnel.port}{parts.path}"
        return self._target.url or f"http://127.0.0.1:{port}"

    def close(self) -> None:
        """Give the machine back. Never raises."""
        if self._tunnel is not None:
            self._tunnel.close()
        self.host.lease.release()
        self.host.close()


def _shared(target: Target) -> bool:
    """Whether there may be others, or devices, on the machine that have to be looked out for."""
    return bool(
        target.host.ssh
        or target.hypervisor is not None
        or target.service.systemd
        or list(target.cleanup.kill) != ["service"]
        or any(glob.glob(pattern) for pattern in target.cleanup.devices)  # noqa: PTH207
    )

"""What the listener of a port tells of a service whose processes are not ours."""

from __future__ import annotations

import contextlib
import math
import socket
import time
from urllib.parse import urlsplit

from ..errors import HostError
from ..hosts import Host
from ..hosts.processes import PortUse, port_use
from . import ServiceState

_LOOK_EVERY_S = 2.0
"""A look costs a command on the host, and is asked for in loops."""


class PortWatch:
    """Watches the port's listener from the first time that it is seen."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._state = ServiceState(True)
        self.follow(None)

    def follow(self, port: int | None) -> None:
        """From now on this port; None: its listener cannot be seen from the host."""
        self._port = port
        self._seen = False
        self._looked = -math.inf

    def use(self) -> PortUse | None:
        if self._port is None:
            return None
        try:
            use = port_use(self._host, self._port)
        except HostError:
            return None
        self._seen = self._seen or bool(use.inodes)
        return use

    def instance(self) -> str:
        """The listening processes as ``pid:start``; empty where nobody can tell."""
        use = self.use()
        return ",".join(use.instances) if use is not None else ""

    def state(self) -> ServiceState:
        """Not running only if the listener was seen and is gone: while a model loads, nothing listens yet."""
        if time.monotonic() - self._looked < _LOOK_EVERY_S:
            return self._state
        use = self.use()
        self._looked = time.monotonic()
        self._state = ServiceState(True)
        if use is not None and self._seen and not use.inodes:
            self._state = ServiceState(False, f"nothing listens on port {self._port} any more")
        return self._state


def local_port(url: str | None) -> int | None:
    """The port of ``url`` when its address is one of this machine's own; None when it is another's."""
    if url is None:
        return None
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    with contextlib.suppress(OSError):
        for family, kind, _, _, address in socket.getaddrinfo(parts.hostname, 0, type=socket.SOCK_STREAM):
            with contextlib.suppress(OSError), socket.socket(family, kind) as trial:
                trial.bind(address)  # only an address of this machine can be bound
                return port
    return None

"""One machine, two roads into it: its own, and one through the hypervisor for when that is closed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence

from ..errors import HostError, NotRunError, UnprovenError
from ..ledger import CommandRecord
from . import Child, CommandResult, Host
from .lease import Lease
from .processes import send
from .reaper import Reaper
from .scan import Identity, Scanner, identify
from .ssh import SshHost

_PROBE_S = 5.0
_RETRY_AFTER_S = 15.0
_PROOF_HOLDS_S = 2.0


class RoadHost:
    """Commands take the machine's own road; where that is closed, the second one, once it is known to lead to
    the same machine.

    ``own`` may be rootless (:meth:`spawn` and tunnels use it); ``root`` is the same road with root's rights.
    """

    def __init__(
        self,
        own: Host,
        root: Host | None = None,
        back: Host | None = None,
        *,
        machine_id: str | None = None,
        hypervisor: Host | None = None,
        ssh: SshHost | None = None,
        trail: list[CommandRecord] | None = None,
    ) -> None:
        """``machine_id``: pinned identity of ``back``; ``hypervisor``: where that starts; ``ssh``: carries
        tunnels;
        ``trail``: shared by the roads."""
        self.own = own
        self.root = root or own
        self.back = back
        self.hypervisor = hypervisor
        self.ssh = ssh
        self.trail: list[CommandRecord] = [] if trail is None else trail
        self.lease = Lease(self)
        self._scanner: Scanner | None = None
        self._reaper: Reaper | None = None
        self._pinned = machine_id
        self._proven: Identity | None = None
        self._proven_at = -math.inf
        self._closed_until = -math.inf
        self._lock = threading.RLock()

    def scanner(self, devices: Sequence[str]) -> Scanner:
        """The one scanner of this machine, so that one look serves everybody."""
        if self._scanner is None:
            self._scanner = Scanner(self, devices)
        return self._scanner

    def reaper(self) -> Reaper:
        """The one that signals here; it remembers whom it asked."""
        if self._reaper is None:
            self._reaper = Reaper(lambda number, keys: send(self.killing_road(), number, keys))
        return self._reaper

    @property
    def name(self) -> str:
        return self.own.name

    @property
    def python(self) -> str:
        return self.own.python

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """As :class:`~pytest_specdecode.hosts.Host` says. Only a command that is known not to have run takes
        the
        second road; the first is tried again after a while."""
        if self.back is None:
            return self.root.run(argv, timeout=timeout, stdin=stdin)
        closed = "its own road was closed a moment ago"
        if time.monotonic() >= self._closed_until:
            try:
                return self.root.run(argv, timeout=timeout, stdin=stdin)
            except NotRunError as error:
                if not self._closed():
                    raise
                closed = str(error)
        try:
            return self._standby().run(argv, timeout=timeout, stdin=stdin)
        except UnprovenError:
            raise
        except NotRunError as error:
            raise NotRunError(f"{closed}; and by the other road: {error}") from error

    def _closed(self) -> bool:
        """Whether the road itself is closed, not just this command unknown over there."""
        try:
            self.root.run(["true"], timeout=_PROBE_S)
        except HostError:
            self._closed_until = time.monotonic() + _RETRY_AFTER_S
            return True
        return False

    def _standby(self) -> Host:
        """The second road; proven a moment ago is proven."""
        if time.monotonic() - self._proven_at > _PROOF_HOLDS_S:
            return self.trusted_back()
        assert self.back is not None
        return self.back

    def killing_road(self) -> Host:
        """The road that signals take: the second where there is one, since it works when the other does not.

        :raises UnprovenError: when it is not known to lead to the same machine; then nothing may be killed.
        """
        if self.back is None:
            return self.root
        try:
            return self.trusted_back()
        except UnprovenError:
            raise
        except HostError:
            return self.root  # the hypervisor is down; the machine's own road needs no proof

    def trusted_back(self) -> Host:
        """The second road, proven now to lead to this machine.

        :raises UnprovenError: saying what differs, or that nothing could be compared.
        """
        with self._lock:
            assert self.back is not None
            there = identify(self.back)
            self._compare(self._here(), there)
            self._proven_at = time.monotonic()
            return self.back

    def _here(self) -> Identity | None:
        if time.monotonic() < self._closed_until:
            return None
        try:
            return identify(self.root)
        except HostError:
            return None

    def _compare(self, here: Identity | None, there: Identity) -> None:
        assert self.back is not None
        if self._pinned is not None and there.machine_id != self._pinned:
            raise UnprovenError(
                f"{self.back.name} has machine id {there.machine_id or 'unreadable'}, not the pinned "
                f"{self._pinned}: "
                "nothing may be killed there; check hypervisor.container and hypervisor.machine_id"
            )
        known = here or self._proven
        if known is None:
            if self._pinned is None:
                raise UnprovenError(
                    f"{self.name} does not answer, so that {self.back.name} cannot be proven to be the "
                    f"same machine: "
                    f"nothing was done there. Pin it to allow that: hypervisor.machine_id = "
                    f'"{there.machine_id}" (only if you know that it is the host)'
                )
            return
        if here is None and self._pinned is not None:
            return
        if not known.same(there):
            raise UnprovenError(_different(self.name, known, self.back.name, there))
        self._proven = there

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Child:
        return self.own.spawn(argv, env=env)

    def close(self) -> None:
        for road in (self.hypervisor, self.own):
            if road is not None:
                road.close()


def _different(name: str, here: Identity, other: str, there: Identity) -> str:
    if not (here.readable and there.readable):
        return (
            f"boot id or PID namespace of {name} or {other} cannot be read, so it is not known whether "
            f"they are the "
            "same machine: nothing may be killed"
        )
    which = "boot id" if here.boot_id != there.boot_id else "PID namespace"
    return (
        f"{other} is not {name}: their {which}s differ "
        f"({here.boot_id}/{here.namespace} and {there.boot_id}/{there.namespace}); nothing may be killed "
        f"there. "
        "Correct hypervisor.container, or the host's address"
    )

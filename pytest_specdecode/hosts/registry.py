"""Which machine a target runs on, and the roads into it."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from ..config import Target
from ..errors import ConfigError
from ..ledger import CommandRecord
from . import Host
from .audit import AuditedHost, Sink
from .pct import PctHost
from .roads import RoadHost
from .ssh import SshHost
from .sudo import SudoHost

GROUP = "pytest_specdecode.hosts"


def _kind(name: str) -> Any:
    """The host type that the entry point ``name`` of the group names.

    :raises ConfigError: when there is none, or it cannot be imported.
    """
    found = entry_points(group=GROUP, name=name)
    if not found:
        raise ConfigError(f"no kind of host {name!r} is installed; reinstall pytest-specdecode")
    entry = next(iter(found))
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"host {name!r} ({entry.value}) cannot be loaded: {error}") from error


def make_host(target: Target, sink: Sink) -> RoadHost:
    """The target's machine. Nothing connects yet; every command on any road reaches ``sink``.

    :raises ConfigError: for an address that is none.
    """
    trail: list[CommandRecord] = []

    def audited(host: Host) -> AuditedHost:
        return AuditedHost(host, sink, trail)

    table, over = target.host, target.hypervisor
    plain: Host = _kind("ssh")(table.ssh) if table.ssh else _kind("local")()
    outer: Host | None = _kind("ssh")(over.ssh) if over is not None else None
    back = PctHost(outer, over.container) if outer is not None and over is not None else None
    return RoadHost(
        audited(plain),
        audited(SudoHost(plain)) if table.sudo else None,
        audited(back) if back is not None else None,
        machine_id=over.machine_id if over is not None else None,
        hypervisor=audited(outer) if outer is not None else None,
        ssh=plain if isinstance(plain, SshHost) else None,
        trail=trail,
    )

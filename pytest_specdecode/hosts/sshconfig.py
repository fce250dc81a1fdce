"""~/.ssh/config → where to connect, as whom, over which jumps."""

from __future__ import annotations

import getpass
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

from ..errors import ConfigError, NotRunError

_MOST_JUMPS = 8


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One SSH server. ``known_as`` is the name that its host key is filed under."""

    address: str
    """As the user wrote it; for messages."""
    hostname: str
    port: int
    user: str
    known_as: str
    key_files: tuple[str, ...] = ()
    known_hosts: tuple[Path, ...] = ()
    identities_only: bool = False
    proxy_command: str | None = None
    jumps: tuple[Endpoint, ...] = field(default=())
    """Servers to go through, the nearest first."""


def split_address(address: str) -> tuple[str | None, str, int | None]:
    """``[user@]host[:port]`` (IPv6 in brackets) → user, host, port.

    :raises ConfigError: when there is no host in it, or the port is no number.
    """
    user, _, rest = address.removeprefix("ssh://").rpartition("@")
    host, colon, port = rest.rpartition(":")
    if rest.startswith("["):
        host, _, tail = rest[1:].partition("]")
        colon, port = tail[:1], tail[1:]
    elif not colon or ":" in host:
        host, colon, port = rest, "", ""
    if not host or host.startswith("-") or (colon and not port.isdigit()):
        raise ConfigError(f"{address!r} is not an SSH address; write user@host or user@host:port")
    return user or None, host, int(port) if port else None


def read_config(path: Path | None = None) -> paramiko.SSHConfig:
    """The user's SSH configuration; an empty one where there is no file."""
    path = path or Path("~/.ssh/config").expanduser()
    return paramiko.SSHConfig.from_path(str(path)) if path.is_file() else paramiko.SSHConfig()


def resolve(address: str, config: paramiko.SSHConfig, *, depth: int = 0) -> Endpoint:
    """Where ``address`` leads, ProxyJump and all. What the address says wins over the file.

    :raises NotRunError: for jumps that go round in circles.
    """
    if depth > _MOST_JUMPS:
        raise NotRunError(f"{address}: ProxyJump goes round in circles; look at ~/.ssh/config")
    user, host, port = split_address(address)
    found = config.lookup(host)
    hostname = found.get("hostname", host)
    port = port or int(found.get("port", "22"))
    alias = found.get("hostkeyalias", hostname)
    jump = found.get("proxyjump", "none")
    hops = () if jump == "none" else tuple(h.strip() for h in jump.split(","))
    command = found.get("proxycommand", "none")
    return Endpoint(
        address=address,
        hostname=hostname,
        port=port,
        user=user or found.get("user") or getpass.getuser(),
        known_as=alias if port == 22 or "hostkeyalias" in found else f"[{alias}]:{port}",
        key_files=tuple(str(Path(f).expanduser()) for f in found.get("identityfile", [])),
        known_hosts=_known_hosts(found),
        identities_only=found.get("identitiesonly", "no") == "yes",
        proxy_command=None if command == "none" or hops else command,
        jumps=_jumps(hops, config, depth),
    )


def _jumps(hops: tuple[str, ...], config: paramiko.SSHConfig, depth: int) -> tuple[Endpoint, ...]:
    """Each hop is reached from the one before; only the first may have jumps of its own."""
    ends = [resolve(hop, config, depth=depth + 1) for hop in hops]
    return (*ends[0].jumps, *ends) if ends else ()


def _known_hosts(found: paramiko.SSHConfigDict) -> tuple[Path, ...]:
    names = [
        *found.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2").split(),
        *found.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts").split(),
    ]
    return tuple(Path(name).expanduser() for name in names)

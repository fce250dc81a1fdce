"""An authenticated SSH connection, every host key verified, every step with a deadline."""

from __future__ import annotations

import contextlib
import logging
import socket
from typing import Any

import paramiko

from ..errors import NotRunError
from .sshconfig import Endpoint

CONNECT_WITHIN_S = 10.0
_LOG = "pytest_specdecode.ssh"
# Whatever goes wrong becomes an error of ours; paramiko's own log would repeat it in every report.
logging.getLogger(_LOG).setLevel(logging.CRITICAL)


class Connection:
    """An open connection and the jumps under it."""

    def __init__(self, clients: list[paramiko.SSHClient], transport: paramiko.Transport) -> None:
        self._clients = clients
        self.transport = transport

    @property
    def alive(self) -> bool:
        return self.transport.is_active()

    def close(self) -> None:
        for client in reversed(self._clients):
            client.close()


def connect(end: Endpoint, *, within_s: float = CONNECT_WITHIN_S) -> Connection:
    """Connect through the jumps of ``end``.

    :raises NotRunError: saying which server did not let us in, why, and what to do.
    """
    clients: list[paramiko.SSHClient] = []
    via: Any = None
    try:
        for hop in (*end.jumps, end):
            if clients:
                via = _through(clients[-1], hop, within_s)
            elif hop.proxy_command:
                via = paramiko.ProxyCommand(hop.proxy_command)
            clients.append(_open(hop, via, within_s))
        transport = clients[-1].get_transport()
    except BaseException:
        for client in reversed(clients):
            client.close()
        raise
    if transport is None:
        raise NotRunError(f"{end.address}: the connection was lost at once; try ssh {end.address} by hand")
    return Connection(clients, transport)


def _through(client: paramiko.SSHClient, hop: Endpoint, within_s: float) -> paramiko.Channel:
    transport = client.get_transport()
    try:
        if transport is None:
            raise paramiko.SSHException("the jump host closed the connection")
        return transport.open_channel(
            "direct-tcpip", (hop.hostname, hop.port), ("127.0.0.1", 0), timeout=within_s
        )
    except (paramiko.SSHException, OSError) as error:
        raise NotRunError(
            f"{hop.address}: the jump host cannot reach {hop.hostname}:{hop.port}: {_say(error)}"
        ) from error


def _open(hop: Endpoint, via: Any, within_s: float) -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    client.set_log_channel(_LOG)
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    for path in hop.known_hosts:
        if path.is_file():
            with contextlib.suppress(OSError):
                client.load_host_keys(str(path))
    sock = via
    try:
        if sock is None:
            sock = socket.create_connection((hop.hostname, hop.port), timeout=within_s)
            # Small packets both ways: without it each command waits 40 ms for a delayed acknowledgement.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.connect(
            hop.known_as,  # with a socket given, only the name of the host key
            username=hop.user,
            key_filename=list(hop.key_files) or None,  # type: ignore[arg-type]  # several are allowed
            look_for_keys=not hop.identities_only,
            sock=sock,
            timeout=within_s,
            banner_timeout=within_s,
            auth_timeout=within_s,
            channel_timeout=within_s,
        )
    except (paramiko.SSHException, OSError, EOFError) as error:
        client.close()
        if sock is not None:
            sock.close()
        raise NotRunError(f"{hop.address}: {_advice(hop, error)}") from error
    return client


def _advice(hop: Endpoint, error: Exception) -> str:
    if isinstance(error, paramiko.BadHostKeyException):
        return (
            f"its host key ({error.key.get_name()}) is not the one on file: another machine answers "
            f"there, or it "
            f"was reinstalled. If you know why, ssh-keygen -R '{hop.known_as}' and connect once by hand"
        )
    if isinstance(error, paramiko.AuthenticationException):
        return f"no key was accepted for user {hop.user}; try: ssh {hop.address} true"
    if "not found in known_hosts" in str(error):
        return f"its host key is unknown; connect once by hand and check it: ssh {hop.address} true"
    return f"no SSH connection to {hop.hostname}:{hop.port}: {_say(error)}"


def _say(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__

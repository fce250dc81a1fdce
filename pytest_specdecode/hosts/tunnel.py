"""A local port that leads to a port of the machine, for engines that listen on its loopback address."""

from __future__ import annotations

import contextlib
import socket
import threading

import paramiko

from ..errors import HostError
from .ssh import SshHost, hang_up

_CHUNK = 1 << 16


class Tunnel:
    """Listens on 127.0.0.1 until closed; each connection becomes a channel of the host's SSH connection."""

    def __init__(self, host: SshHost, to: tuple[str, int]) -> None:
        self._host = host
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="specdecode-tunnel", daemon=True).start()

    def close(self) -> None:
        """End the listener and what goes through it."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(end)
            threading.Thread(target=self._serve, args=(end,), daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Nobody listens over there: the client sees a connection that closes, as it would without us.
            with contextlib.suppress(HostError):
                channel = self._host.open_stream(*self._to)
                back = threading.Thread(target=_backwards, args=(channel, end), daemon=True)
                back.start()
                _forwards(end, channel)
                back.join()
                hang_up(channel)
        finally:
            with self._lock:
                self._open.discard(end)
            end.close()


def _forwards(end: socket.socket, channel: paramiko.Channel) -> None:
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        while data := end.recv(_CHUNK):
            channel.sendall(data)
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        channel.shutdown_write()


def _backwards(channel: paramiko.Channel, end: socket.socket) -> None:
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        while data := channel.recv(_CHUNK):
            end.sendall(data)
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_WR)

"""A supervisor on the other side of an SSH connection. Implements
:class:`~pytest_specdecode.hosts.child.Channel`.
"""

from __future__ import annotations

import contextlib
import time

import paramiko

_SEND_S = 20.0


class SshChannel:
    """Stdin and stdout of a command that is already running. When the connection ends, so does its stdin."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._pending = b""

    def send(self, data: bytes) -> None:
        if self._channel.closed:
            raise BrokenPipeError("the connection to the supervisor is gone")
        self._channel.settimeout(_SEND_S)
        try:
            self._channel.sendall(data)
        except (paramiko.SSHException, EOFError) as error:
            raise BrokenPipeError(f"the connection to the supervisor is gone ({error})") from error

    def line(self, timeout: float) -> bytes | None:
        deadline = time.monotonic() + timeout
        while b"\n" not in self._pending:
            self._channel.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                more = self._channel.recv(1 << 16)
            except TimeoutError:
                raise TimeoutError(f"no answer within {timeout:g} s") from None
            if not more:
                return None
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def close(self, timeout: float) -> str:
        said = b""
        with contextlib.suppress(
            paramiko.SSHException, OSError, EOFError
        ):  # a lost link has nothing more to say
            self._channel.shutdown_write()
            self._channel.settimeout(timeout)
            while more := self._channel.recv_stderr(1 << 16):
                said += more
        with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
            self._channel.close()
        return said.decode(errors="replace").strip()

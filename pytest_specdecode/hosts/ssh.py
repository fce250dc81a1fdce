"""A machine over SSH: one verified connection, reused; a deadline on everything."""

from __future__ import annotations

import contextlib
import select
import shlex
import threading
import time
from collections.abc import Mapping, Sequence

import paramiko

from ..errors import NotRunError, UnknownRunError
from . import Child, CommandResult
from .child import MODULES, SupervisedChild
from .connection import CONNECT_WITHIN_S, Connection, connect
from .ship import shipped
from .sshchannel import SshChannel
from .sshconfig import Endpoint, read_config, resolve

_OPEN_WITHIN_S = 5.0
"""How long a living connection may take to open a channel; keepalive would notice a dead one too late."""
_SLICE_S = 0.2
_AFTER_EXIT_S = 0.3
_CHUNK = 1 << 16
_CLOSE_S = 15.0
_REFUSED_FOR_S = 2.0
"""A machine that let nobody in a moment ago is not asked again: a closed road costs seconds each time."""


class SshHost:
    """Commands on the machine at ``address`` (``user@host``, or a name from ~/.ssh/config).

    Safe to use from several threads. Nothing connects before the first command. The login shell there must be
    a POSIX one. A status of -1 means: killed by a signal (SSH does not hand us which).
    """

    def __init__(self, address: str, *, config: paramiko.SSHConfig | None = None) -> None:
        self._name = address
        self._end: Endpoint = resolve(address, config or read_config())
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._children: list[SupervisedChild] = []
        self._refusal: str | None = None
        self._refused_at = 0.0

    @property
    def name(self) -> str:
        return self._name

    @property
    def python(self) -> str:
        return "python3"

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """See :class:`~pytest_specdecode.hosts.Host`. A dead connection is replaced once, before the
        command.
        """
        words = tuple(argv)
        begun = time.monotonic()
        deadline = begun + timeout
        channel = self._channel(deadline)
        watchdog = threading.Timer(max(0.0, deadline - time.monotonic()), hang_up, [channel])
        watchdog.daemon = True
        watchdog.start()
        try:
            status, out, err = self._converse(channel, shlex.join(words), stdin, deadline)
        except (paramiko.SSHException, OSError, EOFError) as error:
            late = time.monotonic() >= deadline
            why = f"no answer within {timeout:g} s" if late else f"the connection broke ({error})"
            raise UnknownRunError(
                f"{self._name}: {why}; {words[0]!r} may have run, in part or whole: look before repeating it"
            ) from error
        finally:
            watchdog.cancel()
            hang_up(channel)
        if status in {126, 127} and not out and _no_program(words[0], err):
            raise NotRunError(f"{self._name}: there is no program {words[0]!r}: {err.strip()}")
        return CommandResult(words, status, out, err, time.monotonic() - begun)

    def open_stream(self, host: str, port: int) -> paramiko.Channel:
        """A channel to ``host:port`` as seen from the machine (direct-tcpip).

        :raises NotRunError: when nobody listens there, or the machine cannot be reached.
        """
        deadline = time.monotonic() + CONNECT_WITHIN_S
        return self._channel(deadline, to=(host, port))

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Child:
        """As :class:`~pytest_specdecode.hosts.Host` says: a supervisor over there ends it when the link
        ends.
        """
        first = {
            "argv": list(argv),
            "env": dict(env or {}),
            "add": True,
            "cwd": None,
            "watch": None,
        }
        command, source = shipped(self.python, MODULES, ["supervise"])
        channel = self._channel(time.monotonic() + CONNECT_WITHIN_S)
        try:
            channel.exec_command(shlex.join(command))
        except (paramiko.SSHException, OSError, EOFError) as error:
            hang_up(channel)
            raise UnknownRunError(f"{self._name}: the connection broke while starting {argv[0]!r}") from error
        child = SupervisedChild(SshChannel(channel), source, first, host=self._name)
        self._children.append(child)
        return child

    def close(self) -> None:
        """End every program that was started here, then the connection."""
        while self._children:
            child = self._children.pop()
            child.stop(within_s=_CLOSE_S)
            child.close()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _channel(self, deadline: float, to: tuple[str, int] | None = None) -> paramiko.Channel:
        """A new channel, over a new connection when the old one is dead: no command has been sent yet."""
        connection, fresh = self._connected(deadline)
        try:
            return _open(connection, deadline, to)
        except paramiko.ChannelException as error:
            raise NotRunError(f"{self._name}: the server refused a channel: {error}") from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            self._drop(connection)
            if fresh:
                raise NotRunError(f"{self._name}: the connection was lost at once: {error}") from error
        connection, _ = self._connected(deadline)
        try:
            return _open(connection, deadline, to)
        except (paramiko.SSHException, OSError, EOFError) as error:
            self._drop(connection)
            raise NotRunError(f"{self._name}: no channel, also over a new connection: {error}") from error

    def _connected(self, deadline: float) -> tuple[Connection, bool]:
        with self._lock:
            if self._connection is not None and self._connection.alive:
                return self._connection, False
            if self._refusal is not None and time.monotonic() - self._refused_at < _REFUSED_FOR_S:
                raise NotRunError(self._refusal)
            left = max(0.5, min(CONNECT_WITHIN_S, deadline - time.monotonic()))
            try:
                self._connection = connect(self._end, within_s=left)
            except NotRunError as error:
                self._refusal, self._refused_at = str(error), time.monotonic()
                raise
            self._refusal = None
            return self._connection, True

    def _drop(self, connection: Connection) -> None:
        with self._lock:
            if self._connection is connection:
                self._connection = None
        connection.close()

    @staticmethod
    def _converse(
        channel: paramiko.Channel, line: str, stdin: bytes, deadline: float
    ) -> tuple[int, str, str]:
        """Send the command, feed it, drain both streams together until it has ended."""
        channel.settimeout(max(0.1, deadline - time.monotonic()))
        channel.exec_command(line)
        if stdin:
            channel.sendall(stdin)
        channel.shutdown_write()
        out, err = _drain(channel, deadline)
        by_signal = channel.eof_received and _carried(channel) and time.monotonic() < deadline
        if channel.exit_status < 0 and not by_signal:
            raise paramiko.SSHException("closed before the exit status came")
        return channel.exit_status, out.decode(errors="replace"), err.decode(errors="replace")


def hang_up(channel: paramiko.Channel) -> None:
    """Close it, also where the connection under it is gone already."""
    with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
        channel.close()


def _open(connection: Connection, deadline: float, to: tuple[str, int] | None) -> paramiko.Channel:
    within_s = max(0.1, min(_OPEN_WITHIN_S, deadline - time.monotonic()))
    if to is None:
        return connection.transport.open_session(timeout=within_s)
    return connection.transport.open_channel("direct-tcpip", to, ("127.0.0.1", 0), timeout=within_s)


def _drain(channel: paramiko.Channel, deadline: float) -> tuple[bytes, bytes]:
    """Both streams to their ends. A child left behind in the background may hold them open for a moment
    only.
    """
    streams = (bytearray(), bytearray())
    poller = select.poll()
    poller.register(channel.fileno(), select.POLLIN)
    exited_at: float | None = None
    while True:
        got = _take(channel, streams)
        now = time.monotonic()
        if channel.exit_status_ready():
            exited_at = exited_at or now
            if not got and (channel.eof_received or channel.closed or now - exited_at > _AFTER_EXIT_S):
                return bytes(streams[0]), bytes(streams[1])
        elif now >= deadline or (channel.closed and not got):
            raise TimeoutError("no end within the deadline")
        if channel.eof_received:
            channel.status_event.wait(min(_SLICE_S, max(0.0, deadline - now)))
        elif not got:
            poller.poll(1000 * min(_SLICE_S, max(0.0, deadline - now)))


def _take(channel: paramiko.Channel, streams: tuple[bytearray, bytearray]) -> bool:
    got = False
    with contextlib.suppress(TimeoutError):
        while channel.recv_ready():
            streams[0].extend(channel.recv(_CHUNK))
            got = True
        while channel.recv_stderr_ready():
            streams[1].extend(channel.recv_stderr(_CHUNK))
            got = True
    return got


def _carried(channel: paramiko.Channel) -> bool:
    transport: paramiko.Transport | None = channel.get_transport()  # None once it has been unlinked
    return bool(transport and transport.is_active())


def _no_program(program: str, stderr: str) -> bool:
    """What every shell says of its own first word."""
    says = ("command not found", "not found", "No such file or directory", "Permission denied")
    return any(stderr.rstrip().endswith(f"{program}: {words}") for words in says)

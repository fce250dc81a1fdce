"""The streaming client of one process: requests go out in a closed loop, (time, bytes) of what comes back is
stored.

It parses nothing but the end of an answer while streams run: what a stream said is read afterwards
(:mod:`.streams`). Each request has a connection of its own, so that an idle connection closed by the server
never looks like a failed request; the clock of a request starts when it is written, after connecting.

All times are of ``time.perf_counter``, which is CLOCK_MONOTONIC on Linux (PEP 418): one clock for all
processes of a machine, so those of several clients can be put beside each other as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .. import __version__
from . import eventloop
from .http1 import LAST_CHUNK, BadAnswerError, Head, read_body, read_head
from .limits import Deadlines
from .work import Work

HEARTBEAT_S = 0.02
_BEFORE_TOKENS = 3
"""Packets until the first token is certain to be among them: head, role event, token."""


@dataclass(frozen=True, slots=True)
class Load:
    """One round of load: ``requests`` of them are taken in order by ``concurrency`` workers.

    ``stagger_s`` lies between the first requests of two workers.
    """

    url: str
    path: str
    headers: Mapping[str, str]
    requests: int
    concurrency: int
    stagger_s: float = 0.0
    deadlines: Deadlines = field(default_factory=Deadlines)


@dataclass(slots=True)
class Trace:
    """What happened to one request. Times are seconds of ``time.perf_counter``.

    ``packets[i]`` came at ``times[i]``. ``failure`` is set where the client itself gave up; what the server
    said is not looked at here.
    """

    number: int
    worker: int
    sent_s: float
    ended_s: float = 0.0
    status: int = 0
    """Of the HTTP answer; 0 when there was none."""
    # not in the repr, which asyncio's runner makes of all that its main task returned
    packets: list[bytes] = field(default_factory=list, repr=False)
    times: array[float] = field(default_factory=lambda: array("d"), repr=False)
    failure: str | None = None
    refused: bool = False
    """No connection came about: the server is gone."""


@dataclass(frozen=True, slots=True)
class Driven:
    """A round as one process saw it: requests that ended, one way or another, and how it fared itself."""

    traces: tuple[Trace, ...]
    seconds: float
    cpu_s: float
    """CPU time of this process."""
    lags_s: tuple[float, ...]
    """How late an event would have been that came then, every ``HEARTBEAT_S``."""


@dataclass(frozen=True, slots=True)
class Done:
    """How far a process is: requests that ended, those of them that failed, whether the server is gone."""

    ended: int = 0
    failed: int = 0
    refused: bool = False

    def __add__(self, other: Done) -> Done:
        return Done(self.ended + other.ended, self.failed + other.failed, self.refused or other.refused)

    def hopeless(self, load: Load) -> bool:
        """Whether to stop: the server is gone, or so many failed that the rest tells nothing new."""
        return self.refused or self.failed >= max(8, load.requests // 4)


class _Exchange(asyncio.Protocol):
    """One request on one connection. What each packet costs is what an event costs: little is done there."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.last_s = 0.0
        self._packets = trace.packets
        self._keep, self._came = trace.packets.append, trace.times.append
        self._head: Head | None = None
        self._chunked = False

    def send(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        self.trace.sent_s = self.last_s = time.perf_counter()
        transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self.done.done():
            return
        self.last_s = now = time.perf_counter()
        self._keep(data)
        self._came(now)
        may_be_last = not self._chunked or data.endswith(LAST_CHUNK) or len(data) < len(LAST_CHUNK)
        if may_be_last and self._is_last():
            self.finish()

    def _is_last(self) -> bool:
        packets, head = self._packets, self._head
        if head is None:
            try:
                head = self._head = read_head(b"".join(packets))
            except BadAnswerError:
                return True
            if head is None:
                return False
            self._chunked = head.chunked
        if not head.chunked:
            return head.length is not None and sum(map(len, packets)) - head.size >= head.length
        tail = b"".join(packets[-len(LAST_CHUNK) :])
        return tail.endswith(LAST_CHUNK) and _is_complete(b"".join(packets), head)

    def eof_received(self) -> None:
        self.finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self.finish(f"connection lost: {exc}" if exc else None)

    def finish(self, failure: str | None = None) -> None:
        if self.done.done():
            return
        trace = self.trace
        trace.ended_s = time.perf_counter()
        trace.failure = failure
        trace.status = self._head.status if self._head else 0
        self.done.set_result(None)

    def overdue(self, now: float, deadlines: Deadlines) -> str | None:
        """Which deadline has passed."""
        if now - self.trace.sent_s > deadlines.total_s:
            return f"not finished within {deadlines.total_s:g} s"
        allowed_s = deadlines.first_s if len(self.trace.times) < _BEFORE_TOKENS else deadlines.stall_s
        return f"nothing came for {allowed_s:g} s" if now - self.last_s > allowed_s else None


class _Buffered(_Exchange, asyncio.BufferedProtocol):
    """For asyncio's own loop, which else has a large buffer made and cut for each packet. All share this one:
    it is emptied before it is used again."""

    _view = memoryview(bytearray(256 * 1024))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (the protocol's signature)
        return self._view  # asyncio's TLS reads into slices of it: those of a bytearray would be copies

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._view[:nbytes]))


def _is_complete(raw: bytes, head: Head) -> bool:
    """A text may end as a last chunk does; the framing decides."""
    try:
        return read_body(raw, head)[1]
    except BadAnswerError:
        return True


class _Round:
    """The state that the workers of one round share."""

    def __init__(self, load: Load, work: Work, progress: Callable[[Done], None]) -> None:
        self._load = load
        self._work = work
        self._progress = progress
        parts = urlsplit(load.url)
        self._host, self._port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._head = _request_head(load, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + load.path)
        self._address = self._host
        self._live: set[_Exchange] = set()
        self._kind = _Exchange if eventloop.name() == "uvloop" else _Buffered
        self._done = Done()
        self.traces: list[Trace] = []
        self.lags_s: list[float] = []

    async def run(self, workers: Sequence[int], begin_s: float) -> Driven:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._load.deadlines.connect_s):
                self._address = await self._look_up()
        begin_s = max(begin_s, time.perf_counter())
        cpu_s, began_s = time.process_time(), time.perf_counter()
        watchers = [asyncio.create_task(self._watch()), asyncio.create_task(self._beat())]
        try:
            async with asyncio.TaskGroup() as group:
                for worker in workers:
                    group.create_task(self._run_worker(worker, begin_s + worker * self._load.stagger_s))
        finally:
            for task in watchers:
                task.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
        return Driven(
            traces=tuple(sorted(self.traces, key=lambda t: t.number)),
            seconds=time.perf_counter() - began_s,
            cpu_s=time.process_time() - cpu_s,
            lags_s=tuple(self.lags_s),
        )

    async def _look_up(self) -> str:
        """The first address of the host that answers, so that no request pays for the look-up."""
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
        for address in addresses[:-1]:
            with contextlib.suppress(OSError):
                transport, _ = await loop.create_connection(asyncio.Protocol, address, self._port)
                transport.abort()
                return address
        return addresses[-1]

    async def _run_worker(self, worker: int, begin_s: float) -> None:
        await asyncio.sleep(begin_s - time.perf_counter())
        while not self._done.hopeless(self._load) and (taken := self._work.take()):
            number, body = taken
            trace = Trace(number, worker, time.perf_counter())
            await self._exchange(trace, body)
            self.traces.append(trace)
            failed = trace.failure is not None or trace.status != 200
            self._done += Done(1, int(failed), trace.refused)
            if failed:
                self._progress(self._done)

    async def _exchange(self, trace: Trace, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        exchange = self._kind(trace)
        name = self._host if self._tls else None
        try:
            async with asyncio.timeout(self._load.deadlines.connect_s):
                transport, _ = await loop.create_connection(
                    lambda: exchange, self._address, self._port, ssl=self._tls, server_hostname=name
                )
        except (OSError, TimeoutError) as exc:
            trace.failure = f"no connection to {self._host}:{self._port}: {str(exc) or 'timed out'}"
            trace.refused = True
            trace.ended_s = time.perf_counter()
            return
        self._live.add(exchange)
        try:
            exchange.send(transport, self._head % len(body) + body)
            await exchange.done
        finally:
            self._live.discard(exchange)
            transport.abort()

    async def _watch(self) -> None:
        """End what is overdue, and tell how far the round is."""
        deadlines = self._load.deadlines
        period_s = min(1.0, deadlines.first_s / 4, deadlines.stall_s / 4, deadlines.total_s / 4)
        while True:
            await asyncio.sleep(period_s)
            now = time.perf_counter()
            for exchange in list(self._live):
                if failure := exchange.overdue(now, deadlines):
                    exchange.finish(failure)
            self._progress(self._done)

    async def _beat(self) -> None:
        """Measure how late the event loop is: what makes a time stamp late makes this late, too.

        Beats that fell into a pause count as well, or else a long pause would be one late beat among many.
        """
        due_s = time.perf_counter()
        while True:
            due_s += HEARTBEAT_S
            await asyncio.sleep(due_s - time.perf_counter())
            now_s = time.perf_counter()
            while due_s + HEARTBEAT_S <= now_s:
                self.lags_s.append(now_s - due_s)
                due_s += HEARTBEAT_S
            self.lags_s.append(now_s - due_s)


def _request_head(load: Load, netloc: str, path: str) -> bytes:
    """Everything before the body, with a place for its length."""
    headers = {
        "Host": netloc,
        "User-Agent": f"pytest-specdecode/{__version__}",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "Content-Type": "application/json",
        **load.headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST {path} HTTP/1.1\r\n{lines}"
    return head.replace("%", "%%").encode("latin-1") + b"Content-Length: %d\r\n\r\n"


async def drive(
    load: Load,
    work: Work,
    *,
    workers: Sequence[int] | None = None,
    begin_s: float = 0.0,
    progress: Callable[[Done], None] = lambda _: None,
) -> Driven:
    """Send requests until none is left; returns when each has ended, one way or another.

    :param workers: those of the load's that are this process's; None: all
    :param begin_s: when worker 0 begins, on the clock of all; the others follow it by ``stagger_s``
    :param progress: told about once a second, and of each failure at once

    Cancelling closes every connection.
    """
    return await _Round(load, work, progress).run(
        range(load.concurrency) if workers is None else workers, begin_s
    )

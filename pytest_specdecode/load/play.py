"""Sets of requests sent to a server and read back: flush or nonces, deadlines, whether it still lives."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import importlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from ..config import Workload
from ..errors import BrokenError
from . import Server
from .client import Deadlines, Driven, Load, drive
from .prompts import Prompt
from .requests import MIN_OUTPUT_TOKENS, Request, body, headed
from .steady import EXTRA_ROUNDS
from .streams import Stream, read_stream


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take. The warm-up may stall longer: kernels are compiled in it."""

    deadlines: Deadlines = field(default_factory=Deadlines)
    warmup_deadlines: Deadlines = field(default_factory=lambda: Deadlines(first_s=600.0, stall_s=300.0))
    extra_warmup_rounds: int = EXTRA_ROUNDS
    settle_s: float = 2.0
    """For counters that are brought up to date late, and for a death that is noticed late."""


@dataclass(frozen=True, slots=True)
class Played:
    """Requests that were sent and read back. ``nonce``: they carried one, for want of a flush."""

    driven: Driven
    streams: tuple[Stream, ...]
    nonce: bool = False

    @property
    def failed(self) -> bool:
        return any(s.failure for s in self.streams) or self.driven.unsent > 0


class Player:
    """Sends requests of one workload to one server at one concurrency.

    ``salt`` makes nonces new to a server that may have seen the usual ones.
    """

    def __init__(
        self,
        server: Server,
        workload: Workload,
        concurrency: int,
        progress: Callable[[str], None],
        limits: Limits,
    ) -> None:
        self._server = server
        self._workload = workload
        self._concurrency = concurrency
        self._progress = progress
        self._limits = limits
        self._stagger_s = 0.0
        self._sets = 0
        self.salt = ""

    def new_salt(self) -> None:
        self.salt = secrets.token_hex(4)

    def probe(self, text: str) -> Stream:
        """A single short request, which must succeed.

        :raises BrokenError: when it does not.
        """
        request = Request(0, Prompt.of(text), MIN_OUTPUT_TOKENS)
        stream = self._play("the first request", [request], 1, self._limits.warmup_deadlines).streams[0]
        if stream.failure:
            raise BrokenError(f"the first request to {self._server.url} failed: {stream.failure}")
        return stream

    def play(
        self, name: str, requests: Sequence[Request], deadlines: Deadlines, *, natural: bool = False
    ) -> Played:
        """The whole request set, after a flush or else with nonces; ``natural``: answers may end early.

        :raises BrokenError: when the server dies or is out of reach.
        """
        self._sets += 1
        nonce = not self._server.engine.flush(self._server.http)
        sent = [self._nonced(r) for r in requests] if nonce else requests
        played = self._play(name, sent, self._concurrency, deadlines, natural=natural)
        lasted = [s.e2e_s for s in played.streams if not s.failure]
        if lasted:
            self._stagger_s = 0.5 * float(np.median(lasted)) / self._concurrency
        return replace(played, nonce=nonce)

    def _nonced(self, request: Request) -> Request:
        key = f"{self.salt}/{self._workload.seed}/{self._concurrency}/{self._sets}/{request.number}"
        nonce = hashlib.blake2b(key.encode(), digest_size=4).hexdigest()
        return replace(request, prompt=headed(request.prompt, f"{nonce}: "))

    def _play(
        self,
        name: str,
        requests: Sequence[Request],
        concurrency: int,
        deadlines: Deadlines,
        *,
        natural: bool = False,
    ) -> Played:
        server, engine = self._server, self._server.engine
        path, fields = engine.request(self._workload.endpoint)
        more = _natural(fields) if natural else {}
        bodies = [{**body(r, self._workload, server.model, fields), **more} for r in requests]
        load = Load(
            url=server.url,
            path=path,
            headers=server.headers,
            bodies=[msgspec.json.encode(b) for b in bodies],
            concurrency=concurrency,
            stagger_s=self._stagger_s if concurrency > 1 else 0.0,
            deadlines=deadlines,
        )
        driven = _drive(load, lambda done: self._progress(f"{name}, {done}/{len(requests)} requests"))
        streams = tuple(read_stream(t, requests[t.number].output_tokens, engine) for t in driven.traces)
        self._check_alive(name, driven, streams)
        return Played(driven, streams)

    def _check_alive(self, name: str, driven: Driven, streams: Sequence[Stream]) -> None:
        """A server that died is broken, whatever its last answers look like; a death may be noticed late."""
        refused = next((t.failure for t in driven.traces if t.refused), None)
        pairs = zip(driven.traces, streams, strict=True)
        suspicious = any(s.failure and trace.status in {0, 200} for trace, s in pairs)
        deadline_s = time.perf_counter() + (self._limits.settle_s if suspicious else 0.0)
        while (why := self._server.died()) is None and time.perf_counter() < deadline_s:
            time.sleep(0.05)
        if why is not None:
            raise BrokenError(f"the server died in {name}: {why}")
        if refused is not None:
            raise BrokenError(f"the server was out of reach in {name}: {refused}")


def _natural(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that make an engine generate full length, undone."""
    undone = {"ignore_eos": False, "min_tokens": 0}
    return {name: value for name, value in undone.items() if name in fields}


def _drive(load: Load, progress: Callable[[int], None]) -> Driven:
    """One round on an event loop of its own; Ctrl-C cancels it, which closes every connection."""
    with _no_garbage_collection(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(drive(load, progress))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed: less than half the CPU time for each event."""
    try:
        uvloop: Any = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection in mid-round would stop the clock of every stream."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

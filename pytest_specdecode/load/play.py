"""Sets of requests sent to a server and read back: flush or nonces, deadlines, whether it still lives."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from ..config import Workload
from ..errors import BrokenError
from . import Server
from .client import Load
from .crew import Crew, Played
from .gpus import Look
from .limits import Deadlines, Limits
from .prompts import Prompt
from .requests import MIN_OUTPUT_TOKENS, Request, body, headed
from .share import Job
from .streams import Stream


@dataclass(frozen=True, slots=True)
class Setup:
    """What one case consists of: this load, by this crew, on this server.

    ``progress`` is told in a few words what goes on, about once a second.
    """

    server: Server
    workload: Workload
    concurrency: int
    crew: Crew
    progress: Callable[[str], None]
    limits: Limits
    gpus: Callable[[], Look] | None = None


class Player:
    """Sends the requests of one case.

    ``salt`` makes nonces new to a server that may have seen the usual ones.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._server = setup.server
        self._stagger_s = 0.0
        self._sets = 0
        self.nonce = False
        """Whether the last requests carried one, for want of a flush."""
        self.salt = ""

    def new_salt(self) -> None:
        self.salt = secrets.token_hex(4)

    def probe(self, text: str) -> Stream:
        """A single short request, which must succeed.

        :raises BrokenError: when it does not.
        """
        request = Request(0, Prompt.of(text), MIN_OUTPUT_TOKENS)
        deadlines = self._setup.limits.warmup_deadlines
        stream = self._play("the first request", [request], 1, deadlines).streams[0]
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
        self.nonce = not self._server.engine.flush(self._server.http)
        sent = [self._nonced(r) for r in requests] if self.nonce else requests
        concurrency = self._setup.concurrency
        played = self._play(name, sent, concurrency, deadlines, natural=natural)
        lasted = [s.e2e_s for s in played.streams if not s.failure]
        if lasted:
            self._stagger_s = 0.5 * float(np.median(lasted)) / concurrency
        return played

    def _nonced(self, request: Request) -> Request:
        setup = self._setup
        key = f"{self.salt}/{setup.workload.seed}/{setup.concurrency}/{self._sets}/{request.number}"
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
        setup, server, engine = self._setup, self._server, self._server.engine
        path, fields = engine.request(setup.workload.endpoint)
        more = _natural(fields) if natural else {}
        bodies = [{**body(r, setup.workload, server.model, fields), **more} for r in requests]
        load = Load(
            url=server.url,
            path=path,
            headers=server.headers,
            requests=len(requests),
            concurrency=concurrency,
            stagger_s=self._stagger_s if concurrency > 1 else 0.0,
            deadlines=deadlines,
        )
        played = setup.crew.play(
            Job(load, [r.output_tokens for r in requests], engine),
            [msgspec.json.encode(b) for b in bodies],
            lambda done: setup.progress(f"{name}, {done}/{len(requests)} requests"),
        )
        self._check_alive(name, played.streams)
        return played

    def _check_alive(self, name: str, streams: Sequence[Stream]) -> None:
        """A server that died is broken, whatever its last answers look like; a death may be noticed late."""
        refused = next((s.failure for s in streams if s.refused), None)
        suspicious = any(s.failure and s.status in {0, 200} for s in streams)
        deadline_s = time.perf_counter() + (self._setup.limits.settle_s if suspicious else 0.0)
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

"""What the fake engine does, as data: the environment variable ``FAKE_ENGINE`` holds a JSON object, or the
path of a file with one. Every key is optional; an unknown key ends the engine with exit status 64.

Speed (exact: each event has its own absolute deadline, lateness never adds up)
    tok_s           decode speed of one stream: a number, or {"0": 100, "1": 150} by draft length K
    factor          multiplies it: 0.5 is an engine slowed to half
    tokens_per_event  tokens in one streamed event: a number, or a list that is walked in turn ([1, 4, 3]);
                    default: one event a decode step, the first token alone
    event_per_token as llama.cpp does it: one event a token, those of one step in one write
    ttft_ms         from the request to its first event
    batch_cost      each other stream that runs when a request begins slows that request by this share
    warm_requests, warm_factor  the first requests are slower: from warm_factor it rises to 1 in steps
    noise_start, noise_round, noise_request  standard deviations of the logarithm of the speed, drawn at
                    each start, each time /metrics is read (that is around each round), for each request
    seed            of that noise; the number of the start (``starts_file``) is part of it. Default: random

Speculation (K comes from the command line, as with llama-server)
    accept          chance that a draft token is accepted if those before it were: number, or list by position
    silent_off      take the speculation flags and never speculate, as llama.cpp can; "counters": say that it
                    speculates, yet draft nothing

Start and end
    bind_s, load_s  seconds until the port is bound; then seconds of 503 "Loading model" (1e9: hangs)
    exit_after_s, exit_code  end in start-up, with a line in the log
    check_model     end as llama-server does when the file of ``-m`` does not exist
    ignore_sigterm  only SIGKILL ends it
    sigterm_waits   SIGTERM ends it only once no stream is open; a second one at once
    child_s         start a child that lives so long and outlives the engine; it is in the same session
    starts_file     a JSON line is added here for each start: {"start", "pid", "argv", "k", "child"}
    requests_file   a JSON line is added here for each generation request: its body

Slots and context
    slots           requests that really run together (default: -np); the others wait in line
    slots_told      what /props and /slots say (default: slots)

Faults of requests. A share of 0.1 meets the 10th, 20th, … request; 1 every one.
    fault_from      the first request (from 1) that can be met
    die_at          the request in whose middle the engine dies
    die_code        exit status then; default: it kills itself with SIGKILL
    error_share, error_status  answer this status instead
    cut_share, cut_by  end in the middle without usage: "close" the connection, "end" the answer properly,
                    "done" end it with [DONE], or "abort" with finish_reason abort and [DONE]
    stall_share, stall_s  a pause in the middle
    garbage_share   one event in the middle is not JSON
    stop_share      ends by itself at half the tokens, although it should not
    mute_share      no usage at the end, all else as usual
    natural_share, natural_tokens  without ``ignore_eos`` this share ends after so many tokens
    cached_share    share of the prompt's tokens that come from a cache, whatever was asked
    foreign_tok_s   tokens of somebody else that go into the counters
    build           the version that /props says

Form of the stream
    split_bytes     written in pieces of so many bytes, each in its own packet
    crlf, comments  line ends of CR LF; comment lines between events
    line_bytes      the third event is padded to one line of this many bytes
    unicode         text of characters that take several bytes
    framing         "chunked", or "close": no length, ends with the connection
"""

from __future__ import annotations

import json
import math
import os
import random
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from tests.fake import llama


@dataclass(frozen=True, slots=True)
class Settings:
    tok_s: float | dict[str, float] = 100.0
    factor: float = 1.0
    build: str = llama.BUILD
    tokens_per_event: int | list[int] | None = None
    event_per_token: bool = False
    ttft_ms: float = 20.0
    batch_cost: float = 0.0
    warm_requests: int = 0
    warm_factor: float = 0.5
    noise_start: float = 0.0
    noise_round: float = 0.0
    noise_request: float = 0.0
    seed: int | None = None
    accept: float | list[float] = 0.75
    silent_off: bool | str = False
    bind_s: float = 0.0
    load_s: float = 0.05
    exit_after_s: float | None = None
    exit_code: int = 1
    check_model: bool = False
    ignore_sigterm: bool = False
    sigterm_waits: bool = False
    child_s: float = 0.0
    starts_file: str | None = None
    requests_file: str | None = None
    slots: int | None = None
    slots_told: int | None = None
    fault_from: int = 1
    die_at: int = 0
    die_code: int | None = None
    error_share: float = 0.0
    error_status: int = 500
    cut_share: float = 0.0
    cut_by: str = "close"
    stall_share: float = 0.0
    stall_s: float = 30.0
    garbage_share: float = 0.0
    stop_share: float = 0.0
    mute_share: float = 0.0
    natural_share: float = 0.0
    natural_tokens: int = 5
    cached_share: float = 0.0
    foreign_tok_s: float = 0.0
    split_bytes: int = 0
    crlf: bool = False
    comments: bool = False
    line_bytes: int = 0
    unicode: bool = False
    framing: str = "chunked"

    @classmethod
    def read(cls) -> Self:
        text = os.environ.get("FAKE_ENGINE", "").strip() or "{}"
        if not text.startswith("{"):
            text = Path(text).read_text(encoding="utf-8")
        values: dict[str, Any] = json.loads(text)
        unknown = values.keys() - {f.name for f in fields(cls)}
        if unknown:
            raise KeyError(f"FAKE_ENGINE does not know {', '.join(sorted(unknown))}")
        return cls(**values)

    def speed(self, k: int) -> float:
        """Tokens per second of one stream at draft length ``k``, before noise."""
        speed = self.tok_s[str(k)] if isinstance(self.tok_s, dict) else self.tok_s
        return speed * self.factor

    def accept_at(self, position: int) -> float:
        if isinstance(self.accept, list):
            return self.accept[position] if position < len(self.accept) else 0.0
        return self.accept

    def meets(self, share: float, number: int) -> bool:
        """Whether the fault of this share meets request ``number`` (from 1)."""
        number -= self.fault_from - 1
        return number >= 1 and math.floor(number * share) > math.floor((number - 1) * share)


class Noise:
    """Factors on the speed, drawn from one seeded source."""

    def __init__(self, settings: Settings, start: int) -> None:
        self._settings = settings
        seed = None if settings.seed is None else settings.seed * 1_000_003 + start
        self._random = random.Random(seed)
        self._start = self._draw(settings.noise_start)
        self.new_round()

    def _draw(self, sd: float) -> float:
        return math.exp(self._random.gauss(0.0, sd)) if sd else 1.0

    def new_round(self) -> None:
        self._round = self._draw(self._settings.noise_round)

    def of_request(self) -> float:
        return self._start * self._round * self._draw(self._settings.noise_request)

"""One case on one server start: first requests, warm-up, rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..config import Workload
from ..engines import Counters
from ..model import CaseStart, Round, Scalar
from . import Server, eventloop
from .crew import Crew, Played
from .gpus import Look, facts_of_gpus, watched
from .limits import Limits
from .metrics import cached_share, delta, facts_of, metrics_of
from .play import Player, Setup
from .prompts import Prompt, load_prompts
from .requests import CHARS_PER_TOKEN, Request, request_set
from .steady import rose, trend
from .validity import CACHED_SHARE, Evidence, reasons

_SAMPLE_CHARS = 4000
_MANY_END_EARLY = 0.2
_FIRST_GUESS_S = 4.0
"""How long a round takes, where there was none before it."""


def measure(
    server: Server,
    workload: Workload,
    concurrency: int,
    *,
    rounds: int,
    progress: Callable[[str], None],
    crew: Crew,
    gpus: Callable[[], Look] | None = None,
    rootdir: Path = Path(),
    limits: Limits | None = None,
) -> CaseStart:
    """Measure ``workload`` at ``concurrency`` on a ready server. It ends with the first invalid round, since
    no later one could make the case valid.

    ``progress`` is told in a few words what goes on, about once a second.

    :param crew: what sends the requests; it lives on
    :param gpus: looks at the clocks of the server's GPUs; None: it has none, or nobody can tell
    :raises BrokenError: when the server dies, is out of reach, or cannot serve the very first request; when
        a client process dies.
    :raises ConfigError: for prompts or a ``requests`` expression that cannot be used.
    """
    setup = Setup(server, workload, concurrency, crew, progress, limits or Limits(), gpus)
    return _Measurement(setup).run(rounds, rootdir)


class _Measurement:
    def __init__(self, setup: Setup) -> None:
        self._server = setup.server
        self._workload = setup.workload
        self._concurrency = setup.concurrency
        self._progress = setup.progress
        self._limits = setup.limits
        self._crew = setup.crew
        self._gpus = setup.gpus
        self._lasted_s = _FIRST_GUESS_S
        self._player = Player(setup)
        self._requests: tuple[Request, ...] = ()
        self._template_tokens = 0
        self._speeds: list[float] = []
        self._counts = False
        self._facts: dict[str, Scalar] = {}

    def run(self, rounds: int, rootdir: Path) -> CaseStart:
        self._prepare(load_prompts(self._workload.prompts, rootdir))
        began_s = time.perf_counter()
        self._warm_up()
        self._facts["client_processes"] = self._crew.size(self._concurrency)
        self._facts["client_event_loop"] = eventloop.name()
        first = self._first_round(rounds)
        self._facts["warmup_s"] = round(time.perf_counter() - began_s - first.seconds, 3)
        measured = [first]
        while len(measured) < rounds and measured[-1].valid:
            measured.append(self._round(len(measured) + 1, rounds))
        if measured[-1].valid and (other := self._other_settings()) is not None:
            measured[-1] = _with(measured[-1], other)
        return CaseStart(self._server.start_id, tuple(_with_trend(measured)), dict(self._facts))

    # --- before the rounds

    def _prepare(self, prompts: Sequence[Prompt]) -> None:
        """The very first requests: whether the server serves at all, how long its template and tokens are."""
        usage = self._player.probe("a").usage
        self._template_tokens = usage.prompt_tokens if usage else 0
        chars_per_token = CHARS_PER_TOKEN
        if self._workload.input_tokens is not None:
            chars_per_token = self._chars_per_token(prompts, self._workload.input_tokens)
            self._facts["chars_per_token"] = round(chars_per_token, 3)
        self._requests = request_set(
            self._workload, prompts, self._concurrency, chars_per_token=chars_per_token
        )
        self._facts["template_tokens"] = self._template_tokens
        tells_cached = usage is not None and usage.cached_tokens is not None
        if not tells_cached or not self._workload.warmup_rounds:
            self._player.new_salt()

    def _chars_per_token(self, prompts: Sequence[Prompt], wanted: int) -> float:
        """As this engine counts its prompts, on a sample of them."""
        sample = "\n\n".join(p.text for p in prompts[:40])[: min(_SAMPLE_CHARS, max(400, 4 * wanted))]
        usage = self._player.probe(sample).usage
        tokens = usage.prompt_tokens - self._template_tokens if usage else 0
        return min(12.0, max(1.0, len(sample) / tokens)) if tokens > 0 else CHARS_PER_TOKEN

    def _warm_up(self) -> None:
        """The first round runs to each answer's natural end, which tells how many end early."""
        for i in range(self._workload.warmup_rounds):
            name = f"warm-up {i + 1}/{self._workload.warmup_rounds}"
            played = self._warm_up_round(name, natural=i == 0)
            if i == 0 and not played.failed:
                share = sum(s.total < s.wanted for s in played.streams) / len(played.streams)
                self._facts["natural_end_share"] = round(share, 4)
                if share > _MANY_END_EARLY:
                    self._warm_up_round(name, natural=False)

    def _warm_up_round(self, name: str, *, natural: bool) -> Played:
        """Again with nonces where a cache served it, again with more processes where the client needs it."""
        played = self._warm_up_set(name, natural=natural)
        if not self._player.salt and cached_share(played.streams, self._template_tokens) > CACHED_SHARE:
            self._player.new_salt()
            played = self._warm_up_set(name, natural=natural)
        while self._crew.learn(self._concurrency, played.client):
            size = self._crew.size(self._concurrency)
            self._progress(
                f"the client used {played.client.cpu_share:.0%} of a core: {size} processes from now on"
            )
            played = self._warm_up_set(name, natural=natural)
        self._note_speed(name, metrics_of(played.streams, self._concurrency, Counters()).get("tok_s"))
        return played

    def _warm_up_set(self, name: str, *, natural: bool) -> Played:
        played = self._player.play(name, self._requests, self._limits.warmup_deadlines, natural=natural)
        self._lasted_s = played.seconds
        return played

    def _note_speed(self, name: str, speed: float | None) -> None:
        if speed:
            self._speeds.append(speed)
        self._progress(f"{name} {speed:.1f} tok/s" if speed else f"{name} without a result")

    # --- rounds

    def _first_round(self, rounds: int) -> Round:
        """The first round that is no faster than the one before it; those that are were warm-up."""
        for extra in range(self._limits.extra_warmup_rounds + 1):
            round_ = self._round(1, rounds)
            self._facts["extra_warmup_rounds"] = extra
            if not round_.valid or not rose(self._speeds):
                return round_
            self._progress("faster than the round before: that was still warm-up")
        path = " → ".join(f"{s:.1f}" for s in self._speeds)
        return _with(
            round_,
            f"not steady: each round was faster than the one before ({path} tok/s); raise warmup_rounds",
        )

    def _round(self, number: int, rounds: int) -> Round:
        server, name = self._server, f"round {number}/{rounds}"
        instance = server.instance()
        before = self._counters()
        with watched(self._gpus, self._lasted_s) as looks:
            played = self._player.play(name, self._requests, self._limits.deadlines)
        counted = self._settled(before, sum(s.total for s in played.streams))
        streams, client = played.streams, played.client
        evidence = Evidence(
            config=server.config,
            concurrency=self._concurrency,
            streams=streams,
            counted=counted,
            client=client,
            instances=(instance, server.instance()),
            template_tokens=self._template_tokens,
            unsent=played.unsent,
            forced_acceptance=self._workload.forced_acceptance,
            counts=self._counts,
            told=server.told,
            gpus=looks,
            seconds=played.seconds,
        )
        found = (
            metrics_of(streams, self._concurrency, counted, off=server.config.off)
            if evidence.complete
            else {}
        )
        self._note_speed(name, found.get("tok_s"))
        facts: dict[str, Scalar] = {
            **facts_of(streams, self._concurrency),
            **facts_of_gpus(looks),
            "nonce": self._player.nonce,
            "client_processes": client.processes,
            "client_packets_s": round(client.packets_s),
            "client_cpu_share": round(client.cpu_share, 4),
            "client_lag_ms_p95": round(1000 * client.lag_p95_s, 3),
        }
        return Round(found, played.seconds, reasons(evidence), facts)

    def _other_settings(self) -> str | None:
        """Some engines tell how long their drafts are only once they have made some; one answer may fail."""
        server = self._server
        if not getattr(server.engine, "settings_show_late", False):
            return None
        deadline_s = time.perf_counter() + self._limits.settle_s
        while (settings := server.engine.settings(server.http, server.argv)).speculating is None:
            if time.perf_counter() > deadline_s:
                return None
            time.sleep(0.1)
        if wrong := server.engine.mismatches(server.config, settings):
            return f"the engine runs other settings than asked: {'; '.join(wrong)}"
        if server.config.off or settings.steps is not None or server.argv:
            return None
        return (
            f"nothing shows that its drafts are of {server.config.steps} steps: the engine does not tell, "
            "and its launch command is not known; turn on its metrics"
        )

    def _counters(self) -> Counters:
        """The engine's totals; asked for a moment where it told them before, since one answer may fail."""
        deadline_s = time.perf_counter() + self._limits.settle_s
        while True:
            found = self._server.engine.counters(self._server.http)
            self._counts = self._counts or found.generated_tokens is not None
            known = found.generated_tokens is not None or not self._counts
            if known or time.perf_counter() > deadline_s:
                return found
            time.sleep(0.1)

    def _settled(self, before: Counters, own_tokens: int) -> Counters:
        """What the counters grew by, once they have caught up with what was received."""
        deadline_s = time.perf_counter() + self._limits.settle_s
        while True:
            counted = delta(before, self._counters())
            generated = counted.generated_tokens
            if generated is None or generated >= own_tokens or time.perf_counter() > deadline_s:
                return counted
            time.sleep(0.1)


def _with(round_: Round, reason: str) -> Round:
    return replace(round_, reasons=(*round_.reasons, reason))


def _with_trend(rounds: Sequence[Round]) -> list[Round]:
    """The rounds, marked when they still speed up. A trend belongs to all of them."""
    if any(not r.valid for r in rounds):
        return list(rounds)
    speeds = [r.metrics["tok_s"] for r in rounds if "tok_s" in r.metrics]
    rise = trend(speeds)
    if rise is None:
        return list(rounds)
    path = " → ".join(f"{s:.1f}" for s in speeds)
    reason = f"not steady after the warm-up: {rise:+.1%} over the rounds ({path} tok/s); raise warmup_rounds"
    return [_with(r, reason) for r in rounds]

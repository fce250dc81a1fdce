"""Streams and counters of one round → the metrics of the table. Pure.

=================== ================================================================================
``tok_s``           Σ (tokens − tokens of the first event) / Σ (last token time − first token time)
``tok_s_p50``       the median over requests of the same ratio
``total_tok_s``     tokens that came while all workers were busy / the length of that window
``ttft_ms_*``       first token − request written
``itl_ms_*``        per request: (last − first) / (tokens − tokens of the first event)
``e2e_ms_*``        answer complete − request written
``tokens_per_step`` Σ (tokens − 1) / Σ steps: the first token comes from the prefill, not from a step
``step_ms``         1000 · Σ (last − first) / Σ steps
``accept_length``   1 + accepted / drafted steps
``accept_rate``     accepted / drafted tokens
``accept_rate_pos_i`` accepted at draft position i / drafted steps
=================== ================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest

import numpy as np

from ..engines import Counters
from ..model import ACCEPT_RATE_POS
from .streams import Stream

_PERCENTILES = (50, 95, 99)
MISSED_SHARE = 0.005
"""Tokens that counters may have missed and still tell of a round's steps and drafts."""
BEYOND = 5
"""Requests that must lie beyond a percentile for it to say more than its few largest values."""


@dataclass(frozen=True, slots=True)
class Window:
    """The time in which every worker had a request in flight, in seconds of ``time.perf_counter``."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return max(0.0, self.end_s - self.start_s)


def busy_window(streams: Sequence[Stream], concurrency: int) -> Window | None:
    """From the last worker's first request to the first worker's last end; None if a worker never worked.

    Between two requests of one worker lies only the time to connect, which the closed loop always has.
    """
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for s in streams:
        first[s.worker] = min(first.get(s.worker, s.sent_s), s.sent_s)
        last[s.worker] = max(last.get(s.worker, s.ended_s), s.ended_s)
    if len(first) < concurrency:
        return None
    return Window(max(first.values()), min(last.values()))


def delta(before: Counters, after: Counters) -> Counters:
    """What was counted in between; None where either is."""

    def minus(a: float | None, b: float | None) -> float | None:
        return None if a is None or b is None else b - a

    numbers = {
        f.name: minus(getattr(before, f.name), getattr(after, f.name))
        for f in fields(Counters)
        if f.name not in {"accepted_by_position", "raw"}
    }
    earlier = (*before.accepted_by_position, *[0.0] * len(after.accepted_by_position))
    positions = tuple(b - a for a, b in zip(earlier, after.accepted_by_position, strict=False))
    raw = {name: value - before.raw.get(name, 0.0) for name, value in after.raw.items()}
    return Counters(**numbers, accepted_by_position=positions, raw=raw)


def metrics_of(
    streams: Sequence[Stream], concurrency: int, counted: Counters, *, off: bool = False
) -> dict[str, float]:
    """Every metric that these streams and counters yield; what cannot be known is absent.

    Nothing at all when a request failed: the rest would be a number of another load. ``off``: the engine is
    known not to speculate.
    """
    if not streams or any(s.failure or not s.times_s.size for s in streams):
        return {}
    if not _covers(counted, streams):
        counted = Counters()
    return {
        **_speeds(streams),
        **_total(streams, concurrency),
        **_latencies(streams),
        **_steps(streams, counted, off=off),
        **_acceptance(streams, counted),
    }


def _covers(counted: Counters, streams: Sequence[Stream]) -> bool:
    """Whether the counters saw these requests: late ones, or those of one server of several, saw fewer
    tokens, and steps that are missing would look like more tokens a step."""
    ours, seen = sum(s.total for s in streams), counted.generated_tokens
    return seen is None or seen >= (1 - MISSED_SHARE) * ours


def _speeds(streams: Sequence[Stream]) -> dict[str, float]:
    seconds = sum(s.decode_s for s in streams)
    if seconds <= 0:
        return {}
    each = [s.decode_tokens / s.decode_s for s in streams if s.decode_s > 0]
    return {"tok_s": sum(s.decode_tokens for s in streams) / seconds, "tok_s_p50": float(np.median(each))}


def _total(streams: Sequence[Stream], concurrency: int) -> dict[str, float]:
    window = busy_window(streams, concurrency)
    if window is None or window.length_s <= 0:
        return {}
    tokens = sum(
        float(s.tokens[(s.times_s > window.start_s) & (s.times_s <= window.end_s)].sum()) for s in streams
    )
    return {"total_tok_s": tokens / window.length_s}


def _latencies(streams: Sequence[Stream]) -> dict[str, float]:
    samples = {
        "ttft_ms": [1000 * s.ttft_s for s in streams],
        "itl_ms": [1000 * s.decode_s / s.decode_tokens for s in streams if s.decode_tokens > 0],
        "e2e_ms": [1000 * s.e2e_s for s in streams],
    }
    return {
        f"{stem}_p{p}": float(np.percentile(values, p))
        for stem, values in samples.items()
        if values
        for p in _PERCENTILES
    }


def total_or_none(values: Iterable[float | None]) -> float | None:
    """The sum; None when any is unknown or there is none."""
    known = list(values)
    return None if not known or None in known else float(sum(v for v in known if v is not None))


def _steps(streams: Sequence[Stream], counted: Counters, *, off: bool) -> dict[str, float]:
    """From each request's own figures where the engine tells them, else from its counters; without
    speculation every token is a step of its own, though the engine counts none."""
    steps = total_or_none(s.usage.steps for s in streams if s.usage)
    tokens = float(sum(s.total - 1 for s in streams))
    if steps is None:
        steps = tokens if off and counted.steps is None else counted.steps
    if not steps or steps <= 0:
        return {}
    return {"tokens_per_step": tokens / steps, "step_ms": 1000 * sum(s.decode_s for s in streams) / steps}


@dataclass(frozen=True, slots=True)
class Drafted:
    """What became of a round's drafts; all from one source. None: nobody tells."""

    drafts: float | None
    draft_tokens: float | None
    accepted_tokens: float | None
    accepted_by_position: tuple[float, ...]


def drafted(streams: Sequence[Stream], counted: Counters) -> Drafted:
    """From the engine's counters where it has them, else from its figures per request."""
    if counted.draft_tokens is not None and counted.accepted_tokens is not None:
        return Drafted(
            counted.drafts, counted.draft_tokens, counted.accepted_tokens, counted.accepted_by_position
        )
    usages = [s.usage for s in streams if s.usage]
    own = total_or_none(u.drafts for u in usages)
    positions = [u.accepted_by_position for u in usages] if own is not None else []
    return Drafted(
        drafts=counted.drafts if own is None else own,
        draft_tokens=total_or_none(u.draft_tokens for u in usages),
        accepted_tokens=total_or_none(u.accepted_tokens for u in usages),
        accepted_by_position=tuple(map(sum, zip_longest(*positions, fillvalue=0.0))),
    )


def _acceptance(streams: Sequence[Stream], counted: Counters) -> dict[str, float]:
    found: dict[str, float] = {}
    became = drafted(streams, counted)
    accepted = became.accepted_tokens
    if became.draft_tokens and accepted is not None:
        found["accept_rate"] = accepted / became.draft_tokens
    if became.drafts and accepted is not None:
        found["accept_length"] = 1 + accepted / became.drafts
        for i, n in enumerate(became.accepted_by_position):
            found[f"{ACCEPT_RATE_POS}{i}"] = n / became.drafts
    return found


def cached_share(streams: Sequence[Stream], template_tokens: int) -> float:
    """Prompt tokens that came from a cache beyond the template, of all prompt tokens; 0 where nobody tells.
    An engine that tells of some requests means none by silence about another."""
    usages = [s.usage for s in streams if s.usage]
    prompt = sum(u.prompt_tokens for u in usages)
    from_cache = sum(max(0, (u.cached_tokens or 0) - template_tokens) for u in usages)
    return from_cache / prompt if prompt else 0.0


def few_samples(requests: int) -> str | None:
    """Which percentiles over so many requests rest on a few of them, in words; None when none does."""
    few = [f"p{p}" for p in _PERCENTILES if requests * (100 - p) < 100 * BEYOND]
    return f"{', '.join(few)} of {requests} requests" if few else None


def facts_of(streams: Sequence[Stream], concurrency: int) -> Mapping[str, float | int | str | None]:
    """What a reader wants to know beside the metrics: sizes, and what the window left out."""
    good = [s for s in streams if not s.failure]
    window = busy_window(good, concurrency)
    found: dict[str, float | int | str | None] = {
        "requests": len(streams),
        "few_samples": few_samples(len(good)),
        "output_tokens": sum(s.total for s in good),
        "prompt_tokens": sum(s.usage.prompt_tokens for s in good if s.usage),
        "cached_prompt_tokens": total_or_none(s.usage.cached_tokens for s in good if s.usage),
    }
    if window is not None and window.length_s > 0:
        found |= {
            "ramp_s": round(window.start_s - min(s.sent_s for s in good), 3),
            "window_s": round(window.length_s, 3),
            "tail_s": round(max(s.ended_s for s in good) - window.end_s, 3),
        }
    return found

"""How one request's tokens fall into decode steps, events and moments. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle

from tests.fake.settings import Settings


@dataclass(slots=True)
class Drafts:
    """What speculation did in one request."""

    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    by_position: list[int] = field(default_factory=list)


def steps_of(settings: Settings, tokens: int, k: int, drafts: Drafts) -> Iterator[int]:
    """Tokens of each decode step after the first token, until ``tokens`` are there.

    Acceptance is exact rather than random: a position accepts whenever its running sum passes a whole number.
    """
    sums = [0.5] * k
    drafts.by_position = [0] * k
    left = tokens - 1
    while left > 0:
        drafting = min(k, left - 1)
        accepted = 0
        for position in range(drafting):
            sums[position] += settings.accept_at(position)
            if sums[position] < 1.0:
                break
            sums[position] -= 1.0
            accepted += 1
            drafts.by_position[position] += 1
        if drafting:
            drafts.steps += 1
            drafts.drafted += drafting
            drafts.accepted += accepted
        yield accepted + 1
        left -= accepted + 1


def events_of(settings: Settings, tokens: int, k: int, drafts: Drafts) -> list[int]:
    """Tokens of each streamed event; they add up to ``tokens``."""
    steps = list(steps_of(settings, tokens, k, drafts))
    wanted = settings.tokens_per_event
    if wanted is None:
        return [1, *steps]
    events: list[int] = []
    left = tokens
    for size in cycle(wanted if isinstance(wanted, list) else [wanted]):
        if left <= 0:
            break
        events.append(min(size, left))
        left -= size
    return events


def moments_of(events: list[int], first_s: float, tok_s: float) -> list[float]:
    """Seconds from the request at which each event is due: exactly ``tok_s`` after the first one."""
    moments, sent = [], 0
    for size in events:
        sent += size
        moments.append(first_s + (sent - events[0]) / tok_s)
    return moments

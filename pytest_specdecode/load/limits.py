"""How long things of the load may take. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

EXTRA_ROUNDS = 6
"""Rounds that may prove to have been warm-up before a server counts as not steady (:mod:`.steady`)."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """After which a request counts as failed, in seconds.

    ``first_s`` holds for the first packets (an answer's head and a chat's role event may come long before the
    first token), ``stall_s`` between two later ones.
    """

    connect_s: float = 10.0
    first_s: float = 300.0
    stall_s: float = 20.0
    total_s: float = 1800.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one case. The warm-up may stall longer: kernels are compiled in it."""

    deadlines: Deadlines = field(default_factory=Deadlines)
    warmup_deadlines: Deadlines = field(default_factory=lambda: Deadlines(first_s=600.0, stall_s=300.0))
    extra_warmup_rounds: int = EXTRA_ROUNDS
    settle_s: float = 2.0
    """For counters that are brought up to date late, and for a death that is noticed late."""

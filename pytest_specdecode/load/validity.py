"""Why a round must not become a number. Pure: evidence in, one sentence each out.

Settings, running-request caps and the hardware are looked at elsewhere, before the first request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from ..engines import Counters, acceptance_by_position
from ..model import SpecConfig
from .gpus import Look, slowdown
from .metrics import cached_share, drafted
from .streams import Stream

FOREIGN_SHARE = 0.005
CACHED_SHARE = 0.05
LATE_SHARE = 0.05
LATE_FLOOR_S = 0.050
"""Lateness (95th percentile) that is tolerated: a share of a request's decode time, or the floor if that is
more. It delays first and last tokens alike, so it adds noise that averages out over the round's requests, and
no bias; far beyond these limits the client is what was measured."""
CPU_SHARE = 0.9
FORCED_SHARE = 0.1
"""How far the share of first draft tokens that were accepted may lie from a forced one, five standard errors
of a share over that many drafts apart."""


@dataclass(frozen=True, slots=True)
class Client:
    """How the client fared in the round, as the one of its processes that had it worst: ``lag_p95_s`` of the
    event loop, ``cpu_share`` of one core. ``packets_s`` came in each second, over all processes.
    """

    lag_p95_s: float
    cpu_share: float
    processes: int = 1
    packets_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one round.

    ``counted`` is what the engine's counters grew by, ``instances`` what ran before and after,
    ``template_tokens`` the prompt tokens that every request shares by its template.
    """

    config: SpecConfig
    concurrency: int
    streams: Sequence[Stream]
    counted: Counters
    client: Client
    instances: tuple[str, str]
    template_tokens: int = 0
    unsent: int = 0
    forced_acceptance: float | None = None
    counts: bool = False
    """Whether this engine is known to tell its totals."""
    told: bool = True
    """Whether it was known before the first request whether the engine speculates."""
    gpus: Sequence[Look] = ()
    """Looks at the GPUs before, amid and after the round."""
    seconds: float = 0.0

    @property
    def good(self) -> list[Stream]:
        return [s for s in self.streams if not s.failure]

    @property
    def complete(self) -> bool:
        """Whether every request ended as it should, so that sums over them mean something."""
        return not self.unsent and len(self.good) == len(self.streams) > 0


def restarted(e: Evidence) -> str | None:
    """The service was restarted under the load."""
    before, after = e.instances
    return None if before == after else f"the service was restarted under the load: {before} → {after}"


def failed(e: Evidence) -> str | None:
    """A request failed, was cut, or was given up."""
    failures = Counter(s.failure for s in e.streams if s.failure)
    if not failures:
        return None
    common = "; ".join(f"{text} (× {n})" if n > 1 else str(text) for text, n in failures.most_common(2))
    more = f" and {len(failures) - 2} other kinds" if len(failures) > 2 else ""
    unsent = f", {e.unsent} were given up" if e.unsent else ""
    return f"{failures.total()} of {len(e.streams) + e.unsent} requests failed{unsent}: {common}{more}"


def fell_short(e: Evidence) -> str | None:
    """A request ended with fewer tokens than asked."""
    short = [s for s in e.good if s.total < s.wanted]
    if not short:
        return None
    worst = min(short, key=lambda s: s.total / s.wanted)
    return (
        f"{len(short)} of {len(e.streams)} requests fell short, one with {worst.total} of {worst.wanted} "
        f"tokens (finish_reason {worst.finish_reason or 'none'})"
    )


def in_one_piece(e: Evidence) -> str | None:
    """Most answers arrived at once: a proxy on the way buffers streams, and times mean nothing."""
    lumps = [s for s in e.good if s.total >= 8 and s.times_s.size < 2]
    if 2 * len(lumps) <= len(e.streams):
        return None
    return (
        f"{len(lumps)} of {len(e.streams)} answers arrived in one piece: something on the way buffers streams"
    )


def speculation(e: Evidence) -> str | None:
    """Drafts where there were to be none, or none where there were to be some; both stay silent elsewhere."""
    tokens = e.counted.draft_tokens if e.counted.draft_tokens is not None else e.counted.drafts
    if tokens is None:
        tokens = drafted(e.good, e.counted).draft_tokens
    if tokens is None:
        asked = "speculation off" if e.config.off else f"{e.config.steps} steps"
        unknown = f"nothing shows that the engine runs {asked}: it tells neither its settings nor its drafts"
        return None if e.told else f"{unknown}; turn on its metrics"
    if e.config.off and tokens > 0:
        return f"speculation was to be off, but {tokens:.0f} tokens were drafted"
    if not e.config.off and tokens <= 0 and e.good:
        return (
            f"{e.config.algorithm or 'speculation'} with {e.config.steps} steps was asked, "
            "but nothing was drafted"
        )
    return None


def forced(e: Evidence) -> str | None:
    """A forced acceptance is not in force, by the first position of each draft, there even in short ones.

    An engine without such counters is held to the acceptance length of full drafts,
    ``1 + sum(rate ** i for i in 1 … steps)``: it may force lengths, whatever the positions.
    """
    became = drafted(e.good, e.counted)
    rate, drafts, accepted = e.forced_acceptance, became.drafts, became.accepted_tokens
    if accepted is None and e.counted.steps is not None and e.complete:
        accepted = sum(s.total - 1 for s in e.good) - e.counted.steps  # each step has one token of its own
    if rate is None or e.config.off or drafts == 0:
        return None
    by_position = e.counted.accepted_by_position
    if drafts and by_position:
        what, found, wanted = "first draft tokens", by_position[0] / drafts, rate
    elif drafts and accepted is not None:
        what, wanted = "drafted tokens a step", sum(acceptance_by_position(rate, e.config.steps))
        found = accepted / drafts
    else:
        return (
            f"nothing shows that forced_acceptance {rate:.0%} is in force: the engine does not tell how "
            "often it drafted, and how much of that it accepted; turn on its metrics"
        )
    allowed = FORCED_SHARE * wanted + 5 * sqrt(wanted * max(e.config.steps - wanted, 0.01) / drafts)
    if abs(found - wanted) <= allowed:
        return None
    return (
        f"forced_acceptance {rate:.0%} is not in force: {found:.2f} of the {what} were accepted, "
        f"{wanted:.2f} would be"
    )


def uncounted(e: Evidence) -> str | None:
    """An engine that tells its totals did not around this round, so that they could show nothing."""
    if not e.counts or e.counted.generated_tokens is not None:
        return None
    return "the engine's counters could not be read before or after the round: nobody knows whom it served"


def foreign(e: Evidence) -> str | None:
    """More than 0.5% of the tokens in the engine's counters are not ours: somebody else uses the server.

    Prompt counters that leave out cached tokens show less of it, never more.
    """
    if not e.complete:
        return None
    ours = {
        "generated": (e.counted.generated_tokens, sum(s.total for s in e.good)),
        "prompt": (e.counted.prompt_tokens, sum(s.usage.prompt_tokens for s in e.good if s.usage)),
    }
    for kind, (counted, own) in ours.items():
        if counted is not None and counted - own > FOREIGN_SHARE * own:
            return (
                f"{counted - own:.0f} of {counted:.0f} {kind} tokens in the engine's counters are not ours "
                f"({(counted - own) / counted:.1%}): somebody else uses the server"
            )
    return None


def ran_together(e: Evidence) -> str | None:
    """Fewer requests decoded together than the concurrency, while others waited for one of them to end.

    Long prefills, too, can keep the peak below the concurrency, but then the waiting ones get their first
    tokens at the pace of prefills. So a round is only held to be capped if requests had to wait, with no
    first token coming at all, more than twice as long as any of the first ``peak`` ones, which certainly had
    a place: one request in the ramp, until after the first end of another; or half of all that came later.
    """
    if not e.complete or len(e.streams) < e.concurrency or any(not s.times_s.size for s in e.streams):
        return None
    peak = _peak(e.streams)
    if not 0 < peak < e.concurrency:
        return None
    ordered = sorted(e.streams, key=lambda s: s.sent_s)
    waits_s = _waits_s(ordered)
    usual_s = max(waits_s[:peak])
    first_end_s = min(s.last_s for s in ordered)
    late = [s for s, wait_s in zip(ordered[peak:], waits_s[peak:], strict=True) if wait_s > 2 * usual_s]
    in_ramp = any(s.sent_s < first_end_s < s.first_s for s in late)
    if not in_ramp and 2 * len(late) < len(ordered) - peak:
        return None
    ttft_s = float(np.median([s.ttft_s for s in ordered[peak:]]))
    return (
        f"at most {peak} requests ran together at concurrency {e.concurrency}: the others waited in line, "
        f"{ttft_s:.2f} s for their first token; raise the engine's limit on running requests"
    )


def _waits_s(ordered: Sequence[Stream]) -> list[float]:
    """How long each waited for its first token since it was sent or since another got its first, if later."""
    firsts_s = np.sort([s.first_s for s in ordered])
    before = np.searchsorted(firsts_s, [s.first_s for s in ordered])
    return [
        s.first_s - max(s.sent_s, float(firsts_s[i - 1]) if i else s.sent_s)
        for s, i in zip(ordered, before, strict=True)
    ]


def _peak(streams: Sequence[Stream]) -> int:
    """The most streams that were between their first and last token at one time."""
    moments = sorted([(s.first_s, 1) for s in streams] + [(s.last_s, -1) for s in streams])
    running = peak = 0
    for _, change in moments:
        running += change
        peak = max(peak, running)
    return peak


def cached(e: Evidence) -> str | None:
    """More than 5% of the prompt tokens came from a cache beyond the template: by each request's own figures,
    or by the engine's counters where requests do not tell."""
    share = cached_share(e.good, e.template_tokens)
    from_cache, prompt = e.counted.cached_prompt_tokens, e.counted.prompt_tokens
    if from_cache and prompt and all(s.usage is None or s.usage.cached_tokens is None for s in e.good):
        share = max(0.0, from_cache - e.template_tokens * len(e.streams)) / prompt
    if share <= CACHED_SHARE:
        return None
    return (
        f"{share:.0%} of the prompt tokens came from a cache beyond the template's {e.template_tokens}: "
        "the prompts were seen before"
    )


def client_late(e: Evidence) -> str | None:
    """The client measured itself: it used up its CPU core, or its event loop lagged."""
    times_s = [s.decode_s for s in e.good if s.times_s.size]
    allowed_s = max(LATE_FLOOR_S, LATE_SHARE * float(np.median(times_s))) if times_s else LATE_FLOOR_S
    if e.client.cpu_share > CPU_SHARE:
        return (
            f"the client measured itself: it used {e.client.cpu_share:.0%} of a CPU core with "
            f"workload.client_processes = {e.client.processes}; give it more, on cores that are free"
        )
    if e.client.lag_p95_s > allowed_s:
        return (
            f"the client was late: its event loop lagged by {1000 * e.client.lag_p95_s:.0f} ms "
            f"(95th percentile, {1000 * allowed_s:.0f} ms allowed); keep a CPU core free for it"
        )
    return None


def throttled(e: Evidence) -> str | None:
    """GPUs were slowed down by heat, a power brake or other hardware slow-down while it ran."""
    return slowdown(e.gpus, e.seconds)


CHECKS: tuple[Callable[[Evidence], str | None], ...] = (
    restarted,
    failed,
    fell_short,
    in_one_piece,
    speculation,
    forced,
    uncounted,
    foreign,
    ran_together,
    cached,
    client_late,
    throttled,
)


def reasons(evidence: Evidence) -> tuple[str, ...]:
    """Every reason that applies, the root ones first; empty when the round is valid."""
    return tuple(reason for check in CHECKS if (reason := check(evidence)) is not None)

"""Whether the client measures what the schedule says, at rates where it might not."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pytest_specdecode.config import Workload
from pytest_specdecode.load.crew import Crew
from pytest_specdecode.load.measure import measure
from pytest_specdecode.model import Round

from .served import TTFT_MS, Perf, Schedule, serving, true_total

SPEED_WITHIN, TTFT_WITHIN_MS = 0.005, 5.0
MIXED = (1, 4, 3, 3, 2, 4, 2, 3, 1, 4)
"""2.7 tokens an event."""
ROUNDS = 5


@dataclass(frozen=True)
class Rate:
    """``streams`` at once, each with ``events_s``, from ``processes``; each lasts about ``stream_s``."""

    streams: int
    events_s: float
    processes: int
    stream_s: float = 4.0


RATES = (Rate(64, 200.0, 1), Rate(256, 50.0, 2, 6.0), Rate(512, 50.0, 2, 6.0))
SIZES = ((1,), MIXED, (4,))


def rows(note: Callable[[str], None]) -> Iterator[list[str]]:
    for rate in RATES:
        for each in SIZES:
            row = _row(rate, Schedule(rate.events_s, each))
            note("  ".join(row))
            yield row


HEADER = [
    "streams × events/s", "processes", "tokens an event", "tok_s", "total_tok_s", "TTFT p50",
    "client: CPU, lag p95", "server late p50, p99", "within the bounds",
]  # fmt: skip


@dataclass
class Watched(Perf):
    """Takes down what was served whenever it is asked who it is: before and after each round."""

    seen: list[dict[str, Any]] = field(default_factory=list)

    def instance(self) -> str:
        self.seen.append(self.served())
        return super().instance()


def _row(rate: Rate, schedule: Schedule) -> list[str]:
    """Medians over the valid rounds: each is compared with its own truth."""
    table = Workload(
        output_tokens=round(schedule.tok_s * rate.stream_s), requests="2c", warmup_rounds=1, rounds=ROUNDS
    )
    seen: list[dict[str, Any]] = []
    with serving(schedule) as server, Crew(rate.processes, rate.processes) as crew:
        watched = Watched(server.url, server.http, schedule, seen=seen)
        start = measure(watched, table, rate.streams, rounds=ROUNDS, progress=lambda _: None, crew=crew)
    served = seen[1::2]
    name = [f"{rate.streams} × {rate.events_s:.0f}", str(rate.processes), f"{schedule.mean:g}"]
    errors = [
        (r, true_total(s["begun"], rate.streams, schedule), s)
        for r, s in zip(start.rounds, served, strict=False)
        if r.valid
    ]
    if not errors:
        return [*name, f"no valid round: {start.reasons[0]}"]
    tok_s = statistics.median(r.metrics["tok_s"] / schedule.tok_s - 1 for r, _, _ in errors)
    total = statistics.median(r.metrics["total_tok_s"] / truth - 1 for r, truth, _ in errors)
    ttft_ms = statistics.median(r.metrics["ttft_ms_p50"] - TTFT_MS for r, _, _ in errors)
    good = abs(tok_s) <= SPEED_WITHIN and abs(total) <= SPEED_WITHIN and 0 <= ttft_ms <= TTFT_WITHIN_MS
    late = [statistics.median(s[f"late_ms_{p}"] for _, _, s in errors) for p in ("p50", "p99")]
    return [
        *name,
        f"{tok_s:+.2%}",
        f"{total:+.2%}",
        f"{ttft_ms:+.1f} ms",
        f"{_fact(errors[-1][0], 'client_cpu_share'):.0%}, {_fact(errors[-1][0], 'client_lag_ms_p95'):.1f} ms",
        f"{late[0]:.1f} ms, {late[1]:.1f} ms",
        "yes" if good else "no",
    ]


def _fact(round_: Round, name: str) -> float:
    return float(str(round_.facts[name]))

"""The values that every other module speaks of: frozen, free of I/O, free of pytest."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from .errors import ConfigError, MissingMetricError

Scalar = str | int | float | bool | None
Args = tuple[tuple[str, Scalar], ...]


class Outcome(StrEnum):
    """What a case or test ends in: exactly one of these. Ordered from best to worst."""

    MEASURED = "measured"
    """The test asks for no baseline; its own asserts decide."""
    RECORDED = "recorded"
    """A recording session (``--update-baselines``): comparisons with the baseline hold."""
    PASS = "pass"  # noqa: S105
    """Shown not to be slower by the tolerance or more."""
    NO_BASELINE = "no-baseline"
    """Nothing is stored for this case; the message has the command that records it."""
    INCOMPARABLE = "incomparable"
    """Baselines exist, but of other hardware, model or workload."""
    INCONCLUSIVE = "inconclusive"
    """The restarts ran out before a pass or a regression was shown."""
    INVALID = "invalid"
    """The load ran, but the number does not mean what it says."""
    DIRTY = "dirty"
    """The environment could not be proven clean."""
    BROKEN = "broken"
    """Unreachable, would not start, crashed, or runs other settings than asked."""
    REGRESSED = "regressed"
    """Shown to be slower by more than the margin; the report says by how much and why."""

    @property
    def is_error(self) -> bool:
        """Whether pytest shows it as an error: there is no number."""
        return self in (Outcome.INVALID, Outcome.DIRTY, Outcome.BROKEN)

    @property
    def rank(self) -> int:
        """Place in the order from best (0) to worst."""
        return list(Outcome).index(self)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the metric table: ``name`` as used in code and files, its unit, and which way is better."""

    name: str
    unit: str
    higher_is_better: bool
    meaning: str


def _percentiles(stem: str, meaning: str) -> list[Metric]:
    return [
        Metric(f"{stem}_p{p}", "ms", False, f"{meaning}, {p}th percentile over requests")
        for p in (50, 95, 99)
    ]


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        m.name: m
        for m in [
            Metric("tok_s", "tok/s", True, "decode speed that one user sees"),
            Metric("tok_s_p50", "tok/s", True, "the same, median over requests"),
            Metric("total_tok_s", "tok/s", True, "all tokens while every worker was busy"),
            *_percentiles("ttft_ms", "time to first token"),
            *_percentiles("itl_ms", "inter-token latency of a request"),
            *_percentiles("e2e_ms", "whole request"),
            Metric("tokens_per_step", "tokens", True, "decode tokens per decode step"),
            Metric("step_ms", "ms", False, "duration of one decode step"),
            Metric("accept_length", "tokens", True, "acceptance length: 1 + accepted / drafted steps"),
            Metric("accept_rate", "ratio", True, "accepted / drafted tokens"),
        ]
    }
)
"""Metrics by name. ``accept_rate_pos_<i>`` (acceptance at draft position i, from 0) exists beside them."""

ACCEPT_RATE_POS = "accept_rate_pos_"


def metric(name: str) -> Metric:
    """The metric called ``name``; :class:`ConfigError` naming the valid ones when there is none."""
    if name in METRICS:
        return METRICS[name]
    if name.startswith(ACCEPT_RATE_POS) and name.removeprefix(ACCEPT_RATE_POS).isdigit():
        return Metric(name, "ratio", True, "acceptance at one draft position")
    raise ConfigError(f"unknown metric {name!r}; there are: {', '.join(METRICS)}, {ACCEPT_RATE_POS}<n>")


@dataclass(frozen=True, slots=True)
class SpecConfig:
    """One speculation setting of a server: what is changed between two starts.

    ``steps`` 0 means no speculation; then algorithm, topk and draft_tokens are None. ``args`` are further
    settings in the engine's own words, sorted by name.
    """

    steps: int
    algorithm: str | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    args: Args = ()

    @classmethod
    def of(
        cls,
        steps: int,
        *,
        algorithm: str | None = None,
        topk: int | None = 1,
        draft_tokens: int | None = None,
        args: Mapping[str, Scalar] | None = None,
    ) -> SpecConfig:
        """The configuration with its defaults filled in: draft tokens are steps + 1 at top-k 1."""
        if steps < 0:
            raise ConfigError(f"steps must be 0 (off) or more, not {steps}")
        extra = tuple(sorted((args or {}).items()))
        if steps == 0:
            return cls(0, args=extra)
        if draft_tokens is None and topk == 1:
            draft_tokens = steps + 1
        return cls(steps, algorithm, topk, draft_tokens, extra)

    @property
    def off(self) -> bool:
        return self.steps == 0

    def as_dict(self) -> dict[str, Any]:
        """As written to files: algorithm, draft_tokens, steps, topk, and ``args`` where there are any."""
        plain: dict[str, Any] = {
            "algorithm": self.algorithm,
            "draft_tokens": self.draft_tokens,
            "steps": self.steps,
            "topk": self.topk,
        }
        if self.args:
            plain["args"] = dict(self.args)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> SpecConfig:
        return cls(
            plain["steps"],
            plain.get("algorithm"),
            plain.get("topk"),
            plain.get("draft_tokens"),
            tuple(sorted((plain.get("args") or {}).items())),
        )


@dataclass(frozen=True, slots=True)
class Case:
    """What a number belongs to: a configuration of a target at one concurrency."""

    target: str
    config: SpecConfig
    concurrency: int


@dataclass(frozen=True, slots=True)
class Round:
    """One round of load. ``metrics`` are flat scalars by name; a round with reasons is not valid."""

    metrics: Mapping[str, float]
    seconds: float
    reasons: tuple[str, ...] = ()
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    """What the round showed besides metrics: client headroom, requests, ramp-up seconds, …"""

    @property
    def valid(self) -> bool:
        return not self.reasons


@dataclass(frozen=True, slots=True)
class CaseStart:
    """One case measured on one server start."""

    start_id: str
    rounds: tuple[Round, ...]
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    """What the warm-up showed: share of requests that end naturally, warm-up rounds, …"""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why this start must not become a number; empty when all rounds are valid. Each reason once."""
        found = [reason for r in self.rounds for reason in r.reasons]
        return tuple(dict.fromkeys(found)) if self.rounds else ("no round was measured",)

    @property
    def valid(self) -> bool:
        return not self.reasons

    def values(self, name: str) -> tuple[float, ...]:
        """The metric's value in each round that has it."""
        return tuple(r.metrics[name] for r in self.rounds if name in r.metrics)


@dataclass(frozen=True, slots=True)
class ServerStart:
    """One start of the engine: what it was asked, what it says it runs."""

    id: str
    target: str
    config: SpecConfig
    restart: int
    at: str
    """ISO 8601, UTC."""
    ready_s: float = math.nan
    version: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    """The launch command, secrets redacted; empty where the service is the user's own."""
    discarded: str = ""
    """Why nothing that was measured on it counts; empty for a start that does."""
    host: str = ""
    """Where the engine ran, as it is reached."""


def summarize(starts: Sequence[CaseStart], name: str) -> float:
    """Geometric mean over starts of the median over rounds.

    :raises MissingMetricError: when a start has no value of that metric.
    """
    medians = []
    for start in starts:
        values = start.values(name)
        if not values:
            raise MissingMetricError(f"{name} was not measured{_why_missing(name)}")
        medians.append(statistics.median(values))
    if not medians:
        raise MissingMetricError(f"{name} was not measured: no valid server start")
    if min(medians) <= 0:
        return statistics.fmean(medians)
    return math.exp(statistics.fmean(map(math.log, medians)))


def geometric_mean(values: Sequence[float]) -> float | None:
    """None where there is none: no values, or some that are not above zero."""
    if not values or min(values) <= 0:
        return None
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _why_missing(name: str) -> str:
    if name in {"step_ms", "tokens_per_step"}:
        return ": the engine gives no step counter"
    if name.startswith("accept_"):
        return ": the engine drafted nothing, or tells nothing of its drafts"
    return ""


def metric_names(starts: Sequence[CaseStart]) -> list[str]:
    """Names that every start has, in the table's order, positions last."""
    if not starts:
        return []
    common = set.intersection(*({n for r in s.rounds for n in r.metrics} for s in starts))
    table = list(METRICS)
    return sorted(common, key=lambda n: (table.index(n) if n in METRICS else len(table), len(n), n))

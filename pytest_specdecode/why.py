"""Why decode got slower (§7): time per token = step_ms / tokens_per_step, so a loss has two parts. Pure.

Each part is a ratio now / stored with its interval, from the same server starts, noise and degrees of freedom
as the verdict's. What an interval does not show is not claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .errors import SampleError
from .model import metric
from .verdict import Interval, Noise, Start, ratio_interval

TOKENS, STEP = "tokens_per_step", "step_ms"
PARTS = (TOKENS, STEP)
CONFIDENCE = 0.95
"""Two-sided, of each part by itself, as the ± in tables: it explains a verdict, it is none."""

Change = Literal["worse", "better", "unchanged", "unclear"]
Cause = Literal["tokens", "step time", "both", "neither"]


@dataclass(frozen=True, slots=True)
class Part:
    """One factor of the time per token: ``ratio`` is now / stored, between ``low`` and ``high``."""

    name: str
    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, name: str, found: Interval) -> Part:
        return cls(name, found.ratio, found.low, found.high)

    @property
    def half_width(self) -> float:
        """Of the interval's longer side: what stands behind ``±``."""
        return max(self.high - self.ratio, self.ratio - self.low)

    @property
    def shown(self) -> bool:
        """Whether it is shown to have changed at all."""
        return abs(self.ratio - 1) > self.half_width

    @property
    def time(self) -> float:
        """Factor of the time per token: above 1 where this part lost."""
        return self.ratio if self.name == STEP else 1 / self.ratio

    @property
    def worst_time(self) -> float:
        """The largest loss that the interval leaves possible, as a factor of time."""
        return self.high if self.name == STEP else 1 / max(self.low, 1e-9)

    def change(self, lost: float) -> Change:
        """In one word. ``lost``: the whole change of time per token.

        Unchanged: not shown to have changed, and shown not to make half of what was lost.
        """
        if self.shown:
            return "worse" if self.time > 1 else "better"
        return "unchanged" if self.worst_time < 1 + max(lost - 1, 0.0) / 2 else "unclear"


@dataclass(frozen=True, slots=True)
class Why:
    """Both parts of one case's change in time per token."""

    tokens_per_step: Part
    step_ms: Part

    @property
    def time_per_token(self) -> float:
        """The product of both: above 1 where decode takes longer."""
        return self.tokens_per_step.time * self.step_ms.time

    @property
    def parts(self) -> tuple[Part, Part]:
        return self.tokens_per_step, self.step_ms

    @property
    def cause(self) -> Cause:
        """Which parts are shown to have got worse."""
        tokens, step = (part.shown and part.time > 1 for part in self.parts)
        return "both" if tokens and step else "tokens" if tokens else "step time" if step else "neither"

    def as_dict(self) -> dict[str, Any]:
        """As in ``--spec-json``: ratios are now / stored, ``cause`` what is shown to have got worse."""
        parts = {
            part.name: {
                "ratio": part.ratio,
                "low": part.low,
                "high": part.high,
                "change": part.change(self.time_per_token),
            }
            for part in self.parts
        }
        return {"cause": self.cause, "time_per_token": self.time_per_token, **parts}


def explain(
    now: Mapping[str, Sequence[Start]], stored: Mapping[str, Sequence[Start]], noise: Mapping[str, Noise]
) -> Why | None:
    """The split of a case's change; None where a side has no step counter.

    :param noise: pooled over the target's baselines, by metric.
    """
    if any(not side.get(name) for side in (now, stored) for name in PARTS):
        return None
    try:
        tokens, step = (
            ratio_interval(
                now[name],
                stored[name],
                confidence=CONFIDENCE,
                noise=noise.get(name),
                higher_is_better=metric(name).higher_is_better,
            )
            for name in PARTS
        )
    except SampleError:  # a counter that stood still: there is no ratio
        return None
    return Why(Part.of(TOKENS, tokens), Part.of(STEP, step))

"""What a test holds: the measurement of its case, and the baseline to compare it with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from .gating import Judgement, Stored
from .model import METRICS, Case, CaseStart, Outcome, Round, SpecConfig, metric_names, summarize

ACCEPTED = frozenset({Outcome.PASS, Outcome.RECORDED})


@dataclass(slots=True)
class Comparison:
    """Whether a test compared its measurement with its baseline, and whether that holds."""

    holds: bool = False
    made: bool = False


class _Comparable:
    """``measurement >= baseline`` and its mirror are the only comparisons."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def _refuse(self, other: object) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} and {type(other).__name__} cannot be compared like this: "
            "`measurement >= baseline` is the only comparison; compare a metric, such as "
            "`measurement.tok_s >= 180`, with a number"
        )

    def __eq__(self, other: object) -> bool:
        self._refuse(other)

    def __ne__(self, other: object) -> bool:
        self._refuse(other)

    def __lt__(self, other: object) -> bool:
        self._refuse(other)

    def __gt__(self, other: object) -> bool:
        self._refuse(other)

    def __le__(self, other: object) -> bool:
        self._refuse(other)

    def __ge__(self, other: object) -> bool:
        self._refuse(other)


@dataclass(frozen=True, slots=True, eq=False)
class Baseline(_Comparable):
    """The stored numbers of a case, in the ``baseline`` fixture."""

    case: Case
    stored: Stored = field(repr=False)

    @property
    def exists(self) -> bool:
        return self.stored.problem is None

    def __le__(self, other: object) -> bool:
        return other >= self if isinstance(other, Measurement) else self._refuse(other)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Measurement(_Comparable):
    """A case as measured over all restarts so far, in the ``measurement`` fixture.

    Every metric of the table is an attribute, in its unit (``.tok_s``, ``.ttft_ms_p95``, ``.step_ms``, …):
    the geometric mean over server starts of the median over rounds. One that was not measured raises
    :class:`~pytest_specdecode.errors.MissingMetricError`.
    """

    case: Case
    starts: tuple[CaseStart, ...]
    judgement: Judgement | None = None
    """What the gate says, once decided; None in tests that ask for no baseline."""
    comparison: Comparison = field(default_factory=Comparison)

    @property
    def config(self) -> SpecConfig:
        return self.case.config

    @property
    def concurrency(self) -> int:
        return self.case.concurrency

    @property
    def rounds(self) -> tuple[Round, ...]:
        """All rounds of all starts, in the order in which they ran."""
        return tuple(r for start in self.starts for r in start.rounds)

    @property
    def verdict(self) -> Judgement | None:
        return self.judgement

    @property
    def metrics(self) -> Mapping[str, float]:
        """Every metric that all starts have, by name."""
        return {name: summarize(self.starts, name) for name in metric_names(self.starts)}

    @property
    def accept_rate_by_position(self) -> tuple[float, ...]:
        """Acceptance at each draft position, from the first."""
        return tuple(v for name, v in self.metrics.items() if name.startswith("accept_rate_pos_"))

    def __getattr__(self, name: str) -> float:
        if name in METRICS or name.startswith("accept_rate_pos_"):
            return summarize(self.starts, name)
        raise AttributeError(f"no metric or attribute {name!r}; metrics are: {', '.join(METRICS)}")

    def __ge__(self, other: object) -> bool:
        if not isinstance(other, Baseline):
            self._refuse(other)
        self.comparison.made = True
        return self.comparison.holds

    def __repr__(self) -> str:
        speed = (
            f"{summarize(self.starts, 'tok_s'):.1f} tok/s"
            if "tok_s" in metric_names(self.starts)
            else "no tok_s"
        )
        name = f"{self.case.target} steps={self.config.steps} c={self.concurrency}"
        return f"<{name}: {speed}, {_count(self.starts)}>"


def _count(starts: tuple[CaseStart, ...]) -> str:
    return "1 start" if len(starts) == 1 else f"{len(starts)} starts"

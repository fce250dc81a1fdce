"""pytest-benchmark entries: measure first, then replay the round times on a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .model import Case, CaseStart, metric_names, summarize


class ReplayClock:
    """A timer whose time passes only when a recorded round is played."""

    def __init__(self) -> None:
        self._now = 0.0
        self._durations: Iterator[float] = iter(())

    def load(self, durations: Sequence[float]) -> None:
        self._durations = iter(durations)

    def time(self) -> float:
        """Seconds; what pytest-benchmark calls before and after each round."""
        return self._now

    def play(self) -> None:
        """One recorded round passes."""
        self._now += next(self._durations)


def replay(
    benchmark: Any,
    clock: ReplayClock,
    case: Case,
    start: CaseStart,
    restart: int,
    *,
    other: tuple[Case, CaseStart] | None = None,
) -> None:
    """Enter one (case, restart) into pytest-benchmark's own run, through its public API.

    Named by the case, grouped by concurrency, one round a round of load. A test has one entry there, so what
    it was compared with in the same session (``other``) is in ``extra_info``, under ``against``.
    """
    config = case.config
    name = f"{case.target}[steps{config.steps}-c{case.concurrency}-r{restart}]"
    benchmark.name = benchmark.fullname = name
    benchmark.group = f"{case.target} c={case.concurrency}"
    benchmark.params = {"steps": config.steps, "concurrency": case.concurrency, "restart": restart}
    benchmark.extra_info.update(_info(case, start))
    if other is not None:
        benchmark.extra_info["against"] = {"target": other[0].target, **_info(*other)}
    clock.load([r.seconds for r in start.rounds])
    benchmark.pedantic(clock.play, rounds=len(start.rounds))


def _info(case: Case, start: CaseStart) -> dict[str, Any]:
    return {
        "config": case.config.as_dict(),
        "concurrency": case.concurrency,
        "metrics": {name: summarize([start], name) for name in metric_names([start])},
    }

"""How far a running session is, and about how much of it is left. No pytest."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from .estimate import Job, Pace, Place, expected, need, times_of, with_overhead
from .forecast import Forecast
from .model import Case, ServerStart
from .report.text import about, stopwatch
from .state import State

_SOON_S = 3.0


@dataclass(slots=True)
class Outlook:
    """``jobs``: one for each item, in order; None for those that need no server."""

    state: State
    jobs: Sequence[Job | None]
    forecast: Forecast
    clock: Callable[[], float] = time.monotonic
    position: int = 0
    """Of the item that runs, from 0."""
    _began_s: float = field(init=False)
    _mark: tuple[int, int] = field(default=(0, 0), init=False)
    _marked_s: float = field(init=False)
    """Since when the present start or measurement goes on."""

    def __post_init__(self) -> None:
        self._began_s = self._marked_s = self.clock()

    def frame(self) -> tuple[str, str]:
        """Around a line of progress: ``[5/24] `` and `` · 12 min 3 s, about 18 min left``."""
        left_s = self.left_s()
        rest = "" if left_s is None else ", almost done" if left_s < _SOON_S else f", {about(left_s)} left"
        elapsed = stopwatch(self.clock() - self._began_s)
        return f"[{self.position + 1}/{len(self.jobs)}] ", f" · {elapsed}{rest}"

    def left_s(self) -> float | None:
        """About how many seconds are left; None where nothing is known of how long things take."""
        now, starts = self.clock(), self._starts()
        if self._mark != (mark := (len(starts), self.position)):
            self._mark, self._marked_s = mark, now
        paces = list(self._paces(starts))
        times = times_of(paces, rounds=self.forecast.rounds).over(self.forecast.stored)
        if starts:
            known_s = sum(s.ready_s for s in starts) + sum(times.cases.get(case, 0.0) for case, _ in paces)
            times = with_overhead(times, max(0.0, self._marked_s - self._began_s - known_s) / len(starts))
        left = need(
            self._remaining(starts),
            times,
            served={(start.config, start.restart) for start in starts},
            measured={(c, r) for c, r in self._planned() if self.state.known(c, r)},
        )
        return (
            None if left.seconds is None else max(0.0, left.seconds - min(now - self._marked_s, left.first_s))
        )

    def _starts(self) -> list[ServerStart]:
        return [start for start in self.state.ledger.server_starts if not start.discarded]

    def _paces(self, starts: Sequence[ServerStart]) -> Iterator[tuple[Case, Pace]]:
        servers = {start.id: start for start in starts}
        for case in self.state.plan.cases():
            for measured in self.state.ledger.starts_of(case):
                yield case, Pace.of(measured, servers.get(measured.start_id))

    def _planned(self) -> Iterator[tuple[Case, int]]:
        return ((i.case, i.restart) for i in self.state.plan.items)

    def _remaining(self, starts: Sequence[ServerStart]) -> list[Job]:
        """What is probably still to come, the running item included."""
        plan, over = self.state.plan, [job for job in self.jobs[: self.position] if job is not None]
        served = {(start.config, start.restart) for start in starts}
        tried = [job for job in over if not (job.planned and plan.ended_before(job.planned))]
        failed: set[Place] = {job.place for job in tried} - served
        past = Counter((job.planned.test, job.planned.case) for job in over if job.planned)
        open_jobs = [
            job
            for job in self.jobs[self.position :]
            if job is not None
            and job.place not in failed
            and not (job.planned and plan.ended_before(job.planned))
        ]
        return expected(open_jobs, self.forecast.looks, past=past)

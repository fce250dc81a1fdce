"""Sessions as the plugin runs them, on drawn samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pytest_specdecode.verdict import Noise, Start, Verdict, judge

from .populations import Array, Population
from .rivals import RIVALS

LOSS = 0.05
"""What a regression is: the default tolerance."""

BATCH = 200


class Judge(Protocol):
    def __call__(
        self,
        current: Sequence[Start],
        baseline: Sequence[Start],
        *,
        looks: int,
        cases: int,
        noise: Noise | None,
    ) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class Rates:
    """Of one method in one population; shares from 0 to 1, ``alarms`` a count of sessions."""

    sessions: int
    alarms: int
    """Unchanged sessions with any case regressed."""
    passed: float
    """Cases truly slower by the loss that passed."""
    caught: float
    """… that were regressed; the rest is inconclusive, which fails too."""
    open: float = 0.0
    """Unchanged sessions without an alarm, but with a case inconclusive."""
    starts: float = 1.0
    """Server starts that unchanged sessions made, of the fixed design's restarts × configurations."""
    slow_starts: float = 1.0
    """The same where every case is slower."""

    @property
    def alarm(self) -> float:
        return self.alarms / self.sessions


@dataclass(slots=True)
class _Tally:
    alarms: int = 0
    open: int = 0
    passed: int = 0
    caught: int = 0
    starts: int = 0
    slow_starts: int = 0


def study(
    population: Population, sessions: int, seed: int, *, loss: float = LOSS, judge: Judge = judge
) -> Rates:
    """Draw baselines and current runs; judge each session unchanged, then every case slower by ``loss``."""
    tally = _Tally()
    for before, now in _batches(population, sessions, seed):
        for baseline, current in zip(np.exp(before), np.exp(now), strict=True):
            _tally(tally, population, baseline, (current, current * (1 - loss)), judge)
    cases, fixed = sessions * population.cases, sessions * population.configs * population.looks
    return Rates(
        sessions,
        tally.alarms,
        tally.passed / cases,
        tally.caught / cases,
        tally.open / sessions,
        tally.starts / fixed,
        tally.slow_starts / fixed,
    )


def rivals(population: Population, sessions: int, seed: int) -> Mapping[str, Rates]:
    """The same samples through the other methods, which always use every restart."""
    alarms, caught = dict.fromkeys(RIVALS, 0), dict.fromkeys(RIVALS, 0)
    for before, now in _batches(population, sessions, seed):
        for name, slower in RIVALS.items():
            alarms[name] += int(slower(before, now).any(axis=(1, 2)).sum())
            caught[name] += int(slower(before, now + np.log(1 - LOSS)).sum())
    cases = sessions * population.cases
    return {
        name: Rates(sessions, alarms[name], 1 - caught[name] / cases, caught[name] / cases) for name in RIVALS
    }


def _batches(population: Population, sessions: int, seed: int) -> Iterator[tuple[Array, Array]]:
    rng = np.random.default_rng([seed, *population.name.encode()])
    for at in range(0, sessions, BATCH):
        yield population.draw(min(BATCH, sessions - at), rng)


def _tally(
    tally: _Tally, population: Population, before: Array, runs: tuple[Array, Array], judge: Judge
) -> None:
    baselines = starts_of(before, "night {}", population.per_night)
    noise = Noise.pooled(case for config in baselines for case in config)
    outcomes, starts = session_outcomes(population, baselines, runs[0], noise, judge)
    tally.alarms += "regressed" in outcomes
    tally.open += "regressed" not in outcomes and "undecided" in outcomes
    tally.starts += starts
    outcomes, starts = session_outcomes(population, baselines, runs[1], noise, judge)
    tally.passed += outcomes.count("pass")
    tally.caught += outcomes.count("regressed")
    tally.slow_starts += starts


def starts_of(speeds: Array, session: str, per_session: int) -> list[list[list[Start]]]:
    """(config, level, start, round) → starts by configuration and level; levels share start ids."""
    return [
        [
            [
                Start(f"{session} {c}.{s}", session.format(s // per_session), tuple(rounds))
                for s, rounds in enumerate(level)
            ]
            for level in config
        ]
        for c, config in enumerate(speeds.tolist())
    ]


def session_outcomes(
    population: Population,
    baselines: Sequence[Sequence[Sequence[Start]]],
    speeds: Array,
    noise: Noise,
    judge: Judge,
) -> tuple[list[str], int]:
    """Each case's outcome, and the server starts made: one more while a case of the configuration is open."""
    outcomes: list[str] = []
    starts = 0
    for config, current in zip(baselines, starts_of(speeds, "now", population.looks), strict=True):
        most = 1
        for baseline, case in zip(config, current, strict=True):
            for look in range(1, population.looks + 1):
                found = judge(
                    case[:look], baseline, looks=population.looks, cases=population.cases, noise=noise
                )
                most = max(most, look)
                if found.outcome != "undecided":
                    break
            outcomes.append(found.outcome)
        starts += most
    return outcomes, starts

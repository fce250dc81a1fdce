"""What the study draws from: worlds in which the truth is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Population:
    """One world. Standard deviations and losses are on the log scale (0.01 is about 1%).

    A session measures ``configs`` × ``levels`` cases; a server start serves all levels of its configuration,
    and with ``shared`` its effect is common to them. The baseline has ``nights`` sessions of ``per_night``
    starts.
    """

    name: str
    start_sd: float = 0.01
    round_sd: float = 0.01
    shared: bool = True
    night_sd: float = 0.0
    """Of an effect common to all cases of a session; with ``own_nights``, to those of a configuration."""
    own_nights: bool = False
    outliers: float = 0.0
    """Share of rounds slower by ``outlier_loss``."""
    outlier_loss: float = 0.15
    tails: float | None = None
    """Degrees of freedom of Student's t for starts and rounds, scaled to the same sds; None: normal."""
    slow_starts: float = 0.0
    """Share of starts that run slower by ``slow_loss``: two speeds, fixed at start."""
    slow_loss: float = 0.05
    drift: float = 0.0
    """Change from each restart of a session to the next."""
    noisy_case: float = 1.0
    """How many times its share of noise the first case has, start by start and of its own."""
    nights: int = 2
    per_night: int = 3
    looks: int = 3
    rounds: int = 5
    configs: int = 3
    levels: int = 5

    @property
    def cases(self) -> int:
        return self.configs * self.levels

    def but(self, name: str, **changes: object) -> Population:
        return replace(self, name=name, **changes)  # type: ignore[arg-type]

    def draw(self, sessions: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Log speeds of ``sessions`` unchanged sessions, each with a baseline of its own.

        :returns: baselines (session, config, level, night × start, round) and current runs (session, config,
            level, restart, round).
        """
        before = [self._night(sessions, self.per_night, rng) for _ in range(self.nights)]
        return np.concatenate(before, axis=3), self._night(sessions, self.looks, rng)

    def _night(self, sessions: int, starts: int, rng: np.random.Generator) -> Array:
        shape = (sessions, self.configs, self.levels, starts, self.rounds)
        whole = (sessions, self.configs, 1 if self.shared else self.levels, starts, 1)
        night = (sessions, self.configs if self.own_nights else 1, 1, 1, 1)
        logs = self.round_sd * self._noise(shape, rng)
        logs += self.start_sd * self._noise(whole, rng)
        logs -= self.slow_loss * (rng.random(whole) < self.slow_starts)
        logs -= self.outlier_loss * (rng.random(shape) < self.outliers)
        logs += self.night_sd * rng.standard_normal(night)
        logs += self.drift * np.arange(starts)[:, None]
        if self.noisy_case > 1:
            extra = np.sqrt(self.noisy_case**2 - 1) * self.start_sd
            logs[:, 0, 0] += extra * rng.standard_normal((sessions, starts, 1))
        return logs

    def _noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        if self.tails is None:
            return rng.standard_normal(shape)
        return np.asarray(rng.standard_t(self.tails, shape) * np.sqrt((self.tails - 2) / self.tails))


PLAIN = Population("start 1%, round 1%, night 0%")

GRID = tuple(
    Population(
        f"start {start:.1%}, round {spread:.0%}, night {night:.1%}".replace(".0%", "%"),
        start_sd=start,
        round_sd=spread,
        night_sd=night,
    )
    for night in (0.0, 0.005, 0.01)
    for spread in (0.01, 0.03)
    for start in (0.005, 0.01, 0.02)
)
"""Start sd × round sd × night sd, on 3 configurations × 5 concurrencies and two nights of three starts."""

NIGHTS = (
    PLAIN.but("one baseline night of 3 starts", nights=1),
    PLAIN.but("night 0.5%, one baseline night", night_sd=0.005, nights=1),
    PLAIN.but("night 1%, one baseline night", night_sd=0.01, nights=1),
    *(PLAIN.but(f"night 1%, {n} baseline nights", night_sd=0.01, nights=n) for n in (4, 8, 16, 32)),
    PLAIN.but("night 1%, round 3%, 8 baseline nights", night_sd=0.01, round_sd=0.03, nights=8),
    PLAIN.but("night 1% of each configuration", night_sd=0.01, own_nights=True),
)

SHAPES = (
    PLAIN.but("starts not shared by cases", shared=False),
    PLAIN.but("5% of rounds slow by 15%", outliers=0.05),
    PLAIN.but("7% of rounds slow by 15%", outliers=0.07),
    PLAIN.but("heavy tails (t, 3 df)", tails=3.0),
    PLAIN.but("25% of starts slow by 5%", slow_starts=0.25),
    PLAIN.but("10% of starts slow by 5%", slow_starts=0.10),
    PLAIN.but("drift -0.5% a restart", drift=-0.005),
    PLAIN.but("drift +0.5% a restart", drift=0.005),
    PLAIN.but("one case twice as noisy", noisy_case=2.0),
)

SIZES = (
    *(PLAIN.but(f"{n} restart{'s' * (n > 1)}", looks=n) for n in (1, 2, 4, 5)),
    PLAIN.but("1 case", configs=1, levels=1),
    PLAIN.but("1 case, baseline of 2 starts", configs=1, levels=1, nights=1, per_night=2),
    PLAIN.but("5 cases of 1 configuration", configs=1),
    PLAIN.but("60 cases of 6 configurations", configs=6, levels=10),
)

TABLES = {"Noise": GRID, "Nights": NIGHTS, "Shapes": SHAPES, "Sizes": SIZES}

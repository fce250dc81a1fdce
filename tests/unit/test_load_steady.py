"""When a server counts as steady."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_specdecode.load.limits import EXTRA_ROUNDS
from pytest_specdecode.load.steady import rose, trend

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def normal(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.normal(size=n)


def heavy(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.standard_t(3, size=n) / 1.73


def correlated(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Each round resembles the one before: correlation 0.5."""
    noise = rng.normal(size=n)
    for i in range(1, n):
        noise[i] = 0.5 * noise[i - 1] + 0.866 * noise[i]
    return noise


def called_unsteady(noise: NDArray[np.float64], rounds: int) -> bool:
    """As a session would: a cold warm-up round, further ones while it rises, then the measured rounds."""
    speeds = iter(np.exp(noise))
    seen = [0.9 * next(speeds)]
    for _ in range(EXTRA_ROUNDS + 1):
        seen.append(next(speeds))
        if not rose(seen):
            break
    else:
        return True
    return trend([seen[-1], *(next(speeds) for _ in range(rounds - 1))]) is not None


@pytest.mark.parametrize("draw", [normal, heavy, correlated])
@pytest.mark.parametrize(("rounds", "sd"), [(3, 0.1), (5, 0.03), (5, 0.1)])
def test_a_steady_server_is_called_unsteady_once_in_a_thousand_at_most(
    draw: Draw, rounds: int, sd: float
) -> None:
    sessions = 10_000
    rng = np.random.default_rng(7)
    alarms = sum(called_unsteady(sd * draw(rng, rounds + EXTRA_ROUNDS + 2), rounds) for _ in range(sessions))
    assert alarms <= 0.001 * sessions


def test_a_slow_rise_over_the_rounds_is_seen() -> None:
    rng = np.random.default_rng(1)
    speeds = [100 * 1.016**i * np.exp(0.001 * rng.normal()) for i in range(5)]
    assert not any(rose(speeds[: i + 1]) for i in range(5))
    assert trend(speeds) == pytest.approx(1.016**4 - 1, abs=0.01)


def test_a_fall_a_small_rise_and_too_few_rounds_are_no_trend() -> None:
    assert trend([110, 108, 106, 104, 102]) is None
    assert trend([100, 100.1, 100.2, 100.3, 100.4]) is None
    assert trend([100, 150]) is None

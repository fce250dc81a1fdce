"""``python -m tests.study.through_pytest``: sessions of the study through pytest itself.

Each is judged by the study's own loop as well; what is made up in them is said in :mod:`.drawn`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from scipy import stats
from tabulate import tabulate

from pytest_specdecode.verdict import Noise, judge

from .drawn import LEVELS, PROJECT, Session, World, pytest_session
from .populations import PLAIN, Array, Population
from .sessions import LOSS, session_outcomes, starts_of

Pair = tuple[Session, Session]
"""A drawn run judged unchanged, and every case slower by the loss."""


def through_pytest(population: Population, before: Array, runs: Array) -> list[Pair]:
    """Record a baseline night by night, then judge each run against it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in PROJECT.items():
            steps = list(range(1, population.configs + 1))
            (folder / file).write_text(
                text.format(
                    steps=steps, levels=list(LEVELS), rounds=population.rounds, restarts=population.looks
                )
            )
        for night in range(population.nights):
            at = night * population.per_night
            world = World(before[:, :, at : at + population.per_night], f"2026-01-{night + 1:02}")
            restarts = f"--spec-restarts={population.per_night}"
            pytest_session(
                folder,
                world,
                "--update-baselines",
                "--spec-extend-baselines",
                "--spec-accept-slower",
                restarts,
            )
        today = f"2026-01-{population.nights + 1:02}"
        return [
            (
                pytest_session(folder, World(run_, today)),
                pytest_session(folder, World(run_ * (1 - LOSS), today)),
            )
            for run_ in runs
        ]


def by_the_study(population: Population, before: Array, runs: Array) -> list[Pair]:
    """The same samples through the study's own loop."""
    baselines = starts_of(before, "night {}", population.per_night)
    noise = Noise.pooled(case for config in baselines for case in config)

    def session(speeds: Array) -> Session:
        found, starts = session_outcomes(population, baselines, speeds, noise, judge)
        outcomes = tuple("inconclusive" if outcome == "undecided" else outcome for outcome in found)
        status = 1 if "regressed" in outcomes else 11 if "inconclusive" in outcomes else 0
        return Session(outcomes, starts, status)

    return [(session(run_), session(run_ * (1 - LOSS))) for run_ in runs]


def drawn(population: Population, number: int, runs: int, seed: int) -> tuple[Array, Array]:
    """Speeds of baseline ``number`` and of ``runs`` runs after it."""
    before, now = population.draw(runs, np.random.default_rng([seed, number]))
    return np.exp(before[0]), np.exp(now)


def both(number: int, *, runs: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """One baseline and its runs: through pytest, and by the study's loop."""
    speeds = drawn(PLAIN, number, runs, seed)
    return through_pytest(PLAIN, *speeds), by_the_study(PLAIN, *speeds)


def table(found: Sequence[Pair], reference: Sequence[Pair]) -> str:
    """Rates through pytest with their binomial intervals, beside those of the study's loop on other draws."""
    heads = ["", f"through pytest, {len(found)}", "95% interval", f"study, {len(reference)}"]
    counted: Mapping[str, Callable[[Pair], bool]] = {
        "unchanged sessions with a false alarm": lambda pair: pair[0].alarm,
        "unchanged sessions with an inconclusive case": lambda pair: pair[0].open,
        "−5% sessions with a case that passed": lambda pair: pair[1].missed,
        "−5% sessions with every case caught": lambda pair: pair[1].all_caught,
    }
    rows = []
    for name, holds in counted.items():
        count, other = sum(map(holds, found)), sum(map(holds, reference)) / len(reference)
        low, high = stats.binomtest(count, len(found)).proportion_ci(0.95)
        rows.append([name, f"{count / len(found):.1%}", f"{low:.1%} – {high:.1%}", f"{other:.1%}"])
    means: Mapping[str, Callable[[Pair], float]] = {
        "−5% cases caught": lambda pair: pair[1].outcomes.count("regressed") / len(pair[1].outcomes),
        "−5% cases passed": lambda pair: pair[1].outcomes.count("pass") / len(pair[1].outcomes),
    }
    for name, value in means.items():
        here, there = (float(np.mean([value(pair) for pair in pairs])) for pairs in (found, reference))
        rows.append([name, f"{here:.1%}", "", f"{there:.1%}"])
    for name, place in (("server starts, unchanged", 0), ("server starts, −5%", 1)):
        here, there = (float(np.mean([pair[place].starts for pair in pairs])) for pairs in (found, reference))
        rows.append([name, f"{here:.2f}", "", f"{there:.2f}"])
    return tabulate(rows, heads, "github", disable_numparse=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.study.through_pytest", description=__doc__)
    parser.add_argument("--baselines", type=int, default=200, help="recorded baselines (default 200)")
    parser.add_argument("--runs", type=int, default=1, help="runs after each, judged unchanged and at −5%%")
    parser.add_argument("--reference", type=int, default=2000, help="baselines of the study's loop beside it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    options = parser.parse_args()
    started = time.monotonic()
    one = partial(both, runs=options.runs, seed=options.seed)
    with ProcessPoolExecutor(options.jobs) as pool:
        pairs = list(pool.map(one, range(options.baselines)))
    found = [pair for pytests, _ in pairs for pair in pytests]
    studied = [pair for _, others in pairs for pair in others]
    same = sum(
        here == there for a, b in zip(found, studied, strict=True) for here, there in zip(a, b, strict=True)
    )
    if options.reference:
        others = [
            by_the_study(PLAIN, *drawn(PLAIN, n, 1, options.seed + 1)) for n in range(options.reference)
        ]
        sys.stdout.write(f"{table(found, [pair for pairs_ in others for pair in pairs_])}\n\n")
    sys.stdout.write(f"{same} of {2 * len(found)} sessions come to the same as by the study's loop: ")
    sys.stdout.write("every case's outcome, the server starts and the exit status\n")
    sys.stderr.write(f"{time.monotonic() - started:.0f} s\n")
    return 0 if same == 2 * len(found) else 1


if __name__ == "__main__":
    sys.exit(main())

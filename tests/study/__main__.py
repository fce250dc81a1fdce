"""``python -m tests.study``: how often the verdict errs where the truth is known."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from .populations import PLAIN, TABLES, Population
from .sessions import Rates, rivals, study
from .tables import loss_table, rival_table, verdict_table, write

LOSSES = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.10, 0.15, 0.20)

Row = tuple[str, Rates, Mapping[str, Rates]]


def measure(population: Population, *, sessions: int, seed: int) -> Row:
    return (
        population.name,
        study(population, sessions, seed),
        rivals(population, sessions, seed),
    )


def at_loss(loss: float, *, sessions: int, seed: int) -> tuple[float, Rates]:
    return loss, study(PLAIN, sessions, seed, loss=loss)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.study", description=__doc__)
    parser.add_argument("--sessions", type=int, default=2000, help="per population (default 2000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--only", default="", help="populations whose name contains this")
    parser.add_argument("--write", type=Path, help="put the tables into this file, between its marks")
    options = parser.parse_args()
    chosen = {
        title: [p for p in populations if options.only in p.name] for title, populations in TABLES.items()
    }
    started = time.monotonic()
    with ProcessPoolExecutor(options.jobs) as pool:
        one = partial(measure, sessions=options.sessions, seed=options.seed)
        rows = _said(pool.map(one, [p for populations in chosen.values() for p in populations]))
        found = {title: [next(rows) for _ in populations] for title, populations in chosen.items()}
        few = partial(at_loss, sessions=options.sessions // 4, seed=options.seed)
        losses = list(pool.map(few, LOSSES))
    text = "\n\n".join(
        [
            *(
                f"### {title}\n\n{verdict_table((name, r) for name, r, _ in some)}"
                for title, some in found.items()
                if some
            ),
            f"### Losses\n\n{loss_table(losses)}",
            f"### Others\n\n{rival_table(row for some in found.values() for row in some)}",
            f"{options.sessions} sessions a population, seed {options.seed}.",
        ]
    )
    if options.write:
        write(options.write, text)
    sys.stdout.write(f"{text}\n\n{time.monotonic() - started:.0f} s\n")


def _said(rows: Iterator[Row]) -> Iterator[Row]:
    for row in rows:
        sys.stderr.write(f"{row[0]}\n")
        yield row


if __name__ == "__main__":
    main()

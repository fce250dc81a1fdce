"""``python -m tests.perf [accuracy] [memory] [cost]``: tables for docs/load-client.md, on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable

from tabulate import tabulate

from . import accuracy, cost, memory

Rows = Callable[[Callable[[str], None]], Iterable[list[str]]]
TABLES: dict[str, tuple[list[str], Rows]] = {
    "accuracy": (accuracy.HEADER, accuracy.rows),
    "memory": (memory.HEADER, memory.rows),
    "cost": (cost.HEADER, cost.rows),
}


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(words: list[str]) -> None:
    match words:
        case ["client", url, *numbers]:
            cost.client(url, *map(int, numbers))
        case ["peak", url, processes]:
            say(json.dumps({"mb": memory.peak(url, int(processes))}))
        case _:
            for name in words or TABLES:
                header, rows = TABLES[name]
                say(f"\n{name}: load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
                say(tabulate(list(rows(say)), header, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main(sys.argv[1:])

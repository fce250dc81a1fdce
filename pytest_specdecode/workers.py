"""pytest-xdist in a benchmark session: one worker a host, each with its own share of the items.

Node ids are all that a worker tells of its items, and they do not say which belong together. So the workers
decide: each collects everything, works out the same shares, and keeps its own (:mod:`.pool`). The scheduler
only has to let every worker run all that it kept, in its own order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from .collection import CONFIG, SWEEP, params
from .config import Target
from .model import SpecConfig
from .pool import Place

CARGO: Final = "specdecode"
"""Attribute of a test report, and key of a worker's output: plain data that travels to the controller."""
_WORKER: Final = re.compile(r"gw(\d+)")


def place_of(config: pytest.Config) -> Place:
    """Which worker this process is; the only one without pytest-xdist."""
    given = getattr(config, "workerinput", None)
    if given is None:
        return Place()
    number, count = _WORKER.fullmatch(given["workerid"]), given["workercount"]
    if number is None and count > 1:
        raise pytest.UsageError(
            f"worker {given['workerid']}: only workers of -nN (gw0, gw1, …) know which host is theirs"
        )
    return Place(int(number[1]) if number else 0, count)


def count_of(config: pytest.Config) -> int:
    """How many processes measure: pytest-xdist's workers, else this one."""
    given = getattr(config, "workerinput", None)
    if given is not None:
        return int(given["workercount"])
    return max(1, len(config.getoption("tx", None) or ()))


def refuse_workers(count: int, target: Target) -> None:
    """:raises pytest.UsageError: when there are more workers than hosts."""
    hosts = len(target.host.pool) or 1
    if count <= hosts:
        return
    if hosts == 1:
        raise pytest.UsageError(
            f"a benchmark session runs one worker a host, since several would measure each other: -n{count} "
            f"cannot be, target {target.name} has one host; use -n0 or -n1, or name several hosts of one "
            "kind in host.pool"
        )
    raise pytest.UsageError(
        f"a benchmark session runs one worker a host: -n{count} are more than the {hosts} hosts in the pool "
        f"of target {target.name}; use -n{hosts}, or -n auto"
    )


def own_items(items: Sequence[pytest.Item], home: dict[SpecConfig, int], index: int) -> list[pytest.Item]:
    """This worker's, in the order that they have.

    Tests without a configuration are the first worker's; ``sweep`` tests are those of a worker that measures
    everything, where there is one, else the first one's, where they can only refuse.
    """
    places = set(home.values())
    for_sweep = places.pop() if len(places) == 1 else 0

    def worker(item: pytest.Item) -> int:
        if SWEEP in getattr(item, "fixturenames", ()):
            return for_sweep
        return home.get(params(item).get(CONFIG), 0)  # type: ignore[arg-type]

    return [item for item in items if worker(item) == index]


class HostScheduling:
    """pytest-xdist's scheduler for these sessions: each worker runs all that it collected.

    A worker is never replaced: what it had left is :meth:`left` when it is gone. One that ends before it
    has collected (wrong settings) ends the session before anything is measured.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pending: dict[Any, list[int]] = {}
        self._collected: dict[Any, list[str]] = {}
        self._over = False

    @property
    def nodes(self) -> list[Any]:
        return list(self._pending)

    @property
    def collection_is_completed(self) -> bool:
        return len(self._collected) == self._count

    @property
    def tests_finished(self) -> bool:
        return self._over or (self.collection_is_completed and not self.has_pending)

    @property
    def has_pending(self) -> bool:
        return any(self._pending.values())

    def add_node(self, node: Any) -> None:
        self._pending[node] = []

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        self._collected[node] = list(collection)

    @property
    def total(self) -> int:
        """How many items all workers have together."""
        return sum(map(len, self._collected.values()))

    def schedule(self) -> None:
        for node, pending in self._pending.items():
            pending[:] = range(len(self._collected[node]))
            node.send_runtest_all()
            node.shutdown()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        del duration
        self._pending[node].remove(item_index)

    def left(self, node: Any) -> list[str]:
        """Node ids of what this worker has not finished, in its order."""
        return [self._collected[node][index] for index in self._pending.get(node, ())]

    def remove_node(self, node: Any) -> str | None:
        """What it was running, if anything. KeyError for a worker that was never added."""
        left = self.left(node)
        del self._pending[node]
        self._over = self._over or not self.collection_is_completed
        return left[0] if left else None

    def mark_test_pending(self, item: str) -> None:
        raise NotImplementedError(f"{item} belongs to one host and cannot be given to another")

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        raise NotImplementedError(f"what {node} measures ({len(indices)} items) is its own")

"""What a benchmark session is going to do, and how far each test's cases have come. No pytest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .gating import Family, Gate
from .model import Case, Outcome, SpecConfig


@dataclass(frozen=True, slots=True)
class Planned:
    """One selected item: a test at one case and restart. ``gate`` None: it asks for no baseline."""

    test: str
    case: Case
    restart: int
    gate: Gate | None = None
    uses_server: bool = False
    """Whether more than its measurement needs the running server: its body, or a fixture of the user's."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a test's case ended, and at which restart."""

    restart: int
    outcome: Outcome


@dataclass(slots=True)
class Plan:
    """The selected items, and what has been decided of them."""

    items: tuple[Planned, ...] = ()
    _ended: dict[tuple[str, Case], Ended] = field(default_factory=dict)

    def restarts(self, test: str, case: Case) -> list[int]:
        """The selected restarts of a test's case, in order."""
        return sorted(i.restart for i in self.items if i.test == test and i.case == case)

    def is_last(self, item: Planned) -> bool:
        return item.restart >= self.restarts(item.test, item.case)[-1]

    def next_restart(self, item: Planned) -> int | None:
        return next((r for r in self.restarts(item.test, item.case) if r > item.restart), None)

    def cases(self) -> list[Case]:
        """Each planned case once, in order."""
        return list(dict.fromkeys(i.case for i in self.items))

    def case_restarts(self, case: Case) -> set[int]:
        return {i.restart for i in self.items if i.case == case}

    def gates(self, case: Case) -> tuple[Gate, ...]:
        """What the tests that compare this case with its baseline ask for, each once."""
        found: list[Gate] = []
        for item in self.items:
            if item.case == case and item.gate is not None and item.gate not in found:
                found.append(item.gate)
        return tuple(found)

    def family(self, item: Planned) -> Family:
        """Looks of this case and distinct (case, metric) comparisons of the session."""
        comparisons = {(i.case, name) for i in self.items if i.gate for name in i.gate.compared}
        return Family(looks=len(self.restarts(item.test, item.case)), cases=max(1, len(comparisons)))

    def due(self, config: SpecConfig, restart: int) -> list[Case]:
        """Each case of this configuration that a gate is still to judge at this restart, once, in order."""
        return list(dict.fromkeys(i.case for i in self._at(config, restart) if i.gate is not None))

    def uses_server(self, config: SpecConfig, restart: int) -> bool:
        """Whether an item needs the server of this configuration beside measuring on it."""
        return any(i.uses_server for i in self._at(config, restart))

    def _at(self, config: SpecConfig, restart: int) -> list[Planned]:
        open_items = (i for i in self.items if self.ended_before(i) is None)
        return [i for i in open_items if i.case.config == config and i.restart == restart]

    def end(self, item: Planned, outcome: Outcome) -> None:
        self._ended[item.test, item.case] = Ended(item.restart, outcome)

    def ended_before(self, item: Planned) -> Ended | None:
        """How the item's case ended at an earlier restart; None while it is open."""
        ended = self._ended.get((item.test, item.case))
        return ended if ended and ended.restart < item.restart else None

    def reopen(self, item: Planned) -> None:
        """Forget what was decided: the item runs again."""
        self._ended.pop((item.test, item.case), None)


def config_order(configs: Iterable[object]) -> dict[object, int]:
    """Each value's place by first appearance."""
    return {config: place for place, config in enumerate(dict.fromkeys(configs))}

"""From markers and options to items: axes, selection, order, plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pytest

from .config import Target
from .errors import ConfigError
from .estimate import Job
from .gating import Gate
from .markers import ConcurrencyMark, Defaults, GateMark, SpeculativeMark, configurations
from .model import Case, SpecConfig
from .options import Settings
from .plan import Plan, Planned, config_order

BENCHMARK: Final = "spec_target"
"""The fixture that makes a test a benchmark."""
CONFIG: Final = "spec_config"
CONCURRENCY: Final = "_spec_concurrency"
RESTART: Final = "_spec_restart"
GATED: Final = "_spec_gated"
"""In the closure of tests that ask for this plugin's ``baseline``."""
SERVER: Final = "spec_server"
MEASUREMENT: Final = "measurement"
"""This plugin's own use of the server."""
SWEEP: Final = "_spec_sweep"
"""In the closure of tests that ask for this plugin's ``sweep``."""

Mark = TypeVar("Mark")


PLANNED: Final = pytest.StashKey[Planned | None]()


def planned_of(item: pytest.Item) -> Planned | None:
    """The item's place in the plan; None for tests that measure no case."""
    return item.stash.get(PLANNED, None)


def is_benchmark(item: pytest.Item) -> bool:
    return BENCHMARK in getattr(item, "fixturenames", ())


@dataclass(slots=True)
class Axes:
    """Turns markers and options into parameters and a plan, for one target."""

    settings: Settings
    target: Target
    defaults: Defaults
    other: Target | None = None
    """The target of ``--spec-against``."""
    _configs: dict[SpecConfig, SpecConfig] = field(default_factory=dict)

    def generate(self, metafunc: pytest.Metafunc) -> None:
        """The three ``parametrize`` calls of a benchmark: ids read ``steps2-c16-r1``."""
        names = metafunc.fixturenames
        if BENCHMARK not in names:
            return
        _mark(metafunc.definition, "gate", GateMark.parse)  # told at collection, needed later
        if CONFIG in names:
            configs = self._configurations(metafunc.definition)
            ids = [f"steps{config.steps}" for config in configs]
            metafunc.parametrize(CONFIG, configs, ids=ids, indirect=True, scope="session")
        if CONCURRENCY in names:
            levels = self._levels(metafunc.definition)
            metafunc.parametrize(CONCURRENCY, levels, ids=[f"c{n}" for n in levels], indirect=True)
        if RESTART in names:
            count = self.restarts if GATED in names else 1
            for_all = [
                pytest.param(n, id=f"r{n}" if count > 1 else pytest.HIDDEN_PARAM) for n in range(1, count + 1)
            ]
            metafunc.parametrize(RESTART, for_all, indirect=True, scope="session")

    @property
    def restarts(self) -> int:
        if any(target.service.external for target in (self.target, self.other) if target is not None):
            return 1
        return self.settings.restarts or self.target.gate.restarts

    def _configurations(self, definition: pytest.Item) -> list[SpecConfig]:
        mark = _mark(definition, "speculative", SpeculativeMark.parse)
        if mark is None:
            mark = SpeculativeMark(self.settings.steps or tuple(self.target.steps))
        # One object per configuration: pytest shares a session fixture while its parameter is the same.
        return [self._configs.setdefault(c, c) for c in configurations(mark, self.defaults)]

    def _levels(self, definition: pytest.Item) -> tuple[int, ...]:
        mark = _mark(definition, "concurrency", ConcurrencyMark.parse)
        return mark.levels if mark else self.settings.concurrency or tuple(self.target.concurrency)

    def selected(self, item: pytest.Item) -> bool:
        """Whether the options leave this item in."""
        given, steps, levels = params(item), self.settings.steps, self.settings.concurrency
        return (
            is_benchmark(item)
            and (steps is None or CONFIG not in given or given[CONFIG].steps in steps)
            and (levels is None or CONCURRENCY not in given or given[CONCURRENCY] in levels)
        )

    def planned(self, item: pytest.Item) -> Planned | None:
        """The item as the plan sees it; None for tests that measure no case."""
        given = params(item)
        if CONFIG not in given or CONCURRENCY not in given:
            return None
        gated = GATED in getattr(item, "fixturenames", ())
        gate = Gate.of(self.target.gate, _mark(item, "gate", GateMark.parse)) if gated else None
        case = Case(self.target.name, given[CONFIG], given[CONCURRENCY])
        return Planned(test_id(item), case, given[RESTART], gate, _uses_server(item))

    def plan(self, items: list[pytest.Item]) -> Plan:
        """The plan of the selected items; each knows its place in it from now on."""
        planned = [self.planned(item) for item in items]
        for item, place in zip(items, planned, strict=True):
            item.stash[PLANNED] = place
        return Plan(tuple(place for place in planned if place is not None))

    def configs(self, items: list[pytest.Item]) -> list[SpecConfig]:
        """The configurations that these items start a server with, each once, in order."""
        return list(dict.fromkeys(p[CONFIG] for p in map(params, items) if CONFIG in p))


def job_of(item: pytest.Item) -> Job | None:
    """What the item needs of a server; None where it needs none."""
    given = params(item)
    if CONFIG not in given or RESTART not in given:
        return None
    return Job((given[CONFIG], given[RESTART]), planned_of(item))


def _uses_server(item: pytest.Item) -> bool:
    """Whether the test, or a fixture of the user's, asks for the server itself."""
    info = getattr(item, "_fixtureinfo", None)
    if info is None:
        return False
    users = (
        definition.argnames
        for name, definitions in info.name2fixturedefs.items()
        if name != MEASUREMENT
        for definition in definitions
    )
    return any(SERVER in names for names in (info.initialnames, *users))


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """(restart, configuration), stable; tests without a configuration first, ``sweep`` tests last."""
    place = config_order(p[CONFIG] for p in map(params, items) if CONFIG in p)

    def key(item: pytest.Item) -> tuple[int, int, int]:
        if SWEEP in getattr(item, "fixturenames", ()):
            return (2, 0, 0)
        given = params(item)
        return (
            (1, given[RESTART], place[given[CONFIG]]) if RESTART in given and CONFIG in given else (0, 0, 0)
        )

    return sorted(items, key=key)


def test_id(item: pytest.Item) -> str:
    """File and function, with parameters of the test's own, without this plugin's."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return item.nodeid
    base = item.nodeid.removesuffix(f"[{callspec.id}]")
    own = [f"{k}={v}" for k, v in callspec.params.items() if k not in (CONFIG, CONCURRENCY, RESTART)]
    return f"{base}[{'-'.join(own)}]" if own else base


test_id.__test__ = False  # type: ignore[attr-defined]


def params(item: pytest.Item) -> Mapping[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec is not None else {}


def _mark(
    node: pytest.Item, name: str, parse: Callable[[tuple[Any, ...], Mapping[str, Any]], Mark]
) -> Mark | None:
    """The closest marker of that name, parsed; one line of error at collection otherwise."""
    mark = node.get_closest_marker(name)
    if mark is None:
        return None
    try:
        return parse(mark.args, mark.kwargs)
    except ConfigError as error:
        raise pytest.Collector.CollectError(f"{node.nodeid}: {error}") from None

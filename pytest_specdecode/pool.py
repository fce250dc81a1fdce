"""A pool of hosts of one identity: which of them measures what, and whether they are alike. No pytest.

The unit is a configuration: all its restarts and concurrencies are measured on one host, so that its starts
are comparable, its verdict needs nobody else's numbers, and a start serves all its concurrencies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from .baselines import difference
from .config import Target
from .errors import HostError
from .hosts.registry import make_host
from .ledger import Ledger, TargetRecord
from .machine import gather, identity_facts, machine_slug
from .model import Case, SpecConfig
from .plan import Plan
from .run import Run

HOST = "{host}"
"""In a target's URL: the host's own address."""
START_WEIGHT = 3
"""Measurements that take about as long as one server start. A guess: only the balance depends on it."""

Unit = TypeVar("Unit")


@dataclass(frozen=True, slots=True)
class Place:
    """Which of several processes that measure this one is; a controller is none of them."""

    index: int = 0
    count: int = 1


def placed(target: Target, index: int) -> Target:
    """The target on the host at ``index`` of its pool; without a pool, the target itself."""
    if not target.host.pool:
        return target
    address = target.host.pool[index]
    host = msgspec.structs.replace(target.host, ssh=address)
    url = target.url and target.url.replace(HOST, address.rpartition("@")[2])
    return msgspec.structs.replace(target, host=host, url=url)


def homes(plan: Plan, configs: Iterable[SpecConfig], count: int) -> dict[SpecConfig, int]:
    """The host of each configuration. Every worker works it out for itself, from the same plan.

    ``configs`` are all that a server is started for, also those that no case of the plan has.
    """
    return shares({config: _work(plan, config) for config in configs}, count)


def _work(plan: Plan, config: SpecConfig) -> int:
    measured = {(i.restart, i.case.concurrency) for i in plan.items if i.case.config == config}
    return START_WEIGHT * max(1, len({restart for restart, _ in measured})) + len(measured)


def shares(work: Mapping[Unit, float], count: int) -> dict[Unit, int]:
    """Units over ``count`` places: the largest first, each to where there is least so far. The order of
    ``work`` and of the places decides between equals."""
    loads = [0.0] * count
    found: dict[Unit, int] = {}
    for unit in sorted(work, key=lambda each: -work[each]):
        found[unit] = loads.index(min(loads))
        loads[found[unit]] += work[unit]
    return found


def elsewhere(plan: Plan, home: Mapping[SpecConfig, int], index: int) -> frozenset[Case]:
    """Cases that another host measures."""
    return frozenset(case for case in plan.cases() if home[case.config] != index)


def refuse_stranger(run: Run, ledger: Ledger) -> None:
    """Have every case of ``run`` end broken where its machine is not of the kind of the pool's first one.

    Looked at before anything is stopped: GPUs or CPU, and the name in baseline files. Model and launch
    arguments show at the first start (:func:`strangers`). A machine that does not answer is no stranger yet.
    """
    pool = run.target.host.pool
    if run.host.name == pool[0]:
        return
    first = make_host(placed(run.target, 0), ledger.add)
    try:
        facts, here = gather(first), run.facts
    except HostError:
        return
    finally:
        first.close()
    names = (run.target.machine or machine_slug(facts), run.machine)
    different = _unlike(
        *({"machine": name, **identity_facts(of)} for name, of in zip(names, (facts, here), strict=True))
    )
    if different:
        run.shut(_message(run.host.name, pool[0], different))


def strangers(records: Iterable[TargetRecord]) -> dict[str, str]:
    """By host: in what it differs from the first of ``records``, as a message."""
    first, *others = [(r.host, {"machine": r.machine, **r.identity}) for r in records] or [("", {})]
    found = {host: _unlike(first[1], identity) for host, identity in others}
    return {host: _message(host, first[0], text) for host, text in found.items() if text}


def _unlike(first: Mapping[str, object], other: Mapping[str, object]) -> str:
    return difference(first, other).replace(" was ", " is ", 1).replace(" and is now ", " there and here ", 1)


def _message(host: str, first: str, different: str) -> str:
    return (
        f"{host} is not like {first}, the first host of the pool: {different}; hosts of one pool must be "
        "alike: take it out of host.pool, or make a target of its own of it"
    )

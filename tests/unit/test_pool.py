"""Several hosts of one kind: which measures what, what a pool may say, and hosts that are not alike."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdecode import pool
from pytest_specdecode.config import Target, read_targets
from pytest_specdecode.errors import ConfigError, RefusedError
from pytest_specdecode.ledger import CaseMeasured, Ledger, TargetRecord
from pytest_specdecode.machine import Facts
from pytest_specdecode.model import ServerStart
from pytest_specdecode.plan import Plan, Planned
from pytest_specdecode.pool import elsewhere, homes, placed, shares, strangers
from pytest_specdecode.report.compare import comparer
from pytest_specdecode.report.grid import grid
from pytest_specdecode.report.terminal import Heading, table_lines
from pytest_specdecode.run import Run
from pytest_specdecode.sweep import Sweep
from pytest_specdecode.workers import HostScheduling, refuse_workers

from .stored import case, measured

TOML = """
[target.t]
engine = "sglang"
{top}
[target.t.host]
pool = ["root@10.0.0.1", "10.0.0.2"]
{host}
[target.t.service]
systemd = "s.service"
{more}
"""


def target(top: str = 'url = "http://{host}:30000"', host: str = "", more: str = "") -> Target:
    return read_targets(TOML.format(top=top, host=host, more=more), Path("/"))["t"]


def test_each_worker_has_the_target_on_its_host() -> None:
    assert [placed(target(), n).host.ssh for n in (0, 1)] == ["root@10.0.0.1", "10.0.0.2"]
    assert [placed(target(), n).url for n in (0, 1)] == ["http://10.0.0.1:30000", "http://10.0.0.2:30000"]


@pytest.mark.parametrize(
    ("top", "host", "more", "complaint"),
    [
        ('url = "http://10.0.0.1:30000"', "", "", 'url: .* one address for 2 hosts; put "{host}"'),
        ("", 'ssh = "a"', "", "has ssh and pool"),
        ("", "", '[target.t.hypervisor]\nssh = "h"\ncontainer = 1', "the second road to one machine"),
    ],
)
def test_what_names_one_host_of_a_pool_is_refused(top: str, host: str, more: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        target(top, host, more)


def test_more_workers_than_hosts_are_refused() -> None:
    refuse_workers(2, target())
    with pytest.raises(pytest.UsageError, match="-n3 are more than the 2 hosts"):
        refuse_workers(3, target())


@given(st.dictionaries(st.integers(), st.integers(1, 99), max_size=9), st.integers(1, 4))
def test_no_host_has_more_than_its_share_and_the_largest_unit(work: dict[int, float], count: int) -> None:
    found = shares(work, count)
    loads = [sum(work[unit] for unit, place in found.items() if place == n) for n in range(count)]
    assert found.keys() == work.keys()
    assert max(loads) - min(loads) <= max(work.values(), default=0)
    assert shares(dict(work), count) == found


def test_all_of_a_configuration_is_on_one_host() -> None:
    items = [Planned("t", case(steps, level), r) for r in (1, 2) for steps in (0, 1, 2) for level in (1, 4)]
    plan = Plan(tuple(items))
    home = homes(plan, [i.case.config for i in items], 2)
    assert [home[case(steps).config] for steps in (0, 1, 2)] == [0, 1, 0]
    assert elsewhere(plan, home, 0) == {case(1, 1), case(1, 4)}


def test_a_sweep_over_several_hosts_refuses() -> None:
    plan = Plan((Planned("t", case(1), 1), Planned("t", case(2), 1)))
    with pytest.raises(RefusedError, match="steps=2 elsewhere"):
        Sweep(Ledger(), plan, frozenset([case(2)])).best(concurrency=16)


def test_no_ratio_crosses_hosts() -> None:
    ledger = Ledger()
    for steps, speed, host in ((1, 100.0, "a"), (2, 150.0, "b"), (3, 160.0, "a")):
        for start in measured(speed, 3, night=f"s{steps}"):
            ledger.add(ServerStart(start.start_id, "qwen", case(steps).config, 1, "", host=host))
            ledger.add(CaseMeasured(case(steps), start))
    found = grid(ledger.cases, "tok_s", compare=comparer(ledger.cases, "tok_s"))
    cells = [found.cells[case(steps).config, 16] for steps in (1, 2, 3)]
    assert [cell.gain is None for cell in cells] == [True, True, False]
    assert [cell.elsewhere for cell in cells] == [False, True, False]
    assert found.best[16] == ()
    assert table_lines(found, heading=Heading("qwen"))[-1].split()[:4] == ["16", "101", "151", "–"]


def record(host: str, gpu: str = "A", **context: Any) -> TargetRecord:
    return TargetRecord("qwen", "rack", {"gpu": gpu}, {"kernel": "6.1", **context}, host=host)


def test_the_report_says_in_what_hosts_differ() -> None:
    ledger = Ledger()
    for host, uuid in (("a", "GPU-1"), ("b", "GPU-2")):
        ledger.add(record(host, gpu_uuids=[uuid]))
    assert ledger.targets["qwen"].context == {
        "kernel": "6.1",
        "hosts": {"a": {"gpu_uuids": ["GPU-1"]}, "b": {"gpu_uuids": ["GPU-2"]}},
    }


def test_a_host_that_is_of_another_kind_after_all_is_named() -> None:
    assert strangers([record("a"), record("b")]) == {}
    (message,) = strangers([record("a"), record("b", gpu="B")]).values()
    assert 'b is not like a, the first host of the pool: gpu is "A" there and here "B"' in message


def test_a_host_of_another_kind_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "gather", lambda host: Facts("Xeon", 8))
    shut: list[str] = []
    there = SimpleNamespace(name="10.0.0.2")
    run = SimpleNamespace(
        target=target(), host=there, facts=Facts("Abacus 9", 8), machine="8x-abacus-9", shut=shut.append
    )
    pool.refuse_stranger(cast(Run, run), Ledger())
    assert 'cpu is "Xeon" there and here "Abacus 9"' in shut[0]


class Node:
    def __init__(self) -> None:
        self.told: list[str] = []

    def send_runtest_all(self) -> None:
        self.told.append("all")

    def shutdown(self) -> None:
        self.told.append("shutdown")


def test_each_worker_runs_what_it_collected_and_a_dead_one_leaves_the_rest() -> None:
    scheduler, one, two = HostScheduling(2), Node(), Node()
    for node in (one, two):
        scheduler.add_node(node)
    scheduler.add_node_collection(one, ["a", "b"])
    assert not scheduler.collection_is_completed
    scheduler.add_node_collection(two, ["c"])
    scheduler.schedule()
    assert one.told == two.told == ["all", "shutdown"]
    scheduler.mark_test_complete(two, 0)
    assert scheduler.remove_node(two) is None
    assert not scheduler.tests_finished
    assert scheduler.left(one) == ["a", "b"]
    assert scheduler.remove_node(one) == "a"
    assert scheduler.tests_finished


def test_a_worker_that_ends_before_it_collected_ends_the_session() -> None:
    scheduler, node = HostScheduling(2), Node()
    scheduler.add_node(node)
    scheduler.remove_node(node)
    assert scheduler.tests_finished

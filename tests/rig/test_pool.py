"""A pool of two machines, each with its own systemd, sshd and unit: one worker a host, one report."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from . import bed
from .conftest import Project

HOSTS = ("root@10.77.0.129", "root@10.77.0.2")
TOML = """
[target.t]
engine = "llamacpp"
url = "http://127.0.0.1:30000"
tunnel = true
steps = [0, 1, 2, 3]
concurrency = [1]
[target.t.speculation]
algorithm = "ngram-mod"
[target.t.host]
pool = ["root@10.77.0.129", "root@10.77.0.2"]
[target.t.service]
systemd = "sglang-qwen.service"
ready_within = "30s"
[target.t.cleanup]
devices = ["/dev/specdecode*"]
within = "20s"
[target.t.workload]
output_tokens = 16
requests = "max(c, 2)"
warmup_rounds = 1
rounds = 2
[target.t.gate]
tolerance = "90%"
restarts = 2
"""
GATED = """
def test_no_slower_than_baseline(measurement, baseline):
    assert measurement >= baseline
"""
UNIT = f"/etc/systemd/system/{bed.UNIT}"


@pytest.fixture
def pool(rig: bed.Rig, project: Project) -> Iterator[Project]:
    """The container and the hypervisor as two hosts that serve the same."""
    rig.pve(f"cat > {UNIT} <<'EOT'\n{rig.ct(f'cat {UNIT}')}\nEOT\nsystemctl daemon-reload")
    (project.folder / "specdecode.toml").write_text(TOML)
    (project.folder / "test_bench.py").write_text(GATED)
    yield project
    rig.pve(
        f"systemctl stop 'specdecode-guard-*' {bed.UNIT}; rm -rf {UNIT} /run/specdecode "
        "/run/systemd/system/*.d; systemctl daemon-reload; systemctl reset-failed; true"
    )


def report(project: Project) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((project.folder / "report.json").read_text())
    return content


def test_two_workers_record_and_judge_as_one_does(pool: Project) -> None:
    pool.pytest("--update-baselines", "-n2")
    (file,) = (pool.folder / "baselines").iterdir()
    cases = json.loads(file.read_text())["cases"]
    assert len(cases) == 4
    assert {case["sessions"][0]["context"]["host"] for case in cases} == set(HOSTS)
    found = {}
    for workers in ("-n0", "-n2"):
        pool.pytest("--spec-steps=0-3", workers, "--spec-json=report.json")
        content = report(pool)
        found[workers] = [(c["config"], c["concurrency"], c["outcome"]) for c in content["cases"]]
        by_config: dict[str, set[str]] = {}
        for start in content["starts"]:
            by_config.setdefault(str(start["config"]), set()).add(start["host"])
        assert all(len(hosts) == 1 for hosts in by_config.values())
        assert set.union(*by_config.values()) == set(HOSTS if workers == "-n2" else HOSTS[:1])
    assert found["-n0"] == found["-n2"]
    for machine in (pool.rig.ct, pool.rig.pve):
        assert machine(f"systemctl show -p DropInPaths --value {bed.UNIT}").strip() == ""
        assert machine("ls /run/specdecode").split() == ["lock"]


def test_a_plan_looks_at_both_hosts_and_touches_neither(pool: Project) -> None:
    said = pool.pytest("--spec-steps=0-3", "-n2", "--spec-plan")
    assert all(f"plan for t on {host}: nothing of this has been done" in said for host in HOSTS)
    assert not any(machine("ls -A /run/specdecode", check=False) for machine in (pool.rig.ct, pool.rig.pve))


def test_ctrl_c_restores_both_hosts(pool: Project) -> None:
    machines = (pool.rig.ct, pool.rig.pve)
    for machine in machines:
        machine(f"systemctl start {bed.UNIT}")
    run = pool.start("--spec-steps=0-3", "-n2")

    def changed(machine: Any) -> bool:
        return bool(machine(f"systemctl show -p DropInPaths --value {bed.UNIT}").strip())

    try:
        pool.rig.wait(lambda: all(map(changed, machines)), "both units changed", within_s=60)
        time.sleep(1)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 2
    for machine in machines:
        assert not changed(machine)
        assert machine(f"systemctl is-active {bed.UNIT}").strip() == "active"

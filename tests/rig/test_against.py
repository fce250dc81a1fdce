"""Two units on one host, measured in turns: both are left as they were found, whatever ends the run."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from . import bed
from .conftest import Project

NEXT = "sglang-next.service"
GATED = "def test_gate(measurement, baseline):\n    assert measurement >= baseline\n"
TARGET = """
[target.{name}]
engine = "llamacpp"
url = "http://10.77.0.129:{port}"
steps = [1]
concurrency = [1]
[target.{name}.speculation]
algorithm = "ngram-mod"
[target.{name}.host]
ssh = "root@10.77.0.129"
[target.{name}.hypervisor]
ssh = "root@10.77.0.2"
container = 129
[target.{name}.service]
systemd = "{unit}"
ready_within = "20s"
guard_after = "12s"
{service}
[target.{name}.cleanup]
within = "10s"
[target.{name}.workload]
output_tokens = 16
requests = "max(c, 2)"
rounds = 2
[target.{name}.gate]
tolerance = "90%"
restarts = 2
"""


def targets(service: str = "", *, other: str = NEXT) -> str:
    """``now``, which is in production, and ``next``."""
    port = bed.PORT + (other == NEXT)
    return TARGET.format(name="now", port=bed.PORT, unit=bed.UNIT, service=service) + TARGET.format(
        name="next", port=port, unit=other, service=service
    )


def as_found(rig: bed.Rig) -> bool:
    """The one in production serves as its unit says, the other is down, and nothing of ours is left."""
    pid = rig.show("MainPID")
    command = rig.ct(f"tr '\\0' ' ' < /proc/{pid}/cmdline", check=False) if pid != "0" else ""
    states = [(rig.show("ActiveState", u), rig.show("DropInPaths", u)) for u in (bed.UNIT, NEXT)]
    left = rig.ct("ls /run/systemd/system").strip()
    return states == [("active", ""), ("inactive", "")] and not left and "ngram-mod" not in command


@pytest.fixture
def pair(project: Project) -> Iterator[Project]:
    """The unit in production holds the devices; the next one would, on another port."""
    rig = project.rig
    rig.unit(bed.SERVE.replace(str(bed.PORT), str(bed.PORT + 1)), name=NEXT)
    rig.ct("systemctl start sglang-qwen")
    (project.folder / "test_bench.py").write_text(GATED)
    (project.folder / "specdecode.toml").write_text(targets())
    yield project
    rig.ct(
        f"systemctl kill -s KILL {NEXT}; systemctl stop {NEXT}; rm -f /etc/systemd/system/{NEXT}", check=False
    )


@pytest.mark.parametrize("other", [NEXT, bed.UNIT])
def test_both_are_left_as_they_were_found(pair: Project, other: str) -> None:
    """Also where both targets are one unit, which is launched in two ways."""
    (pair.folder / "specdecode.toml").write_text(targets(other=other))
    said = pair.pytest("--spec-target=next", "--spec-against=now", "--spec-json=report.json")
    assert "next against now on" in said
    assert as_found(pair.rig)
    assert pair.rig.ct("ls /run/specdecode") == "lock\n"
    report = json.loads((pair.folder / "report.json").read_text())
    order = [start["target"] for start in report["starts"]]
    assert order == ["now", "next", "next", "now"]
    killed = [pid for entry in report["audit"] for pid in entry["killed"]]
    assert killed == []


def test_after_kill_9_the_guard_puts_both_back(pair: Project) -> None:
    rig = pair.rig
    env = "env = { FAKE_ENGINE = '{\"load_s\": 3}' }\n"
    (pair.folder / "specdecode.toml").write_text(targets(env))
    run = pair.start("--spec-target=next", "--spec-against=now")
    rig.wait(lambda: rig.show("ActiveState", NEXT) == "active", "the second start", within_s=40)
    assert rig.show("ActiveState") == "inactive"
    run.kill()
    run.communicate()
    rig.wait(lambda: as_found(rig), "the guard", within_s=40)
    said = rig.ct("journalctl -o cat -u 'specdecode-guard-*' | tail -5")
    assert f"{bed.UNIT} is back as it was found (active)" in said
    assert f"{NEXT} is back as it was found (inactive)" in said

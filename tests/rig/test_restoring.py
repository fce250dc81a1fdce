"""Whatever happens, the unit is left as it was found."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from pytest_specdecode.errors import BrokenError, DirtyError

from . import bed
from .conftest import Project


def as_found(rig: bed.Rig, state: str = "active") -> bool:
    """In that state, without our drop-in and flags."""
    pid = rig.show("MainPID")
    command = rig.ct(f"tr '\\0' ' ' < /proc/{pid}/cmdline", check=False) if pid != "0" else ""
    facts = (rig.show("ActiveState"), rig.show("DropInPaths"), rig.ct("ls /run/systemd/system"))
    return facts == (state, "", "") and "ngram-mod" not in command


def running_with_flags(rig: bed.Rig) -> bool:
    pid = rig.show("MainPID")
    return "ngram-mod" in rig.ct(f"tr '\\0' ' ' < /proc/{pid}/cmdline", check=False)


def guards(rig: bed.Rig) -> str:
    return rig.ct("systemctl list-units --no-legend --plain 'specdecode-guard-*' | cut -d' ' -f1").strip()


def test_after_a_run_that_passes(project: Project) -> None:
    project.rig.ct("systemctl start sglang-qwen")
    said = project.pytest("--spec-steps=1")
    assert "1 passed" in said
    assert as_found(project.rig)
    assert guards(project.rig) == ""
    assert project.rig.ct("ls /run/specdecode") == "lock\n"


def test_after_a_run_that_fails_and_a_unit_that_was_down(project: Project) -> None:
    (project.folder / "test_bench.py").write_text(
        "def test_x(measurement):\n    assert measurement.tok_s < 0\n"
    )
    project.pytest("--spec-steps=0,1", status=1)
    assert as_found(project.rig, "inactive")


def test_after_ctrl_c_in_start_up(project: Project) -> None:
    rig = project.rig
    rig.ct("systemctl start sglang-qwen")
    project.configure(service="env = { FAKE_ENGINE = '{\"load_s\": 60}' }\n")
    run = project.start("--spec-steps=1")
    rig.wait(lambda: running_with_flags(rig), "the start")
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    assert run.returncode == 2
    assert as_found(rig)
    assert guards(rig) == ""


def test_after_kill_9_the_guard_does_it(project: Project) -> None:
    rig = project.rig
    rig.ct("systemctl start sglang-qwen")
    project.configure(service="guard_after = '5s'\nenv = { FAKE_ENGINE = '{\"load_s\": 60}' }\n")
    run = project.start("--spec-steps=1")
    rig.wait(lambda: running_with_flags(rig), "the start")
    run.kill()
    run.communicate()
    rig.wait(lambda: as_found(rig), "the guard", within_s=20)
    assert "back as it was found" in rig.ct("journalctl -o cat -u 'specdecode-guard-*' | tail -5")


def test_a_run_after_kill_9_puts_the_unit_back_first(project: Project, session: Any) -> None:
    """The dead run's guard still waits: it is told to act now, so that what was found stays what was
    found.
    """
    rig = project.rig
    project.configure(service="env = { FAKE_ENGINE = '{\"load_s\": 60}' }\n")
    run = project.start("--spec-steps=1")
    rig.wait(lambda: running_with_flags(rig), "the start")
    run.kill()
    run.communicate()
    s = session()
    with pytest.raises(BrokenError, match=r"in use by .* \(pid \d+, since"):
        s.begin().run.clean()
    waiting = session()
    waiting.run.check([s.config(0)], [1], wait_lease_s=40)
    assert any(text.startswith("waiting for root@10.77.0.129, which root@") for text in waiting.said)
    assert as_found(rig, "inactive")
    waiting.run.clean()
    waiting.run.close()
    assert as_found(rig, "inactive")


def test_after_the_link_is_lost_for_good(rig: bed.Rig, session: Any) -> None:
    """No second road: the guard puts the unit back, and the run that comes back ends broken, touching
    nothing.
    """
    rig.ct("systemctl start sglang-qwen")
    s = session(hypervisor="", service="guard_after = '5s'", within="2s").begin()
    s.run.clean()
    server = s.run.start(s.config(1), 0)
    with rig.network_cut():
        rig.wait(lambda: as_found(rig), "the guard", within_s=30)
        with pytest.raises((BrokenError, DirtyError)):
            s.run.clean()
    rig.wait(lambda: rig._answers(22), "the network")
    deadline = time.monotonic() + 30
    while True:
        with pytest.raises(BrokenError) as caught:
            s.run.start(s.config(1), 1)
        if "guard" in str(caught.value):
            break
        assert time.monotonic() < deadline, caught.value
        time.sleep(1)
    assert server.died() is not None
    before = rig.show("InvocationID")
    s.run.close()
    assert as_found(rig)
    assert rig.show("InvocationID") == before


def test_with_a_second_road_the_run_goes_on(rig: bed.Rig, session: Any) -> None:
    """The container's network is down; the hypervisor answers: heartbeat, stop, kill, proof and restoring go
    that way.
    """
    rig.unit(serve="child", more="KillMode=process")
    rig.ct("systemctl start sglang-qwen")
    rig.wait(lambda: rig.ct("pgrep -f '[s]glang::scheduler_TP0'", check=False), "the child")
    child = int(rig.ct("pgrep -f '[s]glang::scheduler_TP0'"))
    s = session(service="guard_after = '5s'\nexclusive = true", within="40s").begin()
    s.host.run(["true"], timeout=5)
    s.run.venue.site.prove_identity()
    with rig.network_cut():
        begin = time.monotonic()
        proof = s.run.clean()
        assert child in proof.killed
        assert rig.show("ActiveState") == "inactive"
        rig.wait(lambda: time.monotonic() - begin > 9, "longer than the guard waits")
        assert guards(rig) != ""
        s.run.close()
        assert as_found(rig)
        assert guards(rig) == ""


def test_two_runs_at_once(project: Project) -> None:
    rig = project.rig
    project.configure(service="env = { FAKE_ENGINE = '{\"load_s\": 4}' }\n")
    first = project.start("--spec-steps=1")
    rig.wait(lambda: running_with_flags(rig), "the first")
    said = project.pytest("--spec-steps=1", status=10)
    assert "is in use by root@" in said
    assert "--spec-wait-lease" in said
    second = project.pytest("--spec-steps=1", "--spec-wait-lease=1min")
    assert "1 passed" in second
    assert "1 passed" in first.communicate(timeout=30)[0]
    assert first.returncode == 0

"""Two roads, one machine: proven before anything is done over the second one."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pytest_specdecode.errors import BrokenError, DirtyError

from . import bed
from .conftest import HYPERVISOR
from .test_cleanroom import Bystanders, bystanders, holding  # noqa: F401  (a fixture)


def wrong(container: int) -> str:
    return HYPERVISOR.replace("129", str(container))


def test_a_container_that_is_not_the_host_gets_nothing_killed(rig: bed.Rig, session: Any) -> None:
    rig.pve("pct start 130")
    rig.ct("systemctl start sglang-qwen")
    s = session(hypervisor=wrong(130), cleanup='kill = ["service", "holders", "python"]').begin()
    with pytest.raises(
        DirtyError,
        match=r"container 130 .* is not root@10\.77\.0\.129: their (boot id|PID namespace)s differ",
    ):
        s.run.clean()
    assert "running" in rig.pve("pct status 130")
    assert [entry.killed for entry in s.ledger.commands if entry.killed] == []


def test_an_unknown_container_leaves_the_machines_own_road(rig: bed.Rig, session: Any) -> None:
    """The hypervisor cannot enter it; signals over the host's own SSH need no second proof."""
    rig.unit(serve="ignore-term", more="KillMode=none\nTimeoutStopSec=1")
    rig.ct("systemctl start sglang-qwen")
    rig.wait(lambda: holding(rig), "its devices")
    s = session(hypervisor=wrong(131)).begin()
    proof = s.run.clean()
    assert proof.killed
    assert any("131" in entry.output for entry in s.ledger.commands)


def test_with_sshd_down_from_the_start_only_a_pinned_container_is_touched(rig: bed.Rig, session: Any) -> None:
    rig.ct("systemctl start sglang-qwen; systemctl stop ssh")
    s = session(within="3s").begin()
    with pytest.raises((BrokenError, DirtyError), match=r"hypervisor\.machine_id = "):
        s.run.clean()
    assert rig.show("ActiveState") == "active"
    s.run.close()
    assert rig.show("ActiveState") == "active"
    other = session(within="3s", hypervisor=HYPERVISOR + f'machine_id = "{"0" * 32}"\n').begin()
    with pytest.raises((BrokenError, DirtyError), match="not the pinned 000"):
        other.run.clean()
    pinned = rig.ct("cat /etc/machine-id").strip()
    good = session(hypervisor=HYPERVISOR + f'machine_id = "{pinned}"\n', service="exclusive = true").begin()
    good.run.clean()
    assert rig.show("ActiveState") == "inactive"
    good.run.close()
    assert rig.show("ActiveState") == "active"


def test_a_hung_sshd_in_mid_run_is_gone_around(rig: bed.Rig, session: Any, bystanders: Bystanders) -> None:  # noqa: F811
    rig.unit(serve="child", more="KillMode=process")
    rig.ct("systemctl start sglang-qwen")
    rig.wait(lambda: holding(rig), "the child")
    s = session(service="exclusive = true", within="60s").begin()
    s.run.venue.site.prove_identity()
    rig.ct("pkill -STOP -f '[s]shd: root' ; kill -STOP $(systemctl show -p MainPID --value ssh)")
    try:
        begin = time.monotonic()
        proof = s.run.clean()
        assert time.monotonic() - begin < 60
        assert len(proof.killed) == 1
        assert bystanders.missing(spare=()) == []
        s.run.close()
    finally:
        rig.ct(
            "kill -CONT $(systemctl show -p MainPID --value ssh); pkill -CONT -f '[s]shd: root'", check=False
        )
    assert rig.show("ActiveState") == "active"


def test_a_container_that_is_stopped_is_broken_in_time(rig: bed.Rig, session: Any) -> None:
    s = session(within="5s").begin()
    rig.container("stop")
    begin = time.monotonic()
    with pytest.raises(BrokenError, match=r"not running|no SSH connection|does not answer"):
        s.run.clean()
    assert time.monotonic() - begin < 30
    s.run.close()
    rig.container("start")
    again = session(within="10s").begin()
    again.run.clean()


def test_a_container_that_stops_under_the_clean_up(rig: bed.Rig, session: Any) -> None:
    rig.unit(serve="ignore-term", more="TimeoutStopSec=20")
    rig.ct("systemctl start sglang-qwen")
    s = session(within="6s").begin()
    rig.pve("(sleep 1.5; pct stop 129) >/dev/null 2>&1 &")
    with pytest.raises((BrokenError, DirtyError), match=r"not running|no SSH|may have run|cannot prove"):
        s.run.clean()


def test_another_host_key_is_broken_and_nothing_is_touched(rig: bed.Rig, session: Any) -> None:
    rig.ct("systemctl start sglang-qwen")
    known = rig.work / "known_hosts"
    good = known.read_text()
    lines = good.splitlines()
    known.write_text("10.77.0.129" + lines[0][lines[0].index(" ") :] + "\n" + lines[0] + "\n")
    try:
        s = session(hypervisor="").begin()
        with pytest.raises(BrokenError, match=r"its host key .* is not the one on file"):
            s.run.clean()
        s.run.close()
    finally:
        known.write_text(good)
    assert rig.show("ActiveState") == "active"


def test_a_plain_user_with_sudo_proves_everything(rig: bed.Rig, session: Any, bystanders: Bystanders) -> None:  # noqa: F811
    rig.unit(serve="child", more="KillMode=process")
    rig.ct("systemctl start sglang-qwen")
    rig.wait(lambda: holding(rig), "the child")
    s = session(host='[target.t.host]\nssh = "op@10.77.0.129"\nsudo = true\n', hypervisor="").begin()
    proof = s.run.clean()
    assert len(proof.killed) == 1
    assert not any("partial" in note for note in proof.notes)
    assert s.run.start(s.config(1), 0).reported.steps == 1
    assert bystanders.missing() == []


def test_a_plain_user_without_sudo_cannot_stop_it_and_says_so(rig: bed.Rig, session: Any) -> None:
    rig.ct("systemctl start sglang-qwen")
    for settings, said in (
        (False, "Access denied|Interactive authentication|could not be started"),
        (True, "sudoers"),
    ):
        host = f'[target.t.host]\nssh = "guest@10.77.0.129"\nsudo = {str(settings).lower()}\n'
        s = session(host=host, hypervisor="", within="2s").begin()
        with pytest.raises((BrokenError, DirtyError), match=said):
            s.run.clean()
        s.run.close()
    assert rig.show("ActiveState") == "active"

"""Stop, kill, release, prove: over SSH and through the hypervisor, with every kind of leftover."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.errors import BrokenError, DirtyError

from . import bed

HOLD = "exec 3</dev/nvidia0 4</dev/nvidia-uvm; exec "


class Bystanders:
    """Who must live on, whatever is cleaned up."""

    def __init__(self, rig: bed.Rig) -> None:
        self.rig = rig
        rig.ct(
            "touch /var/log/python3-install.log; cp /bin/sleep /usr/local/bin/nvidia-persistenced; "
            "cp /bin/sleep /usr/local/bin/my-own-long-named-daemon"
        )
        self.python = rig.start("/usr/bin/python3 -c 'import time; time.sleep(600)'")
        self.tail = rig.start("/usr/bin/tail -f /var/log/python3-install.log")
        self.protected = rig.start(f"/bin/sh -c '{HOLD} /usr/local/bin/nvidia-persistenced 600'")
        self.monitor = rig.start("/bin/sh -c 'exec 3</dev/nvidia0 4</dev/nvidiactl; exec sleep 600'")
        self.login = subprocess.Popen(
            ["ssh", "-F", str(rig.home / ".ssh" / "config"), "ct129", "sleep 666"], stdin=subprocess.DEVNULL
        )
        rig.wait(lambda: rig.ct("pgrep -f '[s]leep 666'", check=False), "the login")

    def missing(self, *, spare: tuple[str, ...] = ()) -> list[str]:
        """Those that have gone."""
        names = [n for n in ("python", "tail", "protected", "monitor") if n not in spare]
        gone = [name for name in names if not self.rig.alive(getattr(self, name))]
        return gone + (["login"] if self.login.poll() is not None else [])

    def end(self) -> None:
        self.login.kill()
        self.login.wait()


@pytest.fixture
def bystanders(rig: bed.Rig) -> Iterator[Bystanders]:
    found = Bystanders(rig)
    yield found
    found.end()


def running(rig: bed.Rig, session: Callable[..., Any], **settings: Any) -> Any:
    """A session that has looked, with the unit running: the next clean-up has something to do."""
    rig.ct("systemctl start sglang-qwen")
    return session(**settings).begin()


def holding(rig: bed.Rig) -> str:
    return rig.ct("fuser /dev/nvidia-uvm 2>/dev/null", check=False).strip()


def test_a_unit_that_ends_at_once_is_proven_clean_and_nobody_else_dies(
    rig: bed.Rig, session: Any, bystanders: Bystanders
) -> None:
    s = running(rig, session)
    proof = s.run.clean()
    assert rig.show("ActiveState") == "inactive"
    assert "port 30000 is closed" in proof.proven
    assert "both roads lead to the same machine" in proof.proven
    notes = "\n".join(proof.notes)
    assert f"allowed to hold devices: pid {bystanders.protected}" in notes
    assert f"allowed to hold devices: pid {bystanders.monitor}" in notes
    assert "nvidia-smi is not installed" in notes
    assert proof.killed == ()
    assert bystanders.missing() == []


def test_a_unit_that_ignores_sigterm(rig: bed.Rig, session: Any, bystanders: Bystanders) -> None:
    rig.unit(serve="ignore-term", more="TimeoutStopSec=1")
    s = running(rig, session)
    rig.wait(lambda: holding(rig), "its devices")
    s.run.clean()
    assert len(holding(rig).split()) == 1
    assert bystanders.missing() == []


def test_a_unit_that_systemd_always_restarts_stays_down(
    rig: bed.Rig, session: Any, bystanders: Bystanders
) -> None:
    rig.unit(more="Restart=always\nRestartSec=0.1")
    s = running(rig, session)
    s.run.clean()
    time.sleep(0.5)
    assert rig.show("ActiveState") == "inactive"
    assert bystanders.missing() == []


@pytest.mark.parametrize("mode", ["process", "mixed", "control-group"])
def test_a_renamed_child_that_outlives_the_unit_and_holds_the_devices(
    rig: bed.Rig, session: Any, bystanders: Bystanders, mode: str
) -> None:
    """``sglang::scheduler_TP0`` in a session of its own: found by cgroup and descent, not by name."""
    rig.unit(serve="child", more=f"KillMode={mode}")
    s = running(rig, session)
    rig.wait(lambda: rig.ct("pgrep -f '[s]glang::scheduler_TP0'", check=False), "the child")
    child = int(rig.ct("pgrep -f '[s]glang::scheduler_TP0'"))
    proof = s.run.clean()
    assert not rig.alive(child)
    assert proof.killed == ((child,) if mode == "process" else ())
    assert bystanders.missing() == []


def test_a_child_that_moved_out_of_the_cgroup_is_still_ours(
    rig: bed.Rig, session: Any, bystanders: Bystanders
) -> None:
    rig.unit(serve="child", more="KillMode=process")
    s = running(rig, session)
    rig.wait(lambda: rig.ct("pgrep -f '[s]glang::scheduler_TP0'", check=False), "the child")
    child = int(rig.ct("pgrep -f '[s]glang::scheduler_TP0'"))
    s.run.service.record()
    rig.ct(f"echo {child} > /sys/fs/cgroup/system.slice/cgroup.procs")
    assert s.run.clean().killed == (child,)
    assert bystanders.missing() == []


def foreign(rig: bed.Rig) -> int:
    pid = rig.start(f"/bin/sh -c '{HOLD} sleep 600'")
    rig.wait(lambda: str(pid) in holding(rig).split(), "the holder")
    return pid


def test_a_foreign_holder_makes_it_dirty_and_lives(
    rig: bed.Rig, session: Any, bystanders: Bystanders
) -> None:
    pid = foreign(rig)
    s = running(rig, session, within="2s")
    with pytest.raises(
        DirtyError, match=rf"(?s)release.*not ours.*pid {pid} \(root\): sleep 600.*/dev/nvidia-uvm"
    ):
        s.run.clean()
    assert rig.alive(pid)
    assert bystanders.missing() == []


def test_a_foreign_holder_goes_where_the_settings_say_holders(
    rig: bed.Rig, session: Any, bystanders: Bystanders
) -> None:
    pid = foreign(rig)
    s = running(rig, session, cleanup='kill = ["service", "holders"]\nprotect = ["my-own-*"]')
    own = rig.start(f"/bin/sh -c '{HOLD} /usr/local/bin/my-own-long-named-daemon 600'")
    proof = s.run.clean()
    assert set(proof.killed) == {pid, bystanders.monitor}
    assert rig.alive(own)
    assert bystanders.missing(spare=("monitor",)) == []


def test_a_mapped_file_is_a_hold(rig: bed.Rig, session: Any) -> None:
    code = (
        "import mmap,os,time; f=os.open('/dev/nvidia-uvm',os.O_RDWR); m=mmap.mmap(f,4096,mmap.MAP_PRIVATE); "
        "os.close(f); time.sleep(600)"
    )
    pid = rig.start(f'/usr/bin/python3 -c "{code}"')
    s = session(within="1s").begin()
    rig.wait(lambda: str(pid) in holding(rig), "the mapping")
    with pytest.raises(DirtyError, match=rf"pid {pid} .*/dev/nvidia-uvm"):
        s.run.clean()


@contextmanager
def frozen(rig: bed.Rig, pid: int) -> Iterator[None]:
    """In the freezer: alive, holding, deaf to SIGKILL."""
    outer = next(int(p) for p in _host_pids() if _inner(p)[-1:] == [pid] and len(_inner(p)) == 3)
    box = Path("/sys/fs/cgroup/freezer/rig-frozen")
    box.mkdir(exist_ok=True)
    (box / "cgroup.procs").write_text(str(outer))
    (box / "freezer.state").write_text("FROZEN")
    try:
        yield
    finally:
        (box / "freezer.state").write_text("THAWED")


def _host_pids() -> list[str]:
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _inner(pid: str) -> list[int]:
    try:
        return bed._inner(int(pid))
    except OSError:
        return []


def test_a_frozen_holder_is_named_as_what_it_is(rig: bed.Rig, session: Any, bystanders: Bystanders) -> None:
    rig.ct("systemctl start sglang-qwen")
    rig.wait(lambda: holding(rig), "its devices")
    pid = int(rig.show("MainPID"))
    s = session(within="6s").begin()
    with frozen(rig, pid), pytest.raises(DirtyError, match=rf"pid {pid}: .*state D.*deactivating"):
        s.run.clean()
    assert bystanders.missing() == []


def test_a_frozen_stray_is_named_with_what_was_tried(rig: bed.Rig, session: Any) -> None:
    pid = foreign(rig)
    s = session(within="6s", cleanup='kill = ["holders"]').begin()
    with (
        frozen(rig, pid),
        pytest.raises(DirtyError, match=rf"pid {pid} .*state D.*survived SIGTERM and SIGKILL"),
    ):
        s.run.clean()


def test_a_process_that_comes_back_is_named_with_who_starts_it(rig: bed.Rig, session: Any) -> None:
    rig.start("/bin/sh -c 'while :; do (exec 3</dev/nvidia-uvm; exec sleep 601); done'")
    rig.wait(lambda: holding(rig), "the holder")
    s = session(within="4s", cleanup='kill = ["holders"]').begin()
    with pytest.raises(
        DirtyError, match=r"came back .* after it was killed, started by pid \d+ \(/bin/sh -c while"
    ):
        s.run.clean()


def test_a_zombie_holds_nothing(rig: bed.Rig, session: Any, bystanders: Bystanders) -> None:
    code = "import os,time; os.fork() or os._exit(0); time.sleep(600)"
    rig.start(f'/usr/bin/python3 -c "{code}"')
    running(rig, session).run.clean()
    assert bystanders.missing() == []


def test_a_holder_in_another_container_is_seen_from_outside_and_left_alone(
    rig: bed.Rig, session: Any, bystanders: Bystanders
) -> None:
    rig.pve("pct start 130")
    rig.wait(lambda: rig.pve("fuser /dev/nvidia0 2>/dev/null", check=False), "the other container's holder")
    s = running(rig, session, within="2s", cleanup='kill = ["service", "holders", "python"]')
    with pytest.raises(DirtyError, match=r"outside the container: pid \d+ \(root\): .*hold130"):
        s.run.clean()
    assert "running" in rig.pve("pct status 130")


def test_the_case_studys_own_scenario(rig: bed.Rig, session: Any, bystanders: Bystanders) -> None:
    """One process that holds six device files: found, killed once, reported once; the next start works."""
    six = "('0','1','2','3','ctl','-uvm')"
    code = f"import time; f=[open('/dev/nvidia'+n,'r+b',0) for n in {six}]; time.sleep(600)"
    pid = rig.start(f'/usr/bin/python3 -c "{code}"')
    rig.wait(lambda: str(pid) in holding(rig).split(), "the holder")
    s = running(rig, session, cleanup='kill = ["service", "holders", "python"]')
    proof = s.run.clean()
    assert sorted(proof.killed) == sorted({pid, bystanders.python, bystanders.monitor})
    told = [line for line in s.said if f"pid {pid} " in line]
    assert len(told) <= 1
    audit = [entry for entry in proof.audit if pid in entry.killed]
    assert len(audit) == 1
    assert audit[0].host == "container 129 on root@10.77.0.2"
    assert s.run.start(s.config(1), 0).reported.steps == 1
    assert bystanders.missing(spare=("python", "monitor")) == []


def test_fuser_missing_is_said_and_the_other_look_decides(rig: bed.Rig, session: Any) -> None:
    pid = foreign(rig)
    rig.ct("mv /usr/bin/fuser /usr/bin/fuser.away")
    try:
        s = session(within="1s").begin()
        with pytest.raises(DirtyError, match=f"pid {pid} "):
            s.run.clean()
        rig.ct(f"kill {pid}")
        assert any("fuser is not installed" in note for note in s.run.clean().notes)
    finally:
        rig.ct("mv /usr/bin/fuser.away /usr/bin/fuser")


def test_gpu_memory_counts_where_nvidia_smi_is(rig: bed.Rig, session: Any) -> None:
    def smi(text: str, status: int = 0) -> None:
        rig.ct(
            f"printf '#!/bin/sh\\necho \"{text}\"\\nexit {status}\\n' > /usr/bin/nvidia-smi; chmod +x "
            f"/usr/bin/nvidia-smi"
        )

    try:
        s = session(within="1s").begin()
        smi("0, 3\\\\n1, 2048")
        with pytest.raises(
            DirtyError, match=r"GPU 1: 2048 MiB in use, more than gpu_memory_below \(1024 MiB\)"
        ):
            s.run.clean()
        smi("0, 3\\\\n1, [N/A]")
        assert any("GPU 1 does not tell" in note for note in s.run.clean().notes)
        smi("Driver/library version mismatch", 9)
        with pytest.raises(DirtyError, match="nvidia-smi failed"):
            s.run.clean()
        smi("0, 3")
        s.run.close()
        s = session(within="1s", cleanup='devices = ["/dev/nothing*"]').begin()
        with pytest.raises(BrokenError, match="no device that matches"):
            s.run.clean()
    finally:
        rig.ct("rm -f /usr/bin/nvidia-smi")


def test_what_is_left_in_shared_memory_is_reported(rig: bed.Rig, session: Any) -> None:
    code = (
        'import sys,time; "--help" in sys.argv and sys.exit(); f=open("/dev/shm/rig-left","w"); time.sleep(9)'
    )
    rig.ct(f"printf '{code}' > /opt/shm.py")
    rig.unit("/usr/bin/python3 /opt/shm.py --spec-type none")
    s = running(rig, session)
    rig.wait(lambda: rig.ct("ls /dev/shm"), "its file")
    try:
        assert "left in memory: /dev/shm/rig-left" in s.run.clean().notes
    finally:
        rig.ct("rm -f /dev/shm/rig-left")


def test_requests_in_flight_are_not_cut_unless_the_service_is_ours_alone(rig: bed.Rig, session: Any) -> None:
    rig.ct("systemctl start sglang-qwen")
    client = subprocess.Popen(
        [
            sys.executable, "-c",
            "import httpx; httpx.post('http://10.77.0.129:30000/v1/completions', timeout=60, "
            "trust_env=False, "
            "json={'prompt': 'x', 'max_tokens': 4000, 'ignore_eos': True, 'stream': False})",
        ]
    )  # fmt: skip
    try:
        rig.wait(_busy, "the request")
        with pytest.raises(BrokenError, match=r"requests are in flight .*exclusive = true"):
            session().begin().run.clean()
        assert rig.show("ActiveState") == "active"
        session(service="exclusive = true").begin()
    finally:
        client.kill()
        client.wait()


def _busy() -> bool:
    import httpx

    try:
        text = httpx.get("http://10.77.0.129:30000/metrics", timeout=5, trust_env=False).text
    except httpx.HTTPError:
        return False
    return "llamacpp:requests_processing 1" in text

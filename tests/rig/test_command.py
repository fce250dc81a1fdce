"""``specdecode doctor`` and ``specdecode clean`` on a real machine."""

from __future__ import annotations

import signal
import subprocess
import sys

from . import bed
from .conftest import HYPERVISOR, Project
from .test_cleanroom import foreign, holding


def start(project: Project, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest_specdecode", *words],
        cwd=project.folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def specdecode(project: Project, *words: str, status: int = 0) -> str:
    """What the command prints, its progress included."""
    process = start(project, *words)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == status, said
    return said


def state(rig: bed.Rig) -> tuple[str, ...]:
    """What doctor must not change."""
    files = "ls -R /run/systemd/system /run/specdecode /tmp /root 2>/dev/null"
    return (rig.show("InvocationID"), rig.show("ActiveState"), rig.ct(files, check=False))


def traces(rig: bed.Rig) -> str:
    """What a command may leave behind on the container: guards, drop-ins, leases."""
    left = "/run/systemd/system/*.d/zzz-specdecode.conf /run/specdecode/*-* /run/specdecode/lease.json"
    return rig.ct(f"ls {left} 2>/dev/null; systemctl --no-legend list-units 'specdecode-*'", check=False)


def running(project: Project, serve: str = "child") -> bed.Rig:
    """The unit runs, with a child that outlives it."""
    rig = project.rig
    rig.unit(serve=serve, more="KillMode=process")
    rig.ct("systemctl start sglang-qwen")
    rig.wait(lambda: holding(rig) and rig._answers(bed.PORT), "the engine")
    return rig


def test_doctor_finds_a_machine_in_order_and_touches_nothing(project: Project) -> None:
    rig = running(project)
    before = state(rig)
    said = specdecode(project, "doctor")
    for line in (
        "ok      host       root@10.77.0.129 answers over SSH, and its host key is the known one",
        "ok      hypervisor container 129 on root@10.77.0.2 is the host (boot id and PID namespace agree)",
        "ok      service    sglang-qwen.service runs now, and can be given flags: ",
        "ok      flags      steps=1: --spec-type ngram-mod --spec-ngram-mod-n-max 1",
        "ok      holders    a run would kill, as cleanup.kill = ['service'] says: pid ",
        "ok      lease      free",
        "ok      port       30000 is held by ",
        "ok      engine     llamacpp ",
    ):
        assert line in said, said
    assert "not ok" not in said
    assert state(rig) == before


def test_doctor_says_what_is_wrong_and_what_to_do(project: Project) -> None:
    rig = running(project, serve="")
    rig.pve("pct start 130")
    stranger = foreign(rig)
    project.configure(hypervisor=HYPERVISOR.replace("129", "130"))
    said = specdecode(project, "doctor", status=1)
    assert "not ok  hypervisor container 130 on root@10.77.0.2 is not root@10.77.0.129" in said
    dirty = next(line for line in said.splitlines() if "would make the environment dirty" in line)
    assert dirty.startswith("not ok  holders ")
    assert f"pid {stranger} (root)" in dirty
    assert rig.alive(stranger)
    assert rig.show("ActiveState") == "active"


def test_clean_ends_what_the_service_left_and_leaves_it_stopped(project: Project) -> None:
    rig = running(project)
    child = int(rig.ct("pgrep -f '[s]glang::scheduler_TP0'"))
    said = specdecode(project, "clean")
    assert "nothing is left that cleanup.kill names" in said
    assert "both roads lead to the same machine" in said
    assert f"signalled: pid {child}" in said
    assert "sglang-qwen.service was running and is left stopped" in said
    assert not rig.alive(child)
    rig.wait(lambda: not traces(rig), "nothing of ours on the machine")
    assert rig.show("ActiveState") == "inactive"


def test_an_interrupted_clean_kills_no_stranger_and_puts_the_service_back(project: Project) -> None:
    rig = running(project)
    stranger = foreign(rig)
    project.configure(within="60s")
    process = start(project, "clean")
    rig.wait(lambda: rig.show("ActiveState") == "inactive", "the stop")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.endswith("specdecode: interrupted\n")
    rig.wait(lambda: rig.show("ActiveState") == "active", "the service as it was found")
    assert not traces(rig)
    assert rig.alive(stranger)

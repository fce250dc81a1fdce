"""``--spec-plan`` shows every command and every process that would die, and changes nothing."""

from __future__ import annotations

import re

from . import bed
from .conftest import Project
from .test_cleanroom import foreign, holding


def found(rig: bed.Rig) -> tuple[str, ...]:
    """The unit as it runs, and every file that a run would write."""
    files = "find /run/systemd/system /run/specdecode /etc/systemd/system -type f -exec md5sum {} + | sort"
    return rig.show("InvocationID"), rig.show("DropInPaths"), rig.ct(files, check=False)


def living(rig: bed.Rig) -> set[str]:
    """Processes there, but for those of our own connections."""
    lines = rig.ct("ps -eo pid=,lstart=,comm=").splitlines()
    return {line.strip() for line in lines if not line.split()[-1].startswith(("sshd", "ps", "bash", "sh"))}


def test_the_plan_names_commands_and_processes_and_touches_nothing(project: Project) -> None:
    rig = project.rig
    rig.unit(serve="child", more="KillMode=process")
    rig.ct("systemctl start sglang-qwen")
    rig.wait(lambda: holding(rig), "the child")
    child = int(rig.ct("pgrep -f '[s]glang::scheduler_TP0'"))
    stranger = foreign(rig)
    before, lived = found(rig), living(rig)
    said = project.pytest("--spec-plan", "--spec-steps=0,1")
    assert "nothing of this has been done" in said
    assert "server starts: 2" in said
    assert "  2. steps=1 at concurrency 1" in said
    assert "container 129 on root@10.77.0.2 is the same machine" in said
    for command in (
        "systemctl stop --no-block",
        "systemctl daemon-reload",
        "systemctl start --no-block",
        "rm /run/",
    ):
        assert command in said
    assert "start with steps=0:" in said
    assert "--spec-ngram-mod-n-max" in said.partition("start with steps=1:")[2]
    dies = said.partition("living processes that would die")[2].partition("would make it dirty")
    main = rig.show("MainPID")
    for pid in (child, main):
        assert re.search(rf"pid {pid} \(root\): .*; it is the service's own", dies[0])
    assert f"pid {stranger} " in dies[2]
    assert found(rig) == before
    assert lived <= living(rig)
    assert rig.alive(child)
    assert rig.show("ActiveState") == "active"

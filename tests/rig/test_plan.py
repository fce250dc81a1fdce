"""``--spec-plan`` shows every command and every process that would die, and changes nothing."""

from __future__ import annotations

from .conftest import Project
from .test_cleanroom import foreign, holding


def test_the_plan_names_commands_and_processes_and_touches_nothing(project: Project) -> None:
    rig = project.rig
    rig.unit(serve="child", more="KillMode=process")
    rig.ct("systemctl start sglang-qwen")
    rig.wait(lambda: holding(rig), "the child")
    child = int(rig.ct("pgrep -f '[s]glang::scheduler_TP0'"))
    stranger = foreign(rig)
    before = (
        rig.show("InvocationID"),
        rig.ct("ls -R /run/systemd/system /run/specdecode 2>/dev/null", check=False),
    )
    said = project.pytest("--spec-plan", "--spec-steps=0,1")
    assert "nothing of this has been done" in said
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
    assert f"pid {child} " in dies[0]
    assert f"pid {main} " in dies[0]
    assert f"pid {stranger} " in dies[2]
    after = (
        rig.show("InvocationID"),
        rig.ct("ls -R /run/systemd/system /run/specdecode 2>/dev/null", check=False),
    )
    assert after == before
    assert rig.alive(child)
    assert rig.show("ActiveState") == "active"

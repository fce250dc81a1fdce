"""Who may be killed, decided over what was seen."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdecode.cleanroom.policy import Policy, Verdict, outside, sort, verdict, why
from pytest_specdecode.hosts.processes import Signalled
from pytest_specdecode.hosts.reaper import Reaper
from pytest_specdecode.hosts.scan import Identity, Scan, Seen

GPU = ("/dev/nvidia0", "/dev/nvidia-uvm")
ALL = Policy(kill=("service", "holders", "python"))


def scan(*processes: Seen, road: frozenset[int] = frozenset()) -> Scan:
    everybody = (Seen(1, 1, parent=0, program="systemd"), *processes)
    by_pid = {p.pid: p for p in everybody}
    return Scan(Identity("b", "4026"), True, GPU, everybody, road, (), by_pid)


def told(
    p: Seen, policy: Policy = ALL, *, owned: bool = False, road: frozenset[int] = frozenset()
) -> Verdict:
    return verdict(p, scan(p, road=road), policy, {p.key} if owned else set())


@pytest.mark.parametrize(
    "p",
    [
        Seen(1, 1, program="python3", held=GPU),
        Seen(5, 1, kernel=True, held=GPU),
        Seen(5, 1, program="nvidia-persistenced", held=GPU),
        Seen(5, 1, program="nvidia-cuda-mps-server", held=GPU),
        Seen(5, 1, program="sshd", argv=("sshd: root@notty",)),
        Seen(5, 1, program="sh", cgroups=("/system.slice/specdecode-guard-0a.service",)),
        Seen(5, 1, program="a-very-long-daemon-name", held=GPU),
    ],
)
def test_some_are_never_killed_whatever_the_settings(p: Seen) -> None:
    policy = Policy(kill=ALL.kill, protect=("a-very-long-*",))
    assert told(p, policy, owned=True) is not Verdict.KILL


def test_the_road_and_its_session_are_never_killed() -> None:
    """51 looks: over SSH everything of that session is ours, on this machine everything of pytest (50)."""
    shell = Seen(40, 1, parent=1, program="sshd")
    session = Seen(50, 1, parent=40, program="python3.11")
    child = Seen(52, 3, parent=50, program="python3.11")
    sibling = Seen(53, 3, parent=40, program="python3.11")
    stranger = Seen(60, 4, parent=1, program="python3.11")
    road = frozenset({51, 50, 40, 1})
    over_ssh = scan(shell, session, child, sibling, stranger, road=road)
    assert [p.pid for p in sort(over_ssh, ALL, ()).kill] == [60]
    at_a_desk = scan(replace(shell, program="bash"), session, child, sibling, stranger, road=road)
    assert [p.pid for p in sort(at_a_desk, ALL, ()).kill] == [53, 60]
    assert [p.pid for p in sort(at_a_desk, ALL, {child.key}).kill] == [52, 53, 60]


def test_owned_processes_go_with_the_default_and_others_do_not() -> None:
    p = Seen(5, 1, program="python3", held=GPU)
    assert told(p, Policy(), owned=True) is Verdict.KILL
    assert told(p, Policy()) is Verdict.FOREIGN
    assert told(p, Policy(kill=("service", "holders"))) is Verdict.KILL


def test_a_plan_says_why_each_would_be_killed() -> None:
    held, bare = Seen(5, 1, program="python3", held=GPU), Seen(6, 1, program="python3")
    assert why(held, ALL, {held.key}) == "it is the service's own"
    assert why(held, ALL, ()) == "it holds a device, and cleanup.kill has holders"
    assert why(bare, ALL, ()) == "it is a Python process, and cleanup.kill has python"


def test_a_monitor_is_allowed_and_a_context_is_not() -> None:
    assert (
        told(Seen(5, 1, program="nvtop", held=("/dev/nvidia0", "/dev/nvidiactl")), Policy())
        is Verdict.ALLOWED
    )
    assert told(Seen(5, 1, program="python3", mapped=("/dev/nvidia-uvm",)), Policy()) is Verdict.FOREIGN
    assert told(Seen(5, 1, program="x", held=("/dev/kfd",)), Policy()) is Verdict.FOREIGN


@pytest.mark.parametrize(
    ("p", "python"),
    [
        (Seen(5, 1, program="python3.11", argv=("sglang::scheduler_TP0",)), True),
        (Seen(5, 1, program="python", argv=("python",)), True),
        (Seen(5, 1, program="tail", argv=("tail", "-f", "/var/log/python3-install.log")), False),
        (Seen(5, 1, program="pythonista", argv=("pythonista",)), False),
        (Seen(5, 1, program="bash", argv=("bash", "python3.sh")), False),
    ],
)
def test_python_is_told_by_the_program_not_by_a_word_in_the_command(p: Seen, python: bool) -> None:
    assert p.python is python


seen = st.builds(
    Seen,
    pid=st.integers(2, 50),
    start=st.integers(1, 5),
    parent=st.integers(0, 50),
    state=st.sampled_from("RSDZT"),
    program=st.sampled_from(["python3", "sshd", "sleep", "Xorg", "gdm3"]),
    held=st.sampled_from([(), GPU, ("/dev/nvidia0",)]),
    kernel=st.booleans(),
)


@given(st.lists(seen, unique_by=lambda p: p.pid), st.frozensets(st.integers(1, 50)), st.data())
def test_no_setting_kills_the_road_the_protected_or_the_dead(
    processes: list[Seen], road: frozenset[int], data: st.DataObject
) -> None:
    owned = data.draw(st.frozensets(st.sampled_from([p.key for p in processes] or [(0, 0)])))
    found = sort(scan(*processes, road=road), ALL, owned)
    for p in found.kill:
        assert p.pid not in road
        assert p.alive
        assert not p.kernel
        assert p.program not in {"sshd", "Xorg", "gdm3"}
    for p in (*found.allowed, *found.foreign):
        assert p.devices


def test_holders_outside_the_container_are_told_from_those_inside() -> None:
    init = Seen(100, 1, parent=90, namespace="4026", inner=(100, 1))
    inside = Seen(101, 2, parent=100, namespace="4026", held=GPU)
    nested = Seen(102, 2, parent=101, namespace="5000", held=GPU)
    entered = Seen(103, 2, parent=1, namespace="4026", held=GPU)
    other = Seen(104, 2, parent=1, namespace="7777", held=GPU)
    assert outside(scan(init, inside, nested, entered, other), "4026") == (other,)


def test_identity_needs_both_and_needs_to_be_read() -> None:
    one = Identity("b", "1")
    assert one.same(Identity("b", "1", "other machine id"))
    assert not one.same(Identity("b", "2"))
    assert not one.same(Identity("c", "1"))
    assert not Identity("", "").same(Identity("", ""))


def test_a_process_is_asked_then_killed_and_one_that_comes_back_is_named() -> None:
    sent: list[tuple[str, tuple[tuple[int, int], ...]]] = []

    def send(number: signal.Signals, keys: Sequence[tuple[int, int]]) -> Signalled:
        sent.append((number.name, tuple(keys)))
        return Signalled(tuple(pid for pid, _ in keys), {})

    reaper = Reaper(send, grace_s=0)
    first = Seen(5, 1, parent=4, argv=("worker",))
    reaper.press([first])
    reaper.press([first])
    assert sent == [("SIGTERM", ((5, 1),)), ("SIGKILL", ((5, 1),))]
    again = Seen(6, 2, parent=4, argv=("worker",))
    text = reaper.describe(again, scan(Seen(4, 1, argv=("supervisord",)), again))
    assert "came back 1 times after it was killed, started by pid 4 (supervisord)" in text

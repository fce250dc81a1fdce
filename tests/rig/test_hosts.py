"""SSH and pct as they really behave: arguments, streams, statuses, deadlines, keys, jumps, tunnels."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from pytest_specdecode.errors import NotRunError, UnknownRunError
from pytest_specdecode.hosts import Host
from pytest_specdecode.hosts.pct import PctHost
from pytest_specdecode.hosts.ssh import SshHost
from pytest_specdecode.hosts.sudo import SudoHost
from pytest_specdecode.hosts.tunnel import Tunnel

from . import bed

CT = "root@10.77.0.129"
NASTY = [
    "a b", "it's", 'say "hi"', "two\nlines", "$HOME `id` $(id) ${x}", "\\", "\\n", "", "*", "é ∞", "-n", "--",
    "tab\t!",
    "~root", "a;b&c|d>e", "#x", "{flags}", "%i", "'", '"',
]  # fmt: skip
ECHO = "import sys,json; print(json.dumps(sys.argv[1:]))"


@pytest.fixture(params=["ssh", "jump", "pct", "sudo"])
def road(request: pytest.FixtureRequest, rig: bed.Rig) -> Iterator[Host]:
    """Each road into the container."""
    base = SshHost(
        {"ssh": CT, "jump": "jumped", "pct": "root@10.77.0.2", "sudo": "op@10.77.0.129"}[request.param]
    )
    wrap: dict[str, Callable[[SshHost], Host]] = {"pct": lambda h: PctHost(h, 129), "sudo": SudoHost}
    yield wrap[request.param](base) if request.param in wrap else base
    base.close()


def test_every_argument_arrives_as_it_was(road: Host) -> None:
    got = road.run(["python3", "-c", ECHO, *NASTY], timeout=10)
    assert json.loads(got.stdout) == NASTY
    assert road.run(["hostname"], timeout=10).stdout.strip() == "ct129"


def test_both_streams_are_drained_and_stdin_arrives(road: Host) -> None:
    got = road.run(
        ["sh", "-c", "head -c 2000000 /dev/zero; head -c 2000000 /dev/zero >&2; exit 3"], timeout=20
    )
    assert (got.status, len(got.stdout), len(got.stderr)) == (3, 2_000_000, 2_000_000)
    assert road.run(["cat"], timeout=10, stdin=b"one\ntwo").stdout == "one\ntwo"


def test_a_program_that_does_not_exist_did_not_run(road: Host) -> None:
    with pytest.raises(NotRunError, match="no-such-program"):
        road.run(["no-such-program", "x"], timeout=10)


def test_a_failing_command_is_a_result(road: Host) -> None:
    assert road.run(["false"], timeout=10).status == 1
    assert road.run(["sh", "-c", "echo no >&2; exit 1"], timeout=10).stderr == "no\n"
    assert road.run(["sh", "-c", "kill -9 $$"], timeout=10).status in {-1, 137, -9}


def test_a_deadline_holds_and_says_that_nobody_knows(road: Host) -> None:
    begin = time.monotonic()
    with pytest.raises(UnknownRunError, match="may have run"):
        road.run(["sleep", "30"], timeout=1)
    assert time.monotonic() - begin < 5
    assert road.run(["echo", "next"], timeout=10).stdout == "next\n"


def test_a_daemon_left_behind_does_not_hold_the_command_up(road: Host) -> None:
    begin = time.monotonic()
    assert road.run(["sh", "-c", "sleep 20 & echo started"], timeout=15).stdout == "started\n"
    assert time.monotonic() - begin < 10


def test_a_lost_link_in_mid_command_is_unknown_and_the_next_command_reconnects(rig: bed.Rig) -> None:
    with contextlib.closing(SshHost(CT)) as host:
        host.run(["true"], timeout=10)
        rig.pve("(sleep 0.5; ip link set veth129i0 down) >/dev/null 2>&1 &")
        begin = time.monotonic()
        with pytest.raises(UnknownRunError, match="may have run"):
            host.run(["sh", "-c", "echo x > /tmp/rig.ran; sleep 5"], timeout=2)
        assert time.monotonic() - begin < 5
        assert rig.ct("cat /tmp/rig.ran") == "x\n"
        with pytest.raises(NotRunError, match=r"no answer in time|no channel"):
            host.run(["sh", "-c", "echo y > /tmp/rig.ran"], timeout=2)
        rig.pve("ip link set veth129i0 up")
        assert rig.ct("cat /tmp/rig.ran") == "x\n"
        rig.wait(lambda: _runs(host), "the way back")


def _runs(host: SshHost) -> bool:
    try:
        return host.run(["true"], timeout=5).status == 0
    except NotRunError:
        return False


def test_a_connection_that_died_is_replaced_before_the_command_is_sent(rig: bed.Rig) -> None:
    with contextlib.closing(SshHost(CT)) as host:
        host.run(["true"], timeout=10)
        rig.ct("pkill -f '[s]shd: root'")
        assert host.run(["echo", "again"], timeout=10).stdout == "again\n"


def test_a_container_that_stops_in_mid_command(rig: bed.Rig) -> None:
    """Over SSH nobody knows; the hypervisor saw it end."""
    with contextlib.closing(SshHost("root@10.77.0.2")) as outer:
        pct = PctHost(outer, 129)
        rig.pve("(sleep 1; pct stop 129) >/dev/null 2>&1 &")
        assert pct.run(["sleep", "30"], timeout=20).status != 0
        rig.wait(lambda: "stopped" in rig.pve("pct status 129"), "the stop")
        with pytest.raises(NotRunError, match="not running"):
            pct.run(["true"], timeout=10)
        with pytest.raises(NotRunError, match="does not exist"):
            PctHost(outer, 131).run(["true"], timeout=10)
    with contextlib.closing(SshHost(CT)) as host, pytest.raises(NotRunError, match="no SSH connection"):
        host.run(["true"], timeout=5)


def test_a_server_that_refuses_or_hangs_is_told_in_time(rig: bed.Rig) -> None:
    rig.ct("systemctl stop ssh")
    with contextlib.closing(SshHost(CT)) as host, pytest.raises(NotRunError, match="refused"):
        host.run(["true"], timeout=5)
    rig.ct("systemctl start ssh; kill -STOP $(systemctl show -p MainPID --value ssh)")
    begin = time.monotonic()
    try:
        with contextlib.closing(SshHost(CT)) as host, pytest.raises(NotRunError, match="no SSH connection"):
            host.run(["true"], timeout=2)
    finally:
        rig.ct("kill -CONT $(systemctl show -p MainPID --value ssh)")
    assert time.monotonic() - begin < 8


def test_another_key_and_an_unknown_one_are_refused_with_advice(rig: bed.Rig) -> None:
    known = rig.work / "known_hosts"
    good = known.read_text()
    try:
        lines = good.splitlines()
        known.write_text("10.77.0.129" + lines[0][lines[0].index(" ") :] + "\n" + lines[0] + "\n")
        with contextlib.closing(SshHost(CT)) as host, pytest.raises(NotRunError, match="ssh-keygen -R"):
            host.run(["true"], timeout=5)
        known.write_text("")
        with (
            contextlib.closing(SshHost(CT)) as host,
            pytest.raises(NotRunError, match="connect once by hand"),
        ):
            host.run(["true"], timeout=5)
    finally:
        known.write_text(good)
    with (
        contextlib.closing(SshHost("nobody@10.77.0.129")) as host,
        pytest.raises(NotRunError, match="no key"),
    ):
        host.run(["true"], timeout=5)


def test_sudo_that_would_ask_is_a_refusal_not_a_result(rig: bed.Rig) -> None:
    with (
        contextlib.closing(SshHost("guest@10.77.0.129")) as plain,
        pytest.raises(NotRunError, match="sudoers"),
    ):
        SudoHost(plain).run(["id"], timeout=10)
    with contextlib.closing(SshHost("op@10.77.0.129")) as plain:
        assert SudoHost(plain).run(["id", "-u"], timeout=10).stdout == "0\n"


def test_an_engine_on_the_loopback_address_is_reached_through_the_tunnel(rig: bed.Rig) -> None:
    rig.start("/usr/bin/python3 -m http.server -b 127.0.0.1 -d /etc 8123")
    with contextlib.closing(SshHost(CT)) as host:
        tunnel = Tunnel(host, ("127.0.0.1", 8123))
        url = f"http://127.0.0.1:{tunnel.port}/hostname"
        rig.wait(lambda: _text(url) == "ct129\n", "the tunnel")
        rig.ct("pkill -f '[s]shd: root'")
        rig.wait(lambda: _text(url) == "ct129\n", "the tunnel over a new connection")
        tunnel.close()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", tunnel.port), timeout=2)


def _text(url: str) -> str:
    try:
        return httpx.get(url, timeout=5, trust_env=False).text
    except httpx.HTTPError:
        return ""


def test_a_program_lives_under_a_supervisor_and_goes_with_the_link(rig: bed.Rig) -> None:
    host = SshHost(CT)
    child = host.spawn(["sh", "-c", "echo $WORD; sleep 600 & sleep 600"], env={"WORD": "hello world"})
    rig.wait(lambda: child.log_tail(1) == ["hello world"], "its log")
    assert child.poll() is None
    assert len(child.descendants()) >= 2
    assert rig.alive(child.pid)
    assert child.stop(within_s=10)
    second = host.spawn(["sleep", "600"])
    assert rig.alive(second.pid)
    host.close()
    rig.wait(lambda: not rig.alive(second.pid), "the end of the program")

"""The rig as tests use it: two machines, and the faults they can have."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCRIPT = HERE / "rig.sh"
UNIT = "sglang-qwen.service"
PORT = 30000
_NEWNET = 0x40000000  # CLONE_NEWNET
SSH_CONFIG = """
Host 10.77.0.* ct129 pve jumped
    IdentityFile {work}/key
    IdentitiesOnly yes
    UserKnownHostsFile {work}/known_hosts
    GlobalKnownHostsFile /dev/null
Host ct129
    HostName 10.77.0.129
    User root
Host jumped
    HostName 10.77.0.129
    User root
    ProxyJump root@10.77.0.2
"""
SERVE = (
    f"/usr/bin/python3 {HERE}/serve.py -m tiny.gguf --alias tiny --host 0.0.0.0 --port {PORT} -c 65536 -np 8 "
    "--metrics --slots"
)


def in_network(name: str) -> int:
    """Move this thread, and all that it starts, into a network namespace; the handle of the one it leaves."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    join(os.open(f"/run/netns/{name}", os.O_RDONLY))
    return before


def join(handle: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.setns(handle, _NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(handle)


def _inner(pid: int) -> list[int]:
    """Its pid in each namespace from ours inwards."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return [int(word) for word in line.split()[1:]]
    return []


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Rig:
    """Control of the rig from outside, by namespaces: independent of SSH, of pct, and of what is tested."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.model = work.parent / "model"
        """A folder that the container sees at the same path."""
        self.pve_pid = _children(int((work / "pid").read_text()))[0]
        self.home = work / "home"
        (self.home / ".ssh").mkdir(parents=True, exist_ok=True)
        (self.home / ".ssh" / "config").write_text(SSH_CONFIG.format(work=work))

    @property
    def ct_pid(self) -> int:
        """The container's first process, seen from here; 0 while it is stopped."""
        queue = [self.pve_pid]
        while queue:
            pid = queue.pop()
            try:
                inner = _inner(pid)
                if len(inner) == 3 and inner[-1] == 1 and "ct129" in self._hostname(pid):
                    return pid
                queue += _children(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
        return 0

    @staticmethod
    def _hostname(pid: int) -> str:
        return subprocess.run(
            ["nsenter", "-t", str(pid), "-u", "hostname"], capture_output=True, text=True, check=False
        ).stdout

    def _enter(self, pid: int, script: str, check: bool) -> str:
        argv = ["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "--", "/bin/bash", "-c", script]
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"rig: {script!r} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def ct(self, script: str, *, check: bool = True) -> str:
        """What a shell script in container 129 prints."""
        return self._enter(self.ct_pid, script, check)

    def pve(self, script: str, *, check: bool = True) -> str:
        """What a shell script on the hypervisor prints."""
        return self._enter(self.pve_pid, script, check)

    def start(self, command: str) -> int:
        """A process of the container's own (no child of a test); its pid there."""
        unit = f"by-{time.monotonic_ns()}"
        self.ct(f"systemd-run -q --collect --unit={unit} {command}")
        return int(self.ct(f"systemctl show -p MainPID --value {unit}"))

    def alive(self, pid: int) -> bool:
        """Whether that pid of the container lives."""
        return bool(
            self.ct(f"test -d /proc/{pid} && grep -v 'State:.[ZX]' /proc/{pid}/status | head -1", check=False)
        )

    # -- the unit -------------------------------------------------------------------------------------

    def unit(self, exec_start: str = SERVE, *, more: str = "", serve: str = "", name: str = UNIT) -> None:
        """Write the unit and make it known."""
        text = (
            "[Unit]\nDescription=rig\n[Service]\n"
            f"Environment=RIG_SERVE={shlex.quote(serve)}\nTimeoutStopSec=5\n{more}\nExecStart={exec_start}\n"
        )
        self.ct(f"cat > /etc/systemd/system/{name} <<'EOT'\n{text}\nEOT\nsystemctl daemon-reload")

    def show(self, name: str, unit: str = UNIT) -> str:
        return self.ct(f"systemctl show -p {name} --value {unit}").strip()

    # -- faults ---------------------------------------------------------------------------------------

    @contextmanager
    def network_cut(self) -> Iterator[None]:
        self.pve("ip link set veth129i0 down")
        try:
            yield
        finally:
            self.pve("ip link set veth129i0 up")

    def container(self, verb: str) -> None:
        self.pve(f"pct {verb} 129")
        if verb == "start":
            self.wait(lambda: self._answers(22), "sshd of the container")

    def _answers(self, port: int) -> bool:
        script = f"exec 3<>/dev/tcp/10.77.0.129/{port}"
        return subprocess.run(["bash", "-c", script], capture_output=True, check=False).returncode == 0

    def wait(self, fact: Callable[[], object], what: str, within_s: float = 20.0) -> None:
        deadline = time.monotonic() + within_s
        while not fact():
            assert time.monotonic() < deadline, f"rig: {what}: not within {within_s:g} s"
            time.sleep(0.05)

    def reset(self) -> None:
        """Whatever a test left behind goes; the unit is the default one, stopped."""
        self.pve("ip link set veth129i0 up; pct stop 130", check=False)
        if not self.ct_pid:
            self.container("start")
        self.ct(
            "systemctl stop 'by-*' 'specdecode-guard-*'; systemctl kill -s KILL sglang-qwen 2>/dev/null; "
            "systemctl stop sglang-qwen; pkill -9 -f '[s]glang::|[s]erve.py'; pkill -9 -x sleep; "
            "rm -rf /run/specdecode /run/systemd/system/*.d /etc/systemd/system/sglang-qwen.service.d "
            "/tmp/rig.*; "
            "systemctl is-active -q ssh || systemctl start ssh; systemctl reset-failed; true",
            check=False,
        )
        self.unit()


def bring_up() -> Rig:
    env = dict(os.environ)
    env.setdefault("RIG", "/tmp/specdecode-rig")
    env.setdefault("RIG_NAME", "rig")
    model = Path(env["RIG"]) / "model"
    model.mkdir(parents=True, exist_ok=True)
    env["RIG_BIND"] = " ".join(map(str, sorted({sys.base_prefix, sys.prefix, ROOT, model}, key=str)))
    subprocess.run(["bash", str(SCRIPT), "down"], env=env, check=False, capture_output=True)
    done = subprocess.run(["bash", str(SCRIPT), "up"], env=env, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the rig does not come up:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return Rig(Path(env["RIG"]) / f"run.{env['RIG_NAME']}")


def take_down() -> None:
    subprocess.run(["bash", str(SCRIPT), "down"], check=False, capture_output=True)

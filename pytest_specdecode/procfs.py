"""What /proc says of processes and ports, and signals that reach exactly one process.

Standard library only and nothing beyond Python 3.9: this file is also sent to other machines
(:mod:`pytest_specdecode.hosts.ship`).
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import pwd
import re
import signal
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

MARK = "PYTEST_SPECDECODE_KEEPER"
"""Environment variable of all that a supervisor started: its own ``pid.start.pid namespace``."""

PROTECTED = (
    "nvidia-persistenced",
    "nv-hostengine",
    "dcgm*",
    "nvidia-cuda-mps-*",
    "nvidia-fabricmanager",
    "nv-fabricmanager",
    "Xorg",
    "Xwayland",
    "gdm*",
    "sshd",
    "sshd-session",
)
"""Base names of executables that are never killed, whatever the settings."""

PROC = Path("/proc")
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h
_LISTEN = "0A"  # TCP_LISTEN, include/net/tcp_states.h


class Process(NamedTuple):
    """One line of /proc/PID/stat. ``start`` in clock ticks after boot: with the pid it names one process."""

    pid: int
    start: int
    parent: int
    state: str
    kernel: bool

    @property
    def alive(self) -> bool:
        return self.state not in {"Z", "X", "x"}


def parse_stat(text: str) -> Process:
    """/proc/PID/stat, whose second field is a name that may hold blanks and brackets (proc(5))."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return Process(
        pid=int(head.split(" ", 1)[0]),
        start=int(fields[19]),
        parent=int(fields[1]),
        state=fields[0],
        kernel=bool(int(fields[6]) & _KERNEL_THREAD),
    )


def process(pid: int) -> Process | None:
    """The process with that pid now; None when there is none."""
    try:
        return parse_stat((PROC / str(pid) / "stat").read_bytes().decode(errors="replace"))
    except (OSError, ValueError, IndexError):
        return None


def pids() -> list[int]:
    return [int(entry.name) for entry in os.scandir(PROC) if entry.name.isdigit()]


def table() -> dict[int, Process]:
    """Every process that can be seen, by pid."""
    found = map(process, pids())
    return {p.pid: p for p in found if p is not None}


def descendants(processes: Mapping[int, Process], root: int) -> list[Process]:
    """Living processes under ``root`` (itself apart), parents before children."""
    children: dict[int, list[Process]] = {}
    for p in processes.values():
        children.setdefault(p.parent, []).append(p)
    found: list[Process] = []
    seen = {root}
    queue = [root]
    while queue:
        for p in children.get(queue.pop(0), ()):
            if p.pid not in seen:
                seen.add(p.pid)
                queue.append(p.pid)
                found.append(p)
    return [p for p in found if p.alive]


def lineage(processes: Mapping[int, Process], pid: int) -> list[int]:
    """``pid`` and its ancestors."""
    found: list[int] = []
    while pid in processes and pid not in found:
        found.append(pid)
        pid = processes[pid].parent
    return found


def argv(pid: int) -> list[str]:
    """The command line; ``[name]`` where there is none (kernel threads, zombies)."""
    with contextlib.suppress(OSError):
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        if words != [""]:
            return words
        return ["[" + (PROC / str(pid) / "comm").read_text(errors="replace").strip() + "]"]
    return ["[gone]"]


def owner(pid: int) -> str:
    """Name of the user it runs as; the number where it has no name."""
    with contextlib.suppress(OSError):
        found = re.search(r"^Uid:\s*(\d+)", (PROC / str(pid) / "status").read_text(errors="replace"), re.M)
        if found:
            return user(int(found[1]))
    return "?"


def user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def program(pid: int) -> str:
    """Base name of the executable (``comm`` is cut at 15 characters, titles can be rewritten)."""
    try:
        name = str((PROC / str(pid) / "exe").readlink())
    except OSError:
        name = argv(pid)[0]
    return Path(name.replace(" (deleted)", "")).name


def pid_namespace(pid: object = "self") -> str:
    """Inode of the PID namespace; empty where it may not be read."""
    try:
        return str((PROC / str(pid) / "ns/pid").readlink()).strip("pid:[]")
    except OSError:
        return ""


def protected(pid: int) -> bool:
    """Whether its executable's name is one of :data:`PROTECTED`."""
    name = program(pid)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in PROTECTED)


def refusal(pid: int, processes: Mapping[int, Process], own: Sequence[int]) -> str:
    """Why this process is never signalled, whatever the settings; empty when it may be."""
    seen = processes.get(pid)
    if pid == 1:
        return "PID 1"
    if seen is not None and seen.kernel:
        return "a kernel thread"
    if pid in own:
        return "this session's own process or an ancestor of it"
    return f"protected by name ({program(pid)})" if protected(pid) else ""


def send(pid: int, start: int, number: int) -> bool:
    """Signal the process that has this pid *and* start time; False when it is gone.

    The pidfd is opened before the start time is read, so that a reused pid is never hit.

    :raises PermissionError: when it is somebody else's.
    """
    handle = -1
    if hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        except OSError:
            handle = -1  # a kernel before 5.3, or a seccomp filter: the check alone has to do
    try:
        seen = process(pid)
        if seen is None or seen.start != start or not seen.alive:
            return False
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True


def parse_tcp(text: str, port: int) -> dict[int, int]:
    """Sockets that listen on ``port`` in /proc/net/tcp or tcp6: inode → uid."""
    found = {}
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
            found[int(words[9])] = int(words[7])
    return found


def listening(port: int) -> dict[int, int]:
    """Sockets of this network namespace that listen on ``port``: inode → uid.

    :raises OSError: where the table cannot be read; that must not look like a closed port.
    """
    found = parse_tcp((PROC / "net/tcp").read_text(), port)
    with contextlib.suppress(FileNotFoundError):  # no IPv6 here
        found.update(parse_tcp((PROC / "net/tcp6").read_text(), port))
    return found


def holders(inodes: Iterable[int]) -> dict[int, list[int]]:
    """Who holds these sockets, as far as it may be read: pid → inodes."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, list[int]] = {}
    for pid in pids() if wanted else ():
        with contextlib.suppress(OSError):
            for entry in os.scandir(PROC / str(pid) / "fd"):
                with contextlib.suppress(OSError):
                    inode = wanted.get(str(Path(entry.path).readlink()))
                    if inode is not None and inode not in found.setdefault(pid, []):
                        found[pid].append(inode)
    return {pid: held for pid, held in found.items() if held}


def answers(port: int) -> bool:
    """Whether something takes a connection on the loopback address, whoever holds the socket."""
    for address in ("127.0.0.1", "::1"):
        with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1.0) as trial:
            if trial.getsockname() != trial.getpeername():  # a socket can be connected to itself
                return True
    return False


def describe(p: Process) -> dict[str, Any]:
    return {"pid": p.pid, "start": p.start, "owner": owner(p.pid), "argv": argv(p.pid), "state": p.state}


def mark(pid: int) -> tuple[int, int, str] | None:
    """The mark in a process's environment: (supervisor's pid, its start time, its PID namespace)."""
    try:
        environment = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    for entry in environment:
        name, _, value = entry.partition(b"=")
        words = value.decode(errors="replace").split(".")
        if name == MARK.encode() and len(words) == 3 and words[0].isdigit() and words[1].isdigit():
            return int(words[0]), int(words[1]), words[2]
    return None

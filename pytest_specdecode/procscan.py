"""What one look over /proc says of every process that matters to a clean room: who it is, what it holds.

Standard library only and nothing beyond Python 3.9: like :mod:`pytest_specdecode.procfs` this file is sent
to the
machine in question. As a program it prints one JSON object for a query given as JSON.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_specdecode.procfs import PROC, Process, argv, lineage, owner, pid_namespace, program, table

_SHM = "/dev/shm/"  # noqa: S108  (looked at, never written)
_LONGEST = 600
_INVOCATION = b"INVOCATION_ID="


class Nodes:
    """Device nodes, recognised by inode, and by device number: a container may have nodes of its own."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.paths: list[str] = []
        self._by_inode: dict[tuple[int, int], str] = {}
        self._by_number: dict[int, str] = {}
        for path in sorted({p for pattern in patterns for p in glob.glob(pattern)}):  # noqa: PTH207
            with contextlib.suppress(OSError):
                self._add(path, os.stat(path))  # noqa: PTH116

    def _add(self, path: str, seen: os.stat_result) -> None:
        if stat.S_ISDIR(seen.st_mode):
            return
        self.paths.append(path)
        self._by_inode[seen.st_dev, seen.st_ino] = path
        if stat.S_ISCHR(seen.st_mode):
            self._by_number[seen.st_rdev] = path
        self._names = {os.path.basename(p) for p in self.paths}  # noqa: PTH119

    def could_be(self, link: str) -> bool:
        """Whether a link may lead to one of them; asked first, since stat on a dead network mount hangs."""
        return bool(self.paths) and (link.startswith("/dev/") or link.rpartition("/")[2] in self._names)

    def match(self, path: str) -> str | None:
        try:
            seen = os.stat(path)  # noqa: PTH116
        except OSError:
            return None
        number = seen.st_rdev if stat.S_ISCHR(seen.st_mode) else None
        return self._by_inode.get((seen.st_dev, seen.st_ino)) or self._by_number.get(number or -1)

    def mapped(self, device: str, inode: int) -> str | None:
        """The node of a line in /proc/PID/maps; ``device`` is ``major:minor`` in hexadecimal."""
        major, minor = (int(part, 16) for part in device.split(":"))
        return self._by_inode.get((os.makedev(major, minor), inode))


_MAP = re.compile(r"^\S+ \S+ \S+ ([0-9a-f]+:[0-9a-f]+) (\d+) +(/.*)$", re.MULTILINE)


def parse_maps(text: str) -> list[tuple[str, int, str]]:
    """/proc/PID/maps: (device, inode, path) of every mapped file, each once, in order."""
    found = ((device, int(inode), path) for device, inode, path in _MAP.findall(text))
    return list(dict.fromkeys((d, i, p.replace(" (deleted)", "")) for d, i, p in found))


def _links(pid: int) -> list[tuple[str, str]] | None:
    """(descriptor's path in /proc, where it leads); None where they may not be read."""
    try:
        entries = [entry.path for entry in os.scandir(PROC / str(pid) / "fd")]
    except FileNotFoundError:
        return []
    except OSError:
        return None
    found = []
    for path in entries:
        with contextlib.suppress(OSError):
            found.append((path, os.readlink(path).replace(" (deleted)", "")))  # noqa: PTH115
    return found


def _read(pid: int, name: str) -> bytes | None:
    """A file of the process; None where it may not be read, empty when the process has gone."""
    try:
        return (PROC / str(pid) / name).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
    except OSError:
        return None


def _holds(pid: int, nodes: Nodes) -> dict[str, Any]:
    links = _links(pid)
    maps = _read(pid, "maps")
    files = parse_maps((maps or b"").decode(errors="replace"))
    by_descriptor = [nodes.match(path) for path, link in links or () if nodes.could_be(link)]
    by_mapping = [nodes.mapped(device, inode) for device, inode, _ in files] if nodes.paths else []
    shm = {link for _, link in links or ()} | {path for _, _, path in files}
    return {
        "held": sorted({p for p in by_descriptor if p}),
        "mapped": sorted({p for p in by_mapping if p}),
        "shm": sorted(p for p in shm if p.startswith(_SHM)),
        "readable": links is not None and maps is not None,
    }


def _cgroups(pid: int) -> list[str]:
    """Its cgroup in every hierarchy; systemd's own is among them."""
    text = (_read(pid, "cgroup") or b"").decode(errors="replace")
    return sorted({line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2} - {"/"})


def _invocation(pid: int) -> str:
    for entry in (_read(pid, "environ") or b"").split(b"\0"):
        if entry.startswith(_INVOCATION):
            return entry[len(_INVOCATION) :].decode(errors="replace")
    return ""


def _inner_pids(pid: int) -> list[int]:
    found = re.search(rb"^NSpid:\s*(.*)$", _read(pid, "status") or b"", re.MULTILINE)
    return [int(n) for n in found[1].split()] if found else []


def describe(p: Process, nodes: Nodes) -> dict[str, Any]:
    words = argv(p.pid)
    return {
        "pid": p.pid,
        "start": p.start,
        "parent": p.parent,
        "state": p.state,
        "kernel": p.kernel,
        "owner": owner(p.pid),
        "argv": [w[:_LONGEST] for w in words[:200]],
        "program": program(p.pid),
        "cgroups": _cgroups(p.pid),
        "invocation": _invocation(p.pid),
        "namespace": pid_namespace(p.pid),
        "inner": _inner_pids(p.pid),
        **({"held": [], "mapped": [], "shm": [], "readable": True} if p.kernel else _holds(p.pid, nodes)),
    }


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def identity() -> dict[str, str]:
    """What tells machines and containers apart; empty strings where it may not be read."""
    return {
        "boot_id": _text("/proc/sys/kernel/random/boot_id"),
        "namespace": pid_namespace(1),
        "machine_id": _text("/etc/machine-id"),
    }


def scan(query: dict[str, Any]) -> dict[str, Any]:
    """``query``: ``devices`` (patterns). Every living process, what it holds, and who is looking."""
    nodes = Nodes(query["devices"])
    processes = table()
    me = os.getpid()
    return {
        "identity": identity(),
        "user": os.geteuid(),
        "devices": nodes.paths,
        "road": lineage(processes, me),
        "processes": [describe(p, nodes) for p in processes.values() if p.pid != me],
        "shm": sorted(glob.glob(_SHM + "*")),  # noqa: PTH207
    }


def main(words: Sequence[str]) -> None:
    sys.stdout.write(json.dumps(scan(json.loads(words[0]))))
    sys.stdout.flush()

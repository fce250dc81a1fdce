"""A program that answers one question about a machine's processes and ports, as JSON on stdout.

Standard library only and nothing beyond Python 3.9: it is sent to the machine that it is asked about.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import sys
from collections.abc import Sequence
from typing import Any

from pytest_specdecode import procfs


def ask_port(port: str) -> dict[str, Any]:
    """Who listens on a port: sockets, the processes that hold them, whether a connection is taken."""
    sockets = procfs.listening(int(port))
    held = {procfs.process(pid): inodes for pid, inodes in procfs.holders(sockets).items()}
    return {
        "sockets": [{"inode": inode, "owner": procfs.user(uid)} for inode, uid in sockets.items()],
        "holders": [dict(procfs.describe(p), inodes=inodes) for p, inodes in held.items() if p is not None],
        "answers": bool(sockets) or procfs.answers(int(port)),
    }


def ask_orphans() -> list[dict[str, Any]]:
    """Living processes of this user whose supervisor is gone, except those that are never killed.

    Only of this PID namespace: elsewhere pids mean other processes, and a living supervisor would look dead.
    """
    here, me = procfs.pid_namespace(), procfs.owner(os.getpid())
    processes = procfs.table()
    own = procfs.lineage(processes, os.getpid())
    found = []
    for p in processes.values():
        mark = procfs.mark(p.pid) if p.alive else None
        if mark is None or not here or {mark[2], procfs.pid_namespace(p.pid)} != {here}:
            continue
        keeper = procfs.process(mark[0])  # now, not from the table: it may be younger than that
        gone = keeper is None or keeper.start != mark[1] or not keeper.alive
        if gone and procfs.owner(p.pid) == me and not procfs.refusal(p.pid, processes, own):
            found.append(procfs.describe(p))
    return found


def ask_signal(number: str, *keys: str) -> dict[str, Any]:
    """Signal each ``pid:start``, save those that are never killed."""
    processes = procfs.table()
    own = procfs.lineage(processes, os.getpid())
    answer: dict[str, Any] = {"signalled": [], "gone": [], "refused": {}}
    for key in keys:
        pid, start = map(int, key.split(":"))
        why = procfs.refusal(pid, processes, own)
        try:
            if why:
                answer["refused"][str(pid)] = why
            else:
                answer["signalled" if procfs.send(pid, start, int(number)) else "gone"].append(pid)
        except PermissionError:
            answer["refused"][str(pid)] = "not permitted: it runs as " + procfs.owner(pid)
    return answer


def ask_free_port() -> int:
    """A port that nobody listens on, outside the range that outgoing connections use."""
    lowest = 32768
    with contextlib.suppress(OSError, ValueError):
        lowest = int((procfs.PROC / "sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = list(range(max(1024, min(lowest, 32768) - 12000), max(1025, lowest)))
    random.shuffle(candidates)
    for port in [*candidates[:200], 0]:
        with contextlib.suppress(OSError), socket.socket() as trial:
            trial.bind(("0.0.0.0", port))  # noqa: S104  (never listens: only asks whether it could)
            return int(trial.getsockname()[1])
    raise OSError("no free TCP port")


QUESTIONS = {
    "port": ask_port,
    "orphans": ask_orphans,
    "signal": ask_signal,
    "free-port": ask_free_port,
}


def main(words: Sequence[str]) -> None:
    sys.stdout.write(json.dumps(QUESTIONS[words[0]](*words[1:])))  # type: ignore[operator]
    sys.stdout.flush()

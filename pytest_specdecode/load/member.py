"""A client process: ``python -m pytest_specdecode.load.member QUEUE BODIES SOCKET``, numbers of inherited
files.

Over the socket it gets a :class:`.share.Job`, answers :data:`READY`, gets the moment to begin, sends
:class:`.client.Done` while it plays and its :class:`.share.Share` at the end, or one sentence where that
failed; then the next job. It ends with the socket, that is with the process at its other end, whatever ended
that; in mid-round it looks about once a second.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from .client import Done
from .share import Job, play_share
from .work import SharedWork

READY = "ready"


def main() -> None:
    queue, bodies, sock = map(int, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the session decides what Ctrl-C means
    work, session = SharedWork(queue, bodies), Connection(sock)
    while True:
        try:
            job: Job = session.recv()
            session.send(READY)
            begin_s: float = session.recv()
            session.send(_played(job, work, begin_s, session))
        except (EOFError, OSError):
            return


def _played(job: Job, work: SharedWork, begin_s: float, session: Connection[Any, Any]) -> object:
    """The share, or why there is none."""
    try:
        return play_share(job, work, begin_s=begin_s, progress=_telling(session))
    except Exception as exc:  # noqa: BLE001 (whatever it is, the session must hear of it)
        return f"{type(exc).__name__}: {exc}"


def _telling(session: Connection[Any, Any]) -> Callable[[Done], None]:
    """Tells the session how far it is; ends this process, and every stream, when nobody listens any more."""

    def tell(done: Done) -> None:
        try:
            session.send(done)
        except OSError:
            os._exit(0)

    return tell


if __name__ == "__main__":
    main()

"""The client of a session: this process alone, or several beside it where one core is not enough.

Processes are started once and reused by all rounds. They share the queue of requests (:mod:`.work`), so that
whoever is free takes the next one, as in one process; workers are dealt out in turn, so that each has some of
those that begin early. They end with the session, by the end of their socket, which the kernel closes.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import IO, Any, Literal, Self

from ..errors import BrokenError
from .client import Done
from .headroom import enough, fared
from .member import READY
from .share import Job, Share, play_share
from .streams import Stream
from .validity import Client
from .work import OwnWork, SharedWork

HEAD_START_S = 0.05
"""Between the last process that is ready and worker 0, so that all have heard of it."""
SILENT_S = 120.0
"""A process tells how far it is every second, and reads what came in a few; after this it hangs."""
_MEMBER = "pytest_specdecode.load.member"


@dataclass(frozen=True, slots=True)
class Played:
    """Requests that were sent and read back, in their order. ``unsent`` ones were given up, since too many
    others had failed.
    """

    streams: tuple[Stream, ...]
    unsent: int
    seconds: float
    client: Client

    @property
    def failed(self) -> bool:
        return any(s.failure for s in self.streams) or self.unsent > 0


class Crew:
    """As many client processes as the load needs.

    :param setting: ``workload.client_processes``
    :param cores: at most so many, where that is "auto"
    """

    def __init__(self, setting: int | Literal["auto"], cores: int) -> None:
        self._fixed = None if setting == "auto" else int(setting)
        self._cores = cores
        self._learned: dict[int, int] = {}
        self._work: SharedWork | None = None
        self._members: list[_Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self, concurrency: int) -> int:
        """Processes for a load of this concurrency; no process without a worker."""
        return min(concurrency, self._fixed or self._learned.get(concurrency, 1))

    def learn(self, concurrency: int, client: Client) -> bool:
        """Whether it takes more processes from now on, after a round in which ``client`` was seen."""
        before = self.size(concurrency)
        self._learned[concurrency] = enough(client, min(self._cores, concurrency))
        return self.size(concurrency) > before

    def play(self, job: Job, bodies: Sequence[bytes], progress: Callable[[int], None]) -> Played:
        """Send ``bodies``; ``progress`` is told about once a second how many requests have ended.

        :raises BrokenError: when a client process dies or hangs.
        """
        size = self.size(job.load.concurrency)
        if size == 1:
            shares = [play_share(job, OwnWork(bodies), progress=lambda done: progress(done.ended))]
        else:
            shares = self._play_together(size, job, bodies, progress)
        streams = sorted((s for share in shares for s in share.streams), key=lambda s: s.number)
        return Played(
            tuple(streams), len(bodies) - len(streams), max(s.seconds for s in shares), fared(shares)
        )

    def _play_together(
        self, size: int, job: Job, bodies: Sequence[bytes], progress: Callable[[int], None]
    ) -> list[Share]:
        try:
            work = self._work = self._work or SharedWork.create()
            while len(self._members) < size:
                self._members.append(_Member(work))
            work.fill(bodies)
            members = self._members[:size]
            for i, member in enumerate(members):
                member.send(replace(job, workers=range(i, job.load.concurrency, size)))
            for member in members:
                member.expect_ready()
            begin_s = time.perf_counter() + HEAD_START_S
            for member in members:
                member.send(begin_s)
            return _gathered(members, job, work, progress)
        except BaseException:
            self.close()  # which cuts every connection; new processes are started when they are needed
            raise

    def close(self) -> None:
        """End the processes. Never raises."""
        for member in self._members:
            member.close()
        if self._work is not None:
            self._work.close()
        self._members, self._work = [], None


class _Member:
    """One client process, from here."""

    def __init__(self, work: SharedWork) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        ours, theirs = socket.socketpair()
        with theirs:
            inherited = (*work.fds, theirs.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MEMBER, *map(str, inherited)],
                pass_fds=inherited,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
            )
        self.connection: Connection[Any, Any] = Connection(ours.detach())
        self.heard_s = time.perf_counter()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: object) -> None:
        self.heard_s = time.perf_counter()
        try:
            self.connection.send(message)
        except (pickle.PicklingError, TypeError, AttributeError) as exc:
            raise BrokenError(
                f"the load cannot be handed to client processes: {exc}; set workload.client_processes = 1"
            ) from exc
        except OSError:
            raise self._lost() from None

    def expect_ready(self) -> None:
        if not self.connection.poll(SILENT_S):
            raise self.hangs()
        if (said := self.receive()) != READY:
            raise BrokenError(f"a process of the load client (pid {self.pid}) failed: {said}")

    def receive(self) -> Any:
        self.heard_s = time.perf_counter()
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            raise self._lost() from None

    def hangs(self) -> BrokenError:
        return BrokenError(
            f"a process of the load client (pid {self.pid}) said nothing for {SILENT_S:.0f} s; is the "
            "machine out of memory, or the process stopped?"
        )

    def _lost(self) -> BrokenError:
        """What is known of a process that is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        status = self._process.poll()
        how = f"killed by signal {-status}" if status is not None and status < 0 else f"exit status {status}"
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        last = f": {said[-1][:200]}" if said else ""
        return BrokenError(
            f"a process of the load client (pid {self.pid}) ended in mid-round, {how}{last}; its requests "
            "are lost. Is the machine out of memory?"
        )

    def close(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()
        self._errors.close()


def _gathered(
    members: Sequence[_Member], job: Job, work: SharedWork, progress: Callable[[int], None]
) -> list[Share]:
    """Each process's share, once all have ended; told of failures, they leave the rest of the queue alone."""
    playing = {member.connection: member for member in members}
    done = dict.fromkeys(playing, Done())
    shares: list[Share] = []
    while playing:
        for ready in connection.wait(list(playing), timeout=1.0):
            member = playing[ready]  # type: ignore[index]
            match member.receive():
                case Done() as told:
                    done[member.connection] = told
                case Share() as share:
                    shares.append(share)
                    del playing[member.connection]
                case said:
                    raise BrokenError(f"a process of the load client (pid {member.pid}) failed: {said}")
        total = sum(done.values(), Done())
        if total.hopeless(job.load):
            work.give_up()
        progress(total.ended)
        for member in playing.values():
            if time.perf_counter() - member.heard_s > SILENT_S:
                raise member.hangs()
    return shares

"""The requests of a round as one queue, which the workers of one process or of several take from in order.

Several processes share it by sharing an open file: reading a record moves the one offset that they all have,
and the kernel lets only one read at a time (read(2), "BUGS": since Linux 3.14) of a file like this
(:func:`_in_memory`). So there is no lock that a dead process could hold, and no process that hands out work
and could be late.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Sequence
from typing import Protocol, Self

_RECORD = struct.Struct("=IQI")  # number of the request, where its body begins, how long it is


class Work(Protocol):
    """What is still to be sent."""

    def take(self) -> tuple[int, bytes] | None:
        """The next request's number and body; None when none is left."""
        ...


class OwnWork:
    """The queue of one process."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self._queue = deque(enumerate(bodies))

    def take(self) -> tuple[int, bytes] | None:
        return self._queue.popleft() if self._queue else None


class SharedWork:
    """The queue of several processes: two files in memory that all of them have open, inherited by number."""

    def __init__(self, queue: int, bodies: int) -> None:
        self.fds = (queue, bodies)

    @classmethod
    def create(cls) -> Self:
        return cls(_in_memory("specdecode-queue"), _in_memory("specdecode-bodies"))

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)

    def fill(self, bodies: Sequence[bytes]) -> None:
        """Replace what is in it; only while nobody takes."""
        queue, store = self.fds
        records, at = bytearray(), 0
        for number, body in enumerate(bodies):
            records += _RECORD.pack(number, at, len(body))
            at += len(body)
        for fd, parts in ((store, bodies), (queue, [records])):
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            with open(fd, "wb", closefd=False) as file:
                file.writelines(parts)
            os.lseek(fd, 0, os.SEEK_SET)

    def take(self) -> tuple[int, bytes] | None:
        queue, store = self.fds
        record = os.read(queue, _RECORD.size)
        if not record:
            return None
        number, at, size = _RECORD.unpack(record)
        return number, os.pread(store, size, at)

    def give_up(self) -> None:
        """Leave nothing to take."""
        os.lseek(self.fds[0], 0, os.SEEK_END)


def _in_memory(name: str) -> int:
    """An open file in memory, opened by its path: the kernel keeps reads of one offset apart only in files
    that were opened (``FMODE_ATOMIC_POS``), not in those that ``memfd_create`` hands out. Two processes then
    got the same record."""
    made = os.memfd_create(name)
    try:
        return os.open(f"/proc/self/fd/{made}", os.O_RDWR | os.O_CLOEXEC)
    finally:
        os.close(made)

"""What one client process does of a round: sends its workers' requests, reads afterwards what came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..engines import Engine
from . import eventloop
from .client import Done, Load, drive
from .streams import Stream, read_stream
from .work import Work


@dataclass(frozen=True, slots=True)
class Share:
    """Streams in the order of their numbers, and how the process fared.

    ``cpu_s``, ``lag_p95_s`` (95th percentile of the event loop's lateness) and ``packets`` are of the
    ``seconds`` in which streams ran.
    """

    streams: tuple[Stream, ...]
    seconds: float
    cpu_s: float
    lag_p95_s: float
    packets: int

    @property
    def cpu_share(self) -> float:
        """Of one core."""
        return self.cpu_s / self.seconds


@dataclass(frozen=True, slots=True)
class Job:
    """A process's part of a round. ``wanted``: output tokens of each request; ``workers``: None: all."""

    load: Load
    wanted: Sequence[int]
    engine: Engine
    workers: Sequence[int] | None = None


def play_share(
    job: Job, work: Work, *, begin_s: float = 0.0, progress: Callable[[Done], None] = lambda _: None
) -> Share:
    """Play ``job``, beginning at ``begin_s`` (s, of ``time.perf_counter``)."""
    driven = eventloop.run(drive(job.load, work, workers=job.workers, begin_s=begin_s, progress=progress))
    packets, streams = 0, []
    with eventloop.no_garbage_collection():
        for trace in driven.traces:
            packets += len(trace.times)
            streams.append(read_stream(trace, job.wanted[trace.number], job.engine))
            trace.packets.clear()  # the bytes of a thousand long answers are most of the memory
    return Share(
        tuple(streams),
        driven.seconds,
        driven.cpu_s,
        float(np.percentile(driven.lags_s, 95)) if driven.lags_s else 0.0,
        packets,
    )

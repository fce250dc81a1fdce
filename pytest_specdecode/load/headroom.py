"""How many client processes a load needs, so that what is measured is the server.

Pure, but for the look at the affinity mask.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from .share import Share
from .validity import Client

COMFORT = 0.5
"""Share of a core that a client process may use: events do not come evenly, and a burst must not queue."""
SATURATED = 0.8
"""Share from which on nobody knows how much more there was to do."""


def fared(shares: Sequence[Share]) -> Client:
    """How the client fared: as the process that had it worst."""
    return Client(
        lag_p95_s=max(s.lag_p95_s for s in shares),
        cpu_share=max(s.cpu_share for s in shares),
        processes=len(shares),
        packets_s=sum(s.packets / s.seconds for s in shares),
    )


def enough(client: Client, most: int) -> int:
    """Processes that would have been enough for what ``client`` had to do: at most ``most``, never fewer than
    it had.
    """
    needed = math.ceil(client.processes * client.cpu_share / COMFORT)
    if client.cpu_share > SATURATED:
        needed = max(needed, 2 * client.processes)
    return max(client.processes, min(most, needed))


def cores_for_client(*, engine_here: bool) -> int:
    """Cores that the client may take of those that this process may run on.

    A quarter where the engine runs on the same machine, whose schedulers and tokenizers need theirs; else all
    but the one of the session itself. Never less than one.
    """
    usable = len(os.sched_getaffinity(0))
    return max(1, usable // 4 if engine_here else usable - 1)

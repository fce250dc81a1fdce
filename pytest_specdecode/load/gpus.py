"""Whether GPUs were slowed down while a round ran: looks before, amid and after it, and what they say."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from ..gpuclocks import SLOWED, GpuClocks
from ..model import Scalar

Look = tuple[GpuClocks, ...]
SLOWED_SHARE = 0.01
"""Share of a round for which a GPU may be slowed down, where the driver counts it."""


@contextlib.contextmanager
def watched(look: Callable[[], Look] | None, expected_s: float) -> Iterator[list[Look]]:
    """Looks around what runs inside, which may take ``expected_s``; all are there afterwards.

    A look in the middle is needed since an idle GPU soon has no reason left to be slow.
    """
    looks: list[Look] = []
    if look is None:
        yield looks
        return
    looks.append(look())
    amid = threading.Timer(expected_s / 2, lambda: looks.append(look()))
    amid.start()
    try:
        yield looks
    finally:
        amid.cancel()
        amid.join()
    looks.append(look())


def slowdown(looks: Sequence[Look], seconds: float) -> str | None:
    """One sentence on the GPU that was slowed down longest; None when none was."""
    found = [said for gpus in _by_gpu(looks) if (said := _slowed(gpus, seconds)) is not None]
    more = f" (and {len(found) - 1} more GPUs)" if len(found) > 1 else ""
    return f"{found[0]}{more}; see to its cooling and power" if found else None


def _by_gpu(looks: Sequence[Look]) -> list[list[GpuClocks]]:
    indices = sorted({gpu.index for look in looks for gpu in look}, key=int)
    return [[gpu for look in looks for gpu in look if gpu.index == index] for index in indices]


def _slowed(gpus: Sequence[GpuClocks], seconds: float) -> str | None:
    """By the driver's counters; what it does not count, by what held at one of the looks."""
    first, last = gpus[0], gpus[-1]
    hottest = max((g.temperature_c for g in gpus if g.temperature_c is not None), default=None)
    at = f" at {hottest:.0f} °C" if hottest is not None else ""
    counted = [bit for bit in first.slowed_us if bit in last.slowed_us] if len(gpus) > 1 else []
    shares = {bit: (last.slowed_us[bit] - first.slowed_us[bit]) / 1e6 / seconds for bit in counted}
    longest = max(counted, key=shares.__getitem__, default=None)
    if longest is not None and shares[longest] > SLOWED_SHARE:
        return (
            f"GPU {first.index} was slowed down for {shares[longest]:.0%} of the round{at}: {SLOWED[longest]}"
        )
    seen = {bit for gpu in gpus for bit in SLOWED if (gpu.reasons or 0) & bit and bit not in counted}
    names = [name for bit, name in SLOWED.items() if bit in seen]
    return f"GPU {first.index} was slowed down{at}: {', '.join(names)}" if names else None


def facts_of_gpus(looks: Sequence[Look]) -> dict[str, Scalar]:
    """Of the hottest and the slowest GPU, at the look amid the round where there is one."""
    seen = [gpu for look in looks for gpu in look]
    if not seen:
        return {}
    amid = looks[len(looks) // 2] or seen
    found: dict[str, Scalar] = {"gpu_power_capped": any(gpu.power_capped for gpu in seen)}
    if hot := [gpu.temperature_c for gpu in seen if gpu.temperature_c is not None]:
        found["gpu_temperature_c"] = max(hot)
    if clocks := [gpu.sm_mhz for gpu in amid if gpu.sm_mhz is not None]:
        found["gpu_sm_mhz"] = min(clocks)
    return found

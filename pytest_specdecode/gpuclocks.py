"""What holds the clocks of a machine's GPUs back at this moment, where ``nvidia-smi`` is.

The reasons are the bits of NVML's ``nvmlClocksEventReasons``. Drivers say ``clocks_event_reasons.active``,
older ones ``clocks_throttle_reasons.active``; the newest count, too, for how long each reason held
(``clocks_event_reasons_counters.*``: on 595, not on 580), which a look now and then would miss.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import HostError, NotRunError
from .hosts import Runner

SLOWED: Mapping[int, str] = {
    0x08: "hardware slow-down",
    0x20: "heat, by the driver",
    0x40: "heat, by the hardware",
    0x80: "power brake",
}
"""Reasons for which a number is not the machine's own. A power cap belongs to the machine as it is set up."""
POWER_CAP = 0x04
_COUNTERS = {
    "clocks_event_reasons_counters.sw_thermal_slowdown": 0x20,
    "clocks_event_reasons_counters.hw_thermal_slowdown": 0x40,
    "clocks_event_reasons_counters.hw_power_brake_slowdown": 0x80,
}
_COMMON = ("index", "memory.used", "temperature.gpu", "clocks.sm")
DIALECTS: tuple[tuple[str, ...], ...] = (
    (*_COMMON, "clocks_event_reasons.active", *_COUNTERS),
    (*_COMMON, "clocks_event_reasons.active"),
    (*_COMMON, "clocks_throttle_reasons.active"),
)
"""Fields by driver, newest first: one that a driver does not know fails the whole query."""
_UNKNOWN_FIELD = "is not a valid field to query"
_TIMEOUT_S = 20.0
_IDLE_MIB = 512
"""A GPU with less memory in use holds no model."""


@dataclass(frozen=True, slots=True)
class GpuClocks:
    """One GPU that is in use. ``reasons``: bits, those of :data:`SLOWED` among them; None: it does not tell.

    ``slowed_us``: microseconds in all, by bit; empty where the driver does not count them.
    """

    index: str
    reasons: int | None = None
    temperature_c: float | None = None
    sm_mhz: float | None = None
    slowed_us: Mapping[int, int] = field(default_factory=dict)

    @property
    def power_capped(self) -> bool:
        return bool(self.reasons and self.reasons & POWER_CAP)


def query(dialect: int) -> tuple[str, ...]:
    return ("nvidia-smi", f"--query-gpu={','.join(DIALECTS[dialect])}", "--format=csv,noheader,nounits")


def parse(text: str, dialect: int) -> tuple[GpuClocks, ...]:
    """The answer to :func:`query`, without idle GPUs; lines of another shape (warnings) are left out."""
    names = DIALECTS[dialect]
    found = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        cells = dict(zip(names, (cell.strip() for cell in row), strict=False))
        if len(row) != len(names) or not cells["index"].isdigit():
            continue
        used_mib = _number(cells["memory.used"])
        if used_mib is not None and used_mib < _IDLE_MIB:
            continue
        mask = cells[names[len(_COMMON)]]
        counted = {bit: _number(cells[name]) for name, bit in _COUNTERS.items() if name in cells}
        found.append(
            GpuClocks(
                cells["index"],
                int(mask, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", mask) else None,
                _number(cells["temperature.gpu"]),
                _number(cells["clocks.sm"]),
                {bit: int(us) for bit, us in counted.items() if us is not None},
            )
        )
    return tuple(found)


def _number(cell: str) -> float | None:
    """None for ``[N/A]`` and the like."""
    return float(cell) if re.fullmatch(r"\d+(?:\.\d+)?", cell, re.ASCII) else None


class GpuWatch:
    """Looks at the GPUs of ``host`` whenever asked, in the words that its driver knows."""

    def __init__(self, host: Runner) -> None:
        self._host = host
        self._dialect = 0

    def look(self) -> tuple[GpuClocks, ...]:
        """The GPUs in use; none where there is no nvidia-smi, or where it fails: no number hangs on it."""
        while self._dialect < len(DIALECTS):
            try:
                result = self._host.run(query(self._dialect), timeout=_TIMEOUT_S)
            except NotRunError:
                self._dialect = len(DIALECTS)
                break
            except HostError:
                break
            if result.status == 0:
                return parse(result.stdout, self._dialect)
            if _UNKNOWN_FIELD not in result.stdout + result.stderr:
                break
            self._dialect += 1
        return ()

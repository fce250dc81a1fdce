"""GPU memory in use, where ``nvidia-smi`` is."""

from __future__ import annotations

import csv
from dataclasses import dataclass

from ..errors import NotRunError, UnknownRunError
from ..hosts import Runner

QUERY = ("nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits")
_TIMEOUT_S = 20.0
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """``used``: bytes; None where the GPU does not tell (unified memory)."""

    index: str
    used: int | None


def parse_gpu_memory(text: str) -> tuple[GpuMemory, ...]:
    """Lines of ``index, MiB``.

    :raises ValueError: for anything else.
    """
    found = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if not row:
            continue
        if len(row) != 2:
            raise ValueError(f"unexpected line {', '.join(row)!r}")
        index, used = (cell.strip() for cell in row)
        unknown = used.startswith("[") or used == "N/A"
        found.append(GpuMemory(index, None if unknown else int(used) * _MIB))
    return tuple(found)


def ask(host: Runner) -> tuple[GpuMemory, ...] | None:
    """None where there is no nvidia-smi.

    :raises HostError: when it fails.
    """
    try:
        result = host.run(QUERY, timeout=_TIMEOUT_S)
    except NotRunError as error:
        if "nvidia-smi" in str(error):
            return None
        raise
    if result.status != 0:
        raise UnknownRunError(
            f"{host.name}: nvidia-smi failed (status {result.status}): "
            f"{(result.stdout or result.stderr).strip()[:300]}"
        )
    try:
        return parse_gpu_memory(result.stdout)
    except ValueError as error:
        raise UnknownRunError(f"{host.name}: nvidia-smi's answer cannot be read: {error}") from error

"""Prometheus' text format, as engines' ``/metrics`` answer it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float


def samples(text: str) -> Iterator[Sample]:
    """The samples of an exposition, in order; lines that are none are passed over."""
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line.strip())
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        yield Sample(found[1], dict(_LABEL.findall(found[2] or "")), value)

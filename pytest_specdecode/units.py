"""Quantities as people write them: ``"90s"``, ``"512MiB"``, ``"5%"``."""

from __future__ import annotations

import re

from .errors import ConfigError


class Seconds(float):
    """A duration, written with a unit: ``"250ms"``, ``"90s"``, ``"15min"``, ``"2h"``."""


class Ratio(float):
    """A share, written as a percentage: ``"5%"`` is 0.05."""


class Bytes(int):
    """A size, written with a unit: ``"512MiB"``, ``"1GiB"``, ``"80GB"``."""


_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z%]+)\s*")
_SCALES: dict[type, tuple[str, dict[str, float]]] = {
    Seconds: ('a duration such as "90s" or "15min"', {"ms": 0.001, "s": 1, "min": 60, "h": 3600}),
    Ratio: ('a percentage such as "5%"', {"%": 0.01}),
    Bytes: (
        'a size such as "512MiB" or "1GiB"',
        {
            "B": 1,
            "KiB": 2**10,
            "MiB": 2**20,
            "GiB": 2**30,
            "TiB": 2**40,
            "kB": 1e3,
            "MB": 1e6,
            "GB": 1e9,
            "TB": 1e12,
        },
    ),
}


def parse_quantity(kind: type, text: object) -> Seconds | Ratio | Bytes:
    """``text`` as a quantity of ``kind`` (Seconds, Ratio or Bytes).

    :raises ConfigError: for anything without a known unit, a bare number included.
    """
    expected, scales = _SCALES[kind]
    found = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[2] not in scales:
        units = ", ".join(scales)
        raise ConfigError(f"{text!r} is not {expected} (units: {units})")
    value: Seconds | Ratio | Bytes = kind(float(found[1]) * scales[found[2]])
    return value


def seconds(text: object) -> Seconds:
    return Seconds(parse_quantity(Seconds, text))


def ratio(text: object) -> Ratio:
    return Ratio(parse_quantity(Ratio, text))

"""Quantities as people write them: ``"90s"``, ``"512MiB"``, ``"5%"``."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import ClassVar

from .errors import ConfigError


class Seconds(float):
    """A duration, written with a unit: ``"250ms"``, ``"90s"``, ``"15min"``, ``"2h"``."""

    words: ClassVar[str] = 'a duration such as "90s" or "15min"'
    scales: ClassVar[dict[str, str]] = {"ms": "0.001", "s": "1", "min": "60", "h": "3600"}


class Ratio(float):
    """A share, written as a percentage: ``"5%"`` is 0.05."""

    words: ClassVar[str] = 'a percentage such as "5%"'
    scales: ClassVar[dict[str, str]] = {"%": "0.01"}


class Bytes(int):
    """A size, written with a unit: ``"512MiB"``, ``"1GiB"``, ``"80GB"``."""

    words: ClassVar[str] = 'a size such as "512MiB" or "1GiB"'
    scales: ClassVar[dict[str, str]] = {
        "B": "1",
        **{f"{prefix}iB": str(1024**power) for power, prefix in enumerate("KMGT", 1)},
        **{f"{prefix}B": str(1000**power) for power, prefix in enumerate("kMGT", 1)},
    }


_NUMBER = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z%]+)\s*")


def parse_quantity(kind: type, text: object) -> Seconds | Ratio | Bytes:
    """``text`` as a quantity of ``kind`` (Seconds, Ratio or Bytes).

    :raises ConfigError: for anything without a known unit, a bare number included.
    """
    quantity: type[Seconds] | type[Ratio] | type[Bytes] = kind
    found = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[2] not in quantity.scales:
        units = ", ".join(quantity.scales)
        raise ConfigError(f"{_shown(text)} is not {quantity.words} (units: {units}){_guess(quantity, text)}")
    return quantity(Decimal(found[1]) * Decimal(quantity.scales[found[2]]))


def seconds(text: object) -> Seconds:
    """:raises ConfigError: see :func:`parse_quantity`."""
    return Seconds(parse_quantity(Seconds, text))


def ratio(text: object) -> Ratio:
    """:raises ConfigError: see :func:`parse_quantity`."""
    return Ratio(parse_quantity(Ratio, text))


def _shown(text: object) -> str:
    return json.dumps(text, default=str, ensure_ascii=False)


def _guess(kind: type, text: object) -> str:
    """What a bare number was probably meant to be."""
    try:
        number = float(text) if isinstance(text, str | int | float) and not isinstance(text, bool) else -1.0
    except ValueError:
        return ""
    if not 0 <= number < 1e15:
        return ""
    if kind is Ratio:
        return f'; write "{number * 100 if number < 1 else number:g}%"'
    return f'; write "{number:g}{"s" if kind is Seconds else "B"}"'

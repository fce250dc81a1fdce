"""Scalars of a case for JUnit XML and other readers of ``user_properties``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..model import Case


class Measured(Protocol):
    @property
    def case(self) -> Case: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...


def properties(measured: Measured) -> list[tuple[str, str | int | float]]:
    """(name, value) of the case and each of its metrics, at most six digits each."""
    case = measured.case
    config = {
        name: value for name, value in case.config.as_dict().items() if isinstance(value, str | int | float)
    }
    metrics = {name: float(f"{value:.6g}") for name, value in measured.metrics.items()}
    return [("target", case.target), *config.items(), ("concurrency", case.concurrency), *metrics.items()]

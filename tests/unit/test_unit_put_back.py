"""A unit is put back as it was found: whatever ran since then had a benchmark's flags."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pytest_specdecode.services.systemd import SystemdService
from pytest_specdecode.services.units import UnitState


class Systemd:
    """A unit that answers, and what was asked of it."""

    unit, dropin = "engine.service", "/run/systemd/system/engine.service.d/zzz-specdecode.conf"

    def __init__(self, **properties: str) -> None:
        self.properties = {"LoadState": "loaded", **properties}
        self.asked: list[str] = []

    def show(self) -> UnitState:
        return UnitState(dict(self.properties))

    def do(self, verb: str, *more: str, unit: bool = True) -> None:
        self.asked.append(verb)
        if verb == "stop":
            self.properties |= {"ActiveState": "inactive", "Job": "0"}

    def remove_dropin(self) -> None:
        self.asked.append("remove the drop-in")

    def reset_failed(self) -> None:
        """Nothing failed."""


class Nobody:
    def forget(self) -> None:
        """Nothing was seen."""

    def look(self) -> Any:
        return type("Scan", (), {"processes": (), "descendants": lambda _self, _roots: set()})()


def found(**properties: str) -> tuple[SystemdService, Systemd]:
    """A service that was taken over as it ran under invocation ``a``."""
    ctl = Systemd(ActiveState="active", InvocationID="a", Job="0", **properties)
    service = SystemdService(
        cast(Any, ctl), cast(Any, Nobody()), cast(Any, None), strip=tuple, replace=["engine", "{flags}"]
    )
    service.take_over()
    return service, ctl


@pytest.mark.parametrize(
    ("invocation", "asked"),
    [
        ("a", ["remove the drop-in", "daemon-reload", "start"]),
        ("b", ["remove the drop-in", "daemon-reload", "stop", "start"]),
    ],
    ids=["never stopped", "another start runs, since a stop of ours failed"],
)
def test_what_runs_is_stopped_unless_it_is_what_was_found(invocation: str, asked: list[str]) -> None:
    service, ctl = found()
    ctl.properties["InvocationID"] = invocation
    service.restore()
    assert ctl.asked == asked

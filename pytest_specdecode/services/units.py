"""What systemctl says of a unit, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

PROPERTIES = (
    "Id",
    "LoadState",
    "LoadError",
    "ActiveState",
    "SubState",
    "Result",
    "Type",
    "Job",
    "MainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "ConditionResult",
    "ConditionTimestampMonotonic",
    "InvocationID",
    "ControlGroup",
    "FragmentPath",
    "DropInPaths",
    "EnvironmentFiles",
    "NeedDaemonReload",
)
_KEY = re.compile(r"([A-Z][A-Za-z0-9]*)=(.*)")
_KILLED, _DUMPED = "2", "3"  # CLD_KILLED, CLD_DUMPED of wait(2)


@dataclass(frozen=True, slots=True)
class UnitState:
    """A unit at one moment."""

    properties: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.properties.get(name, "")

    @property
    def known(self) -> bool:
        return self["LoadState"] == "loaded"

    @property
    def active(self) -> bool:
        """Runs, or is on its way to: an automatic restart that is pending counts."""
        return self["ActiveState"] in {"active", "activating", "reloading", "refreshing"}

    @property
    def stopped(self) -> bool:
        """Neither runs nor will: no job is queued."""
        return self["ActiveState"] in {"inactive", "failed"} and self["Job"] in {"", "0"}

    @property
    def respawning(self) -> bool:
        return self["SubState"] == "auto-restart"

    @property
    def invocation(self) -> str:
        return self["InvocationID"]

    @property
    def cgroup(self) -> str:
        return self["ControlGroup"]

    @property
    def main_pid(self) -> int:
        return int(self["MainPID"]) if self["MainPID"].isdigit() else 0

    @property
    def refused(self) -> bool:
        """Whether its conditions (``ConditionPathExists=`` …) were looked at last time, and did not hold."""
        return self["ConditionResult"] == "no" and self["ConditionTimestampMonotonic"] not in {"", "0"}

    def ending(self) -> str:
        """How it ended, for a reader."""
        result, status = self["Result"], self["ExecMainStatus"]
        if self.refused:
            return "a condition of the unit does not hold (ConditionResult=no)"
        if result == "exit-code" and self["ExecMainCode"] not in {_KILLED, _DUMPED}:
            return f"exit status {status}"
        if result in {"signal", "core-dump"} or self["ExecMainCode"] in {_KILLED, _DUMPED}:
            return f"killed by signal {status}"
        if result == "success" and self["ActiveState"] == "inactive":
            return "it ended by itself with exit status 0"
        return f"{self['ActiveState']} ({self['SubState']}), Result={result}"


def parse_show(text: str) -> UnitState:
    """The answer of ``systemctl show -p A,B``, which comes in an order of its own; a key may come twice."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _KEY.fullmatch(line)
        if match:
            name, value = match.groups()
            found[name] = f"{found[name]}\n{value}" if found.get(name) else value
    return UnitState(found)


def environment_files(value: str) -> tuple[str, ...]:
    """Paths in ``EnvironmentFiles`` (``/etc/default/x (ignore_errors=yes)``, one a line)."""
    return tuple(re.sub(r" \(ignore_errors=(yes|no)\)$", "", line) for line in value.splitlines() if line)

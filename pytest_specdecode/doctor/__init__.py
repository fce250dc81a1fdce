"""Everything that a run of a target needs, looked at one by one; nothing is stopped, started or written.

The checks are data (:data:`CHECKS`); :func:`examine` walks them. What a check cannot do because another one
failed is said to be unseen, not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import SpecDecodeError
from ..report.progress import one_line
from . import client, engine, machine, occupants, service, stored
from .patient import Check, Finding, Grade, Patient

CHECKS: Sequence[Check] = (
    Check("host", machine.road),
    Check("root", machine.root, ("host",)),
    Check("python", machine.python, ("host",)),
    Check("hypervisor", machine.hypervisor),
    Check("gpus", machine.gpus, ("host",)),
    Check("service", service.unit, ("host",)),
    Check("program", service.program, ("service",)),
    Check("flags", service.flags, ("program",)),
    Check("devices", occupants.devices, ("python",)),
    Check("holders", occupants.holders, ("devices", "service")),
    Check("memory", occupants.memory, ("devices", "service")),
    Check("lease", occupants.lease, ("python",)),
    Check("port", occupants.port, ("python", "service")),
    Check("api key", engine.api_key),
    Check("engine", engine.answers, ("service", "api key")),
    Check("prompts", client.prompts),
    Check("baselines", stored.folder),
    Check("stored", stored.cases, ("baselines", "gpus", "flags", "prompts")),
    Check("client", client.capacity),
)


def examine(patient: Patient, checks: Sequence[Check] = CHECKS) -> Iterator[Finding]:
    """What each check finds, in order."""
    cause: dict[str, str] = {}  # of each that is not in order: the check that found out
    for check in checks:
        missing = [cause[name] for name in check.needs if name in cause]
        if missing:
            cause[check.name] = missing[0]
            yield Finding(Grade.UNSEEN, check.name, f"cannot be looked at before {missing[0]} is in order")
            continue
        try:
            for grade, text in check.look(patient):
                if grade is Grade.WRONG:
                    cause[check.name] = check.name
                yield Finding(grade, check.name, one_line(text))
        except SpecDecodeError as error:
            cause[check.name] = check.name
            yield Finding(Grade.WRONG, check.name, one_line(str(error)))


__all__ = ["CHECKS", "Check", "Finding", "Grade", "Patient", "examine"]

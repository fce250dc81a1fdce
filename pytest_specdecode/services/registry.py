"""Which service a target has, by the keys of its ``service`` table."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol

from .. import questions
from ..config import Target
from ..errors import ConfigError
from ..hosts import Host
from ..hosts import processes as _processes
from . import Service

GROUP = "pytest_specdecode.services"


class ServiceType(Protocol):
    """What an entry point of the group names."""

    keys: ClassVar[tuple[str, ...]]
    """The keys of the ``service`` table that, all given, choose it."""

    def of(self, target: Target, host: Host) -> Service: ...


@functools.cache
def service_types() -> Mapping[str, ServiceType]:
    """Installed kinds of service by name.

    :raises ConfigError: for one that cannot be imported, naming it.
    """
    found: dict[str, ServiceType] = {}
    for entry in entry_points(group=GROUP):
        try:
            found[entry.name] = entry.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"service {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
    return found


def _given(table: Any, key: str) -> bool:
    return getattr(table, key, None) not in (None, False)


def make_service(target: Target, host: Host) -> Service:
    """The target's service on ``host``.

    :raises ConfigError: unless exactly one kind of service is chosen, with all its keys.
    """
    table, kinds = target.service, service_types()
    touched = {name: kind for name, kind in kinds.items() if any(_given(table, key) for key in kind.keys)}
    where = f"target.{target.name}.service"
    choices = "; ".join(sorted(" + ".join(kind.keys) for kind in kinds.values()))
    if len(touched) != 1:
        given = sorted(key for kind in touched.values() for key in kind.keys if _given(table, key))
        has = f"{', '.join(given)} were given together" if given else "nothing says how to start it"
        raise ConfigError(f"{where}: {has}; exactly one is needed of: {choices}")
    (kind,) = touched.values()
    missing = [key for key in kind.keys if not _given(table, key)]
    if missing:
        raise ConfigError(f"{where}: {' and '.join(missing)} is missing; {' + '.join(kind.keys)} go together")
    return kind.of(target, host)


def free_port(host: Host | None = None) -> int:
    """A TCP port that nobody uses, on ``host`` or on this machine."""
    return _processes.free_port(host) if host is not None else questions.ask_free_port()

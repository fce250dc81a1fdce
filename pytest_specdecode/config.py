"""specdecode.toml → :class:`Target`. Strict: unknown keys, wrong types and wrong units are errors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from .configchecks import complaints
from .errors import ConfigError
from .strict import Table, decode
from .units import Bytes, Ratio, Seconds


class Speculation(Table, frozen=True, kw_only=True):
    """What ``steps`` means for this target. Omitted keys stay as the launch command has them."""

    algorithm: str | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    draft_model: str | None = None
    args: dict[str, str | int | float | bool] = msgspec.field(default_factory=dict)


class HostTable(Table, frozen=True, kw_only=True):
    """Where the engine runs; without ``ssh``, this machine."""

    ssh: str | None = None
    """``user@host``, or a name from ~/.ssh/config."""
    sudo: bool = False
    """``sudo -n`` for what needs root."""


class Hypervisor(Table, frozen=True, kw_only=True):
    """A second road into the same machine: ``pct exec CONTAINER`` on a Proxmox host."""

    ssh: str
    container: int
    machine_id: str | None = None
    """Pinned identity (/etc/machine-id of the container): allows killing while the host's SSH is down."""


class ServiceTable(Table, frozen=True, kw_only=True):
    """Exactly one of systemd, command, start + stop, external."""

    systemd: str | None = None
    exec: list[str] | None = None
    """Instead of the unit's ExecStart, where that is a wrapper script."""
    user: bool = False
    """A unit of the user's own manager (``systemctl --user``)."""
    guard_after: Seconds = Seconds(60)
    """Silence after which the guard on the host puts the unit back as it was found."""
    command: list[str] | None = None
    start: list[str] | None = None
    stop: list[str] | None = None
    external: bool = False
    env: dict[str, str] = msgspec.field(default_factory=dict)
    extra_args: list[str] = msgspec.field(default_factory=list)
    ready_within: Seconds = Seconds(15 * 60)
    exclusive: bool = False

    @property
    def launch(self) -> list[str]:
        """The launch command, ``{flags}`` and ``{port}`` not yet replaced; empty for an external one."""
        return self.command or self.start or self.exec or []


class Cleanup(Table, frozen=True, kw_only=True):
    kill: list[Literal["service", "holders", "python"]] = msgspec.field(default_factory=lambda: ["service"])
    """Who may be killed: the service's own processes; who holds the devices; every Python process there."""
    devices: list[str] = msgspec.field(default_factory=lambda: ["/dev/nvidia*"])
    protect: list[str] = msgspec.field(default_factory=list)
    """Base names of executables that are never killed, added to the built-in ones."""
    gpu_memory_below: Bytes = Bytes(2**30)
    within: Seconds = Seconds(60)


class Workload(Table, frozen=True, kw_only=True):
    """The load of one round. The same balanced set of requests in every round, restart and night."""

    later: ClassVar[frozenset[str]] = frozenset({"client_processes"})

    prompts: str = "builtin:mixed"
    """A built-in set, or a file's path (relative paths start at the configuration file)."""
    endpoint: Literal["completions", "chat"] = "completions"
    input_tokens: int | None = None
    output_tokens: int = 512
    temperature: float = 0.0
    extra_body: dict[str, Any] = msgspec.field(default_factory=dict)
    requests: str = "max(4c, 16)"
    warmup_rounds: int = 1
    rounds: int = 5
    seed: int = 0
    forced_acceptance: Ratio | None = None
    """The chance that a drafted token is accepted given that all before it were, whatever was drafted; None:
    as the drafts deserve."""


class Gate(Table, frozen=True, kw_only=True):
    """When a case passes. ``metric``: one name or several, the worst decides."""

    metric: str | list[str] = "tok_s"
    tolerance: Ratio = Ratio(0.05)
    margin: Ratio = Ratio(0.01)
    confidence: float = 0.99
    restarts: int = 3

    @property
    def metrics(self) -> tuple[str, ...]:
        return (self.metric,) if isinstance(self.metric, str) else tuple(self.metric)


class TargetTable(Table, frozen=True, kw_only=True):
    """One ``[target.NAME]``."""

    engine: str
    url: str | None = None
    tunnel: bool = False
    """Reach ``url`` from the host, through its SSH connection."""
    machine: str | None = None
    model: str | None = None
    revision: str | None = None
    steps: list[int] = msgspec.field(default_factory=lambda: [0, 1, 2, 3])
    concurrency: list[int] = msgspec.field(default_factory=lambda: [1])
    reference_steps: int | None = None
    api_key_env: str | None = None
    speculation: Speculation = Speculation()
    host: HostTable = HostTable()
    hypervisor: Hypervisor | None = None
    service: ServiceTable = ServiceTable()
    cleanup: Cleanup = Cleanup()
    workload: Workload = Workload()
    gate: Gate = Gate()


class Target(TargetTable, frozen=True, kw_only=True):
    """A target with its name: what everything else is handed."""

    name: str


class File(Table, frozen=True, kw_only=True):
    """A whole configuration file."""

    target: dict[str, TargetTable]


def load_targets(path: Path) -> dict[str, Target]:
    """The targets of the configuration file ``path``, by name, in the file's order.

    :raises ConfigError: naming the file and the key (or line), the value and what was expected.
    """
    try:
        return read_targets(path.read_text(encoding="utf-8"), path.parent)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def read_targets(text: str, folder: Path) -> dict[str, Target]:
    """As :func:`load_targets`, of ``text``; relative paths in it start at ``folder``.

    :raises ConfigError: naming the key.
    :raises tomllib.TOMLDecodeError: naming the line.
    """
    file: File = decode(File, tomllib.loads(text), "")
    if not file.target:
        raise ConfigError("target: no target is configured; write a table [target.NAME]")
    for name, table in file.target.items():
        for complaint in complaints(name, table):
            raise ConfigError(complaint)
    return {name: _named(name, table, folder) for name, table in file.target.items()}


def _named(name: str, table: TargetTable, folder: Path) -> Target:
    values = {field: getattr(table, field) for field in table.__struct_fields__}
    prompts = table.workload.prompts
    if not prompts.startswith("builtin:"):
        file = str((folder / Path(prompts).expanduser()).absolute())
        values["workload"] = msgspec.structs.replace(table.workload, prompts=file)
    return Target(name=name, **values)


__all__ = [
    "Bytes",
    "Cleanup",
    "Gate",
    "HostTable",
    "Hypervisor",
    "Ratio",
    "Seconds",
    "ServiceTable",
    "Speculation",
    "Target",
    "Workload",
    "load_targets",
    "read_targets",
]

"""specdecode.toml → :class:`Target`. Strict: unknown keys, wrong types and wrong units are errors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from .configchecks import complaints
from .errors import ConfigError
from .strict import Table, decode
from .units import Bytes, Ratio, Seconds


class Speculation(Table, frozen=True, kw_only=True):
    """What ``steps`` means for this target. Omitted keys stay as the launch command has them."""

    algorithm: str | None = None
    """The engine's own word: ``EAGLE``, ``ngram``, ``draft-simple`` …"""
    topk: int | None = None
    """Branches of the draft tree; 1 is a chain."""
    draft_tokens: int | None = None
    """Tokens verified in one step; default steps + 1 for a chain."""
    draft_model: str | None = None
    """Where the algorithm needs one: a path or a name, as the engine takes it."""
    args: dict[str, str | int | float | bool] = msgspec.field(default_factory=dict)
    """Further speculation settings in the engine's words."""


class HostTable(Table, frozen=True, kw_only=True):
    """Where the engine runs; without ``ssh``, this machine."""

    ssh: str | None = None
    """``user@host``, or a name from ~/.ssh/config."""
    pool: list[str] = msgspec.field(default_factory=list)
    """Instead of ``ssh``: several hosts of one kind, each measuring a share under ``pytest -nN``."""
    sudo: bool = False
    """``sudo -n`` for what needs root."""


class Hypervisor(Table, frozen=True, kw_only=True):
    """A second road into the same machine: ``pct exec CONTAINER`` on a Proxmox host."""

    ssh: str
    """``user@host`` of the Proxmox host."""
    container: int
    """The container's number there."""
    machine_id: str | None = None
    """Pinned identity (/etc/machine-id of the container): allows killing while the host's SSH is down."""


class ServiceTable(Table, frozen=True, kw_only=True):
    """Exactly one of systemd, command, start + stop, external."""

    systemd: str | None = None
    """The unit that serves, such as ``sglang-qwen.service``; its file is never edited."""
    exec: list[str] | None = None
    """Instead of the unit's ExecStart, where that is a wrapper script."""
    user: bool = False
    """A unit of the user's own manager (``systemctl --user``)."""
    guard_after: Seconds = Seconds(60)
    """Silence after which the guard on the host puts the unit back as it was found."""
    command: list[str] | None = None
    """The launch command of a child of the run, ``{flags}`` and ``{port}`` replaced."""
    start: list[str] | None = None
    """A command of yours that launches the engine and returns."""
    stop: list[str] | None = None
    """The command that ends what ``start`` launched."""
    external: bool = False
    """Measure what answers at ``url``; start, stop and kill nothing."""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    """Environment variables of the engine."""
    extra_args: list[str] = msgspec.field(default_factory=list)
    """Arguments added in every configuration; part of the identity."""
    ready_within: Seconds = Seconds(15 * 60)
    """How long a start may take."""
    exclusive: bool = False
    """Stop the service even while it answers requests of others."""

    @property
    def launch(self) -> list[str]:
        """The launch command, ``{flags}`` and ``{port}`` not yet replaced; empty for an external one."""
        return self.command or self.start or self.exec or []


class Cleanup(Table, frozen=True, kw_only=True):
    kill: list[Literal["service", "holders", "python"]] = msgspec.field(default_factory=lambda: ["service"])
    """Who may be killed: the service's own processes; who holds the devices; every Python process there."""
    devices: list[str] = msgspec.field(default_factory=lambda: ["/dev/nvidia*"])
    """Device files that nobody but allowed processes may hold."""
    protect: list[str] = msgspec.field(default_factory=list)
    """Base names of executables that are never killed, added to the built-in ones."""
    gpu_memory_below: Bytes = Bytes(2**30)
    """Memory in use on each GPU that counts as free."""
    within: Seconds = Seconds(60)
    """How long each step may take before the environment is dirty."""


class Workload(Table, frozen=True, kw_only=True):
    """The load of one round. The same balanced set of requests in every round, restart and night."""

    prompts: str = "builtin:mixed"
    """A built-in set, or a file's path (relative paths start at the configuration file)."""
    endpoint: Literal["completions", "chat"] = "completions"
    """Which of the engine's endpoints is asked."""
    input_tokens: int | None = None
    """Pad or cut prompts to about so many tokens."""
    output_tokens: int = 512
    """Mean output length; requests differ by ± 25%, so that they do not end in lock-step."""
    temperature: float = 0.0
    """Of sampling; above 0 each request has a seed of its own."""
    extra_body: dict[str, Any] = msgspec.field(default_factory=dict)
    """Further fields of each request: ``top_p``, thinking switches, …"""
    requests: str = "max(4c, 16)"
    """Requests of one round, by the concurrency ``c``."""
    warmup_rounds: int = 1
    """Rounds before the measured ones."""
    rounds: int = 5
    """Measured rounds of one server start."""
    seed: int = 0
    """Of the order of prompts and their output lengths."""
    forced_acceptance: Ratio | None = None
    """The chance that a drafted token is accepted given that all before it were, whatever was drafted; None:
    as the drafts deserve."""
    client_processes: int | Literal["auto"] = "auto"
    """Processes that the load comes from; "auto": as many as the warm-up shows to be needed."""


class Gate(Table, frozen=True, kw_only=True):
    """When a case passes. ``metric``: one name or several, the worst decides."""

    metric: str | list[str] = "tok_s"
    """What is compared."""
    tolerance: Ratio = Ratio(0.05)
    """A case passes once it is shown not to be slower by this or more."""
    margin: Ratio = Ratio(0.01)
    """A case has regressed only if it is shown to be slower by more than this."""
    confidence: float = 0.99
    """One minus the chance of a false alarm in a session."""
    restarts: int = 3
    """Most server starts for one configuration."""

    @property
    def metrics(self) -> tuple[str, ...]:
        return (self.metric,) if isinstance(self.metric, str) else tuple(self.metric)


class TargetTable(Table, frozen=True, kw_only=True):
    """One ``[target.NAME]``."""

    engine: str
    """``sglang``, ``vllm``, ``llamacpp``, or the name of an installed entry point."""
    url: str | None = None
    """Where the engine answers."""
    tunnel: bool = False
    """Reach ``url`` from the host, through its SSH connection."""
    machine: str | None = None
    """Name of the machine in baseline files, instead of the one made from its hardware."""
    model: str | None = None
    """The name under which the engine serves it."""
    revision: str | None = None
    """Of the model; part of the identity."""
    steps: list[int] = msgspec.field(default_factory=lambda: [0, 1, 2, 3])
    """Speculation steps to run; 0 is no speculation."""
    concurrency: list[int] = msgspec.field(default_factory=lambda: [1])
    """Requests in flight, one case each."""
    reference_steps: int | None = None
    """What the improvement column compares with."""
    api_key_env: str | None = None
    """The environment variable that holds the API key; never printed or stored."""
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

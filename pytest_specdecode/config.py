"""specdecode.toml → :class:`Target`. Strict: unknown keys, wrong types and wrong units are errors."""

from __future__ import annotations

from typing import Any

import msgspec

from .units import Bytes, Ratio, Seconds


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class Speculation(_Table, frozen=True, kw_only=True):
    """What ``steps`` means for this target. Omitted keys stay as the launch command has them."""

    algorithm: str | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    draft_model: str | None = None
    args: dict[str, str | int | float | bool] = {}


class HostTable(_Table, frozen=True, kw_only=True):
    """Where the engine runs; without it, this machine."""

    ssh: str | None = None
    sudo: bool = False


class ServiceTable(_Table, frozen=True, kw_only=True):
    """Exactly one of command, start + stop, external."""

    command: list[str] | None = None
    start: list[str] | None = None
    stop: list[str] | None = None
    external: bool = False
    env: dict[str, str] = {}
    extra_args: list[str] = []
    ready_within: Seconds = Seconds(15 * 60)
    exclusive: bool = False


class Cleanup(_Table, frozen=True, kw_only=True):
    within: Seconds = Seconds(60)


class Workload(_Table, frozen=True, kw_only=True):
    """The load of one round. The same balanced set of requests in every round, restart and night."""

    prompts: str = "builtin:mixed"
    endpoint: str = "completions"
    input_tokens: int | None = None
    output_tokens: int = 512
    temperature: float = 0.0
    extra_body: dict[str, Any] = {}
    requests: str = "max(4c, 16)"
    warmup_rounds: int = 1
    rounds: int = 5
    seed: int = 0


class Gate(_Table, frozen=True, kw_only=True):
    """When a case passes. ``metric``: one name or several, the worst decides."""

    metric: str | list[str] = "tok_s"
    tolerance: Ratio = Ratio(0.05)
    margin: Ratio = Ratio(0.01)
    confidence: float = 0.99
    restarts: int = 3


class TargetTable(_Table, frozen=True, kw_only=True):
    """One ``[target.NAME]``."""

    engine: str
    url: str | None = None
    machine: str | None = None
    model: str | None = None
    revision: str | None = None
    steps: list[int] = msgspec.field(default_factory=lambda: [0, 1, 2, 3])
    concurrency: list[int] = msgspec.field(default_factory=lambda: [1])
    reference_steps: int | None = None
    api_key_env: str | None = None
    speculation: Speculation = Speculation()
    host: HostTable = HostTable()
    service: ServiceTable = ServiceTable()
    cleanup: Cleanup = Cleanup()
    workload: Workload = Workload()
    gate: Gate = Gate()


class Target(TargetTable, frozen=True, kw_only=True):
    """A target with its name: what everything else is handed."""

    name: str


class File(_Table, frozen=True, kw_only=True):
    """A whole configuration file."""

    target: dict[str, TargetTable]


__all__ = [
    "Bytes",
    "Cleanup",
    "Gate",
    "HostTable",
    "Ratio",
    "Seconds",
    "ServiceTable",
    "Speculation",
    "Target",
    "Workload",
]

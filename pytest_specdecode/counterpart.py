"""Two targets side by side: whether they can be compared on one host, and what corresponds to what. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from .config import Target, Workload
from .errors import ConfigError
from .markers import Defaults
from .model import SpecConfig
from .services.portwatch import local_port

_UNSHAPING = frozenset({"rounds", "warmup_rounds", "client_processes"})
"""What of a workload says how it is measured, not what."""


def counterpart(config: SpecConfig, mine: Defaults, theirs: Defaults) -> SpecConfig:
    """The other target's configuration with as many steps.

    What a test's marker says (what differs from ``mine``) holds for both; all else is as the other target
    has it.
    """
    if config.off:
        return config

    def theirs_unless_said(value: Any, own: Any, other: Any) -> Any:
        return other if value == own else value

    topk = theirs_unless_said(config.topk, mine.topk, theirs.topk)
    drafts = mine.draft_tokens or (config.steps + 1 if config.topk == 1 else None)
    own_args = dict(mine.args)
    said = {k: v for k, v in config.args if k not in own_args or own_args[k] != v}
    return SpecConfig.of(
        config.steps,
        algorithm=theirs_unless_said(config.algorithm, mine.algorithm, theirs.algorithm),
        topk=topk,
        draft_tokens=theirs_unless_said(config.draft_tokens, drafts, theirs.draft_tokens),
        args={**theirs.args, **said},
    )


def refuse_pair(target: Target, other: Target) -> None:
    """:raises ConfigError: when the two cannot be measured in turns on one host, with what to do."""
    for problem in _problems(target, other):
        raise ConfigError(f"--spec-against={other.name}: {problem}")


def _problems(a: Target, b: Target) -> Iterator[str]:
    for name, one, two in (
        ("host", _host(a), _host(b)),
        ("hypervisor", msgspec.to_builtins(a.hypervisor), msgspec.to_builtins(b.hypervisor)),
        ("address", _elsewhere(a), _elsewhere(b)),
    ):
        if one != two:
            yield (
                f"both targets must run on one host, described alike; {name} is {_shown(one)} for {a.name} "
                f"and {_shown(two)} for {b.name}"
            )
    if list(a.cleanup.devices) != list(b.cleanup.devices):
        yield (
            f"one machine has one set of devices; cleanup.devices is {list(a.cleanup.devices)} for {a.name} "
            f"and {list(b.cleanup.devices)} for {b.name}"
        )
    if a.service.systemd and b.service.systemd and a.service.user != b.service.user:
        yield "both units must be of the same manager; service.user is true for one of them only"
    port = _port(a)
    if port is not None and port == _port(b) and (a.service.start or b.service.start):
        yield (
            f"both targets listen on port {port}, and what listens there cannot be told apart where a "
            "service has start and stop commands; give them different ports (url)"
        )


def _host(target: Target) -> Any:
    return msgspec.to_builtins(target.host)


def _elsewhere(target: Target) -> str:
    """The machine in the URL of a target that is reached over the network alone; empty: the host itself."""
    if target.url is None or target.host.ssh is not None or local_port(target.url) is not None:
        return ""
    return urlsplit(target.url).hostname or ""


def _port(target: Target) -> int | None:
    if target.url is None:
        return None
    parts = urlsplit(target.url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _shown(value: Any) -> str:
    return "this machine" if value in ("", None) else str(value)


def workload_difference(mine: Workload, theirs: Workload) -> tuple[str, str, str]:
    """(key, value of ``mine``, value of ``theirs``) of the first setting in which two workloads differ that
    are known not to be the same; it is the content of prompt files where none does."""
    one, two = msgspec.to_builtins(mine), msgspec.to_builtins(theirs)
    differing = [k for k in one if k not in _UNSHAPING and k != "prompts" and one[k] != two[k]]
    key = (*differing, "prompts")[0]
    return f"workload.{key}", str(one[key]), str(two[key])

"""What types alone cannot say of a target: ranges, and keys that must fit each other."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .errors import ConfigError
from .model import metric
from .strict import shown

if TYPE_CHECKING:
    from .config import ServiceTable, TargetTable, Workload

FLAGS, PORT, HOST = "{flags}", "{port}", "{host}"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OWN_FIELDS = {
    "model": "use the target's model",
    "prompt": "use workload.prompts",
    "messages": "use workload.prompts",
    "max_tokens": "use workload.output_tokens",
    "max_completion_tokens": "use workload.output_tokens",
    "temperature": "use workload.temperature",
    "seed": "use workload.seed",
    "n": "one request is one answer here",
    "stream": "every request is streamed",
    "stream_options": "every request is streamed, with usage",
}
"""Fields of a request's body that ``extra_body`` must not set."""
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+")
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")


def _at_least(least: float) -> Callable[[float], bool]:
    return lambda value: math.isfinite(value) and value >= least


def _distinct(values: list[int], least: int) -> bool:
    return bool(values) and min(values) >= least and len(set(values)) == len(values)


_RANGES: list[tuple[str, Callable[[Any], bool], str]] = [
    ("machine", lambda v: bool(_NAME.fullmatch(v)), "letters, digits, '.', '_' and '-' only (a file name)"),
    ("steps", lambda v: _distinct(v, 0), "different whole numbers, 0 (off) or more, at least one"),
    ("concurrency", lambda v: _distinct(v, 1), "different whole numbers, 1 or more, at least one"),
    ("reference_steps", _at_least(0), "0 (off) or more"),
    ("speculation.topk", _at_least(1), "1 or more"),
    ("speculation.draft_tokens", _at_least(1), "1 or more"),
    ("service.ready_within", lambda v: v > 0, "longer than nothing"),
    ("service.guard_after", lambda v: v >= 5, "5 s or more"),
    ("cleanup.gpu_memory_below", lambda v: v > 0, "more than nothing"),
    ("cleanup.within", lambda v: v > 0, "longer than nothing"),
    ("workload.input_tokens", _at_least(1), "1 or more"),
    ("workload.output_tokens", _at_least(2), "2 or more (one token has no decode speed)"),
    ("workload.temperature", _at_least(0), "0 or more"),
    ("workload.warmup_rounds", _at_least(0), "0 or more"),
    ("workload.rounds", _at_least(1), "1 or more"),
    ("workload.seed", _at_least(0), "0 or more"),
    ("workload.client_processes", lambda v: v == "auto" or v >= 1, '1 or more, or "auto"'),
    ("workload.forced_acceptance", lambda v: 0 < v <= 1, 'above "0%" and at most "100%"'),
    ("gate.metric", bool, "a metric's name, or several"),
    ("gate.tolerance", lambda v: 0 < v < 1, 'between "0%" and "100%"'),
    ("gate.confidence", lambda v: 0.5 < v < 1, "above 0.5 and below 1, such as 0.99"),
    ("gate.restarts", _at_least(1), "1 or more"),
]


def complaints(name: str, table: TargetTable) -> Iterator[str]:
    """What is wrong with a target, one line each: key, value, what was expected."""
    key = f"target.{name}"
    if not _NAME.fullmatch(name):
        yield (
            f"{key}: {shown(name)} cannot be a target's name: it becomes part of a file name, so letters, "
            "digits, '.', '_' and '-' only, starting with a letter or digit, at most 64"
        )
    for path, fits, expected in _RANGES:
        value = attrgetter(path)(table)
        if value is not None and not fits(value):
            yield f"{key}.{path}: {shown(value)}; expected {expected}"
    if table.gate.margin > table.gate.tolerance:
        margin, tolerance = (f'"{v * 100:g}%"' for v in (table.gate.margin, table.gate.tolerance))
        yield f"{key}.gate.margin: {margin} is more than gate.tolerance, {tolerance}"
    yield from _metrics(key, table.gate.metrics)
    yield from _load(f"{key}.workload", table.workload, table.concurrency)
    yield from _address(key, table)
    yield from _service(key, table.service)
    yield from _host(key, table)


def _metrics(key: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        try:
            metric(name)
        except ConfigError as error:
            yield f"{key}.gate.metric: {error}"


def _load(key: str, workload: Workload, levels: Iterable[int]) -> Iterator[str]:
    from .load.requests import request_count  # noqa: PLC0415  (it imports the configuration's types)

    for level in levels:
        try:
            request_count(workload.requests, level)
        except ConfigError as error:
            yield f"{key.removesuffix('workload')}{error}"
            return
    for name, instead in _OWN_FIELDS.items():
        if name in workload.extra_body:
            yield f"{key}.extra_body.{name}: set by the load itself; {instead}"


def _address(key: str, table: TargetTable) -> Iterator[str]:
    if table.api_key_env is not None and not _ENV_NAME.fullmatch(table.api_key_env):
        yield (
            f"{key}.api_key_env: expected the name of an environment variable, such as "
            '"SGLANG_API_KEY", never the key itself (the value is not shown)'
        )
    if table.url is not None:
        yield from _url(f"{key}.url", table.url)
    elif table.service.external:
        yield f"{key}.url: missing; an external service needs the address where it answers"
    elif table.service.launch and not any(PORT in part for part in table.service.launch):
        yield f'{key}.url: missing; give it, or put "{PORT}" into the launch command'


def _url(key: str, url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        yield f'{key}: {shown(url)} is not an address such as "http://127.0.0.1:30000"'
    elif parts.username or parts.password or parts.query or parts.fragment:
        yield f"{key}: must have no user, password or query (not shown); keys go through api_key_env"


def _service(key: str, service: ServiceTable) -> Iterator[str]:
    key = f"{key}.service"
    given = [name for name in ("systemd", "command", "start", "stop") if getattr(service, name) is not None]
    given += ["external"] if service.external else []
    if given not in (["systemd"], ["command"], ["start", "stop"], ["external"]):
        has = f"found {' and '.join(given)}" if given else "found none of them"
        choices = "systemd, command, start and stop together, external = true"
        yield f"{key}: expected exactly one of {choices}; {has}"
        return
    for name in ("command", "start", "stop", "exec"):
        yield from _argv(f"{key}.{name}", getattr(service, name), flags=name != "stop")
    if service.systemd is None and (service.exec is not None or service.user):
        yield f"{key}: exec and user go with systemd; leave them out"
    if service.systemd is not None and not _UNIT.fullmatch(service.systemd):
        yield f'{key}.systemd: {shown(service.systemd)} is not a unit such as "sglang-qwen.service"'
    if service.external and (service.extra_args or service.env):
        yield f"{key}.external: runs whatever we do, so extra_args and env have no effect; leave them out"


def _host(key: str, table: TargetTable) -> Iterator[str]:
    if table.tunnel and not ((table.host.ssh or table.host.pool) and table.url):
        yield f"{key}.tunnel: needs host.ssh, which carries it, and url, the address as the host sees it"
    yield from _pool(key, table)
    for i, pattern in enumerate(table.cleanup.devices):
        if not pattern.startswith("/"):
            yield f'{key}.cleanup.devices[{i}]: {shown(pattern)} is not a path such as "/dev/nvidia*"'
    pinned = table.hypervisor.machine_id if table.hypervisor is not None else None
    if pinned is not None and not _MACHINE_ID.fullmatch(pinned):
        yield (
            f"{key}.hypervisor.machine_id: {shown(pinned)} is not a machine id; it is what the container "
            f"has in "
            "/etc/machine-id, 32 hexadecimal digits"
        )


def _pool(key: str, table: TargetTable) -> Iterator[str]:
    """A pool is one target on several hosts: nothing in it may name one of them."""
    pool, named = table.host.pool, table.url is not None and HOST in table.url
    if not pool:
        if named:
            yield f'{key}.url: "{HOST}" stands for a host of host.pool, and there is none'
        return
    if not all(pool) or len(set(pool)) < len(pool):
        yield f'{key}.host.pool: {shown(pool)}; expected different addresses such as "root@10.1.230.174"'
    if table.host.ssh is not None:
        yield f"{key}.host: has ssh and pool; the pool names the hosts, so leave ssh out"
    if table.hypervisor is not None:
        yield (
            f"{key}.hypervisor: is the second road to one machine, and host.pool has {len(pool)}; leave one "
            "out"
        )
    if table.service.external:
        yield f"{key}.service.external: runs one configuration, which one host measures; use host.ssh"
    if table.url is not None and not (table.tunnel or named):
        yield (
            f'{key}.url: {shown(table.url)} is one address for {len(pool)} hosts; put "{HOST}" where their '
            "own goes, or set tunnel = true"
        )


def _argv(key: str, argv: list[str] | None, *, flags: bool) -> Iterator[str]:
    if argv is None:
        return
    if not argv or not argv[0]:
        yield f"{key}: {shown(argv)} names no program"
    for i, part in enumerate(argv):
        if FLAGS in part and part != FLAGS:
            yield f'{key}[{i}]: {shown(part)} has {FLAGS} inside; it must be an element of its own, "{FLAGS}"'
    count = argv.count(FLAGS)
    if flags and count != 1:
        yield (
            f'{key}: has "{FLAGS}" {count} times; exactly one list element "{FLAGS}" says where the '
            "speculation flags go (without it every configuration would run alike)"
        )
    if not flags and count:
        yield f'{key}: "{FLAGS}" belongs into the command that starts the engine'

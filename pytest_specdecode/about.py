"""What a session is about (§6): the identity that baselines must share, the context that may differ."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from . import __version__
from .config import Target
from .engines import Engine
from .errors import HostError
from .hosts.local import LocalHost
from .hosts.redaction import redact
from .load.requests import workload_digest
from .machine import Facts, context_facts, identity_facts
from .model import CaseStart


def identity_of(
    target: Target,
    engine: Engine,
    argv: Sequence[str],
    facts: Facts | None,
    folder: Path,
    *,
    draft_model: str | None,
) -> dict[str, Any]:
    """What must be the same for two numbers to be compared.

    :param argv: the launch command
    :param facts: None: a machine that cannot be asked, and is known by its configured name alone
    :param folder: where prompt files are looked up
    """
    return {
        **({"machine": target.machine} if facts is None else identity_facts(facts)),
        "model": target.model or engine.read_launch(argv).model,
        "revision": target.revision,
        "draft_model": _file_name(draft_model),
        "workload": workload_digest(target.workload, folder),
        "launch": list(redact(engine.identity_args(argv))),
    }


def context_of(target: Target, version: str, facts: Facts | None, folder: Path) -> dict[str, Any]:
    """What may differ, and is quoted when a case regresses. ``version``: the engine's own."""
    return {
        **({} if facts is None else context_facts(facts)),
        "client_processes": target.workload.client_processes,
        "commit": _commit(folder),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "engine": target.engine,
        "engine_version": version,
        "plugin_version": __version__,
    }


def headings_of(target: Target, version: str, hardware: str) -> dict[str, str]:
    """What stands over a table, in words: hardware, engine, workload."""
    rate = target.workload.forced_acceptance
    forced = f", acceptance forced to {rate:.0%}" if rate else ""
    return {
        "hardware": hardware,
        "engine": f"{target.engine} {version}".strip(),
        "workload": f"output {target.workload.output_tokens} tok{forced}",
    }


def clocks_of(measured: CaseStart) -> dict[str, Any]:
    """For the context: how fast its GPUs ran in the first round; empty where nobody can tell."""
    facts = measured.rounds[0].facts
    return {name: facts[name] for name in ("gpu_sm_mhz", "gpu_power_capped") if name in facts}


def _commit(folder: Path) -> str:
    """The folder's git commit; empty where there is none."""
    try:
        result = LocalHost().run(["git", "-C", str(folder), "rev-parse", "--short", "HEAD"], timeout=10)
    except HostError:
        return ""
    return result.stdout.strip() if result.status == 0 else ""


def _file_name(model: str | None) -> str | None:
    """A model without its folder, which says nothing of it; a hub's name stays whole."""
    return PurePath(model).name if model and PurePath(model).is_absolute() else model

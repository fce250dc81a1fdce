"""What a running SGLang says of itself: settings in force and running totals."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ..model import SpecConfig
from . import Answer, Counters, Http, Settings
from . import sglang_flags as f
from .openai import as_dict, as_int, as_list, said, served
from .prometheus import Sample, samples
from .sglang_drafts import family_of, longest_draft

PREFIX = "sglang:"
_NUMBERS = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
_TOLD = ("speculative_algorithm", *_NUMBERS)
_REPORTED = (
    *_TOLD,
    "speculative_draft_model_path",
    "speculative_adaptive",
    "max_running_requests",
    "enable_metrics",
    "tp_size",
    "dp_size",
    "attention_backend",
    "disable_overlap_schedule",
    "version",
)
_RESOLVED = {"NEXTN": "EAGLE"}
_BECOMES = {"EAGLE": frozenset({"EAGLE", "FROZEN_KV_MTP"})}
"""Names under which SGLang runs an algorithm: some draft models have a method of their own."""


def server_info(http: Http) -> Answer:
    """Older servers know the path by another name."""
    answer = http.get("/server_info")
    return http.get("/get_server_info") if answer.status == 404 else answer


def read_settings(http: Http) -> Settings:
    """From ``/server_info``; names and context from ``/v1/models``. ``speculating`` None: it cannot be read.

    The algorithm decides whether it speculates: without one the other settings are shown and not used. Every
    data-parallel replica reports its own; ``raw`` keeps them for :func:`disagreements`.
    """
    answer = server_info(http)
    info = as_dict(answer.json()) if answer.status == 200 else {}
    models = served(http)
    common: dict[str, Any] = {
        "models": tuple(str(m["id"]) for m in models if m.get("id")),
        "context_tokens": as_int(next((m.get("max_model_len") for m in models), None)),
    }
    if "speculative_algorithm" not in info:
        return Settings(raw={"unreadable": said(answer)}, **common)
    replicas = [as_dict(r) for r in as_list(info.get("internal_states"))]
    algorithm = info["speculative_algorithm"]
    steps, topk, draft_tokens = (as_int(info.get(name)) if algorithm else None for name in _NUMBERS)
    return Settings(
        speculating=bool(algorithm),
        algorithm=algorithm,
        steps=longest_draft(family_of(algorithm), steps, draft_tokens) if algorithm else 0,
        topk=topk,
        draft_tokens=draft_tokens,
        max_running=_together(info, replicas),
        raw={
            **{name: info[name] for name in _REPORTED if name in info},
            "asked": _asked(info.get("launch_command")),
            "replicas": [{name: r[name] for name in _TOLD if name in r} for r in replicas],
        },
        **common,
    )


def _together(info: Mapping[str, Any], replicas: Sequence[Mapping[str, Any]]) -> int | None:
    """Requests over all replicas; each says what it may run."""
    each = [as_int(r.get("effective_max_running_requests_per_dp")) for r in replicas]
    known = [n for n in each if n is not None]
    return sum(known) if known and len(known) == len(each) else as_int(info.get("max_running_requests"))


def _asked(command: object) -> dict[str, str | bool]:
    """Speculation as SGLang was asked for it; what it shows elsewhere is what it made of that."""
    try:
        words = shlex.split(str(command or ""))
    except ValueError:
        return {}
    return {p.name: p.values[0] if p.values else True for p in f.pieces(words) if p.speculation}


def mismatches(config: SpecConfig, settings: Settings) -> tuple[str, ...]:
    """What of ``config`` is not what runs, as :meth:`Engine.mismatches`."""
    raw = settings.raw
    if settings.speculating is None:
        return (f"what runs is not known: /server_info answered {raw.get('unreadable', 'nothing')}",)
    found = list(_unmeasurable(raw))
    if config.off:
        if settings.speculating:
            found.append(f"speculation was to be off, but it runs with {settings.algorithm}")
        return (*found, *disagreements(settings))
    if not settings.speculating:
        asked = f"{config.algorithm or 'speculation'} with {config.steps} steps was asked"
        found.append(
            f"{asked}, but SGLang does not speculate (/server_info: speculative_algorithm null; without an "
            "algorithm it ignores all other speculation flags)"
        )
        return tuple(found)
    if config.algorithm and not _same(config.algorithm, settings.algorithm):
        found.append(f"algorithm {config.algorithm} was asked, {settings.algorithm} runs")
    found += [*_different(config, settings), *disagreements(settings)]
    return tuple(found)


def _unmeasurable(raw: Mapping[str, Any]) -> list[str]:
    found = []
    if raw.get("enable_metrics") is False:
        found.append(no_metrics())
    if raw.get("speculative_adaptive"):
        found.append("it changes its number of steps while it runs (speculative_adaptive)")
    return found


def no_metrics() -> str:
    return (
        "SGLang runs without --enable-metrics, so requests of others could not be told from ours; add it: "
        '[target.….service] extra_args = ["--enable-metrics"]'
    )


def _same(asked: str, runs: str | None) -> bool:
    wanted = _RESOLVED.get(asked.upper(), asked.upper())
    return (runs or "").upper() in _BECOMES.get(wanted, frozenset({wanted}))


def _different(config: SpecConfig, settings: Settings) -> list[str]:
    found = []
    if settings.steps != config.steps:
        found.append(f"{config.steps} steps were asked, {_number(settings.steps)} run")
    if config.topk is not None and settings.topk != config.topk:
        found.append(f"topk {config.topk} was asked, {_number(settings.topk)} runs")
    if config.draft_tokens is not None and settings.draft_tokens != config.draft_tokens:
        told = settings.raw.get("asked", {}).get(f.DRAFT_TOKENS)
        adjusted = str(told) == str(config.draft_tokens)
        found.append(
            f"{config.draft_tokens} draft tokens were asked, {_number(settings.draft_tokens)} run"
            f"{' (SGLang adjusted them: at topk 1 they are steps + 1)' if adjusted else ''}"
        )
    return found


def _number(value: int | None) -> str:
    return "an unknown number" if value is None else str(value)


def disagreements(settings: Settings) -> list[str]:
    """Replicas that run other speculation than the server as a whole says. Zeros and nulls are not told by
    a replica, so only one that names no algorithm where others do is known to have none."""
    raw = settings.raw
    replicas: list[Mapping[str, Any]] = list(raw.get("replicas", ()))
    tell = any("speculative_algorithm" in replica for replica in replicas)
    found = []
    for rank, replica in enumerate(replicas):
        for name in _TOLD:
            whole = raw.get(name)
            absent = None if tell and name == "speculative_algorithm" and settings.speculating else whole
            if replica.get(name, absent) != whole:
                found.append(f"replica {rank} runs {name} {replica.get(name)}, the server says {whole}")
    return found


# --- counters


def read_counters(http: Http) -> Counters:
    """From ``/metrics`` (needs ``--enable-metrics``): totals of finished requests, prompts' cached tokens
    included. SGLang's own health probes are not counted. Its gauges of acceptance cover the last logged
    window, so they are not used."""
    answer = http.get("/metrics")
    if answer.status != 200:
        return Counters()
    found = [s for s in samples(answer.text) if s.name.startswith(PREFIX)]
    generated, prompt, cached, steps = (
        total(found, name)
        for name in (
            "generation_tokens_total",
            "prompt_tokens_total",
            "cached_tokens_total",
            "spec_verify_calls_total",
        )
    )
    raw = {
        "generation_tokens_total": generated,
        "prompt_tokens_total": prompt,
        "cached_tokens_total": cached,
        "spec_verify_calls_total": steps,
        "num_requests_total": total(found, "num_requests_total"),
    }
    return Counters(
        generated_tokens=generated,
        prompt_tokens=prompt,
        cached_prompt_tokens=0.0 if cached is None and prompt is not None else cached,
        drafts=steps,
        steps=steps,
        raw={name: value for name, value in raw.items() if value is not None},
    )


_RANKS = frozenset({"tp_rank", "pp_rank", "moe_ep_rank"})
"""Processes that serve one replica together: each counts the same requests."""


def total(found: Sequence[Sample], name: str) -> float | None:
    """A family's sum over everything but the processes of one replica; None where there is none of it."""
    shared: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in found:
        if sample.name == PREFIX + name:
            key = tuple(sorted((k, v) for k, v in sample.labels.items() if k not in _RANKS))
            shared[key] = max(shared.get(key, 0.0), sample.value)
    return sum(shared.values()) if shared else None

"""What a running vLLM answers, taken apart. Pure but for the questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import Http
from .openai import as_dict, as_int
from .prometheus import Sample, samples
from .vllm_speculation import FIELDS, METHOD, MODEL, TOKENS


def told(config: Mapping[str, Any], engines: int) -> dict[str, Any]:
    """What ``vllm_config`` of ``/server_info`` says, in the terms of :class:`Settings`."""
    speculation = as_dict(config.get("speculative_config"))
    scheduler, parallel = as_dict(config.get("scheduler_config")), as_dict(config.get("parallel_config"))
    limits = [as_int(scheduler.get(name)) for name in ("max_num_seqs", "max_num_active_seqs")]
    known = [limit for limit in limits if limit is not None]
    method = speculation.get(METHOD)
    return {
        "speculating": bool(speculation),
        "algorithm": str(method) if method else None,
        "steps": as_int(speculation.get(TOKENS)) if speculation else 0,
        "max_running": engines * min(known) if known else None,
        "raw": {
            "speculative_config": {
                name: value
                for name, value in speculation.items()
                if name in FIELDS | {METHOD, MODEL, TOKENS} and value is not None
            },
            "max_num_seqs": scheduler.get("max_num_seqs"),
            "max_num_batched_tokens": scheduler.get("max_num_batched_tokens"),
            "async_scheduling": scheduler.get("async_scheduling"),
            "data_parallel_size": parallel.get("data_parallel_size"),
            "tensor_parallel_size": parallel.get("tensor_parallel_size"),
            "enable_prefix_caching": as_dict(config.get("cache_config")).get("enable_prefix_caching"),
            "enforce_eager": as_dict(config.get("model_config")).get("enforce_eager"),
        },
    }


def own_samples(http: Http) -> list[Sample]:
    """vLLM's own samples of ``/metrics``, their prefix cut off; none where it keeps none."""
    answer = http.get("/metrics")
    if answer.status != 200:
        return []
    return [
        Sample(s.name.removeprefix("vllm:"), s.labels, s.value)
        for s in samples(answer.text)
        if s.name.startswith("vllm:")
    ]

"""Requests that a running engine is busy with, whichever engine it is."""

from __future__ import annotations

from . import Http
from .prometheus import samples

GAUGES = frozenset(
    {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        "llamacpp:requests_processing",
        "llamacpp:requests_deferred",
    }
)


def in_flight(http: Http) -> float | None:
    """Requests that run or wait now; None where the engine does not tell."""
    answer = http.get("/metrics")
    if answer.status != 200:
        return None
    found = [sample.value for sample in samples(answer.text) if sample.name in GAUGES]
    return sum(found) if found else None

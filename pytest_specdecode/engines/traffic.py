"""Requests that a running engine is busy with, whichever engine it is."""

from __future__ import annotations

import time
from dataclasses import dataclass

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
ANSWERED = "sglang:num_requests_total"
LAGGING = "sglang:"
"""SGLang renews its gauges every 40 decode steps, so a lone request reads 0 at first."""
WATCH_S = 3.0
POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class _Look:
    running: float
    answered: float
    lags: bool


def in_flight(http: Http, *, watch_s: float = WATCH_S) -> float | None:
    """Requests that run or wait now; None where the engine does not tell.

    An engine whose gauges lag is watched for ``watch_s``, until one of them shows or a request was answered.
    """
    first = _look(http)
    if first is None or first.running or not first.lags:
        return first.running if first else None
    deadline_s = time.monotonic() + watch_s
    while time.monotonic() < deadline_s:
        time.sleep(min(POLL_S, watch_s))
        now = _look(http)
        count = max(now.running, now.answered - first.answered) if now else 0.0
        if count > 0:
            return count
    return 0.0


def _look(http: Http) -> _Look | None:
    answer = http.get("/metrics")
    if answer.status != 200:
        return None
    found = list(samples(answer.text))
    gauges = [sample for sample in found if sample.name in GAUGES]
    if not gauges:
        return None
    lags = any(sample.name.startswith(LAGGING) for sample in gauges)
    return _Look(
        running=max(sum(_loads(http)) if lags else 0.0, sum(g.value for g in gauges)),
        answered=sum(sample.value for sample in found if sample.name == ANSWERED),
        lags=lags,
    )


def _loads(http: Http) -> list[float]:
    """The same from SGLang's own account, which lags less (15 steps); empty where there is none."""
    body = http.get("/v1/loads").json()
    loads = body.get("loads") if isinstance(body, dict) else None
    names = ("num_running_reqs", "num_waiting_reqs")
    return [float(load.get(name) or 0) for load in loads or () for name in names if isinstance(load, dict)]

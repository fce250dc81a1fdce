"""From a launched engine to one that is known to be ready and to run what was asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .engines import Engine, Http, Settings
from .errors import BrokenError
from .model import SpecConfig
from .report.text import stopwatch
from .services import Service

POLL_S = 0.1
SLOWEST_POLL_S = 1.0
READY_TIMEOUT_S = 25.0
"""For one readiness probe: SGLang's own health check may take 20 s."""


def wait_ready(
    engine: Engine, http: Http, service: Service, *, within_s: float, say: Callable[[str], None]
) -> float:
    """Seconds until the engine is ready to serve.

    :raises BrokenError: at once when the service ends first, with its last log lines; or when time is up.
    """
    began = time.monotonic()
    pause = POLL_S
    while True:
        state = service.state()
        if not state.running:
            raise BrokenError(f"the engine ended while it was starting: {state.detail}{log_lines(service)}")
        remaining = within_s - (time.monotonic() - began)
        readiness = engine.ready(http)
        if readiness.ready:
            return time.monotonic() - began
        if remaining <= 0:
            raise BrokenError(
                f"the engine was not ready within {within_s:g} s ({readiness.detail or 'no answer'}); "
                f"if it needs longer, raise service.ready_within{log_lines(service)}"
            )
        say(_waiting(time.monotonic() - began, service.log_tail(1)))
        time.sleep(min(pause, remaining))
        pause = min(pause * 1.3, SLOWEST_POLL_S)


def verify(
    engine: Engine,
    http: Http,
    service: Service,
    config: SpecConfig,
    *,
    argv: Sequence[str],
    model: str | None,
) -> Settings:
    """The settings in force, once they are known to be those of ``config``.

    :raises BrokenError: when the engine runs something else, or has gone away since it was ready.
    """
    settings = engine.settings(http, argv)
    wrong = list(engine.mismatches(config, settings))
    if model is not None and settings.models and model not in settings.models:
        wrong.append(f"it serves {', '.join(settings.models)}, not {model}")
    state = service.state()
    if not state.running:
        wrong.append(f"the engine ended right after it was ready: {state.detail}{log_lines(service)}")
    if wrong:
        raise BrokenError("the engine does not run what was asked: " + "; ".join(wrong))
    return settings


def log_lines(service: Service, lines: int = 12) -> str:
    """The last lines of the service's log, as the end of a message; empty when there are none."""
    tail = service.log_tail(lines)
    return "\nlast log lines:\n" + "\n".join(f"  {line}" for line in tail) if tail else ""


def _waiting(seconds: float, tail: Sequence[str]) -> str:
    return f"{stopwatch(seconds)}: {last[:100]}" if (last := _last(tail)) else stopwatch(seconds)


def _last(tail: Sequence[str]) -> str:
    return tail[-1].strip() if tail else ""

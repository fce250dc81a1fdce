"""The engine, if it runs: whether it answers, what it is, and whether it counts."""

from __future__ import annotations

import contextlib

from ..engines import Counters
from ..engines.http import HttpxHttp
from ..engines.traffic import in_flight
from ..errors import BrokenError
from .patient import Looked, Patient, ok, warning, wrong

_COUNTED = ("generated_tokens", "drafts", "accepted_tokens", "steps")


def api_key(p: Patient) -> Looked:
    """The variable is set, where one is named; its value is nobody's business."""
    name = p.target.api_key_env
    p.run.api_key()
    yield ok(f"{name} is set" if name else "none is configured")


def answers(p: Patient) -> Looked:
    """Up or not; an external one must be."""
    run, number = p.run, p.run.fixed_port()
    managed = run.service.managed
    if number is None or (managed and not p.running):
        yield ok("does not run now, so that version and metrics cannot be asked for; a run starts it")
        return
    key = run.api_key()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with contextlib.closing(HttpxHttp(run.venue.url(number), headers)) as http:
        readiness = run.engine.ready(http)
        if not readiness.ready:
            say = warning if managed else wrong
            yield say(f"not ready at {p.target.url}: {readiness.detail or 'no answer'}")
            return
        yield from _described(p, http)


def _described(p: Patient, http: HttpxHttp) -> Looked:
    engine, table = p.run.engine, p.target
    try:
        settings = engine.settings(http, ())
        yield ok(f"{table.engine} {engine.version(http)} answers at {table.url}".rstrip())
    except BrokenError as error:
        yield wrong(str(error))
        return
    if table.model is not None and settings.models and table.model not in settings.models:
        yield wrong(f"it serves {', '.join(settings.models)}, not {table.model}; correct model")
    if not p.run.service.managed:
        yield from (wrong(text) for config in p.configs[:1] for text in engine.mismatches(config, settings))
    yield from _counters(engine.counters(http))
    busy = in_flight(http)
    if busy and p.run.service.managed and not table.service.exclusive:
        yield warning(
            f"{busy:.0f} requests are in flight: a run would not stop it; take it out of traffic, or set "
            "service.exclusive = true"
        )


def _counters(found: Counters) -> Looked:
    known = [name for name in _COUNTED if getattr(found, name) is not None]
    if known:
        yield ok(f"metrics: {', '.join(name.replace('_', ' ') for name in known)}")
    else:
        yield warning(
            "it gives no counters: step times and foreign requests cannot be seen; start it with its metrics "
            "on (service.extra_args)"
        )

"""The priming start (§5): after a change of engine or driver one start is made and thrown away, so that
kernels which are compiled once and then cached are not measured as a slow start. No pytest.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from .errors import CaseError
from .model import SpecConfig
from .server import Server
from .state import State


def serve(state: State, config: SpecConfig, restart: int) -> Server:
    """A server that runs ``config``; the session's very first is replaced by a second start of the same where
    engine or driver are not those of the baselines.

    :raises BrokenError: when it does not come up, or runs something else.
    :raises DirtyError: when the thrown-away one cannot be cleaned up.
    """
    run, first = state.run, not state.served
    server = run.start(config, restart)
    state.served = True
    if not first or not run.service.managed:
        return server
    changed = state.store.renewed(run.machine, run.context)
    if not changed:
        return server
    why = f"priming: {', '.join(changed)} since the baseline"
    run.say(f"{why}: this start fills caches and is thrown away")
    state.ledger.add(replace(server.start, discarded=why))
    _load(state, server)
    run.clean()
    return run.start(config, restart)


def _load(state: State, server: Server) -> None:
    """One round at the highest concurrency: some kernels are compiled at the first request of their size.
    What is wrong with it shows again at the start that counts."""
    cases = [case for case in state.plan.cases() if case.config == server.config]
    if cases:
        with contextlib.suppress(CaseError):
            state.run.measure(server, max(cases, key=lambda case: case.concurrency), rounds=1)

"""Server starts by the session's rules: the priming start (§5), and what a resumed run need not start."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import cast

from .baselines import difference
from .cleanroom import CleanProof
from .errors import BrokenError, CaseError
from .ledger import TargetRecord
from .model import SpecConfig
from .run import Run
from .server import Server
from .state import State

NOT_CLEANED = CleanProof(
    proven=(),
    seconds=0.0,
    notes=("every case of this server was measured by the run that is resumed: it is not started again",),
)


class Unstarted:
    """Stands for a server whose cases a resumed run has already; whoever uses it starts it after all."""

    def __init__(self, state: State, config: SpecConfig, restart: int) -> None:
        self._state, self._config, self._restart = state, config, restart
        self._server: Server | None = None

    def __getattr__(self, name: str) -> object:
        if self._server is None:
            self._state.run.clean()
            self._server = _started(self._state, self._config, self._restart)
        return getattr(self._server, name)


def clean(state: State, config: SpecConfig, restart: int) -> CleanProof:
    """A clean environment for the server of ``config`` at this restart, where it is started at all."""
    return NOT_CLEANED if state.all_known(config, restart) else state.run.clean()


def serve(state: State, config: SpecConfig, restart: int) -> Server:
    """A server that runs ``config``.

    :raises BrokenError: when it does not come up, or runs something else.
    :raises DirtyError: when a thrown-away start cannot be cleaned up.
    """
    if state.all_known(config, restart):
        return cast(Server, Unstarted(state, config, restart))
    return _started(state, config, restart)


def _started(state: State, config: SpecConfig, restart: int) -> Server:
    """A start; the session's first is made twice where engine or driver are not those of the baselines."""
    run, first = state.run, not state.served
    server = run.start(config, restart)
    state.served = True
    if first and state.resumed is not None:
        _refuse_another(run, state.resumed)
    if not first or not run.service.managed:
        return server
    changed = state.reference.renewed()
    if not changed:
        return server
    why = f"priming: {', '.join(changed)} since the baseline"
    run.say(f"{why}: this start fills caches and is thrown away")
    state.ledger.add(replace(server.start, discarded=why))
    load(state, server)
    run.clean()
    return run.start(config, restart)


def load(state: State, server: Server) -> None:
    """One round at the highest concurrency: some kernels are compiled at the first request of their size.
    What is wrong with it shows again at the start that counts."""
    cases = [case for case in state.plan.cases() if case.config == server.config]
    if cases:
        with contextlib.suppress(CaseError):
            state.run.measure(server, max(cases, key=lambda case: case.concurrency), rounds=1)


def _refuse_another(run: Run, then: TargetRecord) -> None:
    """A resumed run goes on with the same engine on the same machine, or not at all: nothing more is started,
    and what was measured is of what ran then, here and in the journal.

    :raises BrokenError: naming what differs.
    """
    now = {"identity": run.identity, "engine_version": run.context.get("engine_version")}
    was = {"identity": then.identity, "engine_version": then.context.get("engine_version")}
    different = difference(was, now)
    if not different:
        return
    run.stop()
    run.identity, run.context = dict(then.identity), dict(then.context)
    run.ledger.add(then)
    why = f"the run that is resumed was of something else: {different}; run again without --spec-resume"
    run.shut(why)
    raise BrokenError(why)

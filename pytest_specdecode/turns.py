"""A server for each configuration and restart; with ``--spec-against``, the two targets in turns. No pytest.

Both are measured in pairs: at each restart every configuration of the tested target has the other target's
start right before or after its own, so that what changes over the session (heat, clocks, neighbours) lies
at most one start apart. Which of the two goes first changes with the restart (other, tested; tested, other;
…), so that a steady drift cancels over two restarts of a case. It is the restart that changes it, not the
configuration, for two reasons: a case is decided over its own restarts, so alternating between
configurations would balance nothing that a verdict sees; and a server that tests use themselves has to be
up when their bodies run, that is, to go second. Tests without a gate have one restart, the first, where the
tested target goes second; where a gated test uses the server itself it does so at every restart.

The items' order (restart, configuration) stays as it is: the concurrencies of one configuration share the
pair, so that a pair costs two starts however many tests there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from . import serving
from .cleanroom import CleanProof
from .errors import CaseError
from .model import Case, SpecConfig
from .opposite import Opposite
from .plan import Planned
from .run import Run
from .server import Server
from .state import State


def clean(state: State, config: SpecConfig, restart: int) -> CleanProof:
    """A clean environment for the tested target's server of ``config`` at this restart.

    :raises CaseError: when it cannot be had.
    """
    if state.opposite is None:
        return serving.clean(state, config, restart)
    return _room(state.run, state.opposite.run)


def _room(run: Run, other: Run) -> CleanProof:
    """A clean environment for ``run``, the other service stopped too. Both are looked at before either is
    stopped."""
    for each in (run, other):
        each.survey()
    for each in (run, other):
        each.vacate()
    return run.clean()


def serve(state: State, config: SpecConfig, restart: int) -> Server:
    """A server of the tested target that runs ``config``, in the environment that :func:`clean` left.

    Under ``--spec-against`` the other target's cases are measured too; where the tested one went first, its
    cases are measured and its server has been stopped again.

    :raises CaseError: when the tested target has no such server. What is wrong with the other one shows at
        the cases that are judged against it.
    """
    opposite = state.opposite
    if opposite is None:
        return serving.serve(state, config, restart)
    cases = state.plan.due(config, restart)
    if not cases or opposite.incomparable:
        return state.run.start(config, restart)
    if other_first(restart) or state.plan.uses_server(config, restart):
        _measure_other(state, opposite, cases, restart)
        _room(state.run, opposite.run)
        server = state.run.start(config, restart)
    else:
        server = state.run.start(config, restart)
        for case in cases:
            state.take(state.run, server, case, restart)
        state.run.stop()
        _measure_other(state, opposite, cases, restart)
    if _throw_away(state, opposite, server, cases, restart):
        _room(state.run, opposite.run)
        return serve(state, config, restart)
    return server


def other_first(restart: int) -> bool:
    """Whether the other target goes first at this restart."""
    return restart % 2 == 1


def again(state: State, planned: Planned, server: Server) -> Server:
    """A server on which the item can be measured a second time; under ``--spec-against``, in a new pair.

    :raises CaseError: when there is none.
    """
    opposite = state.opposite
    if opposite is None or planned.gate is None or opposite.incomparable:
        return state.run.revive(server)
    if state.known(opposite.case(planned.case), planned.restart):  # the server itself was made anew
        return state.run.revive(server)
    _measure_other(state, opposite, [planned.case], planned.restart)
    _room(state.run, opposite.run)
    return state.run.start(server.config, planned.restart)


def _measure_other(state: State, opposite: Opposite, cases: Sequence[Case], restart: int) -> None:
    """The other target's start of this pair; what goes wrong with it is kept like a number."""
    wanted = [opposite.case(case) for case in cases]
    missing = [case for case in wanted if not state.known(case, restart)]
    if not missing:
        return
    run = opposite.run
    try:
        _room(run, state.run)
        server = run.start(missing[0].config, restart)
        for case in missing:
            state.take(run, server, case, restart)
    except CaseError as error:
        for case in missing:
            state.fail(case, restart, error)
    finally:
        run.stop()


def _throw_away(
    state: State, opposite: Opposite, server: Server, cases: Sequence[Case], restart: int
) -> bool:
    """Whether the session's first pair was thrown away: where engine or driver of the two differ, what is
    compiled once and then cached made one of them slower (§5), and nobody knows which."""
    if opposite.acquainted or not (state.run.context and opposite.run.context):
        return False
    opposite.acquainted = True
    changed = opposite.renewed()
    if not changed:
        return False
    why = f"priming: {', '.join(changed)} between {opposite.against} and {state.run.target.name}"
    state.run.say(f"{why}: the first start of each fills caches and is thrown away")
    if not all(state.known(case, restart) for case in cases):
        serving.load(state, server)
    pair = {(server.start.target, server.config), (opposite.against, opposite.config(server.config))}
    for start in state.ledger.server_starts:
        if start.restart == restart and (start.target, start.config) in pair:
            state.ledger.add(replace(start, discarded=why))
    for case in cases:
        state.drop(case, restart)
        state.drop(opposite.case(case), restart)
    return True

"""The end of a benchmark session: what is recorded, written and said."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

import pytest

from .errors import BaselineError
from .estimate import Pace
from .exitstatus import exit_status
from .gating import Gate
from .hosts.redaction import redact
from .ledger import CaseSummary, TargetRecord
from .model import Outcome
from .pool import strangers
from .recording import Policy, Recording, record
from .report.compare import bounder, comparer
from .report.grid import Against, Grid, grid
from .report.jsonfile import report
from .report.terminal import Heading, recorded_lines, summary_line, table_lines
from .reporting import on_github, without, write_files
from .state import State


def finish(config: pytest.Config, state: State) -> list[str]:
    """Record, write the report files, and return the lines to show.

    What could not be written is said, and kept in ``state.unwritten``.
    """
    unlike = _strangers(state)
    grids = _grids(state)
    lines = _tables(state, grids)
    if state.settings.record:
        lines += _record(state, unlike)
    data = report(
        state.ledger,
        target=state.run.target.name,
        against=state.reference.against,
        machine=state.run.target.machine or "",
        grids=grids,
        args=redact(config.invocation_params.args),
    )
    if secret := os.environ.get(state.run.target.api_key_env or ""):
        data = without(data, secret)
    state.unwritten += write_files(state.settings, data)
    config.hook.pytest_specdecode_report(config=config, report=data)
    annotations = on_github(data, root=config.rootpath, environment=os.environ)
    return [*lines, *state.refusals, *state.unwritten, *state.notes, summary_line(state.ledger), *annotations]


def ending(state: State) -> int:
    """The exit status of the session; a recording that did not store a case is no success, whatever its
    tests say."""
    if state.unwritten or state.refusals:
        return pytest.ExitCode.USAGE_ERROR
    unstored = [Outcome.REGRESSED if w.slower else Outcome.INCOMPARABLE for w in state.refused]
    tests, cases = state.ledger.tests, state.ledger.cases
    measured = any(not test.failed for test in tests) or any(case.valid_starts for case in cases)
    return exit_status([*state.failures, *unstored], measured=measured)


def _grids(state: State) -> list[Grid]:
    """One for each metric of the gate, where anything was measured."""
    target, everything = state.run.target, state.ledger.cases
    cases = [case for case in everything if case.case.target == target.name]
    if not any(case.valid_starts for case in cases):
        return []
    by_case, opposite = {case.case: case for case in everything}, state.opposite
    against = (
        None
        if opposite is None
        else Against(opposite.against, lambda summary: by_case.get(opposite.case(summary.case)))
    )
    return [
        grid(
            cases,
            name,
            compare=comparer(everything, name),
            bounds=bounder(everything, name),
            reference_steps=target.reference_steps,
            against=against,
        )
        for name in target.gate.metrics
    ]


def _tables(state: State, grids: Sequence[Grid]) -> list[str]:
    width = shutil.get_terminal_size((120, 24)).columns
    targets = state.ledger.targets
    lines: list[str] = []
    for each in grids:
        heading = Heading.of(targets.get(each.target, TargetRecord(each.target, "")), each.against)
        lines += [*table_lines(each, heading=heading, width=width), ""]
    return lines


def _places(state: State) -> list[TargetRecord]:
    """What each host said of itself, in the order of the pool."""
    pool = list(state.run.target.host.pool)
    found = state.ledger.places(state.run.target.name)
    return [found[host] for host in sorted(found, key=lambda h: pool.index(h) if h in pool else -1)]


def _strangers(state: State) -> dict[str, str]:
    """By host: why what was measured there is of something else than on the first host. The session fails."""
    found = strangers(_places(state))
    for message in found.values():
        state.failures.append(Outcome.BROKEN)
        state.notes.append(f"broken: {message}")
    return found


def _record(state: State, unlike: Mapping[str, str]) -> list[str]:
    places = _places(state)
    if not places:
        return ["recorded nothing: no server was started"]
    about = places[0]
    recordings = [_recording(state, summary, unlike) for summary in state.ledger.cases]
    policy = Policy(
        Gate.of(state.run.target.gate, None),
        extend=state.settings.extend,
        accept_slower=state.settings.accept_slower,
    )
    try:
        written = record(
            state.settings.baselines_dir,
            about.machine,
            recordings,
            identity=about.identity,
            context=about.context,
            policy=policy,
        )
    except BaselineError as error:
        state.unwritten.append(str(error))
        return []
    state.refused += [w for w in written if w.refused]
    return recorded_lines(written)


def _recording(state: State, summary: CaseSummary, unlike: Mapping[str, str]) -> Recording:
    problem = next((f"{t.outcome}: {t.reason}" for t in summary.tests if t.outcome.is_error), "")
    problem = problem or next((unlike[host] for host in summary.hosts if host in unlike), "")
    ledger, case = state.ledger, summary.case
    servers = {start.id: start for start in ledger.server_starts}
    return Recording(
        case,
        summary.starts,
        ledger.planned_restarts(case),
        problem,
        ledger.gates_of(case),
        {start.start_id: Pace.of(start, servers.get(start.start_id)) for start in summary.starts},
        _context(state, summary),
    )


def _context(state: State, summary: CaseSummary) -> Mapping[str, object] | None:
    """Of the host that measured it; all hosts of one session have its date, which tells nights apart."""
    places = _places(state)
    own = next((place.context for place in places if place.host in summary.hosts), None)
    return None if own is None else {**own, "date": places[0].context.get("date")}

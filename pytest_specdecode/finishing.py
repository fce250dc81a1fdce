"""The end of a benchmark session: what is recorded, written and said."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import pytest

from .errors import BaselineError, ConfigError, MissingMetricError, SampleError
from .exitstatus import exit_status
from .gating import Gate
from .ledger import CaseSummary
from .model import CaseStart, Outcome
from .recording import Policy, Recording, record
from .report.jsonfile import report, write_report
from .report.terminal import Comparison, Heading, recorded_lines, summary_line, table_lines
from .state import State
from .verdict import Noise, Start, ratio_interval


def finish(config: pytest.Config, state: State) -> list[str]:
    """Record, write the report file, and return the lines to show.

    What could not be written is said, and kept in ``state.unwritten``.
    """
    lines = _tables(state)
    if state.settings.record:
        lines += _record(state)
    data = report(state.ledger, target=state.run.target.name, machine=state.run.target.machine or "")
    if state.settings.json_file is not None:
        try:
            write_report(state.settings.json_file, data)
        except ConfigError as error:
            state.unwritten.append(str(error))
    config.hook.pytest_specdecode_report(config=config, report=data)
    return [*lines, *state.unwritten, *state.notes, summary_line(state.ledger)]


def ending(state: State) -> int:
    """The exit status of the session."""
    if state.unwritten:
        return pytest.ExitCode.USAGE_ERROR
    slower = [Outcome.REGRESSED for written in state.refused if written.slower]
    tests, cases = state.ledger.tests, state.ledger.cases
    measured = any(not test.failed for test in tests) or any(case.valid_starts for case in cases)
    return exit_status([*state.failures, *slower], measured=measured)


def _tables(state: State) -> list[str]:
    cases = state.ledger.cases
    if not any(case.valid_starts for case in cases):
        return []
    target = state.run.target
    heading = Heading(
        target.name,
        hardware=state.run.hardware,
        engine=state.run.version,
        workload=f"output {target.workload.output_tokens} tok",
    )
    width = shutil.get_terminal_size((120, 24)).columns
    lines: list[str] = []
    for name in target.gate.metrics:
        compare = _comparing(cases, name)
        lines += table_lines(
            cases,
            name,
            heading=heading,
            compare=compare,
            reference_steps=target.reference_steps,
            width=width,
        )
        lines.append("")
    return lines


def _comparing(cases: Sequence[CaseSummary], name: str) -> Compare:
    """How two cases compare in one metric, with the noise pooled over all of them."""
    samples = {case.case: _starts(case.valid_starts, name) for case in cases}
    noise = Noise.pooled([starts for starts in samples.values() if starts])

    def compare(one: CaseSummary, other: CaseSummary, _name: str) -> Comparison | None:
        a, b = samples[one.case], samples[other.case]
        if not a or not b:
            return None
        interval = ratio_interval(a, b, noise=noise)
        return Comparison(interval.ratio, interval.plus_minus)

    return compare


def _starts(starts: Sequence[CaseStart], name: str) -> tuple[Start, ...]:
    """Empty where a start lacks the metric, or has a value that no ratio can be made of."""
    found = tuple(Start(s.start_id, "current", s.values(name)) for s in starts)
    return found if all(s.rounds and min(s.rounds) > 0 for s in found) else ()


def _record(state: State) -> list[str]:
    about = state.ledger.targets.get(state.run.target.name)
    if about is None:
        return ["recorded nothing: no server was started"]
    recordings = [_recording(state, summary) for summary in state.ledger.cases]
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


def _recording(state: State, summary: CaseSummary) -> Recording:
    bad = (Outcome.BROKEN, Outcome.DIRTY, Outcome.INVALID)
    problem = next((f"{t.outcome}: {t.reason}" for t in summary.tests if t.outcome in bad), "")
    return Recording(summary.case, summary.starts, len(state.plan.case_restarts(summary.case)), problem)

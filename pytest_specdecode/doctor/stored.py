"""The baselines: whether they can be read and written, and what they can show."""

from __future__ import annotations

import os
from pathlib import Path

from ..about import identity_of
from ..baselinefile import BaselineFile
from ..baselines import Store, difference, matching
from ..baselineview import rows
from ..gating import Gate
from ..report.text import case_label, share
from .patient import Looked, Patient, ok, some, warning


def folder(p: Patient) -> Looked:
    """Readable, every file in it, and writable."""
    store = Store(p.baselines, p.target.name)
    place = _existing(p.baselines)
    names = some(path.name for path in map(store.path, store.files))
    if not os.access(place, os.W_OK | os.X_OK):
        yield warning(f"{place} cannot be written to: --update-baselines would be refused there")
    elif place != p.baselines:
        yield ok(f"{p.baselines} does not exist; --update-baselines makes it")
    else:
        yield ok(f"{p.baselines}: {names or f'nothing of {p.target.name} yet'}")


def _existing(path: Path) -> Path:
    """The folder itself, else the nearest above it that exists."""
    path = path.absolute()
    return next(each for each in (path, *path.parents) if each.is_dir())


def cases(p: Patient) -> Looked:
    """Which cases are stored for this machine, whether they are of the same thing, and what they resolve."""
    store, machine = Store(p.baselines, p.target.name), p.run.machine
    file = store.files.get(machine)
    if file is None:
        others = f"; stored are: {some(store.files)}, other machines" if store.files else ""
        yield warning(
            f"none of {p.target.name} on {machine}: a run would end no-baseline{others}; {_record(p)}"
        )
        return
    stored = {
        case: next((each for each in matching(file, case) if each.sessions or each.floor), None)
        for case in p.cases
    }
    absent = [case_label(case) for case, found in stored.items() if found is None]
    have = f"{len(stored) - len(absent)} of {len(stored)} cases for {machine}"
    yield warning(f"{have}; not stored: {some(absent)}; {_record(p)}") if absent else ok(have)
    yield from _same(p, file)
    yield from _resolution(p, file)


def _record(p: Patient) -> str:
    return f"record them: pytest --spec-target={p.target.name} --update-baselines"


def _same(p: Patient, file: BaselineFile) -> Looked:
    """Of the same hardware, model and workload as what a run would measure."""
    run = p.run
    now = identity_of(
        p.target,
        run.engine,
        run.service.command((), run.fixed_port() or 0),
        None if p.elsewhere else run.facts,
        p.folder,
        draft_model=run.speculation.draft_model,
    )
    found = {difference(case.identity, now) for case in file.cases if case.sessions} - {""}
    if found:
        yield warning(f"a run would be incomparable: {some(sorted(found))}; {_record(p)}")


def _resolution(p: Patient, file: BaselineFile) -> Looked:
    gate = p.target.gate
    shown = [row for row in rows(file, Gate.of(gate, None), gate.restarts) if row.resolvable is not None]
    if not shown:
        return
    short = [row for row in shown if row.resolvable is not None and row.resolvable > gate.tolerance]
    worst = max(row.resolvable or 0.0 for row in shown)
    if short:
        yield warning(
            f"{len(short)} of {len(shown)} stored numbers cannot show a loss of the tolerance, "
            f"{share(gate.tolerance)} (up to {share(worst)}): unchanged cases may end inconclusive; record "
            "more restarts or nights, or widen the tolerance"
        )
    else:
        yield ok(f"a loss of {share(worst)} or more would be shown; the tolerance is {share(gate.tolerance)}")

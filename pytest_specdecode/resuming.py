"""``--spec-resume``: what an interrupted run measured is taken from its journal. No pytest."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from . import __version__, journal
from .config import Target
from .errors import ConfigError, HostError
from .journal import Subject
from .ledger import CaseMeasured, Event, TargetRecord
from .model import ServerStart
from .reference import Recorded
from .state import State

_SHAPING = ("steps", "concurrency", "restarts", "rounds", "record", "extend")
"""Options that decide what is measured and what becomes of it."""


def open_journal(state: State, folder: Path, files: Iterable[Path]) -> None:
    """Write a journal from now on; resumed, take from it first what was measured. Of several workers, one
    that had not begun when the run was interrupted has nothing to take.

    :param folder: the project's
    :param files: those that hold the selected tests, and what they share
    :raises ConfigError: when it cannot be written, or there is none that this run could go on with.
    """
    subject = subject_of(state, folder, files)
    place = state.place
    path = journal.worker_paths(folder, state.run.target.name, place.count)[place.index]
    if state.settings.resume and (place.count == 1 or path.exists()):
        opened = journal.resume(path, subject)
        _take(state, opened)
    else:
        opened = journal.begin(path, subject)
    state.ledger.listener = writer(state, opened)
    state.journal = opened


def writer(state: State, opened: journal.Journal) -> Callable[[Event], None]:
    """What writes each event down, as long as that works. A full disk must not end the run, nor keep a
    service from being put back: each command on the host is an event."""

    def write(event: Event) -> None:
        try:
            opened.add(event)
        except ConfigError as error:
            state.ledger.listener = None
            note = f"{error}; the run went on, and --spec-resume would find only what is in it"
            state.notes.append(note)
            state.run.say(note)

    return write


def subject_of(state: State, folder: Path, files: Iterable[Path]) -> Subject:
    """What this run is."""
    store = _recorded(state).store
    settings = {name: getattr(state.settings, name) for name in _SHAPING}
    if state.place.count > 1:
        settings["workers"] = state.place.count
    tests = {_relative(name, folder): text for name, text in journal.digest(files).items()}
    planned = sorted(msgspec.json.encode(asdict(item), order="sorted").decode() for item in state.plan.items)
    return Subject(
        target=_tables(state.run.target),
        options=msgspec.to_builtins(settings),
        tests={**tests, "cases": _digest(planned)},
        baselines=_digest(journal.digest(store.folder.glob(f"{store.target}@*.json"))),
        plugin=__version__,
    )


def _recorded(state: State) -> Recorded:
    """Only runs that are judged by stored numbers have a journal: one session is all that the others have."""
    assert isinstance(state.reference, Recorded)
    return state.reference


def _tables(target: Target) -> dict[str, str]:
    """Digests of the target's keys and tables: values may be secrets."""
    return {name: _digest(value) for name, value in msgspec.to_builtins(target, enc_hook=float).items()}


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]


def _relative(name: str, folder: Path) -> str:
    path = Path(name)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else name


def _take(state: State, opened: journal.Journal) -> None:
    """Numbers, starts and audit trail of the interrupted run.

    :raises ConfigError: when it ran on another machine.
    """
    restarts = {event.id: event.restart for event in opened.events if isinstance(event, ServerStart)}
    taken = 0
    for event in opened.events:
        state.ledger.add(event)
        if isinstance(event, TargetRecord):
            _recorded(state).resumed = event
        if isinstance(event, CaseMeasured) and event.start.start_id in restarts:
            state.know(event.case, restarts[event.start.start_id], event.start)
            taken += 1
    here = state.resumed.machine if state.resumed else ""
    with contextlib.suppress(HostError):  # a machine that does not answer shows at the first clean-up
        here = state.run.machine if here else ""
    if state.resumed is not None and here != state.resumed.machine:
        raise ConfigError(
            f"{opened.path} is of machine {state.resumed.machine}, this is {here}; run without --spec-resume"
        )
    state.notes.append(f"resumed the run of {opened.began}: {taken} measurements were taken from its journal")

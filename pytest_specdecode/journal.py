"""The journal of a run: every event on disk as it happens, so that an interrupted run can be finished.

A file of JSON lines in ``.specdecode/`` of the project: what the run is (:class:`Subject`), then the ledger's
events. A run that ended whole leaves none. No pytest.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from .errors import ConfigError
from .ledger import CaseMeasured, Event, TestRecord, from_plain, to_plain

SCHEMA = 1
FOLDER = ".specdecode"
DURABLE = (CaseMeasured, TestRecord)
"""Events after which the file is flushed to disk: numbers that cost minutes."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a run is: a journal is resumed only by a run of the same. JSON-able values."""

    target: Mapping[str, str]
    """Digests of its tables in specdecode.toml."""
    options: Mapping[str, Any]
    """What the command line asks for."""
    tests: Mapping[str, Any]
    """Digests of the files with the selected tests, by path; the selected cases."""
    baselines: str
    """Digest of the stored numbers."""
    plugin: str
    """Version of this package."""

    def differences(self, other: Subject) -> list[str]:
        """What is another than in ``other``, one phrase each."""
        words = {
            "target": "specdecode.toml",
            "options": "options",
            "tests": "tests",
            "baselines": "stored baselines",
            "plugin": "version of pytest-specdecode",
        }
        return [
            f"{words[f.name]}{_named(getattr(other, f.name), getattr(self, f.name), f.name == 'options')}"
            for f in fields(self)
            if _canonical(getattr(self, f.name)) != _canonical(getattr(other, f.name))
        ]


@dataclass(slots=True)
class Journal:
    """An open journal. One process writes it."""

    path: Path
    subject: Subject
    began: str
    """ISO 8601, UTC: when the run, or the one that it resumes, began."""
    events: tuple[Event, ...] = ()
    """Of the run that is resumed; what its tests ended in is left out: tests run again, over its numbers."""
    _descriptor: int = field(default=-1)
    _own: os.stat_result | None = field(default=None)

    def add(self, event: Event) -> None:
        """Append ``event``.

        :raises ConfigError: when the file cannot be written (a full disk).
        """
        self._write(to_plain(event), durable=isinstance(event, DURABLE))

    def _write(self, plain: Mapping[str, Any], *, durable: bool) -> None:
        data = (json.dumps(plain, ensure_ascii=False) + "\n").encode()
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
            if durable:
                os.fsync(self._descriptor)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def close(self) -> None:
        """Let go of the file. It stays: where its numbers are stored nowhere else, the run can be resumed."""
        if self._descriptor >= 0:
            self._own = os.fstat(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def remove(self) -> None:
        """The run ended whole and its numbers are stored: there is nothing to resume. What another run has
        put in the file's place since it was closed stays."""
        with contextlib.suppress(OSError, ConfigError):
            descriptor = _locked(self.path)
            try:
                if self._own is not None and os.path.samestat(os.fstat(descriptor), self._own):
                    self.path.unlink()
            finally:
                os.close(descriptor)


def journal_path(folder: Path, target: str, worker: int | None = None) -> Path:
    """Where the journal of ``target`` lies in the project ``folder``; each of several workers has one."""
    name = target if worker is None else f"{target}@gw{worker}"
    return folder / FOLDER / f"{name}.jsonl"


def worker_paths(folder: Path, target: str, count: int) -> list[Path]:
    """Where the journals of ``count`` workers lie; of one worker it is the target's own."""
    return [journal_path(folder, target, n if count > 1 else None) for n in range(count)]


def begin(path: Path, subject: Subject) -> Journal:
    """A new journal. One that an interrupted run left is kept beside it, as ``….previous.jsonl``.

    :raises ConfigError: when it cannot be written, or another run writes it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ignore = path.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        descriptor = _locked(path, os.O_CREAT)
        if os.fstat(descriptor).st_size:
            path.replace(previous(path))
            os.close(descriptor)
            descriptor = _locked(path, os.O_CREAT)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from None
    journal = Journal(path, subject, _now(), _descriptor=descriptor)
    journal._write({"journal": SCHEMA, "began": journal.began, "subject": asdict(subject)}, durable=True)
    return journal


def resume(path: Path, subject: Subject) -> Journal:
    """The journal of an interrupted run, open to go on.

    :raises ConfigError: when there is none, it is damaged or newer, of another run, or another run writes it.
    """
    journal = read(path)
    different = subject.differences(journal.subject)
    if different:
        raise ConfigError(
            f"{path} is of a run with other {'; other '.join(different)}. Run with the same as then, or "
            "from the start, without --spec-resume"
        )
    try:
        journal._descriptor = _locked(path)
        os.ftruncate(journal._descriptor, _whole_bytes(path))  # a line that was cut by the crash
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from None
    return journal


def read(path: Path) -> Journal:
    """As :func:`resume`, only to look at; whatever run it is of."""
    try:
        lines = path.read_bytes()[: _whole_bytes(path)].splitlines()
    except FileNotFoundError:
        raise ConfigError(f"--spec-resume: there is nothing to resume, {path} does not exist") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        head = json.loads(lines[0])
        schema = head["journal"]
        if schema == SCHEMA:
            events = [from_plain(json.loads(line)) for line in lines[1:]]
            kept = tuple(event for event in events if not isinstance(event, TestRecord))
            return Journal(path, Subject(**head["subject"]), head["began"], kept)
    except Exception as error:  # noqa: BLE001  (whatever is wrong with it, it is no journal of ours)
        raise ConfigError(f"{path}: is damaged ({error}); delete it and run without --spec-resume") from None
    raise ConfigError(f"{path}: is of another version of pytest-specdecode (schema {schema}, here {SCHEMA})")


def previous(path: Path) -> Path:
    """Where :func:`begin` keeps what an interrupted run left."""
    return path.with_name(f"{path.stem}.previous.jsonl")


def digest(files: Iterable[Path]) -> dict[str, str]:
    """16 hex digits for each file's content; empty where it cannot be read."""
    return {str(file): _digest_of(file) for file in sorted(set(files))}


def _digest_of(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


def _locked(path: Path, create: int = 0) -> int:
    """A descriptor to append to ``path`` that holds its lock; the lock goes with the process.

    :raises ConfigError: when another run holds it, or has put another file in its place meanwhile.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | create, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    raise ConfigError(f"{path} is being written by another run of this target; wait for it")


def _whole_bytes(path: Path) -> int:
    """The file's length up to its last whole line."""
    return path.read_bytes().rfind(b"\n") + 1


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _named(old: Any, new: Any, values: bool) -> str:
    """Which keys of two mappings differ, with their values where those say something."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return ""
    keys = [k for k in sorted({*old, *new}) if _canonical(old.get(k)) != _canonical(new.get(k))]
    shown = [f"{k}: {_canonical(old.get(k))} → {_canonical(new.get(k))}" if values else k for k in keys]
    return f" ({', '.join(shown)})"


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")

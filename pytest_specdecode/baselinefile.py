"""The format of ``<target>@<machine>.json``: strict reading, atomic writing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from . import __version__
from .errors import BaselineError, ConfigError
from .files import write_atomically
from .model import SpecConfig, metric

SCHEMA = 1


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class StoredConfig(_Part, frozen=True, kw_only=True):
    """A configuration as stored; a key that is left out matches anything."""

    steps: int | UnsetType = UNSET
    algorithm: str | UnsetType | None = UNSET
    topk: int | UnsetType | None = UNSET
    draft_tokens: int | UnsetType | None = UNSET
    args: dict[str, str | int | float | bool | None] | UnsetType = UNSET

    @classmethod
    def of(cls, config: SpecConfig) -> StoredConfig:
        """With every key given, so that it matches ``config`` and nothing else."""
        return cls(
            steps=config.steps,
            algorithm=config.algorithm,
            topk=config.topk,
            draft_tokens=config.draft_tokens,
            args=dict(config.args),
        )

    @property
    def given(self) -> dict[str, Any]:
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}

    def matches(self, config: SpecConfig) -> bool:
        full = StoredConfig.of(config).given
        return all(_same(full[name], value) for name, value in self.given.items())


class StoredStart(_Part, frozen=True, kw_only=True):
    """One server start: each round's metrics by name. How long it took, in seconds, only says how long the
    next run may take: until it was ready, the case's warm-up, a round on average."""

    id: str
    rounds: list[dict[str, float]]
    ready_s: float | None = None
    warmup_s: float | None = None
    round_s: float | None = None


class StoredSession(_Part, frozen=True, kw_only=True):
    """What one recording session measured, and under which circumstances."""

    context: dict[str, Any] = msgspec.field(default_factory=dict)
    starts: list[StoredStart]


class StoredCase(_Part, frozen=True, kw_only=True):
    """A case: recorded sessions of one identity, or a hand-written floor and note, or all of them."""

    config: StoredConfig
    concurrency: int
    identity: dict[str, Any] = msgspec.field(default_factory=dict)
    floor: dict[str, float] = msgspec.field(default_factory=dict)
    note: str = ""
    sessions: list[StoredSession] = msgspec.field(default_factory=list)


class BaselineFile(_Part, frozen=True, kw_only=True):
    """A whole file. ``version`` of the format is written as ``schema``."""

    schema: int
    target: str
    machine: str
    cases: list[StoredCase]


def file_path(folder: Path, target: str, machine: str) -> Path:
    return folder / f"{target}@{machine}.json"


def read_file(path: Path) -> BaselineFile:
    """The file, checked.

    :raises BaselineError: naming the file, what is wrong with it and what to do.
    :raises FileNotFoundError: when there is none.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        plain = msgspec.json.decode(text)
        _check_schema(path, plain)
        file = msgspec.convert(plain, BaselineFile)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        raise BaselineError(
            f"{path}: {where.strip('`$.') or 'the file'}: {what}; correct it by hand"
        ) from None
    except msgspec.DecodeError as error:
        raise BaselineError(
            f"{path}: is not whole JSON ({error}); restore it from version control, or delete it and record "
            "again with --update-baselines"
        ) from None
    for complaint in _complaints(file, path):
        raise BaselineError(f"{path}: {complaint}; correct it by hand")
    return file


def write_file(path: Path, file: BaselineFile) -> None:
    """Put ``file`` in place of what is at ``path``.

    :raises BaselineError: when it cannot be written; what was there stays.
    """
    plain = msgspec.to_builtins(file)
    text = json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        write_atomically(path, text)
    except OSError as error:
        raise BaselineError(
            f"{path}: cannot be written: {error.strerror or error}; the old contents are kept"
        ) from None


def _check_schema(path: Path, plain: object) -> None:
    found = plain.get("schema") if isinstance(plain, Mapping) else None
    if isinstance(found, int) and found > SCHEMA:
        raise BaselineError(
            f"{path}: has schema {found}, and pytest-specdecode {__version__} reads up to {SCHEMA}; "
            "upgrade pytest-specdecode"
        )
    if found != SCHEMA or isinstance(found, bool):
        shown = "none" if found is None else json.dumps(found)
        raise BaselineError(f'{path}: expected "schema": {SCHEMA}, found {shown}; is it a baseline file?')


def _complaints(file: BaselineFile, path: Path) -> Iterator[str]:
    if path.name != file_path(path.parent, file.target, file.machine).name:
        yield f'is of target "{file.target}" and machine "{file.machine}", which its file name does not say'
    seen: dict[str, int] = {}
    for i, case in enumerate(file.cases):
        key = json.dumps([case.config.given, case.concurrency], sort_keys=True)
        if key in seen:
            yield f"cases[{seen[key]}] and cases[{i}] are the same case (a merge gone wrong?)"
        seen[key] = i
        yield from (f"cases[{i}].{complaint}" for complaint in _case_complaints(case))


def _case_complaints(case: StoredCase) -> Iterator[str]:
    if case.concurrency < 1:
        yield f"concurrency: {case.concurrency} is not 1 or more"
    if isinstance(case.config.steps, int) and case.config.steps < 0:
        yield f"config.steps: {case.config.steps} is not 0 (off) or more"
    for name, value in case.floor.items():
        yield from (f"floor.{complaint}" for complaint in _value_complaints(name, value, above=0))
    if case.sessions and not case.identity:
        yield "identity: missing beside recorded sessions"
    for i, session in enumerate(case.sessions):
        for j, start in enumerate(session.starts):
            where = f"sessions[{i}].starts[{j}]"
            if not start.rounds:
                yield f"{where}.rounds: is empty"
            for k, metrics in enumerate(start.rounds):
                for name, value in metrics.items():
                    complaints = _value_complaints(name, value, above=-1)
                    yield from (f"{where}.rounds[{k}].{complaint}" for complaint in complaints)
        if not session.starts:
            yield f"sessions[{i}].starts: is empty"


def _value_complaints(name: str, value: float, *, above: float) -> Iterator[str]:
    try:
        metric(name)
    except ConfigError as error:
        yield f"{name}: {error}"
    if not math.isfinite(value) or value <= above or value < 0:
        yield f"{name}: {value} is not a number {'above 0' if above == 0 else 'of 0 or more'}"


def in_order(cases: Iterable[StoredCase]) -> list[StoredCase]:
    """Cases sorted by configuration (steps first) and concurrency, so that diffs stay small."""
    return sorted(cases, key=_order)


def _order(case: StoredCase) -> tuple[Any, ...]:
    given = case.config.given
    steps = given.pop("steps", -1)
    return (steps, json.dumps(given, sort_keys=True), case.concurrency)


def _same(one: object, other: object) -> bool:
    """Equal as JSON values: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True) or (
        isinstance(one, int | float)
        and isinstance(other, int | float)
        and not isinstance(one, bool)
        and not isinstance(other, bool)
        and one == other
    )

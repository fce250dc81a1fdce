"""Floors and notes, written into a baseline file by hand: whatever else is in it stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from .baselinefile import SCHEMA, BaselineFile, StoredCase, StoredConfig, in_order, read_file, write_file
from .errors import BaselineError
from .files import locked, remove_leftovers


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which stored case: its concurrency, and of its configuration what tells it from the others."""

    concurrency: int
    config: Mapping[str, Any]

    def fits(self, case: StoredCase) -> bool:
        """Whether the case says the same of everything that is asked for."""
        given = case.config.given
        return case.concurrency == self.concurrency and all(
            name in given and given[name] == value for name, value in self.config.items()
        )


@dataclass(frozen=True, slots=True)
class Edited:
    """A stored case, before and after."""

    old: StoredCase
    new: StoredCase


def edit(
    path: Path, wanted: Wanted, change: Callable[[StoredCase], StoredCase], *, add: bool = False
) -> Edited:
    """Put ``change(case)`` in the place of the one case that is wanted, under the file's lock.

    :param add: where no case fits, write one (and the file) that holds nothing but what is wanted
    :raises BaselineError: when there is no such file or case, several fit, or it cannot be written; the file
        is then unchanged.
    """
    if not add and not path.is_file():
        raise BaselineError(f"{path}: there is no such file; {_others(path)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            remove_leftovers(path)
            file = read_file(path) if path.is_file() else _new_file(path)
            old = _chosen(file, wanted, path, add=add)
            new = change(old)
            if new != old:
                others = [case for case in file.cases if case is not old]
                write_file(path, msgspec.structs.replace(file, cases=in_order([*others, new])))
    except OSError as error:  # TimeoutError included
        raise BaselineError(f"{path}: cannot be updated: {error.strerror or error}") from None
    return Edited(old, new)


def with_floors(case: StoredCase, floors: Mapping[str, float | None]) -> StoredCase:
    """The case with these floors; None removes one."""
    merged = {**case.floor, **floors}
    return msgspec.structs.replace(case, floor={k: v for k, v in merged.items() if v is not None})


def with_note(case: StoredCase, note: str) -> StoredCase:
    return msgspec.structs.replace(case, note=note)


def stored_label(case: StoredCase) -> str:
    """``steps=2 algorithm=EAGLE … c=16``: what is given, steps first."""
    given = case.config.given
    shown = {name: value for name, value in given.items() if value is not None and name != "steps"}
    args = shown.pop("args", {})
    steps = given.get("steps", "any")
    words = [
        "off" if steps == 0 else f"steps={steps}",
        *(f"{n}={v}" for n, v in {**shown, **args}.items()),
    ]
    return " ".join([*words, f"c={case.concurrency}"])


def _chosen(file: BaselineFile, wanted: Wanted, path: Path, *, add: bool) -> StoredCase:
    """The one case that fits; of several, the one that says no more than what is wanted.

    :raises BaselineError: when there is none, or several.
    """
    found = [case for case in file.cases if wanted.fits(case)]
    exactly = [case for case in found if case.config.given == dict(wanted.config)]
    if len(found) == 1 or exactly:
        return (exactly or found)[0]
    asked = json.dumps({**wanted.config, "concurrency": wanted.concurrency}, sort_keys=True)
    if found:
        shown = "; ".join(map(stored_label, found))
        raise BaselineError(f"{path}: {len(found)} cases fit {asked}: {shown}; say which (--algorithm, …)")
    if add:
        return StoredCase(config=StoredConfig(**wanted.config), concurrency=wanted.concurrency)
    shown = "; ".join(map(stored_label, file.cases)) or "none"
    raise BaselineError(
        f"{path}: no case fits {asked}; stored are: {shown}. Record one with pytest --update-baselines, or "
        "write one that is gated by its floor alone: --new"
    )


def _new_file(path: Path) -> BaselineFile:
    """:raises BaselineError: for a name that is not TARGET@MACHINE.json."""
    target, at, machine = path.stem.partition("@")
    if not (target and at and machine):
        raise BaselineError(f"{path}: a baseline file is called TARGET@MACHINE.json")
    return BaselineFile(schema=SCHEMA, target=target, machine=machine, cases=[])


def _others(path: Path) -> str:
    found = sorted(other.stem for other in path.parent.glob("*@*.json"))
    return (
        f"stored in {path.parent} are: {', '.join(found)}" if found else f"{path.parent} holds no baselines"
    )

"""Floors and notes, written into a baseline file by hand: whatever else is in it stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from .baselinefile import BaselineFile, StoredCase, read_file, write_file
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


def edit(path: Path, wanted: Wanted, change: Callable[[StoredCase], StoredCase]) -> Edited:
    """Put ``change(case)`` in the place of the one case that is wanted, under the file's lock.

    :raises BaselineError: when there is no such file or case, several fit, or it cannot be written; the file
        is then unchanged.
    """
    if not path.is_file():
        raise BaselineError(f"{path}: there is no such file; {_others(path)}")
    try:
        with locked(path):
            remove_leftovers(path)
            file = read_file(path)
            old = _only(file, wanted, path)
            new = change(old)
            if new != old:
                cases = [new if case is old else case for case in file.cases]
                write_file(path, msgspec.structs.replace(file, cases=cases))
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


def _only(file: BaselineFile, wanted: Wanted, path: Path) -> StoredCase:
    """:raises BaselineError: unless exactly one case fits."""
    found = [case for case in file.cases if wanted.fits(case)]
    if len(found) == 1:
        return found[0]
    asked = json.dumps({**wanted.config, "concurrency": wanted.concurrency}, sort_keys=True)
    if found:
        shown = "; ".join(map(stored_label, found))
        raise BaselineError(f"{path}: {len(found)} cases fit {asked}: {shown}; say which (--algorithm, …)")
    shown = "; ".join(map(stored_label, file.cases)) or "none"
    raise BaselineError(
        f"{path}: no case fits {asked}; stored are: {shown}. Record one with pytest --update-baselines"
    )


def _others(path: Path) -> str:
    found = sorted(other.stem for other in path.parent.glob("*@*.json"))
    return (
        f"stored in {path.parent} are: {', '.join(found)}" if found else f"{path.parent} holds no baselines"
    )

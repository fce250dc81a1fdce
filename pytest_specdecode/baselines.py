"""Stored numbers: which of them a case may be compared with, and why when there are none (§6)."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .baselinefile import BaselineFile, StoredCase, StoredSession, file_path, read_file
from .errors import BaselineError
from .estimate import Pace
from .gating import Stored, strictest
from .model import Case, Outcome
from .verdict import Noise, Start

UNQUOTED_CONTEXT = frozenset({"date"})
"""Context that always differs, and so explains nothing."""

CACHED_FOR = ("engine", "engine_version", "driver")
"""Context that compiled kernels are cached for."""


@dataclass(slots=True)
class Store:
    """The baseline files of one target in a folder: one for each machine, all read and checked at once.

    :raises BaselineError: for any of them that cannot be read or understood.
    """

    folder: Path
    target: str
    files: dict[str, BaselineFile] = field(init=False)
    """By machine."""
    _noise: dict[str, dict[str, Noise]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.reload()

    def reload(self) -> None:
        """Read the files again, after a recording changed them."""
        paths = sorted(self.folder.glob(f"{self.target}@*.json"))
        self.files = {file.machine: file for file in map(read_file, paths)}
        self._noise = {}

    def path(self, machine: str) -> Path:
        return file_path(self.folder, self.target, machine)

    def stored(
        self, case: Case, *, machine: str, identity: Mapping[str, Any], context: Mapping[str, Any]
    ) -> Stored:
        """What is stored for ``case``, or why nothing can be compared with.

        :param identity: of what runs now; sessions recorded under another one are not comparable.
        :param context: of what runs now; what differs from the latest session is quoted.
        """
        found = self._matching(case, machine)
        floor = strictest(stored.floor for stored in found)
        recorded = next((stored for stored in found if stored.sessions), None)
        if recorded is None:
            if floor:
                return Stored(floor=floor)
            return self._absent(case, found, machine=machine, identity=identity)
        different = difference(recorded.identity, identity)
        if different:
            reason = f"the baseline is of something else: {different} ({self.path(machine)})"
            return Stored(floor=floor, problem=Outcome.INCOMPARABLE, reason=reason)
        starts = stored_starts(recorded)
        return Stored(
            starts=starts,
            floor=floor,
            changes=changes(recorded.sessions[-1].context, context),
            history={name: [statistics.median(s.rounds) for s in each] for name, each in starts.items()},
        )

    def as_recorded(self, case: Case, *, machine: str) -> Stored:
        """What a run of exactly what was recorded would be compared with: for what can be said before one."""
        found = next((stored for stored in self._matching(case, machine) if stored.sessions), None)
        return self.stored(case, machine=machine, identity=found.identity if found else {}, context={})

    def renewed(self, machine: str, context: Mapping[str, Any]) -> tuple[str, ...]:
        """How engine and driver differ from those of the latest session that is stored for this machine."""
        file = self.files.get(machine)
        sessions = [s.context for case in file.cases for s in case.sessions] if file else []
        if not sessions:
            return ()
        latest = max(sessions, key=lambda each: str(each.get("date", "")))
        return changes({k: latest.get(k) for k in CACHED_FOR}, {k: context.get(k) for k in CACHED_FOR})

    def noise(self, machine: str) -> Mapping[str, Noise]:
        """Noise pooled over all that is stored for this machine, by metric."""
        if machine not in self._noise:
            file = self.files.get(machine)
            self._noise[machine] = pooled_noise(file.cases if file else ())
        return self._noise[machine]

    def _matching(self, case: Case, machine: str) -> list[StoredCase]:
        """Stored cases that fit, the one that says most about the configuration first."""
        if machine not in self.files:
            return []
        return matching(self.files[machine], case)

    def _absent(
        self, case: Case, found: Sequence[StoredCase], *, machine: str, identity: Mapping[str, Any]
    ) -> Stored:
        """Why nothing is stored: other machines' files may hold the case."""
        for other, file in self.files.items():
            if other == machine or not any(stored.sessions for stored in matching(file, case)):
                continue
            theirs = next(stored for stored in matching(file, case) if stored.sessions)
            different = difference(theirs.identity, identity) or (
                f'only the machine\'s name differs: "{other}" in the baseline, "{machine}" now; '
                f'set machine = "{other}" for the target'
            )
            reason = f"there is none of {machine}, and {self.path(other)} is of something else: {different}"
            return Stored(problem=Outcome.INCOMPARABLE, reason=reason)
        note = next((f'; a note says "{stored.note}"' for stored in found if stored.note), "")
        reason = f"nothing is recorded for this case in {self.path(machine)}{note}"
        return Stored(problem=Outcome.NO_BASELINE, reason=reason)


def check_writable(folder: Path) -> None:
    """Make the folder if there is none, and prove that a file can be written into it.

    :raises BaselineError: naming the folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".probe-") as probe:
            probe.write(b"x")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise BaselineError(
            f"{folder}: baselines cannot be written there: {error.strerror or error}; make it writable, or "
            "name another folder with --spec-baselines"
        ) from None


def matching(file: BaselineFile, case: Case) -> list[StoredCase]:
    """Stored cases that fit ``case``, the one that says most about the configuration first."""
    found = [c for c in file.cases if c.concurrency == case.concurrency and c.config.matches(case.config)]
    return sorted(found, key=lambda c: -len(c.config.given))


def stored_paces(file: BaselineFile, cases: Iterable[Case]) -> Iterator[tuple[Case, Pace]]:
    """How long these cases took when they were recorded, start by start."""
    for case in cases:
        for stored in matching(file, case)[:1]:
            for start in (start for session in stored.sessions for start in session.starts):
                yield case, Pace(start.ready_s, start.warmup_s, start.round_s)


def stored_starts(stored: StoredCase) -> dict[str, tuple[Start, ...]]:
    """The stored starts by metric; only metrics that every start has in some round."""
    starts = [(_session_name(i, s), start) for i, s in enumerate(stored.sessions, 1) for start in s.starts]
    names = [{name for r in start.rounds for name in r} for _, start in starts]
    return {
        name: tuple(
            Start(start.id, session, tuple(r[name] for r in start.rounds if name in r))
            for session, start in starts
        )
        for name in sorted(set.intersection(*names) if names else ())
    }


def pooled_noise(cases: Iterable[StoredCase]) -> dict[str, Noise]:
    """Noise over stored cases, by metric; a metric that has zeros somewhere has none (there is no ratio)."""
    pools: dict[str, list[Sequence[Start]]] = defaultdict(list)
    for stored in cases:
        for name, starts in stored_starts(stored).items():
            pools[name].append(starts)
    return {name: Noise.pooled(each) for name, each in pools.items() if _positive(each)}


def difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first field in which two identities differ, with both values; empty when they are the same."""
    for name, old, new in _differences(then, now):
        return f"{name} was {_shown(old)} and is now {_shown(new)}"
    return ""


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """What differs between two contexts, for people: ``sglang 0.5.22 → 0.5.23``."""
    engine = str(now.get("engine") or then.get("engine") or "engine")
    labels = {"engine_version": engine, "plugin_version": "pytest-specdecode"}
    return tuple(
        f"{labels.get(name, _words(name))} {_bare(old)} → {_bare(new)}"
        for name, old, new in _differences(then, now)
        if name not in UNQUOTED_CONTEXT
    )


def _words(name: str) -> str:
    """A field's name for people; a variable inside one keeps its own."""
    head, dot, variable = name.partition(".")
    return head.replace("_", " ") + dot + variable


def _differences(
    then: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """(dotted name, old, new) of each field that differs; None where a side lacks it."""
    for name in sorted({*then, *now}):
        old, new = then.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, f"{prefix}{name}.")
        elif (
            isinstance(old, list)
            and isinstance(new, list)
            and sorted(old, key=_json) != sorted(new, key=_json)
        ):
            yield f"{prefix}{name}", [x for x in old if x not in new], [x for x in new if x not in old]
        elif _json(old) != _json(new):
            yield f"{prefix}{name}", old, new


def _session_name(number: int, session: StoredSession) -> str:
    """Its date, so that a verdict can tell nights apart; else its place in the file."""
    return str(session.context.get("date") or f"session {number}")


def _positive(cases: Sequence[Sequence[Start]]) -> bool:
    return all(value > 0 for starts in cases for start in starts for value in start.rounds)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _shown(value: Any) -> str:
    text = "unknown" if value is None else json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}…"


def _bare(value: Any) -> str:
    return value if isinstance(value, str) else _shown(value)

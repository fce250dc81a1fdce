"""``--update-baselines``: what a session measured becomes what is stored, or not, and why (§6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from .baselinefile import (
    SCHEMA,
    BaselineFile,
    StoredCase,
    StoredConfig,
    StoredSession,
    StoredStart,
    file_path,
    in_order,
    read_file,
    write_file,
)
from .baselines import difference, matching, pooled_noise, stored_starts
from .errors import BaselineError, MissingMetricError, SampleError
from .estimate import Pace
from .files import locked, remove_leftovers
from .gating import Gate, strictest_gates
from .model import Case, CaseStart, Round, metric, summarize
from .verdict import Noise, Start, Verdict, judge, resolvable


@dataclass(frozen=True, slots=True)
class Recording:
    """A case as this session measured it."""

    case: Case
    starts: Sequence[CaseStart]
    restarts: int
    """Server starts that were planned for it; fewer measured ones are not recorded."""
    problem: str = ""
    """Why it has no number, where it has none: broken, dirty, invalid, with the reason."""
    gates: tuple[Gate, ...] = ()
    """What tests compare of it; empty where none asks for a baseline: then the policy's gate holds."""
    paces: Mapping[str, Pace] = field(default_factory=dict)
    """How long it took on each start, by the start's id."""
    context: Mapping[str, Any] | None = None
    """Of the host that it was measured on; None: the session's."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How to record: the target's gate, for cases that no test compares, and the two options."""

    gate: Gate
    extend: bool = False
    accept_slower: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One metric of a recorded case. ``old`` None: there was none; ``resolvable``: the smallest regression,
    as a share, that the new baseline can show; ``tolerance``: the smallest one that it is gated with."""

    metric: str
    new: float
    old: float | None = None
    resolvable: float | None = None
    tolerance: float = 0.05

    @property
    def enough(self) -> bool | None:
        """Whether the baseline can show a loss of the tolerance; None where that is not known."""
        return None if self.resolvable is None else self.resolvable <= self.tolerance


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one case: its changes, or why it was not written."""

    case: Case
    changes: tuple[Change, ...] = ()
    refused: str = ""
    slower: bool = False
    """Refused because it is shown to be worse than what is stored."""
    replaced: str = ""
    """In what the sessions that it replaced were of something else."""


def record(
    folder: Path,
    machine: str,
    recordings: Sequence[Recording],
    *,
    identity: Mapping[str, Any],
    context: Mapping[str, Any],
    policy: Policy,
) -> list[Written]:
    """Merge what one target's session measured into its file; other cases there stay as they are.

    :param context: ``date`` in it (ISO 8601) names the session
    :raises BaselineError: when the file cannot be read, locked or written; it is then unchanged.
    """
    if not recordings:
        return []
    target = recordings[0].case.target
    path = file_path(folder, target, machine)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(path):
            remove_leftovers(path)
            old = _read_or_new(path, target, machine)
            merge = _Merge(old, _plain(identity), _plain(context), policy, _family(recordings, policy))
            new, written = merge.all(recordings)
            if new != old:
                write_file(path, new)
    except OSError as error:  # TimeoutError included
        raise BaselineError(f"{path}: cannot be updated: {error.strerror or error}") from None
    return written


@dataclass(frozen=True, slots=True)
class _Merge:
    """Recordings going into a file's contents."""

    file: BaselineFile
    identity: dict[str, Any]
    context: dict[str, Any]
    policy: Policy
    family: int

    def all(self, recordings: Sequence[Recording]) -> tuple[BaselineFile, list[Written]]:
        """The contents with all that may be stored, and what became of each."""
        noise = pooled_noise(self.file.cases)
        refusals = [self._refusal(recording, noise) for recording in recordings]
        cases = list(self.file.cases)
        for recording, refusal in zip(recordings, refusals, strict=True):
            if refusal is None:
                old = self._stored(recording.case)
                cases = [c for c in cases if not _same_case(c, old)] + [self._renewed(old, recording)]
        file = msgspec.structs.replace(self.file, cases=in_order(cases))
        after = pooled_noise(file.cases)
        return file, [
            refusal or self._written(recording, file, after)
            for recording, refusal in zip(recordings, refusals, strict=True)
        ]

    def _refusal(self, recording: Recording, noise: Mapping[str, Noise]) -> Written | None:
        """What becomes of a case that is not to be stored; None when nothing speaks against it."""
        case = recording.case
        needed = self._gates(recording)
        why = _incomplete(recording, needed) or self._other_identity(self._stored(case))
        slower = "" if why else self._slower(self._previous(case), recording, noise)
        return Written(case, refused=why or slower, slower=bool(slower)) if why or slower else None

    def _gates(self, recording: Recording) -> Mapping[str, Gate]:
        """For each metric that is compared, the gate that is hardest to meet."""
        return strictest_gates(recording.gates or (self.policy.gate,))

    def _stored(self, case: Case, file: BaselineFile | None = None) -> StoredCase:
        """The stored case of exactly this configuration, or a new one."""
        wanted = StoredCase(config=StoredConfig.of(case.config), concurrency=case.concurrency)
        return next((c for c in (file or self.file).cases if _same_case(c, wanted)), wanted)

    def _previous(self, case: Case) -> StoredCase:
        """What it was compared with so far: the recorded case that says most about its configuration."""
        return next((c for c in matching(self.file, case) if c.sessions), self._stored(case))

    def _renewed(self, old: StoredCase, recording: Recording) -> StoredCase:
        starts = [
            StoredStart(
                id=start.start_id,
                rounds=[dict(r.metrics) for r in start.rounds],
                **asdict(recording.paces.get(start.start_id, Pace())),
            )
            for start in recording.starts
        ]
        context = self.context if recording.context is None else _plain(recording.context)
        session = StoredSession(context=context, starts=starts)
        sessions = [*old.sessions, session] if self.policy.extend else [session]
        return msgspec.structs.replace(old, identity=self.identity, sessions=sessions)

    def _other_identity(self, old: StoredCase) -> str:
        """Why not to extend: what is stored is of something else."""
        different = difference(old.identity, self.identity) if old.sessions and self.policy.extend else ""
        return different and (
            f"the stored sessions are of something else: {different}; record without "
            "--spec-extend-baselines to replace them"
        )

    def _slower(self, old: StoredCase, recording: Recording, noise: Mapping[str, Noise]) -> str:
        """Why not to store a slowdown; empty where none is shown, or it is accepted."""
        if self.policy.accept_slower or not old.sessions or difference(old.identity, self.identity):
            return ""
        before = stored_starts(old)
        for name, gate in self._gates(recording).items():
            verdict = self._verdict(name, gate, before.get(name, ()), recording, noise.get(name))
            if verdict is not None and verdict.slower:
                return (
                    f"{name} is shown to be worse than what is stored (× {verdict.ratio:.3f}, between "
                    f"{verdict.low:.3f} and {verdict.high:.3f}); --spec-accept-slower records it all the same"
                )
        return ""

    def _verdict(
        self, name: str, gate: Gate, before: Sequence[Start], recording: Recording, noise: Noise | None
    ) -> Verdict | None:
        """How the recording compares with what is stored; None where that cannot be said."""
        session = str(self.context.get("date") or "now")
        try:
            return judge(
                [Start(s.start_id, session, s.values(name)) for s in recording.starts],
                before,
                tolerance=gate.tolerance,
                margin=gate.margin,
                confidence=gate.confidence,
                looks=1,
                cases=self.family,
                noise=noise,
                higher_is_better=metric(name).higher_is_better,
            )
        except SampleError:
            return None

    def _written(self, recording: Recording, file: BaselineFile, noise: Mapping[str, Noise]) -> Written:
        old = self._previous(recording.case)
        before, after = stored_starts(old), stored_starts(self._stored(recording.case, file))
        changes = tuple(
            Change(
                name,
                new=typical(after[name]),
                old=typical(before[name]) if name in before else None,
                resolvable=self._resolvable(name, gate, after[name], recording.restarts, noise.get(name)),
                tolerance=gate.tolerance,
            )
            for name, gate in self._gates(recording).items()
            if name in after
        )
        different = difference(old.identity, self.identity) if old.sessions else ""
        return Written(recording.case, changes, replaced=different)

    def _resolvable(
        self, name: str, gate: Gate, starts: Sequence[Start], restarts: int, noise: Noise | None
    ) -> float | None:
        try:
            return resolvable(
                starts,
                margin=gate.margin,
                confidence=gate.confidence,
                looks=restarts,
                cases=self.family,
                noise=noise,
                higher_is_better=metric(name).higher_is_better,
            )
        except SampleError:
            return None


def _family(recordings: Sequence[Recording], policy: Policy) -> int:
    """Distinct (case, metric) comparisons, as a session that judges these cases has them."""
    gates = [recording.gates or (policy.gate,) for recording in recordings]
    return max(1, sum(len({name for gate in each for name in gate.compared}) for each in gates))


def _incomplete(recording: Recording, needed: Iterable[str]) -> str:
    """Why the case has no number to store; empty when all its restarts are valid."""
    if recording.problem:
        return recording.problem
    for start in recording.starts:
        if not start.valid:
            return f"invalid: {'; '.join(start.reasons)}"
    if len(recording.starts) < recording.restarts:
        return f"only {len(recording.starts)} of {recording.restarts} restarts were measured"
    for start in recording.starts:
        for name, value in ((n, v) for r in start.rounds for n, v in r.metrics.items()):
            if not math.isfinite(value) or value < 0:
                return f"{name} is {value}, not a number of 0 or more"
    try:
        for name in needed:
            summarize(recording.starts, name)
    except MissingMetricError as error:
        return f"the gate needs it, and {error}"
    return ""


def _same_case(one: StoredCase, other: StoredCase) -> bool:
    return one.concurrency == other.concurrency and one.config == other.config


def typical(starts: Sequence[Start]) -> float:
    """Geometric mean over starts of the median over rounds, as everywhere."""
    rounds = [CaseStart(s.id, tuple(Round({"": value}, 0.0) for value in s.rounds)) for s in starts]
    return summarize(rounds, "")


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As it will be read back: tuples are lists, and so on."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(values))
    return plain


def _read_or_new(path: Path, target: str, machine: str) -> BaselineFile:
    try:
        return read_file(path)
    except FileNotFoundError:
        return BaselineFile(schema=SCHEMA, target=target, machine=machine, cases=[])

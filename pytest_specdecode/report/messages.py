"""What a failing comparison says: at first sight (at most seven lines), and in full."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..model import Case, Outcome, Round, geometric_mean, metric
from .text import case_label, number, percent, share

if TYPE_CHECKING:
    from ..gating import Judgement
    from ..verdict import Verdict
    from ..why import Change, Part, Why

LINES = 7
FLOOR = " floor"
"""Ends the name of a verdict against a floor, where the metric is judged against a baseline too."""
_REPLACED = (
    "--spec-steps",
    "--spec-concurrency",
    "--spec-json",
    "--spec-markdown",
    "--spec-html",
    "--spec-inconclusive",
)
_RECORD = ("--update-baselines", "--spec-update-baselines")
PARTS: Mapping[str, tuple[str, str, str]] = {
    "tokens_per_step": ("tokens per step", "", "drafts fit worse: model, prompts or sampling changed"),
    "step_ms": ("step time", " ms", "steps take longer: kernels, clocks or batch changed"),
}
"""Of each part of the time per token: its name, its unit, and what a loss usually means."""
_DECODE = frozenset({"tok_s", "tok_s_p50", "total_tok_s", "itl_ms_p50", "itl_ms_p95", "itl_ms_p99", *PARTS})
"""Metrics of the decode phase alone."""


class Judged(Protocol):
    """A measurement with its judgement."""

    @property
    def case(self) -> Case: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...
    @property
    def judgement(self) -> Judgement | None: ...


class JudgedRounds(Judged, Protocol):
    """The same with its rounds."""

    @property
    def rounds(self) -> Sequence[Round]: ...


@dataclass(frozen=True, slots=True)
class Background:
    """What a message needs beside the judgement.

    ``history``: stored start medians by metric; ``args``: the arguments that pytest was called with;
    ``against``: the other target of the session, where the numbers are its own and not stored ones.
    """

    history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    args: Sequence[str] = ()
    against: str = ""

    def old(self, name: str) -> float | None:
        """The stored number of a metric: the geometric mean over its starts."""
        return geometric_mean(self.history.get(name, ()))


def comparison_lines(measured: Judged, background: Background | None = None) -> list[str]:
    """Line 1 the outcome and what to do, then what decided it; at most seven lines."""
    return _lines(measured, background or Background())[:LINES]


def full_text(measured: JudgedRounds, background: Background | None = None) -> str:
    """All that is known of the comparison, for a section of the test's report."""
    background = background or Background()
    judgement = measured.judgement
    verdicts = judgement.verdicts if judgement else {}
    others = [f"{name}: {verdict.reason}" for name, verdict in verdicts.items()]
    figures = [
        f"{name:<20} {_change(background.old(name), value)} {metric(name).unit}"
        for name, value in measured.metrics.items()
    ]
    sides = f"{background.against} → {measured.case.target}" if background.against else "stored → now"
    few = dict.fromkeys(str(said) for r in measured.rounds if (said := r.facts.get("few_samples")))
    notes = [f"few samples in a round: {said}" for said in few]
    return "\n".join([*_lines(measured, background), *others, "", f"all metrics, {sides}:", *figures, *notes])


def record_command(case: Case, args: Sequence[str]) -> str:
    """The command that records a baseline of ``case``, after the one that was run."""
    return f"{case_command(case, args)} {_RECORD[0]}"


def case_command(case: Case, args: Sequence[str]) -> str:
    """The command that measures and judges ``case`` alone, after the one that was run."""
    kept: list[str] = []
    rest = iter(args)
    for arg in rest:
        if arg in _REPLACED:
            next(rest, None)
        elif arg.partition("=")[0] not in (*_REPLACED, *_RECORD, "--spec-resume"):
            kept.append(arg)
    wanted = [f"--spec-steps={case.config.steps}", f"--spec-concurrency={case.concurrency}"]
    return shlex.join(["pytest", *kept, *wanted])


def _lines(measured: Judged, background: Background) -> list[str]:
    judgement = measured.judgement
    if judgement is None or judgement.outcome is None:
        return [f"{case_label(measured.case)}: not judged yet"]
    first = _FIRST.get(judgement.outcome, _plain)
    lines = [f"{judgement.outcome}: {case_label(measured.case)}: {first(measured, judgement, background)}"]
    lines += [
        line
        for name, verdict in _worst(judgement)[:3]
        for line in _figures(name, verdict, measured, background)
    ]
    if judgement.outcome is Outcome.REGRESSED:
        lines += why_lines(judgement, measured, background)
        lines += _changed(measured, judgement, background)
    return lines


def _changed(measured: Judged, judgement: Judgement, background: Background) -> Iterator[str]:
    changed = ", ".join(judgement.changes)
    if not changed and all(name.endswith(FLOOR) for name in judgement.verdicts):
        return
    if background.against:
        between = f"from {background.against} to {measured.case.target}"
        yield f"{between}: {changed or 'nothing that is known of them differs'}"
    else:
        yield f"since the baseline: {changed or 'nothing that is recorded has changed'}"


def _regressed(measured: Judged, judgement: Judgement, background: Background) -> str:
    name, verdict = _worst(judgement)[0]
    stem, lost = name.removesuffix(FLOOR), share(1 - verdict.ratio)
    if name != stem:
        bound = _bound(stem)
        return (
            f"{stem} misses its {bound} by {lost}; find the cause, or change the {bound} where it is written"
        )
    if background.against:
        return f"{stem} is worse than that of {background.against} by {lost}; find the cause below"
    return (
        f"{stem} is worse than what is stored by {lost}; find the cause below, or accept it: "
        f"{record_command(measured.case, background.args)} --spec-accept-slower"
    )


def _bound(name: str) -> str:
    return "floor" if metric(name).higher_is_better else "ceiling"


def _inconclusive(_measured: Judged, judgement: Judgement, _background: Background) -> str:
    return (
        f"{judgement.reason}; allow more restarts (--spec-restarts) or rounds (--spec-rounds), or widen the "
        "tolerance"
    )


def _record(measured: Judged, judgement: Judgement, background: Background) -> str:
    if background.against:
        return f"{judgement.reason}; make these equal in the configuration file"
    return f"{judgement.reason}; record it: {record_command(measured.case, background.args)}"


def _plain(_measured: Judged, judgement: Judgement, _background: Background) -> str:
    return judgement.reason


_FIRST: Mapping[Outcome, Callable[[Judged, Judgement, Background], str]] = {
    Outcome.REGRESSED: _regressed,
    Outcome.INCONCLUSIVE: _inconclusive,
    Outcome.NO_BASELINE: _record,
    Outcome.INCOMPARABLE: _record,
}


def _worst(judgement: Judgement) -> list[tuple[str, Verdict]]:
    """The verdicts that decided: those of the worst outcome, the largest loss first."""
    order = ("regressed", "undecided", "pass")
    if not judgement.verdicts:
        return []
    worst = min((v.outcome for v in judgement.verdicts.values()), key=order.index)
    found = [(name, v) for name, v in judgement.verdicts.items() if v.outcome == worst]
    return sorted(found, key=lambda pair: pair[1].ratio)


def _figures(name: str, verdict: Verdict, measured: Judged, background: Background) -> Iterator[str]:
    stem = name.removesuffix(FLOOR)
    now = measured.metrics.get(stem)
    if now is None:
        return
    old = background.old(stem) if name == stem else None
    if old is None:
        old = now / verdict.ratio if metric(stem).higher_is_better else now * verdict.ratio
    label = name if name == stem else f"{stem} {_bound(stem)}"
    yield (
        f"{label}: {_change(old, now)} {metric(stem).unit}, × {verdict.ratio:.3f} "
        f"(between {verdict.low:.3f} and {verdict.high:.3f}; below 1 is worse)"
    )


def why_lines(judgement: Judgement, measured: Judged, background: Background) -> Iterator[str]:
    """A line for each part of the time per token, and one that says what neither explains."""
    why = judgement.why
    if why is None:
        return
    lost = why.time_per_token
    said = [_part(part, part.change(lost), measured, background) for part in _worse_first(why)]
    if why.cause == "neither":
        said = ["; ".join(said), _unexplained(judgement)]
    yield f"decode time per token {percent(lost)}: {said[0]}"
    yield said[1]


def _worse_first(why: Why) -> list[Part]:
    return sorted(why.parts, key=lambda part: (not (part.shown and part.time > 1), -part.time))


def _part(part: Part, change: Change, measured: Judged, background: Background) -> str:
    label, unit, meaning = PARTS[part.name]
    size = f"{percent(part.ratio)} ±{share(part.half_width) if part.half_width < 10 else '?'}"
    moved = f"({_change(background.old(part.name), measured.metrics[part.name])}{unit})"
    match change:
        case "worse":
            return f"{label} {size} {moved}: {meaning}"
        case "better":
            return f"{label} {size} {moved}, which is better"
        case "unchanged":
            return f"{label} unchanged {size} {moved}"
        case _:
            return f"{label} not shown to have changed {size} {moved}"


def _unexplained(judgement: Judgement) -> str:
    """What to do where decode time per token is not shown to have got worse by either part."""
    slower = {name.removesuffix(FLOOR) for name, verdict in _worst(judgement)}
    if slower & _DECODE:
        return "neither is shown to be worse; more restarts would tell them apart (--spec-restarts)"
    return "decode is not shown to be slower: look at queueing and prefill"


def _change(old: float | None, now: float) -> str:
    return number(now) if old is None else f"{number(old)} → {number(now)}"

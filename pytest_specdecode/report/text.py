"""Numbers, durations and configurations as people write them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from ..model import Case, Outcome, SpecConfig, metric

SHOWN_ALWAYS = (Outcome.PASS, Outcome.REGRESSED, Outcome.INVALID, Outcome.DIRTY)
"""Counted even where there are none."""
OUTCOMES = (
    Outcome.PASS,
    Outcome.RECORDED,
    Outcome.MEASURED,
    Outcome.REGRESSED,
    Outcome.INCONCLUSIVE,
    Outcome.NO_BASELINE,
    Outcome.INCOMPARABLE,
    Outcome.INVALID,
    Outcome.DIRTY,
    Outcome.BROKEN,
)
"""In the order in which they are counted up."""
_PER = {"tok_s": "tok/s per request", "total_tok_s": "tok/s in total"}


def number(value: float) -> str:
    """Three digits that count: ``1566``, ``186``, ``85.3``, ``2.41``."""
    size = abs(value)
    return f"{value:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f}"


def percent(ratio: float) -> str:
    """A ratio as a signed change: 1.51 → ``+51%``; one decimal below 10%."""
    change = (ratio - 1) * 100
    text = f"{change:+.0f}" if abs(change) >= 9.95 else f"{change:+.1f}"
    return f"{'+0.0' if text == '-0.0' else text}%"


def plus_minus(half_width: float | None) -> str:
    """An interval's half width: ``±2%``; empty where it is unknown, or too wide to mean anything."""
    if half_width is None or half_width >= 10:
        return ""
    return f"±{half_width * 100:.0f}%"


def share(value: float) -> str:
    """A share: 0.051 → ``5.1%``."""
    size = abs(value) * 100
    return f"{value * 100:.{0 if size >= 9.95 else 1}f}%"


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 12 s``, ``41 min``, ``2 h 5 min``."""
    whole = round(seconds)
    minutes, s = divmod(whole, 60)
    hours, m = divmod(minutes, 60)
    if hours:
        return f"{hours} h {m} min"
    if minutes >= 10 or (minutes and not s):
        return f"{minutes} min"
    return f"{minutes} min {s} s" if minutes else f"{s} s"


def stopwatch(seconds: float) -> str:
    """Time that goes by, each second seen: ``45 s``, ``12 min 3 s``, ``2 h 5 min 0 s``."""
    minutes, s = divmod(int(seconds), 60)
    hours, m = divmod(minutes, 60)
    if hours:
        return f"{hours} h {m} min {s} s"
    return f"{m} min {s} s" if m else f"{s} s"


def about(seconds: float) -> str:
    """An estimate, no finer than it is good: ``about 40 s``, ``about 18 min``, ``about 2 h 10 min``."""
    if seconds < 95:
        return f"about {max(1, round(seconds)) if seconds < 10 else 5 * round(seconds / 5)} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"about {minutes} min"
    hours, m = divmod(5 * round(minutes / 5), 60)
    return f"about {hours} h {m} min" if m else f"about {hours} h"


def columns(text: str) -> int:
    """How many columns of a terminal ``text`` takes."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Me", "Mn", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """``text`` in ``width`` columns, ended with ``…`` where it was longer."""
    if columns(text) <= width:
        return text
    kept, room = "", width - 1
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept += character
    return f"{kept}…" if width > 0 else ""


def unit_label(name: str) -> str:
    """A metric's unit for a table's head."""
    return _PER.get(name) or f"{name}, {metric(name).unit}"


def config_labels(configs: Iterable[SpecConfig]) -> dict[SpecConfig, str]:
    """A short label for each: its steps, and whatever else tells it from the others with as many."""
    labels = {}
    distinct = list(dict.fromkeys(configs))
    for config in distinct:
        twins = [other for other in distinct if other.steps == config.steps]
        labels[config] = " ".join([_steps(config), *_telling(config, twins)])
    return labels


def case_label(case: Case) -> str:
    """``qwen steps=2 c=16``."""
    return f"{case.target} {_steps(case.config)} c={case.concurrency}"


def _steps(config: SpecConfig) -> str:
    return "off" if config.off else f"steps={config.steps}"


def _telling(config: SpecConfig, twins: list[SpecConfig]) -> list[str]:
    """The fields in which ``config`` differs from any of its twins."""
    fields = {"algorithm": "{}", "topk": "topk={}", "draft_tokens": "draft={}"}
    found = [
        shown.format(getattr(config, name))
        for name, shown in fields.items()
        if len({getattr(twin, name) for twin in twins}) > 1
    ]
    args = [dict(twin.args) for twin in twins]
    differing = [n for n in sorted({n for a in args for n in a}) if len({a.get(n) for a in args}) > 1]
    return found + [f"{name}={dict(config.args).get(name)}" for name in differing]

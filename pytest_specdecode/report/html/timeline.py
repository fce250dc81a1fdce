"""When servers started, were under load, and what was run and killed between them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup, escape

from ...model import SpecConfig
from ..text import duration
from ..view import Plain, config_of
from . import svg

WIDTH, LEFT, RIGHT, LANE, TOP = 900, 96, 16, 34, 14
_STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400)


@dataclass(frozen=True, slots=True)
class _Span:
    """``begin`` to ``end`` in seconds of the run's clock, told in words."""

    begin: float
    end: float
    told: str
    series: int | None = None
    short: str = ""


def timeline(data: Plain, labels: Mapping[SpecConfig, str]) -> Markup | None:
    """Three lanes over time: starting, load, commands; None where nothing was started or run."""
    audit = [(at, c) for c in data.get("audit", ()) if not math.isnan(at := _seconds(c["at"]))]
    starting = [span for span in _starting(data, labels) if not math.isnan(span.begin)]
    loads = [span for span in _loads(data, labels) if not math.isnan(span.begin)]
    kills = [_Span(at, at + c["seconds"], _killed(c)) for at, c in audit if c.get("killed")]
    commands = [_Span(at, at + c["seconds"], "") for at, c in audit]
    every = [*starting, *loads, *commands]
    if not every:
        return None
    begin, end = min(s.begin for s in every), max(s.end for s in every)
    x = svg.Scale(begin, max(end, begin + 1), LEFT, WIDTH - RIGHT)
    lanes: list[tuple[str, Iterable[Markup]]] = [
        ("starting", _bars(starting, x, 0)),
        ("load", _bars(loads, x, 1)),
    ]
    lanes.append(("commands", [*_dense(commands, x, 2), *_kill_marks(kills, x, 2)]))
    height = TOP + LANE * len(lanes) + 34
    body = [*_clock(x, end - begin, height)]
    for row, (name, marks) in enumerate(lanes):
        body.append(svg.text(LEFT - 8, TOP + LANE * row + 21, name, "tick", "end"))
        body += marks
    killed = sum(len(c["killed"]) for _, c in audit if c.get("killed"))
    told = f"{len(starting)} server starts and {len(audit)} commands in {duration(end - begin)}"
    told += f"; {killed} processes killed" if killed else "; nothing killed"
    told += "".join(f"; {span.told}" for span in starting[:40])
    return svg.figure("Timeline of the run", told, WIDTH, height, body)


def _starting(data: Plain, labels: Mapping[SpecConfig, str]) -> Iterator[_Span]:
    """``at`` of a start is when it was ready."""
    order = list(labels)
    for start in data.get("starts", ()):
        config, ready = config_of(start["config"]), start.get("ready_s") or 0.0
        end = _seconds(start["at"])
        label = labels.get(config, f"steps={config.steps}")
        told = f"{label}, restart {start.get('restart', 1)}: ready after {duration(ready)}"
        told += f", thrown away: {start['discarded']}" if start.get("discarded") else ""
        series = order.index(config) if config in labels else None
        yield _Span(end - ready, end, told, series, label)


def _loads(data: Plain, labels: Mapping[SpecConfig, str]) -> Iterator[_Span]:
    """Per start, as long as its warm-ups and rounds took, from when it was ready."""
    order = list(labels)
    took: dict[str, float] = defaultdict(float)
    for case in data.get("cases", ()):
        for start in case.get("starts", ()):
            took[start["id"]] += sum(r.get("seconds") or 0.0 for r in start["rounds"])
            took[start["id"]] += (start.get("facts") or {}).get("warmup_s") or 0.0
    for start in data.get("starts", ()):
        if took.get(start["id"]):
            config, begin = config_of(start["config"]), _seconds(start["at"])
            label = labels.get(config, f"steps={config.steps}")
            series = order.index(config) if config in labels else None
            told = f"{label}: {duration(took[start['id']])} of load"
            yield _Span(begin, begin + took[start["id"]], told, series, label)


def _bars(spans: Sequence[_Span], x: svg.Scale, lane: int) -> Iterator[Markup]:
    top = TOP + LANE * lane + 5.0
    for span in spans:
        left, width = x(span.begin), max(2.0, x(span.end) - x(span.begin))
        colour = f"s{span.series % svg.SERIES}" if span.series is not None else "plain"
        told = svg.element("title", {}, escape(span.told))
        box = {"x": left, "y": top, "width": width, "height": LANE - 10.0, "rx": 2, "class": f"span {colour}"}
        yield svg.element("rect", box, told)
        if len(span.short) * 7.0 + 6 < width:
            yield svg.text(left + width / 2, top + 16, span.short, "inside")


def _dense(spans: Sequence[_Span], x: svg.Scale, lane: int) -> Iterator[Markup]:
    """Many short ones as one path: those that share a column of pixels are drawn once."""
    top = TOP + LANE * lane + 10
    columns = sorted({(math.floor(x(s.begin)), max(1, round(x(s.end) - x(s.begin)))) for s in spans})
    if columns:
        path = "".join(f"M{left} {top}h{width}v14h-{width}z" for left, width in columns)
        yield svg.element("path", {"d": path, "class": "commands"})


def _kill_marks(spans: Sequence[_Span], x: svg.Scale, lane: int) -> Iterator[Markup]:
    top = TOP + LANE * lane + 3
    columns: dict[int, list[_Span]] = defaultdict(list)
    for span in spans:
        columns[round(x(span.begin))].append(span)
    for left, here in columns.items():
        told = "; ".join(span.told for span in here)
        shape = {"d": f"M{left - 5} {top}h10l-5 9z", "class": "kill"}
        yield svg.element("path", shape, svg.element("title", {}, escape(told)))


def _clock(x: svg.Scale, length: float, height: int) -> Iterator[Markup]:
    """Time since the run began, at round times."""
    step = next((s for s in _STEPS_S if length / s <= 9), _STEPS_S[-1])
    foot = height - 30
    for i in range(int(length // step) + 1):
        at = x(x.low + i * step)
        yield svg.line(at, TOP, at, foot, "grid")
        yield svg.text(at, foot + 18, _tick(i * step), "tick")


def _tick(seconds: int) -> str:
    """Of a round time, its largest units alone: ``2 h``, ``1 h 30``, ``5 min``."""
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    if hours:
        return f"{hours} h {minutes:02d}" if minutes else f"{hours} h"
    return f"{minutes}:{rest:02d} min" if rest else f"{minutes} min"


def _killed(command: Plain) -> str:
    return f"killed {', '.join(map(str, command['killed']))} on {command['host']}"


def _seconds(at: str) -> float:
    """Of an ISO 8601 time, since 1970; not a number where it cannot be read."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return math.nan
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()

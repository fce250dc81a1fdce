"""The plots of a report, each made from plain data; None where the data holds nothing to draw."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ...model import ACCEPT_RATE_POS, SpecConfig
from ..text import number, percent, unit_label
from ..view import Plain, config_of
from . import svg

Labels = Mapping[SpecConfig, str]


@dataclass(frozen=True, slots=True)
class Plot:
    """``legend``: (series, label); ``note``: how to read it."""

    heading: str
    picture: Markup
    legend: tuple[tuple[int, str], ...]
    note: str


def throughput(table: Plain, labels: Labels) -> Plot | None:
    """A metric over concurrency, a line per configuration; the stored numbers hollow beside it."""
    configs = [config_of(c) for c in table["configs"]]
    rows = table["rows"]
    cells = [[row["cells"][i] or {} for row in rows] for i in range(len(configs))]
    top = [c[k] for column in cells for c in column for k in ("value", "high", "baseline") if c.get(k)]
    if not top:
        return None
    frame = svg.Frame()
    marks = svg.ticks(0, max(top))
    x, y = frame.x(-0.5, len(rows) - 0.5), frame.y(0, marks[-1])
    places = [(float(i), str(row["concurrency"])) for i, row in enumerate(rows)]
    name = unit_label(table["metric"])
    body = frame.axes(svg.Axis(x, places, "concurrency"), svg.Axis(y, svg.labelled(marks), name))
    told = []
    for i, (config, column) in enumerate(zip(configs, cells, strict=True)):
        series = list(labels).index(config)
        dodge = (i - (len(configs) - 1) / 2) * min(9.0, 60 / len(configs) / max(1, len(rows) / 5))
        at = [x(place) + dodge for place, _ in places]
        body += _curve(series, at=at, column=column, y=y, label=labels[config], rows=rows)
        values = [
            f"{number(c['value'])} at {row['concurrency']}"
            for c, row in zip(column, rows, strict=True)
            if c.get("value")
        ]
        told.append(f"{labels[config]}: {', '.join(values) or 'nothing measured'}")
    stored = any(c.get("baseline") for column in cells for c in column)
    return Plot(
        f"{name} over concurrency",
        svg.figure(f"{name} over concurrency", "; ".join(told), frame.width, frame.height, body),
        _legend(configs, labels),
        "bars: 95% interval" + ("; hollow, dashed: the baseline" if stored else ""),
    )


def _curve(
    series: int,
    *,
    at: Sequence[float],
    column: Sequence[Plain],
    y: svg.Scale,
    label: str,
    rows: Sequence[Plain],
) -> Iterator[Markup]:
    colour = f"s{series % svg.SERIES}"
    for key, css in (("baseline", "stored"), ("value", "line")):
        points = [(x, y(cell[key])) for x, cell in zip(at, column, strict=True) if cell.get(key)]
        if points:
            yield svg.polyline(points, f"{css} {colour}")
    for x, cell, row in zip(at, column, rows, strict=True):
        where = f"{label}, concurrency {row['concurrency']}"
        if cell.get("low") and cell.get("high"):
            yield svg.line(x, y(cell["low"]), x, y(cell["high"]), f"bar {colour}")
        if cell.get("baseline"):
            yield svg.marker(
                series, x, y(cell["baseline"]), f"{where}: stored {number(cell['baseline'])}", "hollow"
            )
        if cell.get("value"):
            yield svg.marker(series, x, y(cell["value"]), f"{where}: {number(cell['value'])}")


def acceptance(cases: Sequence[Plain], labels: Labels) -> Plot | None:
    """Acceptance by draft position, a line per configuration, over all its concurrencies."""
    found: dict[SpecConfig, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for case in cases:
        for name, value in (case.get("metrics") or {}).items():
            position = name.removeprefix(ACCEPT_RATE_POS)
            if position != name and position.isdigit() and value is not None:
                found[config_of(case["config"])][int(position)].append(value)
    if not found:
        return None
    frame = svg.Frame()
    last = max(position for by in found.values() for position in by)
    x, y = frame.x(-0.5, last + 0.5), frame.y(0, 1)
    step = 1 + last // 12
    places = [(float(i), str(i + 1)) for i in range(0, last + 1, step)]
    shares = [(mark, f"{mark:.0%}") for mark in svg.ticks(0, 1)]
    body = frame.axes(svg.Axis(x, places, "draft position"), svg.Axis(y, shares, "accepted"))
    configs = [config for config in labels if config in found]
    told = []
    for config in configs:
        series = list(labels).index(config)
        by, colour = sorted(found[config].items()), f"s{series % svg.SERIES}"
        middles = [(position, statistics.median(values)) for position, values in by]
        body.append(svg.polyline([(x(p), y(m)) for p, m in middles], f"line {colour}"))
        for (position, values), (_, middle) in zip(by, middles, strict=True):
            body.append(svg.line(x(position), y(min(values)), x(position), y(max(values)), f"bar {colour}"))
            words = f"{labels[config]}, position {position + 1}: {middle:.0%}"
            body.append(svg.marker(series, x(position), y(middle), words))
        told.append(f"{labels[config]}: " + ", ".join(f"{m:.0%} at {p + 1}" for p, m in middles))
    title = "Acceptance by draft position"
    return Plot(
        title,
        svg.figure(title, "; ".join(told), frame.width, frame.height, body),
        _legend(list(configs), labels),
        "median over concurrencies; bars: lowest and highest",
    )


def step_time(cases: Sequence[Plain], labels: Labels) -> Plot | None:
    """Step time against tokens per step: speed is the second over the first, equal along dotted lines."""
    points = [(case, pair) for case in cases if (pair := _pair(case.get("metrics") or {})) is not None]
    if not points:
        return None
    olds = [_pair(case.get("baseline") or {}) for case, _ in points]
    every = [pair for _, pair in points] + [old for old in olds if old is not None]
    frame = svg.Frame(right=62, top=34)
    least = min(1.0, *(round(tokens, 2) for tokens, _ in every))
    across = svg.ticks(least, max(tokens for tokens, _ in every) * 1.05)
    up = svg.ticks(0, max(ms for _, ms in every) * 1.05)
    x, y = frame.x(across[0], across[-1]), frame.y(0, up[-1])
    body = frame.axes(
        svg.Axis(x, svg.labelled(across), "tokens per step"), svg.Axis(y, svg.labelled(up), "ms per step")
    )
    for along, words in _equal_speeds(x, y, [1000 * tokens / ms for tokens, ms in every]):
        body += along, words
    spots: list[_Spot] = []
    for (case, pair), old in zip(points, olds, strict=True):
        series = list(labels).index(config_of(case["config"]))
        where = f"{labels[config_of(case['config'])]}, concurrency {case['concurrency']}"
        at = x(pair[0]), y(pair[1])
        if old is not None and case.get("outcome") == "regressed":
            body.append(svg.line(x(old[0]), y(old[1]), *at, f"moved s{series % svg.SERIES}"))
            body.append(svg.marker(series, x(old[0]), y(old[1]), f"{where}, stored: {_said(old)}", "hollow"))
        body.append(svg.marker(series, *at, f"{where}: {_said(pair)}"))
        _note_spot(spots, series, at, case["concurrency"])
    body += [svg.text(s.x + 8, s.y + 4, s.label, "small", "start") for s in spots if s.free(spots)]
    told = [f"{labels[config_of(c['config'])]} concurrency {c['concurrency']}: {_said(p)}" for c, p in points]
    title = "Step time against tokens per step"
    configs = dict.fromkeys(config_of(case["config"]) for case, _ in points)
    moved = any(
        old and case.get("outcome") == "regressed" for (case, _), old in zip(points, olds, strict=True)
    )
    stored = "; hollow: where a regressed case was" if moved else ""
    return Plot(
        title,
        svg.figure(title, "; ".join(told), frame.width, frame.height, body),
        _legend(list(configs), labels),
        f"right and down is faster; equal decode speed along a dotted line{stored}",
    )


@dataclass(slots=True)
class _Spot:
    """Points of one configuration that lie on each other."""

    series: int
    x: float
    y: float
    levels: list[int]

    @property
    def label(self) -> str:
        return f"c={', '.join(map(str, self.levels))}"

    def free(self, others: Sequence[_Spot]) -> bool:
        """Whether its label covers no other spot, nor the label of an earlier one."""
        width = 6.0 * len(self.label) + 12
        near = [o for o in others if o is not self and abs(o.y - self.y) < 12]
        after = others.index(self)
        return not any(
            0 <= o.x - self.x < width
            or (others.index(o) < after and 0 <= self.x - o.x < 6 * len(o.label) + 12)
            for o in near
        )


def _note_spot(spots: list[_Spot], series: int, at: tuple[float, float], level: int) -> None:
    for spot in spots:
        if spot.series == series and math.dist((spot.x, spot.y), at) < 7:
            spot.levels.append(level)
            return
    spots.append(_Spot(series, *at, [level]))


def _pair(metrics: Mapping[str, Any]) -> tuple[float, float] | None:
    tokens, ms = metrics.get("tokens_per_step"), metrics.get("step_ms")
    return (tokens, ms) if tokens and ms else None


def _said(pair: tuple[float, float]) -> str:
    return f"{number(pair[0])} tokens in {number(pair[1])} ms"


def _equal_speeds(x: svg.Scale, y: svg.Scale, speeds: Sequence[float]) -> Iterator[tuple[Markup, Markup]]:
    """Lines along which tokens per second are equal, at round speeds around those seen; labels outside."""
    taken: list[tuple[float, float]] = []
    for speed in _round_speeds(min(speeds), max(speeds)):
        right = min(x.high, y.high * speed / 1000)
        start, end = 1000 * x.low / speed, 1000 * right / speed
        if start >= y.high:
            continue
        place = (x(right) + 5, y(end) + 4) if right == x.high else (x(right), y(end) - 5)
        free = all(abs(place[0] - px) > 56 or abs(place[1] - py) > 11 for px, py in taken)
        label = Markup("")
        if free:
            taken.append(place)
            anchor = "start" if right == x.high else "middle"
            label = svg.text(*place, f"{speed:g} tok/s", "small faint", anchor)
        yield svg.line(x(x.low), y(start), x(right), y(end), "iso"), label


def _round_speeds(low: float, high: float) -> Iterator[float]:
    """1, 2, 3, 5, 10, …: those between a bit below ``low`` and ``high``."""
    power = 10.0 ** math.floor(math.log10(low))
    while power <= high:
        yield from (m * power for m in (1, 2, 3, 5) if low / 2 <= m * power <= high * 1.2)
        power *= 10


def against_baseline(
    cases: Sequence[Plain], labels: Labels, name: str
) -> list[tuple[int, list[Plain | None]]]:
    """By concurrency: the verdict on ``name`` of each configuration in the order of ``labels``."""
    found: dict[int, dict[SpecConfig, Plain]] = defaultdict(dict)
    for case in cases:
        for test in case.get("tests", ()):
            verdict = (test.get("verdicts") or {}).get(name)
            if verdict is not None:
                found[case["concurrency"]][config_of(case["config"])] = {
                    **verdict,
                    "text": percent(verdict["ratio"]),
                }
    return [(level, [by.get(config) for config in labels]) for level, by in sorted(found.items())]


def _legend(configs: Sequence[SpecConfig], labels: Labels) -> tuple[tuple[int, str], ...]:
    order = list(labels)
    return tuple((order.index(config), labels[config]) for config in configs)

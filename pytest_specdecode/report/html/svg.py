"""A small SVG writer: figures with title and description, axes, markers. Colours are the page's classes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

SERIES = 8
"""Colours and markers before they repeat; two configurations never share both with a dash pattern too."""
_MARKERS: tuple[str, ...] = (
    "M{x} {y}m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M{x} {y}m-3.6-3.6h7.2v7.2h-7.2z",
    "M{x} {y}m0-5l5 5l-5 5l-5-5z",
    "M{x} {y}m0-5l4.7 8.5h-9.4z",
    "M{x} {y}m0 5l4.7-8.5h-9.4z",
    "M{x} {y}m-1.5-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
    "M{x} {y}m-5-3h10v6h-10z",
    "M{x} {y}m0-5.2l4.9 3.6l-1.9 5.8h-6l-1.9-5.8z",
)
_ids = itertools.count(1)


def element(name: str, attributes: Mapping[str, object], *children: Markup | str) -> Markup:
    """``<name …>…</name>``, escaped; an underscore in an attribute's name stands for a hyphen."""
    given = "".join(f' {k.replace("_", "-")}="{escape(_text(v))}"' for k, v in attributes.items())
    inside = Markup("").join(children)
    return Markup(f"<{name}{given}>{inside}</{name}>" if inside else f"<{name}{given}/>")  # noqa: S704


def figure(title: str, description: str, width: int, height: int, body: Iterable[Markup]) -> Markup:
    """A picture that says in words what it shows, for those who do not see it."""
    number = next(_ids)
    names = f"t{number}", f"d{number}"
    return element(
        "svg",
        {
            "viewBox": f"0 0 {width} {height}",
            "width": width,
            "height": height,
            "role": "img",
            "aria-labelledby": " ".join(names),
        },
        element("title", {"id": names[0]}, escape(title)),
        element("desc", {"id": names[1]}, escape(description)),
        *body,
    )


def text(x: float, y: float, words: object, css: str = "", anchor: str = "middle") -> Markup:
    given: dict[str, object] = {"x": x, "y": y, "text_anchor": anchor}
    return element("text", given | ({"class": css} if css else {}), escape(str(words)))


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> Markup:
    return element("path", {"d": f"M{_text(x1)} {_text(y1)}L{_text(x2)} {_text(y2)}", "class": css})


def polyline(points: Sequence[tuple[float, float]], css: str) -> Markup:
    path = "L".join(f"{_text(x)} {_text(y)}" for x, y in points)
    return element("path", {"d": f"M{path}", "class": css})


def marker(series: int, x: float, y: float, told: str, css: str = "") -> Markup:
    """A point whose shape and colour tell its series; ``told`` shows when it is pointed at."""
    shape = _MARKERS[series % SERIES].format(x=_text(x), y=_text(y))
    return element(
        "path",
        {"d": shape, "class": f"m s{series % SERIES} {css}".strip()},
        element("title", {}, escape(told)) if told else "",
    )


def swatch(series: int) -> Markup:
    """The marker of a series, for a legend in the page's text."""
    shape = marker(series, 8, 7, "")
    return element("svg", {"width": 16, "height": 14, "viewBox": "0 0 16 14", "aria_hidden": "true"}, shape)


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places in the figure, evenly; ``to`` may lie before ``at`` (y grows downwards)."""

    low: float
    high: float
    at: float
    to: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.at + (self.to - self.at) * ((value - self.low) / span if span else 0.5)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers that cover ``low`` to ``high``, the first at or below, the last at or above."""
    if not low < high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, last + 1)]


def labelled(values: Iterable[float]) -> list[tuple[float, str]]:
    """Ticks with labels of no more digits than they have."""
    return [(value, f"{value:.10g}") for value in values]


@dataclass(frozen=True, slots=True)
class Axis:
    """``ticks``: values and what stands beside them."""

    scale: Scale
    ticks: Sequence[tuple[float, str]]
    name: str


@dataclass(frozen=True, slots=True)
class Frame:
    """A plot's area within its figure, and its axes."""

    width: int = 420
    height: int = 290
    left: int = 46
    right: int = 12
    top: int = 26
    bottom: int = 44

    def x(self, low: float, high: float) -> Scale:
        return Scale(low, high, self.left, self.width - self.right)

    def y(self, low: float, high: float) -> Scale:
        return Scale(low, high, self.height - self.bottom, self.top)

    def axes(self, x: Axis, y: Axis) -> list[Markup]:
        """Grid lines, labels, names; the y axis is named above its top, where it can be read level."""
        foot, end = self.height - self.bottom, self.width - self.right
        found = [text(4, 14, y.name, "name", "start"), text(end, self.height - 6, x.name, "name", "end")]
        for value, words in y.ticks:
            found.append(line(self.left, y.scale(value), end, y.scale(value), "grid"))
            found.append(text(self.left - 6, y.scale(value) + 4, words, "tick", "end"))
        found.append(line(self.left, foot, end, foot, "axis"))
        found += [text(x.scale(value), foot + 18, words, "tick") for value, words in x.ticks]
        return found


def _text(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)

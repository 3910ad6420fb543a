"""Charts with two axes: a curve, what was best so far, and points by what they cost and are worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from ragsmith.reporting.charts.shapes import (
    EDGE,
    LETTERS,
    TALL,
    ReferenceLine,
    XScale,
    YScale,
    anchor,
    apart,
    diamond,
    dot,
    padded,
    stroke,
    text,
    ticks,
)

STEPS_HIGH = 220
"""Pixels from the lowest to the highest value."""
LEFT = 6
"""Percent of the width reserved for the values."""

CLOUD_HIGH = 300
"""Pixels from the lowest to the highest value."""
NEAR = 26
"""Percent of the width that a name may need: closer names are placed below each other."""
SAME = 1.5
"""Percent of the width from one point to another that hides it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of a curve, with lines at values of either axis; both axes begin at 0."""

    title: str
    points: tuple[tuple[float, float], ...]
    across: str
    at: tuple[ReferenceLine, ...] = ()
    levels: tuple[ReferenceLine, ...] = ()

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        widest = max((*(x for x, _ in self.points), *(line.value for line in self.at)))
        highest = max((*(y for _, y in self.points), *(line.value for line in self.levels)))
        top = 8 + 20 * len(self.at)
        height = top + TALL + 44
        x, y = XScale(0, widest), YScale(0, highest, top)
        parts = []
        for place, line in enumerate(self.at):
            here = 14 + 20 * place
            parts += [
                stroke(x(line.value), here + 5, x(line.value), top + TALL, "limit"),
                text(x(line.value), here, f"{line.name} {line.value:,.0f}", "soft", anchor(x(line.value))),
            ]
        for line in self.levels:
            level = y(line.value)
            below = top + TALL / 2 < level < top + TALL - 20  # where a falling curve is not
            parts += [
                stroke(EDGE, level, 100 - EDGE, level, "limit"),
                text(100 - EDGE, level + 14 if below else level - 5, f"{line.name} {line.value:.3g}", "soft", "end"),
            ]
        ends = ((0, "start"), (widest / 2, "middle"), (widest, "end"))
        parts += [
            *(stroke(x(a), y(b), x(c), y(d), "curve") for (a, b), (c, d) in pairwise(self.points)),
            stroke(EDGE, top + TALL, 100 - EDGE, top + TALL, "axis"),
            *(text(x(value), top + TALL + 17, f"{value:,.0f}", "soft", at) for value, at in ends),
            text(50, height - 6, self.across, "soft", "middle"),
        ]
        return height, parts


@dataclass(frozen=True, slots=True)
class Series:
    """The value after each trial, None before there is one. ``kind`` is a class of the style: one, two or three."""

    name: str
    values: tuple[float | None, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class Steps:
    """Lines of what was best so far, and ``levels`` to compare them with."""

    title: str
    series: tuple[Series, ...]
    across: str
    levels: tuple[ReferenceLine, ...] = ()

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Class and name of each line."""
        return tuple((series.kind, series.name) for series in self.series)

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        known = [value for series in self.series for value in series.values if value is not None]
        least, most = padded([*known, *(level.value for level in self.levels)])
        last = max(len(series.values) for series in self.series)
        x, y = XScale(1 - LEFT / 100 * last, last), YScale(least, most, 8, STEPS_HIGH)
        bottom = 8 + STEPS_HIGH
        parts = _guides(y, ticks(least, most, 4))
        heights = apart([y(level.value) - 4 for level in self.levels])
        for level, height in zip(self.levels, heights, strict=True):
            parts += [
                stroke(EDGE, y(level.value), 100 - EDGE, y(level.value), "limit"),
                text(100 - EDGE, height, f"{level.name} {level.value:.3f}", "soft", "end"),
            ]
        marked = (value for value in (1, *ticks(1, last, 5)) if value == 1 or value > last / 20)
        parts += [
            *(mark for series in self.series for mark in _line(series, x, y)),
            stroke(EDGE, bottom, 100 - EDGE, bottom, "axis"),
            *(text(x(v), bottom + 16, f"{v:,.0f}", "soft", "end" if v == last else "middle") for v in marked),
            text(50, bottom + 34, self.across, "soft", "middle"),
        ]
        return bottom + 42, parts


def _line(series: Series, x: XScale, y: YScale) -> Iterator[Markup]:
    """Horizontal as long as nothing better comes, then up; a mark at each gain."""
    before: tuple[int, float] | None = None
    for trial, value in enumerate(series.values, 1):
        if value is None or (before is not None and value == before[1]):
            continue
        if before is not None:
            yield stroke(x(before[0]), y(before[1]), x(trial), y(before[1]), f"curve {series.kind}")
            yield stroke(x(trial), y(before[1]), x(trial), y(value), f"curve {series.kind}")
        yield dot(x(trial), y(value), f"dot {series.kind}", f"{series.name}: {value:.3f} after {trial:,}", 3)
        before = (trial, value)
    if before is not None:
        yield stroke(x(before[0]), y(before[1]), x(len(series.values)), y(before[1]), f"curve {series.kind}")


@dataclass(frozen=True, slots=True)
class CloudPoint:
    """A point with cost ``x`` and value ``y``, labelled ``name``; ``kind`` is a class of the style."""

    x: float
    y: float
    said: str
    name: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points, those of the ``front`` joined by steps, the cheapest first."""

    title: str
    points: tuple[CloudPoint, ...]
    front: tuple[tuple[float, float], ...]
    across: str
    up: str

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        least, most = padded([point.y for point in self.points])
        first, last = padded([point.x for point in self.points], 0.04)
        first = min(first, 0.0) if first < 0.25 * last else first
        x, y = XScale(first, last), YScale(least, most, 20, CLOUD_HIGH)
        bottom = 20 + CLOUD_HIGH
        parts = [text(EDGE, 12, self.up, "soft", "start"), *_guides(y, ticks(least, most, 5))]
        for (a, b), (c, d) in pairwise(self.front):
            parts += [stroke(x(a), y(b), x(c), y(b), "front"), stroke(x(c), y(b), x(c), y(d), "front")]
        for point in sorted(self.points, key=lambda point: bool(point.name)):
            mark = diamond if point.kind == "two" else dot
            parts.append(mark(x(point.x), y(point.y), f"dot {point.kind or 'faint'}", point.said))
        parts += [
            *_names([replace(p, x=x(p.x), y=y(p.y)) for p in self.points if p.name]),
            stroke(EDGE, bottom, 100 - EDGE, bottom, "axis"),
            *(text(x(value), bottom + 16, f"{value:.3g}", "soft", "middle") for value in ticks(first, last, 6)),
            text(50, bottom + 34, self.across, "soft", "middle"),
        ]
        return bottom + 42, parts


def _names(points: Sequence[CloudPoint]) -> list[Markup]:
    """Labels of the points, moved up or down where they would overlap."""
    placed: list[tuple[float, float]] = []
    parts = []
    for point in _joined(points):
        left = point.x > 100 - NEAR
        ways = (point.y + 4 + move for far in range(0, CLOUD_HIGH, 2) for move in (-far, far))
        y = next(
            y for y in ways if not any(abs(point.x - x) < NEAR and abs(y - other) < LETTERS for x, other in placed)
        )
        placed.append((point.x, y))
        side = -1.2 if left else 1.2
        if abs(y - 4 - point.y) > LETTERS:
            parts.append(stroke(point.x, point.y, point.x + side, y - 4, "leader"))
        parts.append(text(point.x + side, y, point.name, "name", "end" if left else "start"))
    return parts


def _joined(points: Sequence[CloudPoint]) -> list[CloudPoint]:
    """The points from the top; those that the eye cannot tell apart share a name."""
    found: list[CloudPoint] = []
    for point in sorted(points, key=lambda point: point.y):
        near = next((one for one in found if abs(one.x - point.x) < SAME and abs(one.y - point.y) < LETTERS / 2), None)
        if near is None:
            found.append(point)
        else:
            found[found.index(near)] = replace(near, name=f"{near.name}, {point.name}")
    return found


def _guides(y: YScale, values: Sequence[float]) -> list[Markup]:
    """A horizontal line with a label at each of ``values``."""
    return [
        mark
        for value in values
        for mark in (
            stroke(EDGE, y(value), 100 - EDGE, y(value), "guide"),
            text(EDGE, y(value) - 3, f"{value:.3g}", "soft", "start"),
        )
    ]

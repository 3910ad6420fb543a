"""Points by what they cost and what they are worth; a line joins those that nothing beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from ragsmith.reporting.charts.shapes import (
    EDGE,
    LETTERS,
    Height,
    Scale,
    diamond,
    dot,
    padded,
    stroke,
    text,
    ticks,
)

HIGH = 300
"""Pixels from the lowest to the highest value."""
NEAR = 26
"""Percent of the width that a name may need: names that begin closer to each other stand one below the other."""
SAME = 1.5
"""Percent of the width from one point to another that hides it."""


@dataclass(frozen=True, slots=True)
class Point:
    """What costs ``x`` and is worth ``y``. ``name`` stands beside it; ``kind`` is a class of the style."""

    x: float
    y: float
    said: str
    name: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points, those of the ``front`` joined by steps, the cheapest first."""

    title: str
    points: tuple[Point, ...]
    front: tuple[tuple[float, float], ...]
    across: str
    up: str

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        least, most = padded([point.y for point in self.points])
        first, last = padded([point.x for point in self.points], 0.04)
        first = min(first, 0.0) if first < 0.25 * last else first
        x, y = Scale(first, last), Height(least, most, 20, HIGH)
        bottom = 20 + HIGH
        parts = [text(EDGE, 12, self.up, "soft", "start")]
        for value in ticks(least, most, 5):
            parts += [
                stroke(EDGE, y(value), 100 - EDGE, y(value), "guide"),
                text(EDGE, y(value) - 3, f"{value:.3g}", "soft", "start"),
            ]
        for (a, b), (c, d) in pairwise(self.front):
            parts += [stroke(x(a), y(b), x(c), y(b), "front"), stroke(x(c), y(b), x(c), y(d), "front")]
        for point in sorted(self.points, key=lambda point: bool(point.name)):
            mark = diamond if point.kind == "two" else dot
            parts.append(mark(x(point.x), y(point.y), f"dot {point.kind or 'faint'}", point.said))
        parts += _names([replace(p, x=x(p.x), y=y(p.y)) for p in self.points if p.name])
        parts.append(stroke(EDGE, bottom, 100 - EDGE, bottom, "axis"))
        parts += [text(x(value), bottom + 16, f"{value:.3g}", "soft", "middle") for value in ticks(first, last, 6)]
        parts.append(text(50, bottom + 34, self.across, "soft", "middle"))
        return bottom + 42, parts


def _names(points: Sequence[Point]) -> list[Markup]:
    """Names beside their points, none on top of another: where there is no room they move up or down."""
    placed: list[tuple[float, float]] = []
    parts = []
    for point in _joined(points):
        left = point.x > 100 - NEAR
        ways = (point.y + 4 + move for far in range(0, HIGH, 2) for move in (-far, far))
        y = next(
            y for y in ways if not any(abs(point.x - x) < NEAR and abs(y - other) < LETTERS for x, other in placed)
        )
        placed.append((point.x, y))
        side = -1.2 if left else 1.2
        if abs(y - 4 - point.y) > LETTERS:
            parts.append(stroke(point.x, point.y, point.x + side, y - 4, "leader"))
        parts.append(text(point.x + side, y, point.name, "name", "end" if left else "start"))
    return parts


def _joined(points: Sequence[Point]) -> list[Point]:
    """The points from the top; those that the eye cannot tell apart share a name."""
    found: list[Point] = []
    for point in sorted(points, key=lambda point: point.y):
        near = next((one for one in found if abs(one.x - point.x) < SAME and abs(one.y - point.y) < LETTERS / 2), None)
        if near is None:
            found.append(point)
        else:
            found[found.index(near)] = replace(near, name=f"{near.name}, {point.name}")
    return found

"""What was best so far, after each trial: a line that only goes up, one for each way of searching."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from ragsmith.reporting.charts.shapes import EDGE, Height, Line, Scale, apart, dot, padded, stroke, text, ticks

HIGH = 220
"""Pixels from the lowest to the highest value."""
LEFT = 6
"""Percent of the width that stand free for the values."""


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
    levels: tuple[Line, ...] = ()

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
        x, y = Scale(1 - LEFT / 100 * last, last), Height(least, most, 8, HIGH)
        bottom = 8 + HIGH
        parts = []
        for value in ticks(least, most, 4):
            parts += [
                stroke(EDGE, y(value), 100 - EDGE, y(value), "guide"),
                text(EDGE, y(value) - 3, f"{value:.3g}", "soft", "start"),
            ]
        heights = apart([y(level.value) - 4 for level in self.levels])
        for level, height in zip(self.levels, heights, strict=True):
            parts += [
                stroke(EDGE, y(level.value), 100 - EDGE, y(level.value), "limit"),
                text(100 - EDGE, height, f"{level.name} {level.value:.3f}", "soft", "end"),
            ]
        for series in self.series:
            parts += _line(series, x, y)
        parts.append(stroke(EDGE, bottom, 100 - EDGE, bottom, "axis"))
        parts += [
            text(x(value), bottom + 16, f"{value:,.0f}", "soft", "end" if value == last else "middle")
            for value in (1, *ticks(1, last, 5))
            if value == 1 or value > last / 20
        ]
        parts.append(text(50, bottom + 34, self.across, "soft", "middle"))
        return bottom + 42, parts


def _line(series: Series, x: Scale, y: Height) -> Iterator[Markup]:
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

"""Charts with two axes: curves, best score so far, and scatter plots of quality against cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from ragsmith.reporting.charts.shapes import (
    CHART_HEIGHT,
    EDGE_WIDTH,
    LINE_HEIGHT,
    ReferenceLine,
    XScale,
    YScale,
    diamond,
    dot,
    line_segment,
    pad_range,
    spread_out,
    text,
    text_anchor,
    ticks,
)

STEP_PLOT_HEIGHT = 220
"""Height of the plot area in pixels."""
Y_AXIS_WIDTH = 6
"""Percent of the width reserved for the labels of the y axis."""

SCATTER_HEIGHT = 300
"""Height of the plot area in pixels."""
LABEL_WIDTH = 26
"""Maximum width of a label in percent of the chart; closer labels are placed below each other."""
OVERLAP_WIDTH = 1.5
"""Distance in percent of the width below which two points overlap."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve with reference lines on either axis; both axes begin at 0."""

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
        height = top + CHART_HEIGHT + 44
        x, y = XScale(0, widest), YScale(0, highest, top)
        parts = []
        for place, line in enumerate(self.at):
            here = 14 + 20 * place
            parts += [
                line_segment(x(line.value), here + 5, x(line.value), top + CHART_HEIGHT, "limit"),
                text(x(line.value), here, f"{line.name} {line.value:,.0f}", "soft", text_anchor(x(line.value))),
            ]
        for line in self.levels:
            level = y(line.value)
            below = top + CHART_HEIGHT / 2 < level < top + CHART_HEIGHT - 20  # where a falling curve leaves room
            parts += [
                line_segment(EDGE_WIDTH, level, 100 - EDGE_WIDTH, level, "limit"),
                text(
                    100 - EDGE_WIDTH, level + 14 if below else level - 5, f"{line.name} {line.value:.3g}", "soft", "end"
                ),
            ]
        ends = ((0, "start"), (widest / 2, "middle"), (widest, "end"))
        parts += [
            *(line_segment(x(a), y(b), x(c), y(d), "curve") for (a, b), (c, d) in pairwise(self.points)),
            line_segment(EDGE_WIDTH, top + CHART_HEIGHT, 100 - EDGE_WIDTH, top + CHART_HEIGHT, "axis"),
            *(text(x(value), top + CHART_HEIGHT + 17, f"{value:,.0f}", "soft", at) for value, at in ends),
            text(50, height - 6, self.across, "soft", "middle"),
        ]
        return height, parts


@dataclass(frozen=True, slots=True)
class Series:
    """The best value after each trial, None before the first; ``kind`` is a CSS class: one, two or three."""

    name: str
    values: tuple[float | None, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class StepPlot:
    """A step plot of the best value so far, with reference lines at ``levels``."""

    title: str
    series: tuple[Series, ...]
    across: str
    levels: tuple[ReferenceLine, ...] = ()

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """The legend: class and name of each series."""
        return tuple((series.kind, series.name) for series in self.series)

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        known = [value for series in self.series for value in series.values if value is not None]
        least, most = pad_range([*known, *(level.value for level in self.levels)])
        last = max(len(series.values) for series in self.series)
        x, y = XScale(1 - Y_AXIS_WIDTH / 100 * last, last), YScale(least, most, 8, STEP_PLOT_HEIGHT)
        bottom = 8 + STEP_PLOT_HEIGHT
        parts = _grid_lines(y, ticks(least, most, 4))
        heights = spread_out([y(level.value) - 4 for level in self.levels])
        for level, height in zip(self.levels, heights, strict=True):
            parts += [
                line_segment(EDGE_WIDTH, y(level.value), 100 - EDGE_WIDTH, y(level.value), "limit"),
                text(100 - EDGE_WIDTH, height, f"{level.name} {level.value:.3f}", "soft", "end"),
            ]
        marked = (value for value in (1, *ticks(1, last, 5)) if value == 1 or value > last / 20)
        parts += [
            *(mark for series in self.series for mark in _step_line(series, x, y)),
            line_segment(EDGE_WIDTH, bottom, 100 - EDGE_WIDTH, bottom, "axis"),
            *(text(x(v), bottom + 16, f"{v:,.0f}", "soft", "end" if v == last else "middle") for v in marked),
            text(50, bottom + 34, self.across, "soft", "middle"),
        ]
        return bottom + 42, parts


def _step_line(series: Series, x: XScale, y: YScale) -> Iterator[Markup]:
    """Yield the steps of a series, with a mark at each improvement."""
    before: tuple[int, float] | None = None
    for trial, value in enumerate(series.values, 1):
        if value is None or (before is not None and value == before[1]):
            continue
        if before is not None:
            yield line_segment(x(before[0]), y(before[1]), x(trial), y(before[1]), f"curve {series.kind}")
            yield line_segment(x(trial), y(before[1]), x(trial), y(value), f"curve {series.kind}")
        yield dot(x(trial), y(value), f"dot {series.kind}", f"{series.name}: {value:.3f} after {trial:,}", 3)
        before = (trial, value)
    if before is not None:
        yield line_segment(x(before[0]), y(before[1]), x(len(series.values)), y(before[1]), f"curve {series.kind}")


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """A point with cost ``x``, value ``y``, tooltip ``said`` and label ``name``; ``kind`` is a CSS class."""

    x: float
    y: float
    said: str
    name: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ScatterPlot:
    """A scatter plot of value against cost, with the Pareto front as a step line, cheapest first."""

    title: str
    points: tuple[ScatterPoint, ...]
    front: tuple[tuple[float, float], ...]
    across: str
    up: str

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        least, most = pad_range([point.y for point in self.points])
        first, last = pad_range([point.x for point in self.points], 0.04)
        first = min(first, 0.0) if first < 0.25 * last else first
        x, y = XScale(first, last), YScale(least, most, 20, SCATTER_HEIGHT)
        bottom = 20 + SCATTER_HEIGHT
        parts = [text(EDGE_WIDTH, 12, self.up, "soft", "start"), *_grid_lines(y, ticks(least, most, 5))]
        for (a, b), (c, d) in pairwise(self.front):
            parts += [line_segment(x(a), y(b), x(c), y(b), "front"), line_segment(x(c), y(b), x(c), y(d), "front")]
        for point in sorted(self.points, key=lambda point: bool(point.name)):
            mark = diamond if point.kind == "two" else dot
            parts.append(mark(x(point.x), y(point.y), f"dot {point.kind or 'faint'}", point.said))
        parts += [
            *_point_labels([replace(p, x=x(p.x), y=y(p.y)) for p in self.points if p.name]),
            line_segment(EDGE_WIDTH, bottom, 100 - EDGE_WIDTH, bottom, "axis"),
            *(text(x(value), bottom + 16, f"{value:.3g}", "soft", "middle") for value in ticks(first, last, 6)),
            text(50, bottom + 34, self.across, "soft", "middle"),
        ]
        return bottom + 42, parts


def _point_labels(points: Sequence[ScatterPoint]) -> Iterator[Markup]:
    """Yield the labels of the points, moved up or down to avoid overlaps."""
    placed: list[tuple[float, float]] = []
    for point in _merge_overlapping(points):
        left = point.x > 100 - LABEL_WIDTH
        ways = (point.y + 4 + move for far in range(0, SCATTER_HEIGHT, 2) for move in (-far, far))
        y = next(
            y
            for y in ways
            if not any(abs(point.x - x) < LABEL_WIDTH and abs(y - other) < LINE_HEIGHT for x, other in placed)
        )
        placed.append((point.x, y))
        side = -1.2 if left else 1.2
        if abs(y - 4 - point.y) > LINE_HEIGHT:
            yield line_segment(point.x, point.y, point.x + side, y - 4, "leader")
        yield text(point.x + side, y, point.name, "name", "end" if left else "start")


def _merge_overlapping(points: Sequence[ScatterPoint]) -> list[ScatterPoint]:
    """Sort points from top to bottom and merge the labels of overlapping points."""
    found: list[ScatterPoint] = []
    for point in sorted(points, key=lambda point: point.y):
        near = next(
            (one for one in found if abs(one.x - point.x) < OVERLAP_WIDTH and abs(one.y - point.y) < LINE_HEIGHT / 2),
            None,
        )
        if near is None:
            found.append(point)
        else:
            found[found.index(near)] = replace(near, name=f"{near.name}, {point.name}")
    return found


def _grid_lines(y: YScale, values: Sequence[float]) -> list[Markup]:
    """Return a labelled horizontal line at each of ``values``."""
    return [
        mark
        for value in values
        for mark in (
            line_segment(EDGE_WIDTH, y(value), 100 - EDGE_WIDTH, y(value), "guide"),
            text(EDGE_WIDTH, y(value) - 3, f"{value:.3g}", "soft", "start"),
        )
    ]

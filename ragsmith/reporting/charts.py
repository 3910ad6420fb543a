"""Plots that need no script: SVG inside the page, coloured by the page's style, light or dark.

Places across are shares of the width, and heights are pixels: so letters have the same size on a wide screen and on a
narrow one, and a plot never scrolls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

ROW = 38
"""Pixels of a row: its name stands above its mark."""
TALL = 150
"""Pixels of columns and curves."""
EDGE = 4.0
"""Percent of the width that is left free on both sides, so that marks at the ends are whole."""


@dataclass(frozen=True, slots=True)
class Line:
    """A value that others are compared with, and what it is."""

    value: float
    name: str


@dataclass(frozen=True, slots=True)
class Row:
    """A named value, with an interval where ``low`` and ``high`` are known; ``marked`` ones are beyond their limit."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """Named values, one below the other, from 0 to ``most``; ``band`` is where they should be."""

    title: str
    rows: tuple[Row, ...]
    lines: tuple[Line, ...] = ()
    band: tuple[float, float] | None = None
    most: float = 1.0


@dataclass(frozen=True, slots=True)
class Columns:
    """A value for each of ``names`` in their order, and what would be ``expected`` of each, if that is known."""

    title: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    expected: tuple[float, ...] = ()
    across: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of a falling or rising curve, with lines at values of either axis; both axes begin at 0."""

    title: str
    points: tuple[tuple[float, float], ...]
    across: str
    at: tuple[Line, ...] = ()
    levels: tuple[Line, ...] = ()


Chart = Rows | Columns | Curve


def drawn(chart: Chart) -> Markup:
    """A chart as an SVG element; its title is what is read out instead of it."""
    if isinstance(chart, Rows):
        height, parts = _rows(chart)
    elif isinstance(chart, Columns):
        height, parts = _columns(chart)
    else:
        height, parts = _curve(chart)
    inner = Markup("\n").join(parts)
    return Markup('<svg class="chart" role="img" width="100%" height="{}" aria-label="{}">\n{}\n</svg>').format(
        height, chart.title, inner
    )


def _rows(chart: Rows) -> tuple[int, list[Markup]]:
    def x(value: float) -> float:
        return _across(value, chart.most)

    top = 20 * len(chart.lines) + (20 if chart.band else 0) + 6
    height = top + ROW * len(chart.rows) + 24
    bottom = height - 20
    parts = []
    if chart.band:
        low, high = chart.band
        parts += [
            _rect(x(low), top - 4, x(high) - x(low), bottom - top + 4, "band"),
            _text((x(low) + x(high)) / 2, 14, f"{low:.2f} to {high:.2f}", "soft", "middle"),
        ]
    for place, line in enumerate(chart.lines):
        y = 14 + 20 * (place + (1 if chart.band else 0))
        parts += [
            _stroke(x(line.value), y + 5, x(line.value), bottom, "limit"),
            _text(x(line.value), y, f"{line.name} {line.value:.2f}", "soft", _anchor(x(line.value))),
        ]
    parts += list(_axis(bottom, chart.most))
    for place, row in enumerate(chart.rows):
        y = top + ROW * place
        mark = " bad" if row.marked else ""
        parts.append(_text(EDGE, y + 12, f"{row.name}  {row.value:.2f}", "", "start"))
        if row.low is None or row.high is None:
            parts.append(_rect(x(0), y + 18, x(row.value) - x(0), 10, f"bar{mark}"))
        else:
            parts += [
                _stroke(EDGE, y + 23, 100 - EDGE, y + 23, "guide"),
                _stroke(x(row.low), y + 23, x(row.high), y + 23, f"interval{mark}"),
                Markup('<circle class="dot{}" cx="{:.2f}%" cy="{}" r="5"/>').format(mark, x(row.value), y + 23),
            ]
    return height, parts


def _columns(chart: Columns) -> tuple[int, list[Markup]]:
    most = max((*chart.values, *chart.expected, 1e-9))
    wide = (100 - 2 * EDGE) / len(chart.values)
    height = TALL + 44 + (20 if chart.across else 0)
    parts = []
    for place, (name, value) in enumerate(zip(chart.names, chart.values, strict=True)):
        left, tall = EDGE + wide * place, TALL * value / most
        parts.append(_rect(left + 0.08 * wide, 20 + TALL - tall, 0.84 * wide, tall, "bar"))
        if value:
            parts.append(_text(left + wide / 2, 16 + TALL - tall, _short(value), "soft", "middle"))
        parts.append(_text(left + wide / 2, 36 + TALL, name, "soft", "middle"))
    for place, value in enumerate(chart.expected):
        y = 20 + TALL - TALL * value / most
        parts.append(_stroke(EDGE + wide * place, y, EDGE + wide * (place + 1), y, "limit"))
    parts.append(_stroke(EDGE, 20 + TALL, 100 - EDGE, 20 + TALL, "axis"))
    if chart.across:
        parts.append(_text(50, height - 6, chart.across, "soft", "middle"))
    return height, parts


def _curve(chart: Curve) -> tuple[int, list[Markup]]:
    widest = max((*(x for x, _ in chart.points), *(line.value for line in chart.at)))
    highest = max((*(y for _, y in chart.points), *(line.value for line in chart.levels)))
    top = 8 + 20 * len(chart.at)
    height = top + TALL + 44

    def x(value: float) -> float:
        return _across(value, widest)

    def y(value: float) -> float:
        return top + TALL - TALL * value / highest

    parts = []
    for place, line in enumerate(chart.at):
        here = 14 + 20 * place
        parts += [
            _stroke(x(line.value), here + 5, x(line.value), top + TALL, "limit"),
            _text(x(line.value), here, f"{line.name} {line.value:,.0f}", "soft", _anchor(x(line.value))),
        ]
    for line in chart.levels:
        level = y(line.value)
        below = top + TALL / 2 < level < top + TALL - 20  # where a falling curve is not
        parts += [
            _stroke(EDGE, level, 100 - EDGE, level, "limit"),
            _text(100 - EDGE, level + 14 if below else level - 5, f"{line.name} {line.value:.3g}", "soft", "end"),
        ]
    parts += [_stroke(x(a), y(b), x(c), y(d), "curve") for (a, b), (c, d) in pairwise(chart.points)]
    parts.append(_stroke(EDGE, top + TALL, 100 - EDGE, top + TALL, "axis"))
    for share in (0, 0.5, 1):
        parts.append(_text(x(share * widest), top + TALL + 17, f"{share * widest:,.0f}", "soft", _end(share)))
    parts.append(_text(50, height - 6, chart.across, "soft", "middle"))
    return height, parts


def _axis(bottom: float, most: float) -> Iterator[Markup]:
    yield _stroke(EDGE, bottom, 100 - EDGE, bottom, "axis")
    for share in (0, 0.5, 1):
        yield _text(_across(share, 1), bottom + 16, f"{share * most:.3g}", "soft", _end(share))


def _across(value: float, most: float) -> float:
    return EDGE + (100 - 2 * EDGE) * min(1.0, max(0.0, value / most))


def _anchor(x: float) -> str:
    """Letters stay inside: at the right they end where they would begin at the left."""
    return "start" if x < 50 else "end"


def _end(share: float) -> str:
    return "start" if share == 0 else "end" if share == 1 else "middle"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"


def _rect(x: float, y: float, width: float, height: float, css: str) -> Markup:
    return Markup('<rect class="{}" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}"/>').format(
        css, x, y, max(0.0, width), max(0.0, height)
    )


def _stroke(x1: float, y1: float, x2: float, y2: float, css: str) -> Markup:
    return Markup('<line class="{}" x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}"/>').format(css, x1, y1, x2, y2)


def _text(x: float, y: float, said: str, css: str, anchor: str) -> Markup:
    return Markup('<text class="{}" x="{:.2f}%" y="{:.1f}" text-anchor="{}">{}</text>').format(
        css, x, y, anchor, escape(said)
    )


def histogram(values: Sequence[float], bins: int) -> tuple[int, ...]:
    """How many of ``values``, each from 0 to 1, lie in each of ``bins`` equal parts; 1 lies in the last."""
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int(value * bins))] += 1
    return tuple(counts)

"""Charts of named values: forest plots, dot plots and column charts."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ragsmith.reporting.charts.shapes import (
    CHART_HEIGHT,
    EDGE_WIDTH,
    ReferenceLine,
    XScale,
    axis,
    diamond,
    dot,
    line_segment,
    rect,
    text,
    text_anchor,
)

ROW_HEIGHT = 38
"""Height of a row of a forest plot in pixels; its name is above its mark."""
MAX_LABEL_LENGTH = 44
"""Maximum length in characters of a label on a narrow screen; longer rows have the value on a second line."""

DOT_ROW_HEIGHT = 40
"""Height of a row of a dot plot in pixels; its name is above its marks."""


@dataclass(frozen=True, slots=True)
class ForestRow:
    """A named value with an optional interval from ``low`` to ``high``; ``marked`` values are outside their limit.

    ``said`` replaces the value in the label, and ``kind`` is a CSS class: better, worse or open.
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    marked: bool = False
    said: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ForestPlot:
    """A forest plot from ``least`` to ``most``; ``band`` is the target range, ``ends`` label both directions."""

    title: str
    rows: tuple[ForestRow, ...]
    lines: tuple[ReferenceLine, ...] = ()
    band: tuple[float, float] | None = None
    most: float = 1.0
    least: float = 0.0
    ends: tuple[str, str] | None = None

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        x = XScale(self.least, self.most)
        top = 20 * len(self.lines) + (20 if self.band or self.ends else 0) + 6
        tall = ROW_HEIGHT + 16 * self._two_lines
        height = top + tall * len(self.rows) + 24
        bottom = height - 20
        parts: list[Markup] = []
        if self.band:
            low, high = self.band
            parts += [
                rect(x(low), top - 4, x(high) - x(low), bottom - top + 4, "band"),
                text((x(low) + x(high)) / 2, 14, f"{low:.2f} to {high:.2f}", "soft", "middle"),
            ]
        if self.ends:
            zero = x(0)
            parts += [
                text(zero - 1.5, 14, f"← {self.ends[0]}", "soft", "end"),
                text(zero + 1.5, 14, f"{self.ends[1]} →", "soft", "start"),
                line_segment(zero, 4, zero, 18, "zero"),
            ]
        for place, line in enumerate(self.lines):
            y = 14 + 20 * (place + (1 if self.band else 0))
            parts += [
                line_segment(x(line.value), y + 5, x(line.value), bottom, "limit"),
                text(x(line.value), y, f"{line.name} {line.value:.2f}", "soft", text_anchor(x(line.value))),
            ]
        parts += axis(bottom, x, signed=self.ends is not None)
        for place, row in enumerate(self.rows):
            parts += self._row(row, top + tall * place, x)
        return height, parts

    @property
    def _two_lines(self) -> bool:
        return any(len(f"{row.name}  {row.said}") > MAX_LABEL_LENGTH for row in self.rows)

    def _row(self, row: ForestRow, y: float, x: XScale) -> list[Markup]:
        css = "".join(f" {name}" for name in ("bad" if row.marked else "", row.kind) if name)
        value = row.said or f"{row.value:.2f}"
        named = text(EDGE_WIDTH, y + 12, row.name if self._two_lines else f"{row.name}  {value}", "", "start")
        if self._two_lines:
            named += text(EDGE_WIDTH, y + 27, value, "soft", "start")
            y += 16
        if self.ends:  # only at the height of the marks: the line would cross out the text
            named += line_segment(x(0), y + 17, x(0), y + 32, "zero")
        said = f"{row.name}: {value}"
        if row.low is None or row.high is None:
            if self.least < 0:
                return [named, _guide(y), dot(x(row.value), y + 23, f"dot{css}", said)]
            return [named, rect(x(0), y + 18, x(row.value) - x(0), 10, f"bar{css}", said)]
        return [
            named,
            _guide(y),
            line_segment(x(row.low), y + 23, x(row.high), y + 23, f"interval{css}"),
            dot(x(row.value), y + 23, f"dot{css}", said),
        ]


def _guide(y: float) -> Markup:
    return line_segment(EDGE_WIDTH, y + 23, 100 - EDGE_WIDTH, y + 23, "guide")


@dataclass(frozen=True, slots=True)
class DotMark:
    """A value with its tooltip ``said``; the CSS class ``kind`` identifies its series."""

    kind: str
    value: float
    said: str


@dataclass(frozen=True, slots=True)
class DotPlot:
    """A dot plot from 0 to ``most``: named rows with one mark per series; ``keys`` is the legend (class, name)."""

    title: str
    rows: tuple[tuple[str, tuple[DotMark, ...]], ...]
    keys: tuple[tuple[str, str], ...]
    most: float = 1.0

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        x = XScale(0, self.most)
        height = 6 + DOT_ROW_HEIGHT * len(self.rows) + 24
        parts: list[Markup] = []
        for place, (name, marks) in enumerate(self.rows):
            y = 6 + DOT_ROW_HEIGHT * place
            values = [mark.value for mark in marks]
            parts += [
                text(EDGE_WIDTH, y + 12, name, "", "start"),
                line_segment(EDGE_WIDTH, y + 25, 100 - EDGE_WIDTH, y + 25, "guide"),
                line_segment(x(min(values)), y + 25, x(max(values)), y + 25, "span"),
                # the first is drawn last, and so on top
                *(
                    (diamond if m.kind == "two" else dot)(x(m.value), y + 25, f"dot {m.kind}", m.said)
                    for m in marks[::-1]
                ),
            ]
        parts += axis(height - 20, x)
        return height, parts


@dataclass(frozen=True, slots=True)
class Columns:
    """A column chart of a value per name, with lines at the ``expected`` values if there are any."""

    title: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    expected: tuple[float, ...] = ()
    across: str = ""

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        most = max((*self.values, *self.expected, 1e-9))
        wide = (100 - 2 * EDGE_WIDTH) / len(self.values)
        height = CHART_HEIGHT + 44 + (20 if self.across else 0)
        parts = []
        for place, (name, value) in enumerate(zip(self.names, self.values, strict=True)):
            left, tall = EDGE_WIDTH + wide * place, CHART_HEIGHT * value / most
            said = f"{name}: {_format_value(value)}"
            parts.append(rect(left + 0.08 * wide, 20 + CHART_HEIGHT - tall, 0.84 * wide, tall, "bar", said))
            if value:
                parts.append(text(left + wide / 2, 16 + CHART_HEIGHT - tall, _format_value(value), "soft", "middle"))
            parts.append(text(left + wide / 2, 36 + CHART_HEIGHT, name, "soft", "middle"))
        for place, value in enumerate(self.expected):
            y = 20 + CHART_HEIGHT - CHART_HEIGHT * value / most
            parts.append(line_segment(EDGE_WIDTH + wide * place, y, EDGE_WIDTH + wide * (place + 1), y, "limit"))
        title = [text(50, height - 6, self.across, "soft", "middle")] if self.across else []
        return height, [
            *parts,
            line_segment(EDGE_WIDTH, 20 + CHART_HEIGHT, 100 - EDGE_WIDTH, 20 + CHART_HEIGHT, "axis"),
            *title,
        ]


def _format_value(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"


def histogram(values: Sequence[float], bins: int) -> tuple[int, ...]:
    """Count ``values`` in [0, 1] in ``bins`` equal bins; the last includes 1."""
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int(value * bins))] += 1
    return tuple(counts)

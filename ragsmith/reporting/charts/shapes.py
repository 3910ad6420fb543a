"""SVG elements of charts: x in percent of the width, y in pixels.

Text therefore has the same size on every screen, and charts fit the width without scrolling. CSS classes say what a
mark represents; ``chart.css`` has the colours for light, dark and printed pages.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

EDGE_WIDTH = 4.0
"""Margin on both sides in percent of the width, so that marks at the ends are not cut off."""
CHART_HEIGHT = 150
"""Height of columns and curves in pixels."""
LINE_HEIGHT = 14
"""Line height of text in pixels."""


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A named reference value."""

    value: float
    name: str


@dataclass(frozen=True, slots=True)
class XScale:
    """Linear scale from ``low`` to ``high`` over the width of the chart."""

    low: float
    high: float

    def __call__(self, value: float) -> float:
        """Return the position in percent of the width, clipped to the ends."""
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.5
        return EDGE_WIDTH + (100 - 2 * EDGE_WIDTH) * min(1.0, max(0.0, share))


@dataclass(frozen=True, slots=True)
class YScale:
    """Linear scale from ``low`` at the bottom to ``high`` at the y position ``top``, ``height`` pixels above."""

    low: float
    high: float
    top: float
    height: float = CHART_HEIGHT

    def __call__(self, value: float) -> float:
        """Return the distance from the upper edge in pixels."""
        span = self.high - self.low
        return self.top + self.height * (1 - ((value - self.low) / span if span else 0.5))


def rect(x: float, y: float, width: float, height: float, css: str, tooltip: str = "") -> Markup:
    """Return a rectangle with the text ``tooltip`` as its tooltip."""
    return Markup('<rect class="{}" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}"{}').format(
        css, x, y, max(0.0, width), max(0.0, height), _end_tag("rect", tooltip)
    )


def line_segment(x1: float, y1: float, x2: float, y2: float, css: str) -> Markup:
    """Return a straight line."""
    return Markup('<line class="{}" x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}"/>').format(css, x1, y1, x2, y2)


def text(x: float, y: float, content: str, css: str, anchor: str) -> Markup:
    """Return a text element; ``anchor`` is start, middle or end."""
    return Markup('<text class="{}" x="{:.2f}%" y="{:.1f}" text-anchor="{}">{}</text>').format(
        css, x, y, anchor, escape(content)
    )


def dot(x: float, y: float, css: str, tooltip: str = "", radius: float = 5) -> Markup:
    """Return a circle with the text ``tooltip`` as its tooltip."""
    return Markup('<circle class="{}" cx="{:.2f}%" cy="{:.1f}" r="{:g}"{}').format(
        css, x, y, radius, _end_tag("circle", tooltip)
    )


def diamond(x: float, y: float, css: str, tooltip: str = "") -> Markup:
    """Return a square, rotated by CSS, which is distinguishable from a circle without colour."""
    return Markup('<rect class="diamond {}" x="{:.2f}%" y="{:.1f}" width="9" height="9"{}').format(
        css, x, y, _end_tag("rect", tooltip)
    )


def _end_tag(tag: str, tooltip: str) -> Markup:
    return Markup("><title>{}</title></{}>").format(tooltip, tag) if tooltip else Markup("/>")


def text_anchor(x: float) -> str:
    """Return the text anchor that keeps a label at ``x`` percent inside the chart."""
    return "start" if x < 50 else "end"


def axis(bottom: float, scale: XScale, *, signed: bool = False) -> Iterator[Markup]:
    """Yield the x axis with its tick labels; ``signed`` labels have a sign."""
    yield line_segment(EDGE_WIDTH, bottom, 100 - EDGE_WIDTH, bottom, "axis")
    marked = ticks(scale.low, scale.high, 5) if scale.low else (0.0, scale.high / 2, scale.high)
    for value in marked:
        here = scale(value)
        at = "start" if here < EDGE_WIDTH + 2 else "end" if here > 98 - EDGE_WIDTH else "middle"
        yield text(
            here, bottom + 16, f"{value:+.3g}".replace("-", "−") if signed and value else f"{value:.3g}", "soft", at
        )


def ticks(least: float, most: float, count: int) -> tuple[float, ...]:
    """Return about ``count`` ticks from ``least`` to ``most``: multiples of 1, 2 or 5 times a power of ten."""
    if most <= least:
        return (least,)
    rough = (most - least) / count
    size = 10 ** math.floor(math.log10(rough))
    step = next((m * size for m in (1, 2, 5) if m * size >= rough), 10 * size)
    first, last = math.ceil(least / step - 1e-9), math.floor(most / step + 1e-9)
    return tuple(round(step * place, 10) + 0.0 for place in range(first, last + 1))


def spread_out(heights: Sequence[float], min_distance: float = LINE_HEIGHT) -> tuple[float, ...]:
    """Return ``heights``, moved apart to a distance of at least ``min_distance`` pixels, in the same order."""
    found = [0.0] * len(heights)
    before: float | None = None
    for place in sorted(range(len(heights)), key=lambda place: heights[place]):
        found[place] = heights[place] if before is None else max(heights[place], before + min_distance)
        before = found[place]
    shift = sum(found) / len(found) - sum(heights) / len(heights) if found else 0.0
    return tuple(height - shift for height in found)


def pad_range(values: Iterable[float], share: float = 0.08) -> tuple[float, float]:
    """Return the range of ``values``, padded by a ``share`` of it, or by 0.05 if all values are equal."""
    held = list(values)
    least, most = min(held), max(held)
    pad = share * (most - least) or 0.05
    return least - pad, most + pad

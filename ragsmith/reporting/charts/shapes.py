"""What charts are drawn with: SVG elements, placed by shares of the width and by pixels of the height.

So letters have the same size on a wide screen and on a narrow one, and a chart never scrolls. Classes name what a mark
is; how it looks, light, dark or printed, is in ``chart.css``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

EDGE = 4.0
"""Percent of the width that is left free on both sides, so that marks at the ends are whole."""
TALL = 150
"""Pixels of columns and curves."""
LETTERS = 14
"""Pixels from one line of letters to the next."""


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A value that others are compared with, and what it is."""

    value: float
    name: str


@dataclass(frozen=True, slots=True)
class XScale:
    """Values from ``least`` to ``most`` across the width."""

    least: float
    most: float

    def __call__(self, value: float) -> float:
        """Percent of the width; values beyond an end are drawn at the end."""
        wide = self.most - self.least
        share = (value - self.least) / wide if wide else 0.5
        return EDGE + (100 - 2 * EDGE) * min(1.0, max(0.0, share))


@dataclass(frozen=True, slots=True)
class YScale:
    """Values from ``least`` at the bottom to ``most`` at the ``top``, ``tall`` pixels above it."""

    least: float
    most: float
    top: float
    tall: float = TALL

    def __call__(self, value: float) -> float:
        """Pixels from the upper edge."""
        high = self.most - self.least
        return self.top + self.tall * (1 - ((value - self.least) / high if high else 0.5))


def rect(x: float, y: float, width: float, height: float, css: str, said: str = "") -> Markup:
    """A rectangle; ``said`` is its tooltip."""
    return Markup('<rect class="{}" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}"{}').format(
        css, x, y, max(0.0, width), max(0.0, height), _ended("rect", said)
    )


def stroke(x1: float, y1: float, x2: float, y2: float, css: str) -> Markup:
    """A straight line."""
    return Markup('<line class="{}" x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}"/>').format(css, x1, y1, x2, y2)


def text(x: float, y: float, said: str, css: str, anchor: str) -> Markup:
    """Letters; ``anchor`` is start, middle or end."""
    return Markup('<text class="{}" x="{:.2f}%" y="{:.1f}" text-anchor="{}">{}</text>').format(
        css, x, y, anchor, escape(said)
    )


def dot(x: float, y: float, css: str, said: str = "", radius: float = 5) -> Markup:
    """A round mark."""
    return Markup('<circle class="{}" cx="{:.2f}%" cy="{:.1f}" r="{:g}"{}').format(
        css, x, y, radius, _ended("circle", said)
    )


def diamond(x: float, y: float, css: str, said: str = "") -> Markup:
    """A mark that differs from a round one without colour: a square, rotated by the style."""
    return Markup('<rect class="diamond {}" x="{:.2f}%" y="{:.1f}" width="9" height="9"{}').format(
        css, x, y, _ended("rect", said)
    )


def _ended(tag: str, said: str) -> Markup:
    return Markup("><title>{}</title></{}>").format(said, tag) if said else Markup("/>")


def anchor(x: float) -> str:
    """Letters stay inside: at the right they end where they would begin at the left."""
    return "start" if x < 50 else "end"


def axis(bottom: float, scale: XScale, *, signed: bool = False) -> Iterator[Markup]:
    """A line below everything, and values at it."""
    yield stroke(EDGE, bottom, 100 - EDGE, bottom, "axis")
    marked = ticks(scale.least, scale.most, 4) if scale.least else (0.0, scale.most / 2, scale.most)
    for value in marked:
        here = scale(value)
        at = "start" if here < EDGE + 2 else "end" if here > 98 - EDGE else "middle"
        yield text(
            here, bottom + 16, f"{value:+.3g}".replace("-", "−") if signed and value else f"{value:.3g}", "soft", at
        )


def ticks(least: float, most: float, count: int) -> tuple[float, ...]:
    """About ``count`` round values from ``least`` to ``most``: multiples of 1, 2 or 5 times a power of ten."""
    if most <= least:
        return (least,)
    rough = (most - least) / count
    size = 10 ** math.floor(math.log10(rough))
    step = next((m * size for m in (1, 2, 5) if m * size >= rough), 10 * size)
    first, last = math.ceil(least / step - 1e-9), math.floor(most / step + 1e-9)
    return tuple(round(step * place, 10) + 0.0 for place in range(first, last + 1))


def apart(wanted: Sequence[float], least: float = LETTERS) -> tuple[float, ...]:
    """Heights near those that are ``wanted``, no two of which are closer than ``least``; in the order given."""
    found = [0.0] * len(wanted)
    before: float | None = None
    for place in sorted(range(len(wanted)), key=lambda place: wanted[place]):
        found[place] = wanted[place] if before is None else max(wanted[place], before + least)
        before = found[place]
    shift = sum(found) / len(found) - sum(wanted) / len(wanted) if found else 0.0
    return tuple(height - shift for height in found)


def padded(values: Iterable[float], share: float = 0.08) -> tuple[float, float]:
    """The range of ``values`` and a little more; of a single value, a little on both sides."""
    held = list(values)
    least, most = min(held), max(held)
    pad = share * (most - least) or 0.05
    return least - pad, most + pad

"""A value for each of some names, as columns side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ragsmith.reporting.charts.shapes import EDGE, TALL, rect, stroke, text


@dataclass(frozen=True, slots=True)
class Columns:
    """A value for each of ``names`` in their order, and what would be ``expected`` of each, if that is known."""

    title: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    expected: tuple[float, ...] = ()
    across: str = ""

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        most = max((*self.values, *self.expected, 1e-9))
        wide = (100 - 2 * EDGE) / len(self.values)
        height = TALL + 44 + (20 if self.across else 0)
        parts = []
        for place, (name, value) in enumerate(zip(self.names, self.values, strict=True)):
            left, tall = EDGE + wide * place, TALL * value / most
            said = f"{name}: {_short(value)}"
            parts.append(rect(left + 0.08 * wide, 20 + TALL - tall, 0.84 * wide, tall, "bar", said))
            if value:
                parts.append(text(left + wide / 2, 16 + TALL - tall, _short(value), "soft", "middle"))
            parts.append(text(left + wide / 2, 36 + TALL, name, "soft", "middle"))
        for place, value in enumerate(self.expected):
            y = 20 + TALL - TALL * value / most
            parts.append(stroke(EDGE + wide * place, y, EDGE + wide * (place + 1), y, "limit"))
        parts.append(stroke(EDGE, 20 + TALL, 100 - EDGE, 20 + TALL, "axis"))
        if self.across:
            parts.append(text(50, height - 6, self.across, "soft", "middle"))
        return height, parts


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"


def histogram(values: Sequence[float], bins: int) -> tuple[int, ...]:
    """How many of ``values``, each from 0 to 1, lie in each of ``bins`` equal parts; 1 lies in the last."""
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int(value * bins))] += 1
    return tuple(counts)

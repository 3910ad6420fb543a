"""One falling or rising curve, and the values at which something is read off it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from ragsmith.reporting.charts.shapes import EDGE, TALL, Height, Line, Scale, anchor, stroke, text


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of a curve, with lines at values of either axis; both axes begin at 0."""

    title: str
    points: tuple[tuple[float, float], ...]
    across: str
    at: tuple[Line, ...] = ()
    levels: tuple[Line, ...] = ()

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        widest = max((*(x for x, _ in self.points), *(line.value for line in self.at)))
        highest = max((*(y for _, y in self.points), *(line.value for line in self.levels)))
        top = 8 + 20 * len(self.at)
        height = top + TALL + 44
        x, y = Scale(0, widest), Height(0, highest, top)
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
        parts += [stroke(x(a), y(b), x(c), y(d), "curve") for (a, b), (c, d) in pairwise(self.points)]
        parts.append(stroke(EDGE, top + TALL, 100 - EDGE, top + TALL, "axis"))
        for share, at in ((0, "start"), (0.5, "middle"), (1, "end")):
            parts.append(text(x(share * widest), top + TALL + 17, f"{share * widest:,.0f}", "soft", at))
        parts.append(text(50, height - 6, self.across, "soft", "middle"))
        return height, parts

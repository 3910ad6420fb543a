"""Several values of each of some names on one line, so that they can be compared: a dot plot."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from ragsmith.reporting.charts.shapes import EDGE, Scale, axis, diamond, dot, stroke, text

ROW = 40
"""Pixels of a row: its name stands above its marks."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A value; ``kind`` is a class of the style, and says whose it is."""

    kind: str
    value: float
    said: str


@dataclass(frozen=True, slots=True)
class Dots:
    """Rows by name, each with its marks, from 0 to ``most``; the ``keys`` say what each class of marks is."""

    title: str
    rows: tuple[tuple[str, tuple[Mark, ...]], ...]
    keys: tuple[tuple[str, str], ...]
    most: float = 1.0

    @property
    def drawing(self) -> tuple[float, list[Markup]]:
        """The height in pixels, and the marks."""
        x = Scale(0, self.most)
        height = 6 + ROW * len(self.rows) + 24
        parts: list[Markup] = []
        for place, (name, marks) in enumerate(self.rows):
            y = 6 + ROW * place
            values = [mark.value for mark in marks]
            parts += [
                text(EDGE, y + 12, name, "", "start"),
                stroke(EDGE, y + 25, 100 - EDGE, y + 25, "guide"),
                stroke(x(min(values)), y + 25, x(max(values)), y + 25, "span"),
            ]
            # the first is drawn last, and so on top
            parts += [
                (diamond if m.kind == "two" else dot)(x(m.value), y + 25, f"dot {m.kind}", m.said) for m in marks[::-1]
            ]
        parts += axis(height - 20, x)
        return height, parts

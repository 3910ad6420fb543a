"""How cost grows, drawn and in tables: docs/growth.svg, and the tables within docs/performance.md.

Both are made of docs/growth.json, which the benchmarks of growth write; `python tools/documentation.py` makes them with
the other generated pages, and checks with ``--check`` that they are fresh. The picture is small multiples with
logarithms on both axes, so that what grows in proportion is a straight line, parallel to the dotted one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from ragsmith.reporting.charts.shapes import spread_out

Figure = dict[str, Any]
"""What grows (``of``), what was measured (``part``), how large it was (``size``), values by name, and what on."""

Points = tuple[tuple[float, float], ...]

WIDTH, COLUMNS = 800, 2
LEFT, PLOT, HIGH, TOP, ROOM = 58, 188, 172, 26, 48
"""Pixels of a panel: left of the plot, its width and height, above it and below it. Right of it are names."""
HEAD, PANEL = 46, TOP + HIGH + ROOM
INKS = ("#0b5394", "#a34700", "#04663f", "#a8181b", "#5b21b6", "#0b6477", "#9d174d", "#444444", "#6b4a00")
"""Colours of lines and their names, each with a contrast to white of 6 and more."""
SMALL = 5
"""Milliseconds below which a step of a data set is not drawn: the clock does not tell them apart."""


@dataclass(frozen=True)
class Line:
    """Values at sizes, and what they are of."""

    name: str
    points: Points


@dataclass(frozen=True)
class Panel:
    """Lines of one unit over sizes of one kind; beside them, dotted, what ``slope`` on logarithms would be."""

    title: str
    across: str
    up: str
    lines: tuple[Line, ...]
    slope: int = 1


def panels(figures: Sequence[Figure]) -> list[Panel]:
    """What is drawn, as far as it was measured."""

    def lines(of: str, value: Callable[[dict[str, float]], float | None]) -> tuple[Line, ...]:
        parts = dict.fromkeys(one["part"] for one in figures if one["of"] == of)
        return _drawable((part, _points(figures, of, part, value)) for part in parts)

    def named(of: str, part: str, names: Iterable[str]) -> tuple[Line, ...]:
        return _drawable((name, _points(figures, of, part, lambda found, name=name: found.get(name))) for name in names)

    steps = dict.fromkeys(name for one in figures if one["of"] == "documents" for name in one["measured"])
    clock = _drawable(
        (said, _points(figures, "workers", "default search", lambda found, name=name: found.get(name)))
        for said, name in (("CPU", "seconds"), ("of the clock", "wall"))
    )
    drawn = [
        Panel("To build an index", "chunks", "CPU seconds", lines("chunks", lambda found: found.get("seconds"))),
        Panel("To answer a query", "chunks", "milliseconds", lines("chunks", lambda found: found.get("ms"))),
        Panel(
            "To read and divide a data set",
            "documents",
            "CPU seconds",
            named("documents", "documents", [name for name in steps if name not in {"chunks", "MiB", "limit"}]),
        ),
        Panel("A search", "questions", "CPU seconds", lines("questions", lambda found: found.get("seconds"))),
        Panel("A search: its largest process", "questions", "MiB", lines("questions", _largest)),
        Panel(
            "Retrieval alone, 12 questions",
            "pipelines",
            "CPU seconds",
            lines("pipelines", lambda found: found.get("seconds")),
        ),
        Panel("The same: its largest process", "pipelines", "MiB", lines("pipelines", _largest)),
        Panel("Default search, two cores", "workers", "seconds", clock, slope=-1),
    ]
    return [panel for panel in drawn if panel.lines]


def _largest(found: dict[str, float]) -> float | None:
    return max((found[name] for name in ("parent MiB", "worker MiB") if name in found), default=None)


def _points(figures: Iterable[Figure], of: str, part: str, value: Callable[[dict[str, float]], float | None]) -> Points:
    """Sizes and values, those that were measured and are no smaller than what can be."""
    of_it = sorted((one for one in figures if (one["of"], one["part"]) == (of, part)), key=lambda one: one["size"])
    found = ((one["size"], value(one["measured"])) for one in of_it)
    least = SMALL / 1000 if of == "documents" else 0
    return tuple((size, held) for size, held in found if held is not None and held > least)


def _drawable(lines: Iterable[tuple[str, Points]]) -> tuple[Line, ...]:
    return tuple(Line(name, points) for name, points in lines if len(points) > 1)


def drawing(drawn: Sequence[Panel]) -> str:
    """The picture as SVG that stands alone, on white."""
    height = HEAD + PANEL * math.ceil(len(drawn) / COLUMNS)
    parts = [
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
        ).format(w=WIDTH, h=height)
        + Markup('aria-labelledby="title desc" font-family="Helvetica, Arial, sans-serif" font-size="12">'),
        Markup('<title id="title">How the cost of ragsmith grows</title>'),
        Markup('<desc id="desc">{}</desc>').format(" ".join(map(_said, drawn))),
        Markup('<rect width="{}" height="{}" fill="#ffffff"/>').format(WIDTH, height),
        _text(LEFT, 20, "Logarithms on both axes.", "start"),
        Markup('<line x1="{}" y1="16" x2="{}" y2="16" {}/>').format(LEFT + 150, LEFT + 186, _DOTTED),
        _text(LEFT + 194, 20, "in proportion to what grows; of workers, as much faster as there are more", "start"),
    ]
    for place, panel in enumerate(drawn):
        down, right = divmod(place, COLUMNS)
        parts.append(Markup('<g transform="translate({},{})">').format(right * WIDTH // COLUMNS, HEAD + down * PANEL))
        parts += _panel(panel)
        parts.append(Markup("</g>"))
    return "\n".join([*parts, "</svg>", ""])


_DOTTED = Markup('stroke="#444444" stroke-width="1.5" stroke-dasharray="1.5 4" stroke-linecap="round"')


class Axis:
    """Values on a logarithmic scale of so many pixels, ``start`` to ``end``."""

    def __init__(self, values: Iterable[float], start: float, end: float, pad: float) -> None:
        held = [math.log10(value) for value in values]
        room = max(pad * (max(held) - min(held)), 0.06)
        self.least, self.most = min(held) - room, max(held) + room
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        """Pixels."""
        share = (math.log10(value) - self.least) / (self.most - self.least)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Powers of ten; where there are fewer than three, round values between them as well."""
        powers = range(math.floor(self.least), math.ceil(self.most) + 1)
        for steps in ((1,), (1, 2, 5), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)):
            found = [step * 10.0**power for power in powers for step in steps]
            inside = [value for value in found if self.least <= math.log10(value) <= self.most]
            if len(inside) > 2:
                break
        return inside


def _panel(panel: Panel) -> Iterator[Markup]:
    sizes = sorted({x for line in panel.lines for x, _ in line.points})
    values = [y for line in panel.lines for _, y in line.points]
    x, y = Axis(sizes, LEFT, LEFT + PLOT, 0.04), Axis(values, TOP + HIGH, TOP, 0.08)
    yield Markup('<text x="{}" y="14" font-size="13" font-weight="bold" fill="#111111">{}</text>').format(
        LEFT, escape(panel.title)
    )
    for value in y.ticks():
        yield _stroke(LEFT, y(value), LEFT + PLOT, y(value), "#d5d5d5", 1)
        yield _text(LEFT - 6, y(value) + 4, f"{value:,g}", "end")
    for size in sizes if len(sizes) < 5 else x.ticks():
        yield _stroke(x(size), TOP + HIGH, x(size), TOP + HIGH + 4, "#444444", 1)
        yield _text(x(size), TOP + HIGH + 17, f"{size:,g}", "middle")
    yield _stroke(LEFT, TOP + HIGH, LEFT + PLOT, TOP + HIGH, "#444444", 1)
    yield _text(LEFT + PLOT / 2, TOP + HIGH + 34, panel.across, "middle")
    yield Markup('<text transform="translate(14,{}) rotate(-90)" text-anchor="middle" fill="#111111">{}</text>').format(
        TOP + HIGH / 2, escape(panel.up)
    )
    yield _proportional(panel, x, y)
    heights = spread_out([y(line.points[-1][1]) + 4 for line in panel.lines], 13)
    for line, ink, height in zip(panel.lines, INKS, heights, strict=False):
        path = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in line.points)
        yield Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>').format(path, ink)
        for size, value in line.points:
            said = f"{line.name}, {size:,g} {panel.across}: {value:,.3g} {panel.up}"
            yield Markup('<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"><title>{}</title></circle>').format(
                x(size), y(value), ink, said
            )
        last, level = line.points[-1]
        yield _stroke(x(last) + 4, y(level), LEFT + PLOT + 6, height - 4, ink, 0.7)
        yield _text(LEFT + PLOT + 9, height, line.name, "start", ink)


def _proportional(panel: Panel, x: Axis, y: Axis) -> Markup:
    """A dotted line of the panel's slope through the middle of what there is, as far as it lies inside."""
    middle = (x.least + x.most) / 2, (y.least + y.most) / 2
    reach = min(x.most - middle[0], y.most - middle[1])
    ends = [(10 ** (middle[0] + way * reach), 10 ** (middle[1] + way * panel.slope * reach)) for way in (-1, 1)]
    (x1, y1), (x2, y2) = ((x(size), y(value)) for size, value in ends)
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" {}/>').format(x1, y1, x2, y2, _DOTTED)


def _stroke(x1: float, y1: float, x2: float, y2: float, ink: str, width: float) -> Markup:
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{}"/>').format(
        x1, y1, x2, y2, ink, width
    )


def _text(x: float, y: float, said: str, anchor: str, ink: str = "#111111") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}">{}</text>').format(
        x, y, anchor, ink, escape(said)
    )


def _said(panel: Panel) -> str:
    """A panel in words, for those who do not see it."""
    ends = [(line.name, *line.points[0], *line.points[-1]) for line in panel.lines]
    said = [f"{name} {low:,.3g} at {least:,g} and {high:,.3g} at {most:,g}" for name, least, low, most, high in ends]
    return f"{panel.title}, {panel.up} by {panel.across}: {'; '.join(said)}."


def chunks_table(figures: Sequence[Figure]) -> list[list[str]]:
    """A row for each retriever, the head first."""
    found = _by_part(figures, "chunks")
    sizes = sorted({size for held in found.values() for size in held})
    head = ["retriever", *(f"build at {n:,}, s" for n in sizes), "ratio", "of it its own, s"]
    rows = [[*head, *(f"ms a query at {n:,}" for n in sizes), "peak, MiB"]]
    for part, held in sorted(found.items(), key=lambda item: item[1].get(sizes[-1], {}).get("seconds", math.inf)):
        last = held.get(sizes[-1], {})
        row = [part, *_grown([held.get(size, {}) for size in sizes], "seconds")]
        row += [_cell(last.get("own"), 1), *(_cell(held.get(size, {}).get("ms"), 1) for size in sizes)]
        rows.append([*row, _cell(last.get("MiB"))])
    return rows


def documents_table(figures: Sequence[Figure]) -> list[list[str]]:
    """A row for each step, the head first."""
    held = dict(sorted(_by_part(figures, "documents").get("documents", {}).items()))
    rows = [["CPU s", *(f"{size:,} documents" for size in held), "ratio"]]
    for name in dict.fromkeys(name for measured in held.values() for name in measured):
        if name in {"chunks", "MiB"}:
            shown = "peak, MiB" if name == "MiB" else name
            rows.append([shown, *(_cell(measured.get(name)) for measured in held.values()), ""])
        else:
            rows.append([name, *_grown(list(held.values()), name)])
    return rows


def searches_table(figures: Sequence[Figure], of: str) -> list[list[str]]:
    """A row for each search and size, the head first: what it takes, in all and for each."""
    each = {"questions": "ms a question", "pipelines": "ms a pipeline"}.get(of, "")
    rows = [["search", of, "CPU s", *([f"CPU {each}"] if each else []), "s of the clock", "parent, MiB", "worker, MiB"]]
    for part, held in _by_part(figures, of).items():
        for size, found in sorted(held.items()):
            cells = [part, f"{size:,}", _cell(found.get("seconds"), 1)]
            if each:
                cells.append(_cell(1000 * found["seconds"] / size))
            rows.append([*cells, *(_cell(found.get(name), n) for name, n in _BESIDE)])
    return rows


_BESIDE = (("wall", 1), ("parent MiB", 0), ("worker MiB", 0))
TABLES: dict[str, Callable[[Sequence[Figure]], list[list[str]]]] = {
    "chunks": chunks_table,
    "documents": documents_table,
    "questions": lambda figures: searches_table(figures, "questions"),
    "pipelines": lambda figures: searches_table(figures, "pipelines"),
    "workers": lambda figures: searches_table(figures, "workers"),
}
"""What makes a table, by the mark in docs/performance.md that it stands behind."""


def _by_part(figures: Iterable[Figure], of: str) -> dict[str, dict[int, dict[str, float]]]:
    found: dict[str, dict[int, dict[str, float]]] = {}
    for one in figures:
        if one["of"] == of:
            found.setdefault(one["part"], {})[one["size"]] = one["measured"]
    return found


def _cell(value: float | None, places: int = 0) -> str:
    return "" if value is None else f"{value:,.{places}f}"


def _grown(measured: Sequence[dict[str, float]], name: str) -> list[str]:
    """Seconds, and the last as a multiple of the one before; what was ended says at how many."""
    cells = [f"> {one['limit']:,.0f}" if "limit" in one else _cell(one.get(name), 2) for one in measured]
    *_, before, last = None, None, *(one.get(name) for one in measured)
    return [*cells, f"{last / before:.1f}" if last and before and before > SMALL / 1000 else ""]


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    head, *rest = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(page: str, figures: Sequence[Figure]) -> str:
    """A page with each table behind its mark."""
    for of, rows in TABLES.items():
        marked = re.compile(rf"(<!-- growth of {of} -->\n).*?(<!-- end -->)", re.DOTALL)
        shown = table(rows(figures)) if any(one["of"] == of for one in figures) else "Not measured yet."
        page = marked.sub(lambda match, shown=shown: f"{match[1]}\n{shown}\n\n{match[2]}", page)
    return page


def pages(docs: Path) -> dict[Path, str]:
    """The picture, and the page with its tables, as they should be."""
    figures = json.loads((docs / "growth.json").read_text(encoding="utf-8"))
    page = docs / "performance.md"
    return {docs / "growth.svg": drawing(panels(figures)), page: filled(page.read_text(encoding="utf-8"), figures)}

"""The picture of growth: what grows in proportion is parallel to the dotted line, and everything can be read."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from xml.etree import ElementTree

import growth
import pytest
from documentation import DOCS

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = [
    {"of": "chunks", "part": "bm25", "size": size, "measured": {"seconds": size / 500, "ms": 0.1, "MiB": 100.0}}
    for size in (1_000, 10_000, 100_000)
]
ENDED = {"of": "chunks", "part": "graph", "size": 100_000, "measured": {"limit": 300}}


def element(figures: list[growth.Figure]) -> ElementTree.Element:
    return ElementTree.fromstring(growth.drawing(growth.panels(figures)))


def slope(points: list[tuple[float, float]]) -> float:
    (x1, y1), (x2, y2) = points[0], points[-1]
    return (y2 - y1) / (x2 - x1)


def drawn_line(panel: ElementTree.Element) -> list[tuple[float, float]]:
    [line] = panel.iter(f"{SVG}polyline")
    return [(float(x), float(y)) for x, y in (point.split(",") for point in line.attrib["points"].split())]


def dotted_line(panel: ElementTree.Element) -> list[tuple[float, float]]:
    [line] = [line for line in panel.iter(f"{SVG}line") if "stroke-dasharray" in line.attrib]
    return [(float(line.attrib["x1"]), float(line.attrib["y1"])), (float(line.attrib["x2"]), float(line.attrib["y2"]))]


def test_what_grows_in_proportion_is_straight_and_parallel_to_the_dotted_line() -> None:
    build, query = element(FIGURES).iter(f"{SVG}g")
    line = drawn_line(build)
    assert slope(line) == pytest.approx(slope(dotted_line(build)), rel=0.02)
    assert all(slope([one, two]) == pytest.approx(slope(line), rel=0.02) for one, two in pairwise(line))
    assert slope(drawn_line(query)) == 0  # what stays the same is level


def test_of_workers_the_dotted_line_falls() -> None:
    figures = [
        {"of": "workers", "part": "default search", "size": n, "measured": {"wall": 12 / n}} for n in (1, 2, 3, 4)
    ]
    [panel] = element(figures).iter(f"{SVG}g")
    assert slope(dotted_line(panel)) > 0  # heights are counted from above
    assert slope(drawn_line(panel)) == pytest.approx(slope(dotted_line(panel)), rel=0.02)


def test_the_picture_says_in_words_what_it_shows() -> None:
    root = element(FIGURES)
    title, described = (root.find(f"{SVG}{tag}") for tag in ("title", "desc"))
    assert root.attrib["aria-labelledby"].split() == [title.attrib["id"], described.attrib["id"]]
    assert "CPU seconds by chunks: bm25 2 at 1,000 and 200 at 100,000." in described.text


def test_what_was_ended_is_in_the_table_and_not_in_the_picture() -> None:
    figures = [*FIGURES, ENDED]
    page = growth.filled("before\n<!-- growth of chunks -->\nold\n<!-- end -->\nafter\n", figures)
    assert page.startswith("before\n<!-- growth of chunks -->\n\n| retriever |")
    assert page.endswith("|\n\n<!-- end -->\nafter\n")
    assert "| bm25 | 2.00 | 20.00 | 200.00 | 10.0 |" in page
    assert "| graph |  |  | > 300 |" in page
    assert growth.filled(page, figures) == page
    assert [panel.lines for panel in growth.panels(figures)] == [panel.lines for panel in growth.panels(FIGURES)]


def test_a_table_of_what_was_not_measured_says_so() -> None:
    page = growth.filled("<!-- growth of workers -->\n<!-- end -->\n", FIGURES)
    assert page == "<!-- growth of workers -->\n\nNot measured yet.\n\n<!-- end -->\n"


@pytest.mark.parametrize("ink", growth.INKS)
def test_every_colour_can_be_read_on_white(ink: str) -> None:
    parts = [int(ink[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    assert 1.05 / (luminance + 0.05) > 4.5  # WCAG 2.2, 1.4.3


def test_names_of_lines_end_within_the_picture() -> None:
    root = element(json.loads((DOCS / "growth.json").read_text(encoding="utf-8")))
    panels = list(root.iter(f"{SVG}g"))
    assert panels
    for panel in panels:
        assert len(list(panel.iter(f"{SVG}polyline"))) <= len(growth.INKS)
        at = float(re.findall(r"[\d.]+", panel.attrib["transform"])[0])
        for text in panel.iter(f"{SVG}text"):
            if text.attrib.get("text-anchor") == "start":
                assert at + float(text.attrib["x"]) + 6.4 * len(text.text) <= growth.WIDTH

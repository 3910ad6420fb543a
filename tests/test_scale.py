"""The pages about larger corpora and growth: fits against statsmodels, tables, and pictures of figures made up here."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import growth
import numpy as np
import pytest
import statsmodels.api as sm
from documentation import DOCS
from hypothesis import given
from hypothesis import strategies as st
from scale import (
    PowerLaw,
    costs_table,
    decline_table,
    duration,
    filled,
    growth_table,
    pages,
    survivors_table,
    wait,
)


@given(st.floats(-2, 2), st.floats(-5, 5))
def test_a_power_law_is_found_again(exponent: float, scale: float) -> None:
    law = PowerLaw.through([(n, math.exp(scale) * n**exponent) for n in (10, 1_000, 20_000, 10**6)])
    assert law.exponent == pytest.approx(exponent, abs=1e-9)
    value, low, high = law.at(10**8)
    assert value == pytest.approx(math.exp(scale) * 1e8**exponent, rel=1e-6)
    assert low == pytest.approx(value, rel=1e-5)
    assert high == pytest.approx(value, rel=1e-5)
    assert law.worst == pytest.approx(1)


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(1e-3, 1e3)), min_size=4, max_size=12, unique_by=lambda p: p[0]))
def test_slope_and_intervals_are_those_of_ordinary_least_squares(points: list[tuple[float, float]]) -> None:
    x, y = (np.log(values) for values in zip(*points, strict=True))
    if x.std() < 0.1:
        return
    law = PowerLaw.through(points)
    fitted = sm.OLS(y, sm.add_constant(x)).fit()
    assert law.exponent == pytest.approx(fitted.params[1], abs=1e-6)
    assert law.interval == pytest.approx(fitted.conf_int()[1], abs=1e-5)
    expected = fitted.get_prediction(np.array([[1.0, math.log(1e7)]])).conf_int(obs=True)[0]
    assert np.log(law.at(1e7)[1:]) == pytest.approx(np.minimum(expected, 700), abs=1e-4)


@pytest.mark.parametrize("points", [[(1, 1), (2, 2)], [(1, 1), (1, 2), (1, 3)], [(1, 1), (2, 0), (3, 3)]])
def test_what_is_no_line_is_not_fitted(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="three positive points"):
        PowerLaw.through(points)


def figures() -> list[dict[str, Any]]:
    """Costs in proportion to the chunks: 1 ms of building, 1 microsecond of asking and 1,024 bytes each."""
    sizes = (1_000, 10_000, 100_000)
    each = [{"seconds": n / 1000, "ms": n / 1000, "MiB": 100 + n / 1024} for n in sizes]
    return [{"of": "chunks", "part": "bm25", "size": n, "measured": one} for n, one in zip(sizes, each, strict=True)]


def test_costs_in_proportion_stay_in_proportion() -> None:
    [head, row] = costs_table(figures(), "seconds", duration)
    assert head == ["", "1,000", "10,000", "100,000", "exponent", "10^6", "10^8", "10^10"]
    assert row == ["bm25", "1.0 s", "10 s", "100 s", "1.00 [1.00, 1.00]", "17 min", "28 h", "116 d"]


def test_two_figures_are_no_line() -> None:
    found = figures()
    found[0]["measured"]["ms"] = 0.0  # less than the clock tells
    [_, row] = costs_table(found, "ms", wait)
    assert row == ["bm25", "10 ms", "100 ms", "too few figures", "", "", ""]
    assert len(costs_table(figures()[1:], "seconds", duration)) == 1


def kept() -> dict[str, Any]:
    """Three pipelines: one is best on little, another on much."""
    scores = {1: [0.7, 0.6, 0.5], 10: [0.6, 0.58, 0.5], 100: [0.5, 0.56, 0.4]}
    about = {"tau": 0.5, "top5": 1.0, "test": -0.01, "MiB": 100.0}
    growth = [
        {**about, "size": n, "chunks": 300 * n, "search": r, "tests": r, "seconds": 10.0 * n, "chosen": int(n == 100)}
        | {"regret": 0.06 * (n < 100)}
        for n, r in scores.items()
    ]
    samples = [
        {**about, "how": how, "k": k, "seed": seed, "chunks": 300 + 150 * k, "regret": 0.02 * seed, "chosen": 0}
        | {"search": [0.65, 0.59, 0.5], "seconds": 3.0 * k}
        for k in (3, 30)
        for how, seed in (("random", 1), ("random", 2), ("nearest", 0))
    ]
    names = ("winner", "naive RAG", "nest")
    return {
        "pipelines": [{"name": name, "label": f"label of {name}"} for name in names],
        "growth": growth,
        "samples": samples,
        "resampled": {"regret": 0.03, "most": 0.05, "tau": 0.7, "questions": 65, "tested": 29},
    }


def test_who_leads_where_and_what_a_choice_there_loses() -> None:
    head, *rows = growth_table(kept())
    assert [row[head.index("regret, R")] for row in rows] == ["0.060", "0.060", "0.000"]
    assert [row[head.index("best on it")] for row in rows][::2] == [
        "winner of `law`: `label of winner`",
        "naive RAG: `label of naive RAG`",
    ]
    head, *rows = survivors_table(kept())
    assert [row[1:4] for row in rows] == [
        ["0.600 (2.)", "0.580 (2.)", "0.560 (1.)"],
        ["0.700 (1.)", "0.600 (1.)", "0.500 (2.)"],
        ["0.500 (3.)", "0.500 (3.)", "0.400 (3.)"],
    ]


def test_a_decline_goes_on_as_a_power_law() -> None:
    found = kept()
    for one in (*found["growth"], *found["samples"]):
        one["search"][2] = 2 * one["chunks"] ** -0.25
    head, *rows = decline_table(found)
    [row] = [row for row in rows if row[0] == "`label of nest`"]
    assert row[1:3] == ["−0.25 [−0.25, −0.25]", "0%"]
    assert row[head.index("at 10^8")] == "0.02 [0.02, 0.02]"


def test_tables_stand_behind_their_marks_and_the_rest_stays() -> None:
    page = "# Title\n\n<!-- growth -->\nold\n<!-- end -->\n\nwords\n\n<!-- build -->\n<!-- end -->\n"
    once = filled(page, kept(), figures())
    assert once.startswith("# Title\n\n<!-- growth -->\n\n![R of 3 pipelines")
    assert "](scale.svg)\n\n| corpus |" in once
    assert "old" not in once
    assert "\n\nwords\n\n<!-- build -->\n\n|  | 1,000 |" in once
    assert filled(once, kept(), figures()) == once


def test_what_is_not_measured_yet_says_so(tmp_path: Path) -> None:
    page = "<!-- growth -->\nold\n<!-- end -->\n<!-- build -->\n<!-- end -->\n"
    (tmp_path / "scale.md").write_text(page, encoding="utf-8")
    (tmp_path / "growth.json").write_text(json.dumps(figures()), encoding="utf-8")
    [(file, text)] = pages(tmp_path).items()
    assert file == tmp_path / "scale.md"
    assert text.startswith("<!-- growth -->\n\nNot measured yet.\n\n<!-- end -->")
    assert "| bm25 | 1.0 s | 10 s | 100 s | 1.00 [1.00, 1.00] |" in text


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

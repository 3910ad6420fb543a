"""The page about larger corpora: its fits against statsmodels, its tables and its picture on figures made up here."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scale import (
    BEYOND,
    PowerLaw,
    costs_table,
    decline_table,
    drawing,
    duration,
    filled,
    growth_table,
    pages,
    samples_table,
    search_table,
    shards_table,
    survivors_table,
    wait,
)

SVG = "{http://www.w3.org/2000/svg}"


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


def test_times_are_told_in_units_that_suit_them() -> None:
    assert [duration(seconds) for seconds in (0.0123, 4.56, 119, 600, 7_200, 10 * 86_400, 10 * 31_536_000)] == [
        "0.012 s",
        "4.6 s",
        "119 s",
        "10 min",
        "2.0 h",
        "10 d",
        "10 years",
    ]
    assert [wait(ms) for ms in (0.02, 12.3, 5_000)] == ["0.02 ms", "12 ms", "5.0 s"]


def figures() -> list[dict[str, Any]]:
    """Costs in proportion to the chunks: 1 ms of building, 1 microsecond of asking and 1,024 bytes each."""
    sizes = (1_000, 10_000, 100_000)
    each = [{"seconds": n / 1000, "ms": n / 1000, "MiB": 100 + n / 1024} for n in sizes]
    return [{"of": "chunks", "part": "bm25", "size": n, "measured": one} for n, one in zip(sizes, each, strict=True)]


def test_costs_in_proportion_stay_in_proportion() -> None:
    [head, row] = costs_table(figures(), "seconds", duration)
    assert head == ["", "1,000", "10,000", "100,000", "exponent", "10^6", "10^8", "10^10"]
    assert row == ["bm25", "1.0 s", "10 s", "100 s", "1.00 [1.00, 1.00]", "17 min", "28 h", "116 d"]


def test_a_size_that_was_measured_is_not_made_up() -> None:
    more = {"of": "chunks", "part": "bm25", "size": 10**6, "measured": {"seconds": 1_100.0}}
    [head, row] = costs_table([*figures(), more], "seconds", duration)
    assert row[head.index("10^6")] == "measured"
    assert row[head.index("1,000,000")] == "18 min"


def test_two_figures_are_no_line() -> None:
    found = figures()
    found[0]["measured"]["ms"] = 0.0  # less than the clock tells
    [_, row] = costs_table(found, "ms", wait)
    assert row == ["bm25", "10 ms", "100 ms", "too few figures", "", "", ""]
    assert len(costs_table(figures()[1:], "seconds", duration)) == 1


def test_processes_are_counted_by_the_memory_of_a_chunk() -> None:
    [head, row] = shards_table(figures())
    held = 4096 * 2**20 / (100 * 2**20 + 100_000 * 1024) * 100_000
    assert row[head.index("bytes a chunk, at most")] == f"{1024 + 100 * 2**20 / 100_000:,.0f}"
    assert [row[head.index(f"processes for 10^{power}")] for power in (6, 8, 10)] == [
        f"{math.ceil(n / held):,}" for n in BEYOND
    ]


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


def test_samples_of_a_kind_are_a_row_with_their_spread() -> None:
    head, *rows = samples_table(kept())
    shown = [[row[0], row[head.index("k")], row[head.index("samples")], row[head.index("regret, R")]] for row in rows]
    assert shown[:3] == [
        ["random", "3", "2", "0.030 (0.020 to 0.040)"],
        ["random", "30", "2", "0.030 (0.020 to 0.040)"],
        ["nearest", "3", "1", "0.000"],
    ]


def test_a_decline_goes_on_as_a_power_law() -> None:
    found = kept()
    for one in (*found["growth"], *found["samples"]):
        one["search"][2] = 2 * one["chunks"] ** -0.25
    head, *rows = decline_table(found)
    [row] = [row for row in rows if row[0] == "`label of nest`"]
    assert row[1:3] == ["−0.25 [−0.25, −0.25]", "0%"]
    assert row[head.index("at 10^8")] == "0.02 [0.02, 0.02]"


def test_what_a_search_costs_is_fitted_on_corpora_that_are_no_mere_start() -> None:
    [_, row] = search_table(kept())
    assert row[:4] == ["3 pipelines, 94 questions", "10 s", "100 s", "17 min"]


def test_the_picture_stands_alone_and_says_what_it_shows() -> None:
    picture = ET.fromstring(drawing(kept()))
    assert picture.get("viewBox") == f"0 0 800 {picture.get('height')}"
    said = {child.tag.removeprefix(SVG): child.text or "" for child in picture}
    assert said["title"]
    assert "3 pipelines" in said["desc"]
    assert "naive RAG: label of naive RAG, R 0.560" in said["desc"]
    words = [text.text for text in picture.iter(f"{SVG}text")]
    assert {"winner of law", "naive RAG (best)", "random documents", "nearest documents"} <= set(words)
    assert not any("http" in value for item in picture.iter() for value in item.attrib.values())


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

"""The worked example of docs/techniques.md, used in a search as the page says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import ragsmith
from ragsmith.plugins import load_file
from ragsmith.techniques.families import query_expansion

FILE = Path(__file__).resolve().parents[3] / "docs" / "year_filter.py"
PRICES = {2022: "eight", 2023: "nine", 2024: "ten"}
GOODS = ("ferry", "lift", "tram", "bus")


@pytest.fixture(autouse=True)
def _year_filter() -> Iterator[None]:
    load_file(FILE)
    yield
    query_expansion.techniques.pop("year_filter")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Price lists of three years, which differ in their numbers alone, and a question for each price."""
    made = tmp_path / "prices"
    (made / "documents").mkdir(parents=True)
    (made / "dataset.yaml").write_text("name: prices\nfields: {year: number}\n", encoding="utf-8")
    for year, price in PRICES.items():
        lines = "".join(f"## The {one}\n\nThe ticket of the {one} costs {price} crowns a day.\n\n" for one in GOODS)
        text = f"---\nyear: {year}\n---\n# Prices\n\n{lines}"
        (made / "documents" / f"list_{year}.md").write_text(text, encoding="utf-8")
    rows = (
        {
            "id": f"{one}-{year}",
            "question": f"What did the ticket of the {one} cost in {year}?",
            "answer": f"{price} crowns",
            "evidence": [{"doc": f"list_{year}", "text": f"The ticket of the {one} costs {price} crowns a day."}],
        }
        for one in GOODS
        for year, price in PRICES.items()
    )
    (made / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return made


def test_in_a_search_it_finds_the_list_of_the_year_that_a_question_names(folder: Path, tmp_path: Path) -> None:
    found = ragsmith.search(
        folder,
        space={"query_expansion": ["none", "year_filter"]},
        imports=FILE,
        strategy="exhaustive",
        chunk_size=100,
        workers=1,
        cache=tmp_path / "cache.sqlite",
    )
    first_gold = {row.genes["query_expansion"]: row.scores["mrr"].mean for row in found.ranking}
    assert first_gold["year_filter"] == 1 > first_gold["none"]
    assert found.ranking[0].genes["query_expansion"] == "year_filter"
    assert {source.doc for source in found.winner.ask("What did the tram cost in 2022?").sources} == {"list_2022"}
    assert len({source.doc for source in found.winner.ask("What does the tram cost?").sources}) == len(PRICES)

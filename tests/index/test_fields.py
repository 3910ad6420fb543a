"""The fields of documents, described for a question, and the search among documents by a proposed filter."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from ragsmith.index.fields import MAX_VALUES, SHOWN_VALUES, Field, FieldSearch, list_fields, read_fields
from ragsmith.text.filters import parse_filter
from ragsmith.types import Filter, Queries, Rankings, Search

DOCUMENTS: list[dict[str, Any]] = [
    {"tenant": "acme", "year": 2021.0, "signed": date(2021, 5, 1), "tags": ("rent", "north")},
    {"tenant": "brass", "year": 2019.0, "tags": ("rent",)},
    {"signed": date(2020, 1, 31)},
]


def no_search(_: Filter) -> Search:
    raise AssertionError("nothing is to be searched")


def test_a_field_has_its_texts_or_the_range_of_its_numbers_or_dates() -> None:
    assert list_fields(DOCUMENTS) == (
        Field("signed", "date", ("2020-01-31 to 2021-05-01",)),
        Field("tags", "list", ("north", "rent")),
        Field("tenant", "text", ("acme", "brass")),
        Field("year", "number", ("2019 to 2021",)),
    )
    assert list_fields([{}, {}]) == ()


def test_a_field_of_two_types_or_of_none_is_left_out() -> None:
    mixed: list[dict[str, Any]] = [{"year": 2021.0, "page": 3, "a": "x"}, {"year": "2021"}]
    assert [field.name for field in list_fields(mixed)] == ["a"]


def test_of_many_texts_those_in_the_question_are_described() -> None:
    fields = list_fields({"name": f"Person {number:05}", "year": float(number)} for number in range(MAX_VALUES + 1))
    described = read_fields(FieldSearch(fields, no_search).describe("Was it PERSON 07777, or person 00003?"))
    assert [field.name for field in described] == ["name", "year"]
    names, years = described
    assert len(fields[0].values) == MAX_VALUES
    assert len(names.values) == SHOWN_VALUES
    assert set(names.values[:2]) == {"Person 00003", "Person 07777"}
    assert years.values == (f"0 to {MAX_VALUES}",)


def test_a_description_has_all_that_a_field_is() -> None:
    fields = list_fields(DOCUMENTS)
    assert read_fields(FieldSearch(fields, no_search).describe("Who?")) == fields
    assert FieldSearch((), no_search).describe("Who?") == ()


def test_the_search_is_among_what_the_filter_admits() -> None:
    asked: list[tuple[Filter, Queries]] = []

    def within(filter_: Filter) -> Search:
        def search(queries: Queries) -> Rankings:
            asked.append((filter_, queries))
            return ((),)

        return search

    search = FieldSearch(list_fields(DOCUMENTS), within)
    assert search('tenant in "acme" and year >= 2020', "Who?") == ()
    types = {"tenant": str, "year": float}
    assert asked == [(parse_filter("year>=2020 and tenant=acme", types), ("Who?",))]


def test_a_filter_that_cannot_be_read_finds_nothing() -> None:
    search = FieldSearch(list_fields(DOCUMENTS), no_search)
    for proposed in ("", "landlord=acme", "year>=soon", "year in the question", "tenant>acme", "year=", "signed<May"):
        assert search(proposed, "Who?") == ()


@pytest.mark.parametrize(
    "proposed",
    [
        "landlord=acme and year>=2020",
        "year>=2020 and tenant>acme",
        "tenant=Acme of the North and year>=2020",
        "year>=2020 and tenant is acme",
        "year>=2020 and signed<May",
    ],
)
def test_conditions_that_cannot_be_read_are_left_out(proposed: str) -> None:
    admitted: list[Filter] = []

    def within(filter_: Filter) -> Search:
        admitted.append(filter_)
        return lambda queries: ((),) * len(queries)

    assert FieldSearch(list_fields(DOCUMENTS), within)(proposed, "Who?") == ()
    assert admitted == [parse_filter("year>=2020", {"year": float})]

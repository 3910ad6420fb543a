"""Filters by fields: what they admit, by an independent rule; their language, and its errors."""

from __future__ import annotations

from datetime import date
from operator import ge, gt, le, lt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.errors import UsageError
from ragsmith.text.filters import format_filter, parse_filter
from ragsmith.types import Condition, Filter

TYPES = {"tenant": str, "signed by": str, "year": float, "signed": date, "tags": tuple, 'a "quoted" \\ name': str}
COMPARE = {"<": lt, "<=": le, ">": gt, ">=": ge}
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)
DATES = st.dates(date(2020, 1, 1), date(2020, 1, 9))
NUMBERS = st.integers(-3, 3).map(float) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = {str: TEXTS.map(str.strip), float: NUMBERS, date: DATES, tuple: TEXTS.map(str.strip)}


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    """Draw a condition on one of the fields."""
    name = draw(st.sampled_from(list(TYPES)))
    kind = TYPES[name]
    operators = ["in", *COMPARE] if kind in (float, date) else ["in"]
    operator = draw(st.sampled_from(operators))
    most = 3 if operator == "in" else 1
    return Condition(name, operator, tuple(sorted(draw(st.sets(VALUES[kind], min_size=1, max_size=most)))))


FILTERS = st.lists(conditions(), min_size=1, max_size=4).map(lambda each: Filter(tuple(each)) & None)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        name: st.lists(VALUES[tuple], max_size=3).map(tuple) if kind is tuple else VALUES[kind]
        for name, kind in TYPES.items()
    },
)


def fulfils(condition: Condition, fields: dict[str, object]) -> bool:
    """Decide by the definition of the operators, without intervals."""
    if condition.field not in fields:
        return False
    value = fields[condition.field]
    each = value if isinstance(value, tuple) else (value,)
    if condition.operator == "in":
        return any(one in condition.values for one in each)
    return any(COMPARE[condition.operator](one, condition.values[0]) for one in each)


@given(FILTERS, FIELDS)
def test_a_filter_admits_what_fulfils_all_its_conditions(filter_: Filter, fields: dict[str, object]) -> None:
    assert filter_.admits(fields) is all(fulfils(condition, fields) for condition in filter_.conditions)


@given(FILTERS, FILTERS, FIELDS)
def test_a_conjunction_admits_what_both_admit(one: Filter, other: Filter, fields: dict[str, object]) -> None:
    assert (one & other).admits(fields) is (one.admits(fields) and other.admits(fields))
    assert one & other == other & one
    assert one & one == one & None == one


@given(FILTERS)
def test_a_filter_is_written_and_read_again(filter_: Filter) -> None:
    assert parse_filter(format_filter(filter_), TYPES) == filter_


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("tenant=acme", {"tenant": "acme"}),
        ("tenant in b | a", {"tenant": ["a", "b", "a"]}),
        ("tenant=a|b", "tenant in a|b"),
        ("year>=2023 and year<2025.5", {"year": {">=": 2023, "<": "2025.5"}}),
        ("signed before 2024-05-01", {"signed": {"<": "2024-05-01"}}),
        ("signed after 2024-05-01T10:00:00", "signed>2024-05-01"),
        ('"signed by" = "Smith and Sons" and tags=x', {"tags": "x", "signed by": "Smith and Sons"}),
        ('"a \\"quoted\\" \\\\ name"=1', {'a "quoted" \\ name': 1}),
    ],
)
def test_forms(written: str, same: object) -> None:
    assert parse_filter(written, TYPES) == parse_filter(same, TYPES)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", "the filter '' has no condition: write conditions such as tenant=acme"),
        ({}, "has no condition"),
        (None, "has no condition at 'None'"),
        ("tenant", "has no condition at 'tenant': write conditions such as"),
        ("tenant=a and ", "has no condition at"),
        ("tenant=a b", "and quote several words"),
        ('tenant="a', "has no condition at"),
        ("tenant=a|", "has no condition at"),
        ("year=1 and tenant==a", "has no condition at 'tenant==a'"),
        ("tenent=acme", "'tenent' is no field of a document: did you mean 'tenant'? known: "),
        ("year=soon", "the field 'year' is a number, not 'soon'"),
        ("year=nan", "'year' is a number, not 'nan'"),
        ("signed<2024-13-01", "the field 'signed' is a date such as 2024-05-31, not '2024-13-01'"),
        ("tenant<b", "'tenant' is text: declare it as number or date in dataset.yaml"),
        ("year<1|2", "give one value"),
        ({"year": {"~": 1}}, "'~' is no operator: known: <, <=, =, >, >=, after, before, in"),
        ({"year": []}, "give texts, numbers or dates"),
        ({"tenant": {"=": {}}}, "give texts, numbers or dates"),
        ({"tenant": None}, "give texts, numbers or dates"),
    ],
)
def test_a_mistake_is_one_sentence(written: object, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_filter(written, TYPES)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(alphabet='ab"\\ |=<>\n', max_size=200) | st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        parsed = parse_filter(text, {"a": str, "b": float})
    except UsageError:
        return
    assert parse_filter(format_filter(parsed), {"a": str, "b": float}) == parsed

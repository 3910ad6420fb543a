"""The period that a question names: what is read from words and digits, and what is no period."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.text.periods import find_period


def iso(text: str) -> date | None:
    return date.fromisoformat(text) if text else None


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What was sold in 2021?", "2021-01-01", "2021-12-31"),
        ("Sales of FY2021", "2021-01-01", "2021-12-31"),
        ("Sales of the fiscal year 2021", "2021-01-01", "2021-12-31"),
        ("the 1990s", "1990-01-01", "1999-12-31"),
        ("in May 2021", "2021-05-01", "2021-05-31"),
        ("December of 2021", "2021-12-01", "2021-12-31"),
        ("Sept. 2021", "2021-09-01", "2021-09-30"),
        ("on 31 May 2021", "2021-05-31", "2021-05-31"),
        ("on May 31st, 2021", "2021-05-31", "2021-05-31"),
        ("the 3rd of May 2021", "2021-05-03", "2021-05-03"),
        ("on 2021-05-31", "2021-05-31", "2021-05-31"),
        ("in 2021-05", "2021-05-01", "2021-05-31"),
        ("am 31.05.2021", "2021-05-31", "2021-05-31"),
        ("Q3 2021", "2021-07-01", "2021-09-30"),
        ("2021-Q3", "2021-07-01", "2021-09-30"),
        ("the third quarter of 2021", "2021-07-01", "2021-09-30"),
        ("the final quarter of fiscal 2021", "2021-10-01", "2021-12-31"),
        ("the first half of 2021", "2021-01-01", "2021-06-30"),
        ("H2 2021", "2021-07-01", "2021-12-31"),
        ("in the autumn of 2021", "2021-09-01", "2021-11-30"),
        ("in the winter of 2021", "2020-12-01", "2022-02-28"),
        ("between 2019 and 2021", "2019-01-01", "2021-12-31"),
        ("from 2019 until 2021", "2019-01-01", "2021-12-31"),
        ("in 2019-2021", "2019-01-01", "2021-12-31"),
        ("in 2019, 2020 and 2021", "2019-01-01", "2021-12-31"),
        ("Was more sold in 2021 than 2019?", "2019-01-01", "2021-12-31"),
        ("in the years 2019 and 2021", "2019-01-01", "2021-12-31"),
        ("from March until May 2021", "2021-03-01", "2021-05-31"),
        ("in March, April and May 2021", "2021-03-01", "2021-05-31"),
        ("What may the tenant do since 2019?", "2019-01-01", ""),
        ("Who will march before 2019?", "", "2018-12-31"),
        ("What did spring bring since 2019?", "2019-01-01", ""),
        ("What was sold before June in 2021?", "2021-01-01", "2021-05-31"),
        ("Which site had 1200 employees in 2021?", "2021-01-01", "2021-12-31"),
        ("In 2021 1200 people moved, and 1500 left", "2021-01-01", "2021-12-31"),
        ("from March to May 2021", "2021-03-01", "2021-05-31"),
        ("the first and second quarter of 2021", "2021-01-01", "2021-06-30"),
        ("In 2021, was it in March?", "2021-01-01", "2021-12-31"),
        ("before 2020", "", "2019-12-31"),
        ("before the end of 2020", "", "2020-12-31"),
        ("until May 2020", "", "2020-05-31"),
        ("by the year 2020", "", "2020-12-31"),
        ("not before 2020", "2020-01-01", ""),
        ("no later than 2020", "", "2020-12-31"),
        ("after 2020", "2021-01-01", ""),
        ("after the start of 2020", "2020-01-01", ""),
        ("since June 2020", "2020-06-01", ""),
        ("2020 onwards", "2020-01-01", ""),
        ("2020 or later", "2020-01-01", ""),
        ("after 2018 and before 2021", "2019-01-01", "2020-12-31"),
    ],
)
def test_a_period_is_read_from_words_and_digits(text: str, first: str, last: str) -> None:
    assert find_period(text) == (iso(first), iso(last))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Who may pay in spring?",  # no year
        "for $2021",
        "2,021 crowns, or 2021.5",
        "part B2021",
        "1200 employees",
        "Rooms 1200 and 1300",
        "after 2021 and before 2020",
        "before 2021 or after 2019",
        "after 2019 or before 2021",
        "since 2019, or otherwise until 2021",
        "before 2019 or before 2021",
        "on 31 February 2021",
        "on 0 May 2021",
    ],
)
def test_what_is_no_period(text: str) -> None:
    assert find_period(text) is None


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("Who had a total of 1200 employees in 2021?", "2021-01-01", "2021-12-31"),
        ("Who grew from 1200 to 1500 employees since 2021?", "2021-01-01", ""),
        ("from 2015 until 2020", "2015-01-01", "2020-12-31"),
        ("between 2015 and 2020", "2015-01-01", "2020-12-31"),
        ("in May 2015", "2015-05-01", "2015-05-31"),
    ],
)
def test_a_number_is_one_of_the_possible_years(text: str, first: str, last: str) -> None:
    assert find_period(text, range(2019, 2023)) == (iso(first), iso(last))


def test_a_number_that_is_none_of_the_possible_years_is_no_period() -> None:
    assert find_period("How was it in 1200 cases?", range(2019, 2023)) is None


@given(
    st.dates(date(1000, 1, 1), date(2099, 12, 31)), st.sampled_from(["%Y-%m-%d", "%d %B %Y", "%b %d, %Y", "%d.%m.%Y"])
)
def test_every_day_is_read(day: date, form: str) -> None:
    assert find_period(f"What happened on {day.strftime(form)}?") == (day, day)


@given(st.text(max_size=80))
def test_any_text_has_a_period_or_none(text: str) -> None:
    period = find_period(text)
    assert period is None or period[0] is None or period[1] is None or period[0] <= period[1]

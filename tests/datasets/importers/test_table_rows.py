"""Table rows are found by the values that an answer was derived or copied from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ragsmith.datasets.importers.tatqa import Cells, SoughtValue, rows

SALES: Cells = (
    ("", "2019", "2018", "2017"),
    ("Fixed price", "$ 1,452.4", "$ 1,146.2", "$ 1,036.9"),
    ("Other", "44.1", "56.7", "70.8"),
    ("Other, adjusted", "44.1", "2", "(3)"),
    ("Total sales", "$1,496.5", "$1,202.9", "11%"),
)


@pytest.mark.parametrize(
    ("copied", "derivation", "found"),
    [
        ((), "44.1-56.7", (2,)),  # row 3 has 44.1 too, but row 2 has both
        ((), "(44.1-56.7)/56.7", (2,)),
        ((), "(1,452.4 + 1,146.2)/2", (1,)),  # the 2 of an average is not the 2 of row 3
        ((), "1,452.4/1,496.5*100", (1, 4)),
        ((), "(1452.4/1036.9)-1", (1,)),
        ((), "2-3", (3,)),
        ((), "1,027/11%", (4,)),
        ((), "1,496.5>1,202.9", (4,)),
        ((), "9.9-8.8", ()),
        (("2019",), "1,496.5>1,202.9", (4,)),  # how it was worked out says more than a year
        (("2019", "2018"), "", ()),
        (("$1,496.5",), "", (4,)),
        (("(3)",), "", (3,)),
        (("fixed price", "Total sales."), "", (1, 4)),
        (("sales",), "", (4,)),  # a part of a cell
        (("57",), "", ()),
        ((), "Other##Fixed price", (1, 2)),
        ((), "2019##2018", ()),
        ((), "Total sales", (4,)),
        (("2018",), "locate and analyze Other in row 2", ()),
        ((), "", ()),
    ],
)
def test_rows_are_those_that_were_read(copied: tuple[str, ...], derivation: str, found: tuple[int, ...]) -> None:
    assert rows(SALES, SoughtValue("What was it?", copied, derivation)) == found


def test_of_two_rows_with_a_value_the_one_that_is_asked_for_counts() -> None:
    table: Cells = (("", "2019"), ("Debtors", "255"), ("Cash-settled awards", "255"))
    assert rows(table, SoughtValue("What was the amount of cash-settled awards?", ("255",), "")) == (2,)


CELL = st.integers(10_000, 10_050).map(str)


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6), st.data())
@hypothesis_settings(max_examples=60)
def test_every_number_of_a_sum_that_is_there_is_covered_and_no_row_is_idle(
    cells: list[tuple[str, str]], data: st.DataObject
) -> None:
    table: Cells = tuple(("label", *row) for row in cells)
    numbers = data.draw(st.lists(CELL, min_size=1, max_size=4))
    found = rows(table, SoughtValue("What?", (), "+".join(numbers)))
    there = {cell for row in cells for cell in row} & set(numbers)
    assert {cell for i in found for cell in cells[i]} & set(numbers) == there
    assert len(found) <= len(there)
    assert found == tuple(sorted(set(found)))

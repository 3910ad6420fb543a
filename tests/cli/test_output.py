"""What commands print with: tables that fit a terminal, and nothing of them lost."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.cli.output import table
from ragsmith.text.terminal import COLUMNS


def printed(rows: list[list[str]], head: list[str], right: frozenset[int] = frozenset(), *, fold: bool) -> list[str]:
    with redirect_stdout(io.StringIO()) as out:
        table(rows, head, right, fold=fold)
    return out.getvalue().splitlines()


CELLS = st.text("ab", min_size=1, max_size=COLUMNS - 4)
TABLES = st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=2, max_size=4))


@given(TABLES, st.frozensets(st.integers(0, 5)))
def test_a_folded_table_fits_and_has_every_cell_in_its_order(rows: list[list[str]], right: frozenset[int]) -> None:
    lines = printed(rows[1:], rows[0], right, fold=True)
    assert all(len(line) <= COLUMNS for line in lines)
    assert [cell for line in lines if set(line) - {"-", " "} for cell in line.split()] == list(chain(*rows))


def test_columns_that_have_no_room_go_on_further_in_and_stay_below_each_other() -> None:
    head = ["option", "gain", "calls"]
    rows = [["crag", "+0.1", "10.5"], ["r" * 76, "+0.25", "1.0"]]
    assert printed(rows, head, frozenset({1, 2}), fold=True) == [
        "option",
        "     gain  calls",
        "-" * COLUMNS,
        "crag",
        "     +0.1   10.5",
        "r" * 76,
        "    +0.25    1.0",
    ]


@pytest.mark.parametrize("fold", [False, True])
def test_a_table_that_fits_stays_as_it_is(fold: bool) -> None:
    assert printed([["crag", "1"]], ["option", "n"], fold=fold) == ["option  n", "------  -", "crag    1"]


def test_a_wide_table_is_folded_only_where_that_is_asked_for() -> None:
    wide = [["a" * 50, "b" * 50]]
    assert printed(wide, ["first", "second"], fold=False)[-1] == f"{'a' * 50}  {'b' * 50}"
    assert printed(wide, ["first", "second"], fold=True)[-2:] == ["a" * 50, f"    {'b' * 50}"]

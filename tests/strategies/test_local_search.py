from __future__ import annotations

from landscapes import even

from ragsmith.strategies import Pruned, Told, anything
from ragsmith.strategies.local_search import best_known, neighbours, unknown_neighbours


def test_the_best_come_first_and_only_what_has_a_score() -> None:
    told: dict[tuple[int, ...], Told] = {(0,): 0.1, (1,): None, (2,): 0.5, (3,): Pruned(5, 0.9, 0.089), (4,): 0.5}
    assert list(best_known(told).items()) == [((2,), 0.5), ((4,), 0.5), ((0,), 0.1)]


def test_neighbours_differ_in_one_gene_and_are_feasible() -> None:
    assert list(neighbours((1, 0), (2, 3), anything)) == [(0, 0), (1, 1), (1, 2)]
    assert list(neighbours((1, 1, 0), (2, 2, 3), even)) == [(1, 1, 2)]


def test_the_next_best_makes_up_for_neighbours_that_are_known() -> None:
    told: dict[tuple[int, ...], Told] = {(0, 0): 0.9, (0, 1): 0.1, (1, 1): 0.5}
    assert unknown_neighbours(told, (2, 3), anything, 1) == [(1, 0), (0, 2)]
    assert unknown_neighbours(told, (2, 3), anything, 3) == [(1, 0), (0, 2), (1, 2)]
    assert unknown_neighbours({}, (2, 3), anything, 3) == []

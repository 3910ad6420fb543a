from __future__ import annotations

from itertools import product

from landscapes import additive, even, run

from ragsmith.strategies import ExhaustiveSearch


def test_the_whole_feasible_space_in_order() -> None:
    sizes = (2, 1, 3, 4)
    score = additive(sizes, 4)
    space = [genome for genome in product(*map(range, sizes)) if sum(genome) % 2 == 0]
    search = ExhaustiveSearch(sizes, feasible=even, batch=5)
    assert run(search, score) == space
    assert search.best()[0] == max(space, key=score)
    assert [step.evaluations for step in search.history] == [5, 5, 2]


def test_only_as_much_of_a_vast_space_as_was_asked_for() -> None:
    search = ExhaustiveSearch((50,) * 30, max_evaluations=3)
    assert run(search, lambda genome: 0.5) == [(0,) * 29 + (i,) for i in range(3)]

"""Genomes of a space in order, at random, and near the best known ones."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

from landscapes import additive, even, run

from ragsmith.strategies import ExhaustiveSearch, Observation, Pruned, RandomSearch, always_feasible
from ragsmith.strategies.genomes import (
    find_new_neighbours,
    iterate_neighbours,
    random_permutation,
    shuffle_space,
    sort_by_score,
)


def test_the_whole_feasible_space_in_order() -> None:
    sizes = (2, 1, 3, 4)
    score = additive(sizes, 4)
    space = [genome for genome in product(*map(range, sizes)) if sum(genome) % 2 == 0]
    search = ExhaustiveSearch(sizes, feasible=even, batch=5)
    assert run(search, score) == space
    assert search.best()[0] == max(space, key=score)
    assert [step.evaluations for step in search.history] == [5, 5, 2]


def test_of_a_vast_space_only_what_is_proposed_is_made() -> None:
    assert len(run(RandomSearch((50,) * 30, max_evaluations=40), additive((50,) * 30, 1))) == 40
    search = ExhaustiveSearch((50,) * 30, max_evaluations=3)
    assert run(search, lambda genome: 0.5) == [(0,) * 29 + (i,) for i in range(3)]


def test_without_a_limit_the_whole_feasible_space_is_drawn_once() -> None:
    sizes = (3, 2, 4)
    proposed = run(RandomSearch(sizes, feasible=even, batch=5), additive(sizes, 1))
    assert sorted(proposed) == [genome for genome in product(range(3), range(2), range(4)) if sum(genome) % 2 == 0]
    assert proposed != sorted(proposed)


def test_every_feasible_genome_is_equally_likely() -> None:
    rng = Random(0)
    firsts = Counter(next(shuffle_space((9, 2), lambda genome: genome[0] < 2, rng)) for _ in range(4000))
    assert set(firsts) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert all(900 < count < 1100 for count in firsts.values())


def test_every_order_is_equally_likely() -> None:
    rng = Random(0)
    orders = Counter(tuple(random_permutation(3, rng)) for _ in range(6000))
    assert len(orders) == 6
    assert all(900 < count < 1100 for count in orders.values())


def test_the_best_come_first_and_only_what_has_a_score() -> None:
    told: dict[tuple[int, ...], Observation] = {
        (0,): 0.1,
        (1,): None,
        (2,): 0.5,
        (3,): Pruned(5, 0.9, 0.089),
        (4,): 0.5,
    }
    assert list(sort_by_score(told).items()) == [((2,), 0.5), ((4,), 0.5), ((0,), 0.1)]


def test_neighbours_differ_in_one_gene_and_are_feasible() -> None:
    assert list(iterate_neighbours((1, 0), (2, 3), always_feasible)) == [(0, 0), (1, 1), (1, 2)]
    assert list(iterate_neighbours((1, 1, 0), (2, 2, 3), even)) == [(1, 1, 2)]


def test_the_next_best_makes_up_for_neighbours_that_are_known() -> None:
    told: dict[tuple[int, ...], Observation] = {(0, 0): 0.9, (0, 1): 0.1, (1, 1): 0.5}
    assert find_new_neighbours(told, (2, 3), always_feasible, 1) == [(1, 0), (0, 2)]
    assert find_new_neighbours(told, (2, 3), always_feasible, 3) == [(1, 0), (0, 2), (1, 2)]
    assert find_new_neighbours({}, (2, 3), always_feasible, 3) == []

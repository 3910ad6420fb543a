from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

from landscapes import additive, even, run

from ragsmith.strategies import RandomSearch
from ragsmith.strategies.sampling import decode, permutation, shuffled_space


def test_without_a_limit_the_whole_feasible_space_is_drawn_once() -> None:
    sizes = (3, 2, 4)
    proposed = run(RandomSearch(sizes, feasible=even, batch=5), additive(sizes, 1))
    assert sorted(proposed) == [genome for genome in product(range(3), range(2), range(4)) if sum(genome) % 2 == 0]
    assert proposed != sorted(proposed)


def test_every_feasible_genome_is_equally_likely() -> None:
    rng = Random(0)
    firsts = Counter(next(shuffled_space((9, 2), lambda genome: genome[0] < 2, rng)) for _ in range(4000))
    assert set(firsts) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert all(900 < count < 1100 for count in firsts.values())


def test_every_order_is_equally_likely() -> None:
    rng = Random(0)
    orders = Counter(tuple(permutation(3, rng)) for _ in range(6000))
    assert len(orders) == 6
    assert all(900 < count < 1100 for count in orders.values())


def test_a_vast_space_is_not_enumerated() -> None:
    sizes = (50,) * 30
    assert len(run(RandomSearch(sizes, max_evaluations=40), additive(sizes, 1))) == 40


def test_decode_counts_in_lexicographic_order() -> None:
    assert [decode(i, (2, 3, 2)) for i in range(12)] == list(product(range(2), range(3), range(2)))

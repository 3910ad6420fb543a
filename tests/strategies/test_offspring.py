from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from landscapes import CHAIN_SIZES, chained

from ragsmith.strategies import Genome
from ragsmith.strategies.offspring import revert_infeasible
from ragsmith.strategies.variation import per_gene

SPACE = list(product(*map(range, CHAIN_SIZES)))
FEASIBLE = list(filter(chained, SPACE))
TOGETHER = (0, 5, 4, 0)
"""The filter that needs the last retrieval, with it."""


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(FEASIBLE), st.sampled_from(SPACE), st.integers(0, 9))
def test_a_child_keeps_all_it_can(parent: Genome, child: Genome, seed: int) -> None:
    genome = revert_infeasible(parent, child, chained, Random(seed))
    assert chained(genome)
    assert genome == child or not chained(child)
    for i, (old, new, now) in enumerate(zip(parent, child, genome, strict=True)):
        assert now in (old, new)
        assert now == new or not chained((*genome[:i], new, *genome[i + 1 :]))


def test_what_was_just_changed_goes_back_and_nothing_else() -> None:
    assert revert_infeasible(TOGETHER, (1, 0, 4, 1), chained, Random(0)) == (1, 5, 4, 1)
    assert revert_infeasible((0, 0, 0, 0), (1, 0, 4, 1), chained, Random(0)) == (1, 0, 0, 1)


def test_a_change_waits_for_the_one_that_allows_it() -> None:
    def stairs(genome: Genome) -> bool:
        return genome in {(0, 0, 0), (1, 0, 0), (1, 1, 0)}

    assert {revert_infeasible((0, 0, 0), (1, 1, 1), stairs, Random(seed)) for seed in range(20)} == {(1, 1, 0)}


def test_mutation_leaves_what_only_goes_together_and_comes_back() -> None:
    """From nest with nr_survival the filter may go first, or both at once; so neither holds the other for ever."""
    rng, genome = Random(0), TOGETHER
    visits: Counter[bool] = Counter()
    for _ in range(3000):
        after = revert_infeasible(genome, per_gene(genome, CHAIN_SIZES, 0.2, rng), chained, rng)
        visits[genome[2] == 4, after[1] == 5] += 1
        genome = after
    assert visits[True, False] > 0  # filter and retrieval left at once
    assert visits[False, False] > 1000

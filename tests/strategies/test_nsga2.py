"""Several objectives: what nothing else beats in everything is found, and bred from."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from landscapes import additive, even

from ragsmith.strategies import PRESETS, Genome, NSGA2Search, RandomSearch, Sizes, SteppedSearch
from ragsmith.strategies.selection import Individual
from ragsmith.strategies.strategy import Costs

SIZES: Sizes = (4, 6, 5, 4)
KNOBS = PRESETS["default"]
Cost = Callable[[Genome], Costs]


def dear(sizes: Sizes, seed: int, objectives: int = 1) -> Cost:
    """Every option of every gene costs a random whole number, in each of so many ways."""
    rng = random.Random(f"costs {seed}")
    prices = [[[rng.randrange(4) for _ in range(size)] for size in sizes] for _ in range(objectives)]
    return lambda genome: tuple(float(sum(p[g] for p, g in zip(own, genome, strict=True))) for own in prices)


def run(strategy: SteppedSearch, score: Callable[[Genome], float | None], cost: Cost) -> list[Genome]:
    proposed: list[Genome] = []
    while batch := strategy.propose():
        proposed += batch
        scores = {genome: score(genome) for genome in batch}
        strategy.tell(scores, (), {genome: cost(genome) for genome in batch if scores[genome] is not None})
    return proposed


def front(genomes: list[Genome], score: Callable[[Genome], float], cost: Cost) -> set[tuple[float, ...]]:
    """By comparing each with each: the worth of those that nothing else is as good as in everything."""
    worth = {(score(genome), *(-number for number in cost(genome))) for genome in genomes}
    return {
        one
        for one in worth
        if not any(other != one and all(a >= b for a, b in zip(other, one, strict=True)) for other in worth)
    }


@pytest.mark.parametrize("objectives", [1, 2])
@pytest.mark.parametrize("screening", [1, 20])
def test_it_finds_more_of_the_front_than_random_search(objectives: int, screening: int) -> None:
    found, blind = [], []
    for seed in range(3 if screening > 1 else 6):
        score, cost = additive(SIZES, seed), dear(SIZES, seed, objectives)
        whole = front(list(product(*map(range, SIZES))), score, cost)
        for search, shares in (
            (NSGA2Search(SIZES, replace(KNOBS, screening=screening), seed=seed, max_evaluations=80), found),
            (RandomSearch(SIZES, seed=seed, max_evaluations=80), blind),
        ):
            proposed = run(search, score, cost)
            assert len(set(proposed)) == len(proposed) == 80
            shares.append(len(front(proposed, score, cost) & whole) / len(whole))
    assert fmean(found) > 2 * fmean(blind)
    assert screening == 1 or fmean(found) > 0.5


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.sampled_from([1, 4]), st.integers(0, 3), st.floats(0, 1))
def test_proposals_are_feasible_and_new_and_failures_are_no_parents(
    seed: int, screening: int, objectives: int, failing: float
) -> None:
    sizes = (3, 4, 2)
    score, cost, rng = additive(sizes, seed), dear(sizes, seed, objectives), random.Random(seed)
    knobs = replace(KNOBS, population=4, elitism=1, screening=screening)
    search = NSGA2Search(sizes, knobs, seed=seed, feasible=even)
    known = [genome for genome in product(*map(range, sizes)) if even(genome)][:3]
    search.tell(dict.fromkeys(known, 0.5), (), {genome: cost(genome) for genome in known})
    proposed = run(search, lambda genome: None if rng.random() < failing else score(genome), cost)
    every = {genome for genome in product(*map(range, sizes)) if even(genome)}
    assert sorted(proposed) == sorted(every - set(known))  # without a limit it goes on until all is known


def test_the_best_is_that_with_the_highest_score_whatever_it_costs() -> None:
    search = NSGA2Search((2, 2), max_evaluations=4)
    run(search, lambda genome: sum(genome) / 2, lambda genome: (float(sum(genome)),))
    assert search.best() == ((1, 1), 1.0)


def test_a_worth_is_beaten_by_what_is_no_worse_in_anything() -> None:
    def worth(score: float, *costs: float) -> Individual:
        return Individual.from_score((0,), score, costs)

    assert worth(0.5, 1.0).fitness.dominates(worth(0.5, 2.0).fitness)
    assert worth(0.6, 1.0, 3.0).fitness.dominates(worth(0.5, 1.0, 3.0).fitness)
    assert not worth(0.6, 3.0).fitness.dominates(worth(0.5, 2.0).fitness)
    assert not worth(0.5, 1.0).fitness.dominates(worth(0.5, 1.0).fitness)
    assert not Individual.from_score((0,), None, ()).fitness.valid

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
from landscapes import CHAIN_SIZES, PAPER_SIZES, additive, chained, rugged, run

from ragsmith.strategies import Genome, ModelSearch, Observation, Pruned, RandomSearch
from ragsmith.strategies.model_search import fit_observations, select_by_improvement


def test_it_beats_random_search_with_the_same_number_of_evaluations() -> None:
    ours, blind = [], []
    for seed in range(3):
        for results, search in (
            (ours, ModelSearch((4, 5, 5, 4, 3), seed=seed, max_evaluations=60)),
            (blind, RandomSearch((4, 5, 5, 4, 3), seed=seed, max_evaluations=60)),
        ):
            run(search, rugged((4, 5, 5, 4, 3), seed))
            results.append(search.best()[1])
    assert fmean(ours) > fmean(blind) + 0.03


def test_it_begins_with_random_genomes_less_what_it_was_told() -> None:
    search = ModelSearch((9, 9), first=10)
    search.tell({(0, 0): 0.3, (1, 1): 0.4})
    assert len(search.propose()) == 8


def test_with_a_prior_it_begins_with_what_the_prior_promises() -> None:
    score = additive(PAPER_SIZES, 1)

    def known(genomes: Sequence[Genome]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([score(genome) for genome in genomes]), np.full(len(genomes), 0.05)

    search = ModelSearch(PAPER_SIZES, prior=known, max_evaluations=11)
    run(search, score)
    assert search.best()[1] > 0.99


def test_a_space_is_used_up_and_then_it_ends() -> None:
    proposed = run(ModelSearch(CHAIN_SIZES, feasible=chained), additive(CHAIN_SIZES, 1))
    assert len(set(proposed)) == len(proposed) == 150
    assert all(map(chained, proposed))


def test_a_batch_is_not_five_times_the_same_bet() -> None:
    """Genes 0 and 1 are both unexplored: after an option of one, what is next is not that option again."""
    told: dict[Genome, Observation] = {(0, 0): 0.5, (1, 0): 0.6, (0, 1): 0.55, (1, 1): 0.65}
    chosen = select_by_improvement(told, [(2, 0), (2, 1), (0, 2), (1, 2)], 2)
    assert {one[0] == 2 for one in chosen} == {True, False}


def test_what_was_dropped_is_learned_from_the_less_the_fewer_its_questions() -> None:
    full: dict[Genome, Observation] = {(0, 0): 0.5, (1, 0): 0.5, (2, 0): 0.52, (0, 1): 0.48}
    beliefs = []
    for told in ({}, {(3, 1): Pruned(2, 0.9, 0.141)}, {(3, 1): Pruned(50, 0.9, 0.028)}):
        surrogate = fit_observations({**full, **told})
        assert surrogate is not None
        beliefs.append(float(surrogate.posterior([(3, 0)])[0][0]))
    assert beliefs[0] < beliefs[1] < beliefs[2]


def test_it_chooses_whatever_was_observed() -> None:
    dropped: dict[Genome, Observation] = {(0, 0): Pruned(7, 0.2, 0.076), (1, 0): Pruned(7, 0.6, 0.076)}
    assert select_by_improvement(dropped, [(0, 1), (1, 1)], 1) == ((1, 1),)
    assert len(select_by_improvement(dropped, [(0, 1), (1, 1)], 9)) == 2
    assert fit_observations({(0, 0): None}) is None
    assert select_by_improvement({(0, 0): None}, [(0, 1), (1, 0)], 1) == ((0, 1),)

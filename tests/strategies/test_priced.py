from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from landscapes import additive, run

from ragsmith.strategies import Genome
from ragsmith.strategies.priced import MIN_IMPROVEMENT, PricedSearch

SIZES = (3, 4, 3, 2)
START = (0, 0, 0, 0)


def free(genome: Genome) -> float:
    return 1.0


def belief(gains: dict[Genome, float], sd: float):  # type: ignore[no-untyped-def]
    """A prior of these gains over the others, all with one standard deviation."""

    def predict(genomes: Sequence[Genome]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([gains.get(tuple(one), 0.0) for one in genomes]), np.full(len(genomes), sd)

    return predict


def test_it_begins_with_the_given_genomes() -> None:
    search = PricedSearch(SIZES, [START, (1, 0, 0, 0)], free)
    assert search.propose() == (START, (1, 0, 0, 0))


def test_it_changes_one_gene_of_the_best_and_each_time_another() -> None:
    search = PricedSearch(SIZES, [START], free)
    search.tell({START: 0.5})
    batch = search.propose()
    changed = [[place for place, option in enumerate(one) if option != START[place]] for one in batch]
    assert [len(places) for places in changed] == [1, 1, 1]
    assert len({places[0] for places in changed}) == 3


def test_of_two_changes_that_promise_the_same_the_cheaper_comes_first() -> None:
    dear, cheap = (1, 0, 0, 0), (0, 1, 0, 0)
    prior = belief({dear: 0.05, cheap: 0.05}, 0.02)
    for prices, first in (({dear: 5.0}, cheap), ({cheap: 5.0}, dear)):
        search = PricedSearch(SIZES, [START], lambda one, p=prices: p.get(one, 1.0), prior=prior)  # type: ignore[misc]
        search.tell({START: 0.5})
        assert search.propose()[0] == first


def test_a_dear_change_is_tried_if_it_promises_enough() -> None:
    dear, cheap = (1, 0, 0, 0), (0, 1, 0, 0)
    prior = belief({dear: 0.2, cheap: 0.01}, 0.005)
    search = PricedSearch(SIZES, [START], lambda one: 4.0 if one == dear else 1.0, prior=prior)
    search.tell({START: 0.5})
    assert search.propose()[0] == dear


def test_a_dear_option_is_in_what_follows_only_if_it_gains_more_than_it_costs() -> None:
    dear = (1, 0, 0, 0)
    for gain, centre in ((8 * MIN_IMPROVEMENT - 0.001, START), (8 * MIN_IMPROVEMENT + 0.001, dear)):
        search = PricedSearch(SIZES, [START], lambda one: 9.0 if one[0] else 1.0)
        search.tell({START: 0.5, dear: 0.5 + gain, (0, 1, 0, 0): 0.3})
        batch = search.propose()
        assert len(batch) > 0
        assert all(sum(a != b for a, b in zip(one, centre, strict=True)) == 1 for one in batch)


def test_it_ends_when_nothing_is_expected_to_pay() -> None:
    worse = {one: -0.2 for one in np.ndindex(*SIZES) if one != START}
    search = PricedSearch(SIZES, [START], free, prior=belief(worse, MIN_IMPROVEMENT))
    search.tell({START: 0.5, (1, 0, 0, 0): 0.3})
    assert search.propose() == ()


def test_it_ends_without_a_start_that_has_a_score() -> None:
    search = PricedSearch(SIZES, [START], free)
    assert search.propose() == (START,)
    search.tell({START: None})
    assert search.propose() == ()


def test_it_reaches_the_best_of_an_additive_space_with_half_of_its_genomes() -> None:
    score = additive(SIZES, 3)
    search = PricedSearch(SIZES, [START], free, max_evaluations=36)
    run(search, score)
    assert search.best()[0] == max(np.ndindex(*SIZES), key=score)

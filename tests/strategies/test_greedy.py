from __future__ import annotations

import pytest
from landscapes import PAPER_SIZES, additive, run

from ragsmith.strategies import Genome, GreedySearch


def test_without_interactions_one_pass_finds_the_optimum_and_another_confirms_it() -> None:
    search = GreedySearch(PAPER_SIZES)
    run(search, additive(PAPER_SIZES, 1))
    first, second = search.history[:9], search.history[9:]
    assert first[-1].best == search.best()[1] == pytest.approx(1.0)
    assert [step.evaluations for step in first] == [4, 7, 4, 3, 1, 2, 2, 1, 1]  # the start, then size - 1 a gene
    assert len(second) == 9
    assert {step.best_genome for step in second} == {search.best()[0]}


def test_genes_are_varied_in_order_from_the_best_that_was_told() -> None:
    search = GreedySearch((2, 3))
    search.tell({(1, 1): 0.5})
    score = {(1, 1): 0.5, (0, 1): 0.6, (0, 0): 0.1, (0, 2): 0.9, (1, 2): 0.2}
    assert run(search, score.__getitem__) == [(0, 1), (0, 0), (0, 2), (1, 2)]
    assert search.best() == ((0, 2), 0.9)


def test_passes_repeat_until_nothing_changes() -> None:
    # the better option of the first gene shows only once the second one changed
    score = {(0, 0): 0.1, (1, 0): 0.0, (0, 1): 0.2, (1, 1): 0.3}
    search = GreedySearch((2, 2))
    run(search, score.__getitem__)
    assert search.best() == ((1, 1), 0.3)


def test_only_a_better_option_replaces_the_current_one() -> None:
    score = {(0, 0): 0.5, (1, 0): 0.4, (0, 1): 0.4}
    assert run(GreedySearch((2, 2)), score.__getitem__) == [(0, 0), (1, 0), (0, 1)]
    search = GreedySearch((3, 3))
    run(search, lambda genome: 0.5)
    assert search.best() == ((0, 0), 0.5)
    assert all(step.population[0] == (0, 0) for step in search.history)


def test_it_leaves_a_start_that_fails() -> None:
    def score(genome: Genome) -> float | None:
        return None if genome[0] == 0 else genome[1] / 10

    search = GreedySearch((3, 3), feasible=lambda genome: genome != (0, 0))
    assert run(search, score)[0] == (0, 1)  # the first feasible one
    assert search.best() == ((1, 2), 0.2)

from __future__ import annotations

from itertools import product
from statistics import fmean

import optuna
import pytest
from landscapes import PAPER_SIZES, additive, even, run

from ragsmith.strategies import Genome, RandomSearch, TPESearch


def test_it_beats_random_search_with_the_same_number_of_evaluations() -> None:
    ours, blind = [], []
    for seed in range(4):
        for results, search in (
            (ours, TPESearch(PAPER_SIZES, seed=seed, max_evaluations=60)),
            (blind, RandomSearch(PAPER_SIZES, seed=seed, max_evaluations=60)),
        ):
            run(search, additive(PAPER_SIZES, seed))
            results.append(search.best()[1])
    assert fmean(ours) > fmean(blind) + 0.03


def test_a_small_feasible_space_is_used_up_and_then_it_ends() -> None:
    sizes = (2, 3, 2)
    proposed = run(TPESearch(sizes, feasible=even), additive(sizes, 1))
    assert sorted(proposed) == [genome for genome in product(*map(range, sizes)) if sum(genome) % 2 == 0]


def test_batches_have_the_size_that_was_asked_for() -> None:
    search = TPESearch((4, 4, 4), batch=5, max_evaluations=17)
    run(search, additive((4, 4, 4), 1))
    assert [step.evaluations for step in search.history] == [5, 5, 5, 2]


def test_failures_do_not_count_as_scores() -> None:
    def score(genome: Genome) -> float | None:
        return None if genome[0] else 0.1 * genome[1]

    search = TPESearch((3, 5), seed=1, max_evaluations=12)
    run(search, score)
    assert search.best()[0][0] == 0


def test_seeds_beyond_32_bits_are_accepted() -> None:
    assert TPESearch((3, 3), seed=2**40 + 5).propose() == TPESearch((3, 3), seed=5).propose()


def test_optuna_is_silent_and_its_verbosity_is_restored(capfd: pytest.CaptureFixture[str]) -> None:
    optuna.logging.set_verbosity(optuna.logging.INFO)
    run(TPESearch((3, 3), max_evaluations=5), additive((3, 3), 1))
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    assert capfd.readouterr() == ("", "")

from __future__ import annotations

from itertools import product
from random import Random
from statistics import fmean

import optuna
import pytest
from landscapes import PAPER_SIZES, additive, even, run

from ragsmith.strategies import Pruned, RandomSearch, TPESearch


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


def test_seeds_beyond_32_bits_are_accepted() -> None:
    assert TPESearch((3, 3), seed=2**40 + 5).propose() == TPESearch((3, 3), seed=5).propose()


def test_optuna_is_silent_and_its_verbosity_is_restored(capfd: pytest.CaptureFixture[str]) -> None:
    optuna.logging.set_verbosity(optuna.logging.INFO)
    run(TPESearch((3, 3), max_evaluations=5), additive((3, 3), 1))
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("dropped", [False, True])
def test_it_learns_from_what_it_was_told_dropped_or_not(dropped: bool) -> None:
    search = TPESearch((4, 5, 5, 5), max_evaluations=20)
    rng = Random(0)
    for _ in range(30):
        genome = tuple(rng.randrange(size) for size in (4, 5, 5, 5))
        score = 1.0 if genome[0] == 2 else 0.0
        search.tell({genome: Pruned(7, score, 0.1) if dropped else score})
    proposed = run(search, lambda genome: 1.0 if genome[0] == 2 else 0.0)
    assert sum(genome[0] == 2 for genome in proposed) > 12  # 5 would be chance

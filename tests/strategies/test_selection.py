from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.strategies.selection import (
    SELECTIONS,
    Individual,
    compute_roulette_weights,
    elite,
    rank,
    roulette,
    tournament,
)

Score = float | None
SCORES = st.lists(st.none() | st.floats(-10, 10), min_size=1, max_size=20)


def population(scores: list[Score]) -> list[Individual]:
    """Individuals whose genome is their position."""
    return [Individual.from_score((i,), score) for i, score in enumerate(scores)]


def genomes(members: tuple[Individual, ...]) -> list[int]:
    return [member.genome[0] for member in members]


@settings(max_examples=60, deadline=None)
@given(SCORES, st.sampled_from(sorted(SELECTIONS)), st.integers(0, 99))
def test_as_many_members_as_asked_for_and_the_population_is_left_alone(
    scores: list[Score], name: str, seed: int
) -> None:
    members = population(scores)
    chosen = SELECTIONS[name](members, len(members), Random(seed))
    assert len(chosen) == len(members)
    assert all(any(one is member for member in members) for one in chosen)
    assert [member.score for member in members] == scores
    assert [member.genome for member in members] == [(i,) for i in range(len(scores))]


@settings(max_examples=60, deadline=None)
@given(SCORES, st.integers(1, 20))
def test_elite_returns_the_n_best_with_failures_last_and_the_first_of_equals_first(scores: list[Score], n: int) -> None:
    expected = sorted(range(len(scores)), key=lambda i: (scores[i] is None, -(scores[i] or 0.0), i))
    assert genomes(elite(population(scores), n)) == expected[:n]


@settings(max_examples=60, deadline=None)
@given(SCORES, st.integers(0, 99))
def test_a_tournament_of_the_whole_population_returns_the_best(scores: list[Score], seed: int) -> None:
    members = population(scores)
    best = elite(members, 1) * 3
    assert tournament(members, 3, Random(seed), size=len(members)) == best
    assert tournament(members, 3, Random(seed), size=99) == best


@pytest.mark.parametrize(
    ("scores", "weights"),
    [
        ([0.1, 0.3], [0.1, 0.3]),
        ([-1.0, 0.0, 2.0], [0.0, 1.0, 3.0]),
        ([0.0, 0.0], [1.0, 1.0]),
        ([-2.0, -2.0, None], [1.0, 1.0, 0.0]),
        ([None, 0.4], [0.0, 0.4]),
        ([None, 0.0], [0.0, 1.0]),
        ([None, None], [1.0, 1.0]),
    ],
)
def test_roulette_weights(scores: list[Score], weights: list[float]) -> None:
    assert compute_roulette_weights(scores) == weights


def test_roulette_draws_in_proportion_to_the_score() -> None:
    counts = Counter(genomes(roulette(population([0.1, 0.3, None]), 4000, Random(0))))
    assert counts[1] / 4000 == pytest.approx(0.75, abs=0.03)
    assert counts[2] == 0


def test_rank_prefers_the_best_and_puts_failures_at_the_bottom() -> None:
    counts = Counter(genomes(rank(population([0.2, None, 0.9]), 6000, Random(0))))
    assert [counts[i] / 6000 for i in (1, 0, 2)] == pytest.approx([1 / 6, 2 / 6, 3 / 6], abs=0.03)
    assert genomes(rank(population([None]), 2, Random(0))) == [0, 0]

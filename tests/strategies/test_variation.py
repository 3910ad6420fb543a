"""Crossover and mutation: which genes they change, and how often."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.strategies.variation import (
    CROSSOVERS,
    MUTATIONS,
    adaptive_rate,
    categorical,
    composite,
    inversion,
    multi_point,
    order,
    per_gene,
    segment,
    single_point,
    swap,
    uniform,
)


def masks(name: str, n: int, draws: int = 400) -> set[tuple[int, ...]]:
    """All patterns of exchanged genes seen in many draws, from parents that differ everywhere."""
    rng = Random(0)
    return {CROSSOVERS[name]((0,) * n, (1,) * n, rng)[0] for _ in range(draws)}


def runs(mask: tuple[int, ...]) -> int:
    """How many separate stretches of exchanged genes a pattern has."""
    return sum(1 for before, gene in zip((0, *mask), mask, strict=False) if gene and not before)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(sorted(CROSSOVERS)), st.integers(1, 12), st.integers(0, 99))
def test_children_hold_the_parents_two_genes_at_every_position(
    data: st.DataObject, name: str, n: int, seed: int
) -> None:
    genome = st.tuples(*[st.integers(0, 9)] * n)
    first, second = data.draw(genome), data.draw(genome)
    one, other = CROSSOVERS[name](first, second, Random(seed))
    assert (one, other) == CROSSOVERS[name](first, second, Random(seed))
    assert len(one) == len(other) == n
    for i in range(n):
        assert sorted((one[i], other[i])) == sorted((first[i], second[i]))


def test_single_point_exchanges_a_tail() -> None:
    assert masks("single_point", 4) == {(0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 1, 1)}
    assert single_point((3,), (5,), Random(0)) == ((3,), (5,))


def test_multi_point_exchanges_alternate_pieces_between_two_or_three_cuts() -> None:
    seen = masks("multi_point", 6)
    assert sum(mask[-1] for mask in seen) == 10  # C(5, 3): kept, exchanged, kept, exchanged
    assert sum(not mask[-1] for mask in seen) == 10  # C(5, 2): kept, exchanged, kept
    assert {runs(mask) for mask in seen} == {1, 2}
    assert multi_point((1, 2), (3, 4), Random(0)) == ((1, 4), (3, 2))


def test_uniform_exchanges_half_of_the_genes_in_any_pattern() -> None:
    assert len(masks("uniform", 4)) == 2**4
    rng = Random(1)
    children = [uniform((0,) * 10, (1,) * 10, rng)[0] for _ in range(500)]
    assert sum(map(sum, children)) / 5000 == pytest.approx(0.5, abs=0.03)


def test_order_exchanges_one_stretch_which_may_hold_the_first_and_the_last_gene() -> None:
    seen = masks("order", 5)
    assert len(seen) == 15  # C(6, 2) pairs of cuts
    assert {runs(mask) for mask in seen} == {1}
    assert (0, 0, 0, 0, 1) in seen
    assert order((3,), (5,), Random(0)) == ((5,), (3,))


def test_segment_exchanges_three_neighbours_and_never_the_whole_genome() -> None:
    assert masks("segment", 5) == {(1, 1, 1, 0, 0), (0, 1, 1, 1, 0), (0, 0, 1, 1, 1)}
    assert masks("segment", 3) == {(1, 1, 0), (0, 1, 1)}
    assert masks("segment", 2) == {(1, 0), (0, 1)}
    assert segment((3,), (5,), Random(0)) == ((5,), (3,))


SIZES = st.lists(st.integers(1, 15), min_size=1, max_size=10).map(tuple)


def changed(before: tuple[int, ...], after: tuple[int, ...]) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(sorted(MUTATIONS)), SIZES, st.floats(0, 1), st.integers(0, 99))
def test_genes_stay_in_range(data: st.DataObject, name: str, sizes: tuple[int, ...], rate: float, seed: int) -> None:
    genome = data.draw(st.tuples(*(st.integers(0, size - 1) for size in sizes)))
    mutant = MUTATIONS[name](genome, sizes, rate, Random(seed))
    assert mutant == MUTATIONS[name](genome, sizes, rate, Random(seed))
    assert len(mutant) == len(sizes)
    assert all(0 <= gene < size for gene, size in zip(mutant, sizes, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.data(), SIZES, st.integers(0, 99))
def test_rate_0_changes_nothing_and_rate_1_every_gene_with_a_choice(
    data: st.DataObject, sizes: tuple[int, ...], seed: int
) -> None:
    genome = data.draw(st.tuples(*(st.integers(0, size - 1) for size in sizes)))
    for mutate in MUTATIONS.values():
        assert mutate(genome, sizes, 0.0, Random(seed)) == genome
    mutant = per_gene(genome, sizes, 1.0, Random(seed))
    assert changed(genome, mutant) == [i for i, size in enumerate(sizes) if size > 1]


@pytest.mark.parametrize("name", MUTATIONS)
def test_rate_1_always_changes_a_genome_that_has_a_choice(name: str) -> None:
    for seed in range(50):
        assert MUTATIONS[name]((0, 0, 0), (1, 2, 1), 1.0, Random(seed)) == (0, 1, 0)
        assert MUTATIONS[name]((0, 0), (1, 1), 1.0, Random(seed)) == (0, 0)


@pytest.mark.parametrize("name", ["random", "swap", "inversion"])
def test_one_rate_gives_all_operators_the_same_chance_to_change_a_genome(name: str) -> None:
    genome, sizes, rng = (0,) * 9, (4,) * 9, Random(3)
    hits = sum(MUTATIONS[name](genome, sizes, 0.08, rng) != genome for _ in range(4000))
    assert hits / 4000 == pytest.approx(1 - 0.92**9, abs=0.03)


def test_a_redrawn_gene_takes_each_other_option_equally_often() -> None:
    rng = Random(5)
    counts = Counter(per_gene((1,), (4,), 1.0, rng)[0] for _ in range(3000))
    assert set(counts) == {0, 2, 3}
    assert all(count / 3000 == pytest.approx(1 / 3, abs=0.04) for count in counts.values())


def test_swap_redraws_two_or_three_genes_anywhere() -> None:
    rng = Random(0)
    found = [changed((0,) * 6, swap((0,) * 6, (3,) * 6, 1.0, rng)) for _ in range(500)]
    assert {len(genes) for genes in found} == {2, 3}
    assert len({tuple(genes) for genes in found}) == 15 + 20  # C(6, 2) + C(6, 3)


def test_inversion_redraws_two_to_four_neighbours() -> None:
    rng = Random(0)
    found = {tuple(changed((0,) * 6, inversion((0,) * 6, (3,) * 6, 1.0, rng))) for _ in range(500)}
    assert found == {tuple(range(start, start + n)) for n in (2, 3, 4) for start in range(6 - n + 1)}


def test_categorical_redraws_several_genes_in_three_of_ten_calls() -> None:
    rng = Random(0)
    several = sum(len(changed((0,) * 9, categorical((0,) * 9, (3,) * 9, 1.0, rng))) < 9 for _ in range(2000))
    assert several / 2000 == pytest.approx(0.3, abs=0.04)


def test_composite_uses_all_the_operators() -> None:
    rng = Random(0)
    sizes = {len(changed((0,) * 9, composite((0,) * 9, (3,) * 9, 1.0, rng))) for _ in range(300)}
    assert sizes == {2, 3, 4, 9}


def test_adaptive_rate_of_the_worked_example() -> None:
    # best .5 .5 .5 .6 .6: the counter is 0 after the two improvements
    steps = [(1.0, 0), (0.5, 1), (0.5, 2), (0.5, 0), (0.1, 1)]
    rates = [adaptive_rate(0.08, 0.01, 0.2, diversity, stagnant) for diversity, stagnant in steps]
    assert rates == pytest.approx([0.08, 0.116, 0.122, 0.11, 0.14])
    assert adaptive_rate(0.08, 0.01, 0.2, 0.0, 10) == pytest.approx(0.2)  # stagnation counts in full after 10
    assert adaptive_rate(0.08, 0.01, 0.2, 1.0, 10) == adaptive_rate(0.08, 0.01, 0.2, 1.0, 99) == pytest.approx(0.14)


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 1), st.integers(0, 50))
def test_adaptive_rate_stays_between_base_and_maximum_and_rises_with_stagnation(
    diversity: float, stagnant: int
) -> None:
    rate = adaptive_rate(0.08, 0.01, 0.2, diversity, stagnant)
    assert 0.08 <= rate <= 0.2
    assert rate <= adaptive_rate(0.08, 0.01, 0.2, diversity, stagnant + 1)
    assert rate <= adaptive_rate(0.08, 0.01, 0.2, diversity / 2, stagnant)

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.strategies.crossover import CROSSOVERS, multi_point, order, segment, single_point, uniform

NAMES = sorted(CROSSOVERS)


def masks(name: str, n: int, draws: int = 400) -> set[tuple[int, ...]]:
    """All patterns of exchanged genes seen in many draws, from parents that differ everywhere."""
    rng = Random(0)
    return {CROSSOVERS[name]((0,) * n, (1,) * n, rng)[0] for _ in range(draws)}


def runs(mask: tuple[int, ...]) -> int:
    """How many separate stretches of exchanged genes a pattern has."""
    return sum(1 for before, gene in zip((0, *mask), mask, strict=False) if gene and not before)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(NAMES), st.integers(1, 12), st.integers(0, 99))
def test_children_hold_the_parents_two_genes_at_every_position(
    data: st.DataObject, name: str, n: int, seed: int
) -> None:
    genome = st.tuples(*[st.integers(0, 9)] * n)
    first, second = data.draw(genome), data.draw(genome)

    one, other = CROSSOVERS[name](first, second, Random(seed))

    assert len(one) == len(other) == n
    for i in range(n):
        assert sorted((one[i], other[i])) == sorted((first[i], second[i]))


@pytest.mark.parametrize("name", NAMES)
def test_the_generator_that_is_passed_in_decides(name: str) -> None:
    first, second = (0,) * 9, (1,) * 9
    assert [CROSSOVERS[name](first, second, Random(7)) for _ in range(3)] == [
        CROSSOVERS[name](first, second, Random(7))
    ] * 3
    assert len(masks(name, 9)) > 1


@pytest.mark.parametrize("name", NAMES)
def test_every_gene_can_be_exchanged_and_be_kept_but_for_the_ends_of_cuts(name: str) -> None:
    seen = masks(name, 6)
    exchanged = [any(mask[i] for mask in seen) for i in range(6)]
    kept = [any(not mask[i] for mask in seen) for i in range(6)]
    first_stays = name in {"single_point", "multi_point"}  # which child is called the first makes no difference
    assert exchanged == [not first_stays] + [True] * 5
    assert kept == [True] * 5 + [name != "single_point"]


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

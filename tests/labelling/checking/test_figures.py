"""The formulas of gates against definitions, worked out another way."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations, product
from math import comb
from statistics import fmean, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.comparison.difference import cluster_variance as clustered
from ragsmith.datasets.relevance import Relevance
from ragsmith.labelling.checking.gates.shortcuts import (
    MEDIUM_H,
    add_effect,
    binomial_tail,
    recall_of_units,
    recall_over_ties,
)
from ragsmith.measures.rankings import recall_at
from ragsmith.reporting.charts import histogram

VALUES = st.lists(st.floats(-1, 1).map(lambda x: round(x, 6)), min_size=2, max_size=12)


@given(VALUES)
def test_with_groups_of_one_it_is_the_sample_variance(values: list[float]) -> None:
    differences = {str(i): value for i, value in enumerate(values)}
    assert clustered(differences, [[one] for one in differences]) == pytest.approx(variance(values), abs=1e-9)


@given(VALUES, st.integers(2, 4))
def test_questions_that_are_copies_of_each_other_count_once(values: list[float], copies: int) -> None:
    differences = {f"{i}-{c}": value for i, value in enumerate(values) for c in range(copies)}
    groups = [[f"{i}-{c}" for c in range(copies)] for i in range(len(values))]
    # n copies of k questions tell what k questions tell: variance / (n k) of the mean = variance of one / k
    assert clustered(differences, groups) / len(differences) == pytest.approx(variance(values) / len(values), abs=1e-9)


def test_one_group_says_nothing() -> None:
    with pytest.raises(ValueError, match="give two at least"):
        clustered({"a": 1.0, "b": 2.0}, [["a", "b"], ["c"]])


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.data())
def test_recall_over_ties_is_the_mean_over_all_orders(levels: list[int], data: st.DataObject) -> None:
    gold = data.draw(st.sets(st.integers(0, len(levels) - 1), min_size=1))
    k = data.draw(st.integers(1, 5))
    orders = [
        [i for i in order if levels[i]]
        for order in permutations(range(len(levels)))
        if all(levels[a] >= levels[b] for a, b in pairwise(order))
    ]
    expected = fmean(recall_at(map(str, order), {str(i) for i in gold}, k) for order in orders)
    assert recall_over_ties(np.array(levels, dtype=float), gold, k) == pytest.approx(expected)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.data())
def test_recall_of_units_is_that_of_the_best_chunk_of_each(levels: list[int], data: st.DataObject) -> None:
    ids = [str(place) for place in range(len(levels))]
    home = data.draw(st.lists(st.sampled_from("abc"), min_size=len(ids), max_size=len(ids)))
    coarse = {chunk: 0 for chunk, name in zip(ids, home, strict=True) if name == home[0]}
    gold = Relevance(dict.fromkeys(coarse, 0.1), coarse=coarse, homes=dict(zip(ids, home, strict=True)))
    k = data.draw(st.integers(1, 3))
    best = {name: max(level for level, where in zip(levels, home, strict=True) if where == name) for name in home}
    expected = recall_over_ties(
        np.array([best[name] for name in sorted(best)], dtype=float), [sorted(best).index(home[0])], k
    )
    assert recall_of_units(np.array(levels, dtype=float), ids, gold, k) == pytest.approx(expected)


@given(st.integers(0, 8), st.integers(0, 8), st.sampled_from([Fraction(at, 10) for at in (0, 2, 5, 9, 10)]))
def test_the_binomial_tail_counts_every_outcome(hits: int, n: int, chance: Fraction) -> None:
    hits = min(hits, n)
    total = Fraction(0)
    for outcome in product((0, 1), repeat=n):
        if sum(outcome) >= hits:
            total += chance ** sum(outcome) * (1 - chance) ** (n - sum(outcome))
    assert binomial_tail(hits, n, float(chance)) == pytest.approx(float(total))


@pytest.mark.parametrize(("hits", "n", "chance"), [(1100, 5000, Fraction(1, 5)), (2600, 5000, Fraction(1, 2))])
def test_the_binomial_tail_of_large_sets_is_that_of_exact_fractions(hits: int, n: int, chance: Fraction) -> None:
    yes, no, whole = chance.numerator, chance.denominator - chance.numerator, chance.denominator
    ways = sum(comb(n, k) * yes**k * no ** (n - k) for k in range(hits, n + 1))
    assert binomial_tail(hits, n, float(chance)) == pytest.approx(float(Fraction(ways, whole**n)), rel=1e-6)


def test_a_medium_effect_on_a_fifth() -> None:
    assert add_effect(0.2, MEDIUM_H) == pytest.approx(0.428, abs=0.001)
    assert add_effect(1.0, MEDIUM_H) == 1


@given(st.lists(st.floats(0, 1)), st.integers(1, 12))
def test_a_histogram_loses_nothing(values: list[float], bins: int) -> None:
    counts = histogram(values, bins)
    assert (len(counts), sum(counts)) == (bins, len(values))

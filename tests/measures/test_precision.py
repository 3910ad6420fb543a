"""How much of what is read is right; and what that sees of a filter, which the measures of the paper do not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.relevance import Relevance
from ragsmith.evaluation.fitness import Fitness
from ragsmith.measures.case import Case
from ragsmith.measures.passages import context_precision
from ragsmith.measures.rankings import kept_precision
from ragsmith.measures.registry import measures
from ragsmith.testing import example_chunks, hits_of
from ragsmith.types import Passage, Span

CHUNKS = example_chunks()


def ranked(places, relevant):
    gold = Relevance({CHUNKS[place].id: 1.0 for place in relevant})
    return Case(hits=hits_of([CHUNKS[place] for place in places], range(len(places), 0, -1)), relevance=gold)


@pytest.mark.parametrize(
    ("places", "relevant", "expected"),
    [([0, 1, 2, 3], {1, 5}, 0.25), ([1], {1, 5}, 1.0), ([0], {1}, 0.0), ([], {1}, 0)],
)
def test_what_is_kept_for_nothing_counts(places, relevant, expected):
    assert kept_precision(ranked(places, relevant)) == expected


GOLD = (Span("a", 10, 30),)


def read(*passages, gold=GOLD):
    return context_precision(Case(passages=tuple(Passage(text, tuple(s), 1.0) for text, s in passages), evidence=gold))


def test_the_context_is_read_by_characters():
    whole = "x" * 40, [Span("a", 0, 40)]
    assert read(whole) == 0.5
    assert read(("x" * 20, [Span("a", 20, 40)])) == 0.5  # ten of the twenty
    assert read(whole, ("y" * 40, [Span("b", 0, 40)])) == 0.25  # another document
    assert read(whole, whole) == 0.25  # shown twice, and right once
    assert read(("x" * 10, [Span("a", 0, 40)])) == 1.0  # a summary
    assert read(whole, gold=(Span("a", 10, 30), Span("a", 10, 30), Span("b", 0, 5))) == 0.5
    assert read() == 0


def test_a_question_without_evidence_has_none():
    assert measures()["context_precision"](Case(passages=(Passage("x", (), 1.0),)), {}) is None


PAPERS = ("recall", "map", "ndcg", "mrr")


def fitnesses(case):
    """R, and the fitness that sees what reading costs, of a ranking."""
    found = {name: measures()[name](case, {}) for name in (*PAPERS, "kept_precision")}
    return Fitness().with_objective("retrieval")(found), Fitness.from_spec("reading").with_objective("retrieval")(found)


@settings(max_examples=150, deadline=None)
@given(st.permutations(range(8)), st.sets(st.integers(0, 7), min_size=1), st.integers(1, 8))
def test_cutting_a_ranking_never_raises_r_and_raises_what_sees_the_cost(places, relevant, kept):
    before, after = fitnesses(ranked(places, relevant)), fitnesses(ranked(places[:kept], relevant))
    assert after[0] <= before[0] + 1e-12
    if relevant <= set(places[:kept]) and kept < len(places):  # nothing is lost
        assert after[0] == pytest.approx(before[0])
        assert after[1] > before[1]

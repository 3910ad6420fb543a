"""Questions that share evidence stay on one side of a split, regardless of order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.groups import MAX_GAP
from ragsmith.datasets.splits import (
    BY_DOCUMENT,
    BY_ORIGIN,
    BY_SECTION,
    GIVEN,
    TOO_SMALL,
    UNSPLITTABLE,
    Leaks,
    Split,
    count_leaks,
    crossfit,
    make_folds,
    split,
    split_with_exclusions,
    stratify,
)
from ragsmith.errors import UsageError
from ragsmith.types import Dataset, Document, Example, Origin, Span

TYPES = ("factual", "interpretation", "long")


def dataset(gold: list[list[tuple[int, int]]], length: int = 60_000, text: str | None = None) -> Dataset:
    """Return a data set in which question i has 100-character spans at (document, start)."""
    count = 1 + max((doc for spans in gold for doc, _ in spans), default=0)
    documents = [Document(f"d{n}", f"d{n}", text or f"{n} " + "x" * length) for n in range(count)]
    examples = [
        Example(f"q{i:03d}", f"Question {i}?", "A", TYPES[i % 3], tuple(Span(f"d{d}", s, s + 100) for d, s in spans))
        for i, spans in enumerate(gold)
    ]
    return make_dataset({"name": "n"}, documents, examples)


def shortest_way(found: Split) -> float:
    """Characters between the nearest gold of the two sides, by comparing every pair."""
    return min(
        (
            max(a.start, b.start) - min(a.end, b.end)
            for one, other in product(found.search, found.test)
            for a, b in product(one.evidence, other.evidence)
            if a.doc == b.doc
        ),
        default=float("inf"),
    )


def marked(data: Dataset, marks: list[str]) -> Dataset:
    """The same data set with a split of its own."""
    examples = [replace(e, split=mark) for e, mark in zip(data.examples, marks, strict=True)]
    return make_dataset({"name": "n"}, data.documents, examples)


def drafted(data: Dataset, ids: set[str]) -> Dataset:
    """The same data set, some of whose questions a machine drafted."""
    origin = Origin("drafted", "definition")
    examples = [replace(e, origin=origin) if e.id in ids else e for e in data.examples]
    return make_dataset({"name": "n"}, data.documents, examples)


def documents_of(examples: tuple[Example, ...]) -> set[str]:
    return {span.doc for example in examples for span in example.evidence}


def test_written_questions_are_the_test_of_a_search_on_drafted_ones() -> None:
    data = dataset([[(i % 10, 2_000 * i)] for i in range(28)])
    machine = {example.id for example in data.examples[8:]}
    found = split(drafted(data, machine))
    assert found.rule == BY_ORIGIN
    assert {example.id for example in found.search} == machine
    assert {example.id for example in found.test} == {f"q{i:03d}" for i in range(8)}
    assert split(data).rule == BY_DOCUMENT


def test_drafted_questions_near_written_ones_are_left_out_where_enough_remain() -> None:
    data = dataset([[(i % 10, 2_000 * i)] for i in range(28)] + [[(0, 100)], [(0, 300)]])
    machine = {example.id for example in data.examples[8:]}
    found = split(drafted(data, machine))
    assert {example.id for example in found.unused} == {"q028", "q029"}
    assert not count_leaks(data, found).near
    same = [replace(e, question=" question  0?") if e.id == "q020" else e for e in data.examples]
    reworded = make_dataset({"name": "n"}, data.documents, same)
    assert {example.id for example in split(drafted(reworded, machine)).unused} == {"q020", "q028", "q029"}
    few = {example.id for example in data.examples[15:]}  # 15 of them, two of which are near
    assert split(drafted(data, few)).rule == BY_DOCUMENT


@pytest.mark.parametrize("written", [0, 5, 25])
def test_too_few_questions_of_one_origin_are_split_as_ever(written: int) -> None:
    data = dataset([[(i % 10, 2_000 * i)] for i in range(30)])
    found = split(drafted(data, {example.id for example in data.examples[written:]}))
    assert found.rule == BY_DOCUMENT


def test_ten_documents_are_split_by_document() -> None:
    data = dataset([[(i % 10, 100 * i)] for i in range(100)])
    found = split(data)
    assert found.rule == BY_DOCUMENT
    assert (len(found.search), len(found.test)) == (70, 30)
    assert not documents_of(found.search) & documents_of(found.test)
    counts = Counter(example.type for example in found.test)
    assert all(9 <= counts[type_] <= 11 for type_ in TYPES)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 14), st.integers(0, 5_000)), min_size=1, max_size=2), max_size=60),
    st.integers(0, 3),
)
def test_nothing_leaks_and_nothing_is_lost(gold: list[list[tuple[int, int]]], seed: int) -> None:
    data = dataset(gold, length=6_000)
    found = split(data, seed=seed)
    everyone = (*found.search, *found.test, *found.unused)
    assert sorted(everyone, key=lambda example: example.id) == list(data.examples)
    if found.rule in {TOO_SMALL, UNSPLITTABLE}:
        assert found.test == found.unused == ()
        return
    assert 0.15 <= len(found.test) / len(data.examples) <= 0.45
    assert len(found.test) >= 6
    assert len(found.unused) <= len(data.examples) / 5
    assert shortest_way(found) > MAX_GAP
    assert count_leaks(data, found) == Leaks(len(found.test), 0, 0)
    if found.rule == BY_DOCUMENT:
        assert not documents_of(found.search) & documents_of(found.test)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_leaks_are_counted_in_any_split(data: st.DataObject) -> None:
    gold = data.draw(
        st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5_000)), min_size=1, max_size=2), max_size=30)
    )
    marks = data.draw(st.lists(st.sampled_from(["search", "test", "unused"]), min_size=len(gold), max_size=len(gold)))
    given_ = marked(dataset(gold, text="A sentence of some words. " * 220), marks)
    divided = split(given_)
    chunks = chunk_documents(given_.documents, size=900)

    def relevant(example: Example) -> set[str]:
        return {
            c.id
            for c in chunks
            for s in example.evidence
            if c.doc == s.doc and 2 * (min(c.end, s.end) - max(c.start, s.start)) >= s.end - s.start
        }

    def near(a: Example, b: Example) -> bool:
        return shortest_way(Split((a,), (b,), "")) <= 900

    assert count_leaks(given_, divided) == Leaks(
        marks.count("test"),
        sum(any(relevant(t) & relevant(s) for s in divided.search) for t in divided.test),
        sum(any(near(t, s) for s in divided.search) for t in divided.test),
    )


def test_leaks_are_said_in_words() -> None:
    data = marked(dataset([[(0, 0)], [(0, 50)], [(0, 950)], [(1, 0)]]), ["search", "test", "test", "test"])
    assert str(count_leaks(data, split(data))) == (
        "2 of 3 test questions have gold within 900 characters of a search question's, "
        "1 share a relevant chunk with one"
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 14), st.integers(0, 5_000)), min_size=1, max_size=2), max_size=60),
    st.integers(1, 6),
)
def test_folds_hold_every_question_once_and_no_gold_twice(gold: list[list[tuple[int, int]]], n: int) -> None:
    data = dataset(gold, length=6_000)
    parts = make_folds(data, data.examples, n)
    assert sorted(e.id for part in parts for e in part) == [e.id for e in data.examples]
    assert len(parts) <= n
    covered = [{(s.doc, at) for e in part for s in e.evidence for at in range(s.start, s.end)} for part in parts]
    assert sum(map(len, covered)) == len(set().union(*covered))


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20_000)), min_size=1, max_size=2), max_size=50),
    st.integers(2, 6),
)
def test_a_crossfit_tests_every_question_once_and_nothing_leaks(gold: list[list[tuple[int, int]]], n: int) -> None:
    data = dataset(gold)
    found = crossfit(data, n)
    assert len(found) in (0, *range(2, n + 1))
    if not found:
        return
    assert sorted(e.id for one in found for e in one.test) == [e.id for e in data.examples]
    sizes = [len(one.test) for one in found]
    assert max(sizes) <= 2 * min(sizes)
    for one in found:
        assert shortest_way(one) > MAX_GAP
        assert len(one.search) + len(one.test) + len(one.unused) == len(data.examples)
        assert len(one.search) >= 14


def test_a_crossfit_of_separate_documents_leaves_nothing_out() -> None:
    found = crossfit(dataset([[(i // 3, 1_000 * (i % 3))] for i in range(60)]), 5)
    assert [(len(one.search), len(one.test), len(one.unused)) for one in found] == [(48, 12, 0)] * 5


def test_a_crossfit_tests_what_people_wrote_where_that_is_enough() -> None:
    data = drafted(dataset([[(i, 0)] for i in range(60)]), {f"q{i:03d}" for i in range(30)})
    found = crossfit(data, 3)
    assert not any(example.drafted for one in found for example in one.test)
    assert all(sum(example.drafted for example in one.search) == 30 for one in found)
    mixed = drafted(dataset([[(i, 0)] for i in range(30)]), {f"q{i:03d}" for i in range(15)})
    assert sum(len(one.test) for one in crossfit(mixed, 3)) == 30


def test_folds_are_as_wide_as_balance_allows() -> None:
    apart = dataset([[(i % 10, 3_000 * i)] for i in range(40)], length=130_000)
    assert [len(documents_of(tuple(part))) for part in make_folds(apart, apart.examples, 5)] == [2] * 5
    lumped = dataset([[(0 if i < 30 else i, 3_000 * i)] for i in range(40)], length=130_000)
    assert [len(part) for part in make_folds(lumped, lumped.examples, 5)] == [8] * 5


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(TYPES), st.integers(0, 6)), max_size=60), st.randoms(use_true_random=False))
def test_every_prefix_has_types_and_documents_in_proportion(
    kinds: list[tuple[str, int]], shuffle: random.Random
) -> None:
    examples = [
        Example(f"q{i}", f"Question {i}?", "A", type_, (Span(f"d{doc}", 0, 100),))
        for i, (type_, doc) in enumerate(kinds)
    ]
    order = stratify(examples)
    assert sorted(order, key=lambda e: e.id) == sorted(examples, key=lambda e: e.id)
    for length in range(len(order) + 1):
        for type_, share in shares(examples, lambda e: e.type).items():
            assert abs(sum(e.type == type_ for e in order[:length]) - share * length) < 1
    for type_ in TYPES:
        among = [e for e in order if e.type == type_]
        for length in range(len(among) + 1):
            for doc, share in shares(among, lambda e: e.evidence[0].doc).items():
                assert abs(sum(e.evidence[0].doc == doc for e in among[:length]) - share * length) < 1
    shuffle.shuffle(examples)
    renamed = [replace(e, id=f"r{n}") for n, e in enumerate(examples)]
    assert [e.question for e in stratify(renamed)] == [e.question for e in order]


def shares(examples: list[Example], of: Callable[[Example], str]) -> dict[str, Fraction]:
    """The share of questions of each kind."""
    return {kind: Fraction(count, len(examples)) for kind, count in Counter(map(of, examples)).items()}


def test_the_split_depends_on_content_and_seed_only() -> None:
    data = dataset([[(i % 12, 100 * i)] for i in range(60)])
    shuffled = list(data.examples)
    random.Random(1).shuffle(shuffled)
    renamed = [replace(example, id=f"r{n}") for n, example in enumerate(shuffled)]
    again = split(make_dataset({"name": "other"}, data.documents, renamed))
    asked = {example.question for example in split(data).test}
    assert {example.question for example in again.test} == asked
    seeds = {frozenset(example.id for example in split(data, seed=seed).test) for seed in range(5)}
    assert len(seeds) > 1


def test_one_component_falls_back_to_sections_and_says_so() -> None:
    text = "".join(f"## Section {n}\n\n{'x' * 1_500}\n\n" for n in range(30))
    starts = [text.index("x" * 1_500, text.index(f"## Section {n}\n")) for n in range(30)]
    data = dataset([[(0, start)] for start in starts for _ in range(2)], text=text)
    found = split(data)
    assert found.rule == BY_SECTION
    assert "2,000 characters" in found.rule
    assert (len(found.test), found.unused) == (18, ())
    sides = [{span.start for example in side for span in example.evidence} for side in (found.search, found.test)]
    assert not sides[0] & sides[1]


def test_between_the_sides_of_one_document_a_few_questions_are_left_out() -> None:
    data = dataset([[(0, 1_000 * i)] for i in range(40)])
    found = split(data)
    assert found.rule == BY_SECTION
    assert 1 <= len(found.unused) <= 4
    assert 10 <= len(found.test) <= 14
    assert shortest_way(found) > MAX_GAP
    blocks = [{span.start // 2_000 for e in side for span in e.evidence} for side in (found.search, found.test)]
    assert not blocks[0] & blocks[1]


def test_one_draw_with_many_seeds_divides_in_many_ways_and_nothing_leaks() -> None:
    tangled = dataset([[(0, 1_000 * i)] for i in range(60)])
    drawn = [split_with_exclusions(tangled, seed=seed, draws=1) for seed in range(20)]
    assert len({frozenset(e.id for e in found.test) for found in drawn if found}) >= 10
    assert all(found is not None and shortest_way(found) > MAX_GAP for found in drawn)
    separate = dataset([[(i % 10, 100 * i)] for i in range(60)])
    assert len({frozenset(e.id for e in split(separate, seed=seed, draws=1).test) for seed in range(20)}) >= 10


@pytest.mark.parametrize(
    "gold",
    [
        [[(0, 200 * (i % 15))] for i in range(60)],
        [[(0, 1_950)] if i % 2 else [(0, 100 + 2_000 * (i % 4 == 0))] for i in range(40)],  # over a border of blocks
    ],
)
def test_a_document_full_of_gold_is_not_split(gold: list[list[tuple[int, int]]]) -> None:
    assert split(dataset(gold)).rule == UNSPLITTABLE


@pytest.mark.parametrize(("count", "tested"), [(0, 0), (1, 0), (19, 0), (20, 6)])
def test_few_questions_are_not_split(count: int, tested: int) -> None:
    found = split(dataset([[(i, 0)] for i in range(count)]))
    assert (len(found.search), len(found.test)) == (count - tested, tested)
    assert (found.rule == "too small to split, nothing is claimed") == (not tested)


def test_the_same_wording_never_stands_on_both_sides() -> None:
    data = dataset([[(i, 0)] for i in range(40)])
    doubled = [
        replace(e, question=f"What  is {n // 2}?" if n % 2 else f"what is {n // 2}?")
        for n, e in enumerate(data.examples)
    ]
    found = split(make_dataset({"name": "n"}, data.documents, doubled))
    asked = [{" ".join(e.question.lower().split()) for e in side} for side in (found.search, found.test)]
    assert found.test
    assert not asked[0] & asked[1]


def test_a_given_split_is_kept() -> None:
    data = dataset([[(0, 0)] for _ in range(3)])
    found = split(marked(data, ["search", "test", "unused"]))
    assert found.rule == GIVEN == "given"
    assert [[e.id for e in part] for part in (found.search, found.test, found.unused)] == [["q000"], ["q001"], ["q002"]]


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, float("nan")])
def test_an_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match="give a number between 0 and 1"):
        split(dataset([]), test_share=share)


def test_where_larger_chunks_are_searched_gold_lies_further_apart() -> None:
    data = dataset([[(0, 1_000 * i)] for i in range(60)])
    gap = 2_500
    near, far = split(data), split(data, gap=gap)
    assert MAX_GAP < shortest_way(near) <= gap < shortest_way(far)
    assert "within 2500 characters" in far.rule
    assert count_leaks(data, far, cuts=((500, 0), (2_400, 100)), gap=gap) == Leaks(len(far.test), 0, 0, gap)


def test_a_question_leaks_if_chunks_of_any_size_are_shared() -> None:
    words = "word " * 2_000
    data = marked(dataset([[(0, 1_000)], [(0, 2_200)]], text=words), ["search", "test"])
    divided = split(data)
    assert count_leaks(data, divided) == Leaks(1, 0, 0)
    assert count_leaks(data, divided, cuts=((900, 0),), gap=3_000) == Leaks(1, 0, 1, 3_000)
    assert count_leaks(data, divided, cuts=((900, 0), (4_000, 0)), gap=4_000) == Leaks(1, 1, 1, 4_000)

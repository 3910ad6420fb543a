"""Questions that share gold stay on one side of a split, whatever their order."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.splits import BY_DOCUMENT, BY_SECTION, GIVEN, TANGLED, TOO_SMALL, split
from ragsmith.errors import UsageError
from ragsmith.types import Dataset, Document, Example, Span

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


def documents_of(examples: tuple[Example, ...]) -> set[str]:
    return {span.doc for example in examples for span in example.evidence}


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
    assert sorted((*found.search, *found.test), key=lambda example: example.id) == list(data.examples)
    if found.rule in {TOO_SMALL, TANGLED}:
        assert found.test == ()
        return
    assert 0.15 <= len(found.test) / len(data.examples) <= 0.45
    assert len(found.test) >= 6
    if found.rule == BY_DOCUMENT:
        assert not documents_of(found.search) & documents_of(found.test)
    spans = [{(span.doc, at) for example in side for span in example.evidence for at in range(span.start, span.end)}
             for side in (found.search, found.test)]  # fmt: skip
    assert not spans[0] & spans[1]


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
    text = "".join(f"## Section {n}\n\n{'x' * 148}\n\n" for n in range(30))
    starts = [text.index("x" * 148, text.index(f"## Section {n}\n")) for n in range(30)]
    data = dataset([[(0, start)] for start in starts for _ in range(2)], text=text)
    found = split(data)
    assert found.rule == BY_SECTION
    assert "2,000 characters" in found.rule
    assert len(found.test) == 18
    sides = [{span.start for example in side for span in example.evidence} for side in (found.search, found.test)]
    assert not sides[0] & sides[1]


def test_one_document_without_headings_is_split_in_blocks() -> None:
    data = dataset([[(0, 1_000 * i)] for i in range(40)])
    found = split(data)
    assert found.rule == BY_SECTION
    blocks = [{span.start // 2_000 for e in side for span in e.evidence} for side in (found.search, found.test)]
    assert not blocks[0] & blocks[1]


def test_a_span_over_a_border_joins_both_blocks() -> None:
    data = dataset([[(0, 1_950)] if i % 2 else [(0, 100 + 2_000 * (i % 4 == 0))] for i in range(40)])
    assert split(data).rule == TANGLED


@pytest.mark.parametrize("count", [0, 1, 19])
def test_few_questions_are_not_split(count: int) -> None:
    found = split(dataset([[(i, 0)] for i in range(count)]))
    assert (len(found.search), found.test, found.rule) == (count, (), "too small to split, nothing is claimed")


def test_twenty_questions_are_enough() -> None:
    assert len(split(dataset([[(i, 0)] for i in range(20)])).test) == 6


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
    marked = [replace(e, split="test" if n == 1 else "search") for n, e in enumerate(data.examples)]
    found = split(make_dataset({"name": "n"}, data.documents, marked))
    assert found.rule == GIVEN == "given"
    assert [e.id for e in found.test] == ["q001"]
    assert [e.id for e in found.search] == ["q000", "q002"]


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, float("nan")])
def test_an_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match="give a number between 0 and 1"):
        split(dataset([]), test_share=share)

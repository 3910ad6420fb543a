"""Changes of documents are detected, and edited copies of a collection overlap."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.bundled import bundled_domains
from ragsmith.datasets.changes import DocumentChanges, compare_contents, content_digests
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.overlap import (
    HASH_BOUND,
    MIN_COMMON,
    MIN_CONTAINMENT,
    MIN_SAMPLED,
    SHINGLE_WORDS,
    estimate_containment,
    sample_shingles,
)
from ragsmith.types import Document, Modality


def document(name: str, text: str) -> Document:
    return Document(name, name, text)


BEFORE = (document("a", "Salt dues are paid. The bell rings."), document("b", "The wall stands."))


@given(*[st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["one", "two"]))] * 2)
def test_each_document_is_counted_once_as_what_happened_to_it(before: dict[str, str], after: dict[str, str]) -> None:
    found = compare_contents(before, after)
    same = {name for name in before if after.get(name) == before[name]}
    for name in before | after:
        said = [name in found.added, name in found.changed, name in found.removed, name in same]
        assert said == [
            name not in before,
            name in before and name in after and name not in same,
            name not in after,
            name in same,
        ]
    assert bool(found) == (before != after)


def test_the_kind_of_a_text_counts_and_its_title_does_not() -> None:
    known = content_digests(BEFORE)
    assert content_digests([Document("a", "another title", BEFORE[0].text), BEFORE[1]]) == known
    assert content_digests([Document("a", "a", BEFORE[0].text, Modality.CODE), BEFORE[1]]) != known


def test_changes_are_said_in_words() -> None:
    assert str(DocumentChanges(("a", "b"), (), ("c",))) == "2 added, 1 removed"
    assert str(DocumentChanges()) == "none added, changed or removed"


@cache
def documents(name: str) -> tuple[Document, ...]:
    return load_dataset(name).documents


def one_in(text: str) -> Document:
    return Document("one", "One", text)


def overlapping(one: tuple[Document, ...], other: tuple[Document, ...]) -> bool:
    share = estimate_containment(sample_shingles(one), sample_shingles(other))
    assert share == estimate_containment(sample_shingles(other), sample_shingles(one))
    assert 0 <= share <= 1
    return share >= MIN_CONTAINMENT


@pytest.mark.parametrize("name", bundled_domains())
def test_a_copy_overlaps_whatever_was_done_to_it(name: str) -> None:
    whole = documents(name)
    assert estimate_containment(sample_shingles(whole), sample_shingles(whole)) == 1
    assert overlapping(whole, (replace(whole[0], text=whole[0].text + "!"), *whole[1:]))
    assert overlapping(whole, tuple(replace(one, text=f"x{one.text}") for one in whole))
    assert overlapping(whole, whole[: len(whole) // 2])
    assert overlapping(whole, whole[1::2])
    assert overlapping(whole, tuple(replace(one, text=one.text.upper().replace(" ", "  ")) for one in whole))
    renamed = tuple(replace(one, id=f"file {n}", title="") for n, one in enumerate(reversed(whole)))
    assert sample_shingles(renamed) == sample_shingles(whole)


def test_bundled_domains_do_not_overlap() -> None:
    assert len(bundled_domains()) > 2
    assert not [pair for pair in combinations(bundled_domains(), 2) if overlapping(*map(documents, pair))]


def test_a_copy_within_another_collection_is_found() -> None:
    one, other, *_ = bundled_domains()
    assert overlapping(documents(one), documents(one) + documents(other))


def test_of_a_short_collection_every_run_is_in_the_sample() -> None:
    text = " ".join(f"word{n}" for n in range(30))
    assert len(sample_shingles((one_in(text),))) == 30 - SHINGLE_WORDS + 1


@pytest.mark.parametrize("count", [60, 3000, 30_000])
def test_a_sample_are_the_runs_below_the_bound_but_the_smallest_of_few(count: int) -> None:
    """Whichever document has them; and one run may not be taken for another, in a hundred million words."""
    pieces = [one_in(" ".join(f"word{number}" for number in range(n, n + 60))) for n in range(0, count, 60)]
    each = sorted(number for piece in pieces for number in sample_shingles((piece,)))  # of 56 runs, all
    below = sum(number < HASH_BOUND for number in each)
    assert sample_shingles(tuple(pieces)) == tuple(each[: max(MIN_SAMPLED, below)])
    assert each[0] >= 0
    assert 2**40 < each[-1] < 2**48


@pytest.mark.parametrize("count", [200, 1000, 3000])
def test_half_of_a_short_collection_overlaps(count: int) -> None:
    for seed in range(10):
        draw = Random(seed)
        words = [f"word{draw.randrange(5000)}" for _ in range(count)]
        whole = tuple(one_in(" ".join(words[n::10])) for n in range(10))
        assert overlapping(whole, whole[:5])
        assert overlapping(whole, whole[5:])


def test_what_is_too_short_to_tell_overlaps_with_nothing() -> None:
    for texts in ([], [""], ["word"], ["four words are few"], ["five words are just enough"], ["a b c d e f"]):
        few = sample_shingles(tuple(one_in(text) for text in texts))
        assert estimate_containment(few, few) == 0
        assert estimate_containment(few, ()) == 0
    assert (
        estimate_containment(
            sample_shingles((one_in("a b c d e f g"),)), sample_shingles((one_in("A, b; c (d) e f g"),))
        )
        == 1
    )


def test_a_run_does_not_cross_documents() -> None:
    assert sample_shingles((one_in("a b c d"), one_in("e f g h"))) == ()


@settings(max_examples=60)
@given(st.lists(st.sets(st.integers(0, 20), min_size=1), min_size=2, max_size=2))
def test_the_share_is_of_the_smaller_sample_as_far_as_both_are_complete(samples: list[set[int]]) -> None:
    one, other = map(sorted, samples)
    bound = min(one[-1], other[-1])
    common = [number for number in one if number in other]
    smaller = min(sum(number <= bound for number in sample) for sample in (one, other))
    expected = len(common) / smaller if len(common) >= MIN_COMMON else 0
    assert estimate_containment(one, other) == estimate_containment(other, one) == expected

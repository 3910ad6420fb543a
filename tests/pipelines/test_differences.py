"""The difference of two pipelines is named after the genes that differ, and only after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ragsmith.pipelines.genes import Candidate, Fit, difference, make_gene
from ragsmith.techniques.families import FAMILIES

Build = Callable[..., Candidate]

NAMED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {}, "changes nothing"),
    ({}, {"reranking": "cross_encoder"}, "removes reranking cross_encoder"),
    ({"reranking": "cross_encoder"}, {}, "adds reranking cross_encoder"),
    ({"retrieval": "bm25"}, {"retrieval": "vector"}, "replaces retrieval vector by bm25"),
    (
        {"passage_filter": ("similarity_threshold", {"threshold": 0.25})},
        {},
        "replaces passage_filter top_k by similarity_threshold(threshold=0.25)",
    ),
    (
        {"prompt_maker": "listing"},
        {"prompt_maker": "long_context_reorder"},
        "replaces prompt_maker long_context_reorder by listing",
    ),
    ({"query_expansion": ("hyde", {"n": 3})}, {"query_expansion": "hyde"}, "changes hyde: n 1 → 3"),
    (
        {"query_expansion": "hyde"},
        {"query_expansion": ("hyde", {"n": 3, "keep_question": True})},
        "changes hyde: n 3 → 1, keep_question True → False",
    ),
    (
        {"retrieval": ("hybrid", {"weight": 0.25})},
        {"retrieval": "hybrid"},
        "changes retrieval hybrid: weight 0.5 → 0.25",
    ),
    (
        {"query_expansion": "hyde", "passage_augment": "none"},
        {"reranking": ("cross_encoder", {"depth": 5}), "passage_augment": "prev_next"},
        "adds query_expansion hyde; removes reranking cross_encoder(depth=5); removes passage_augment prev_next",
    ),
]


@pytest.mark.parametrize(("candidate", "reference", "said"), NAMED, ids=[row[2] for row in NAMED])
def test_a_difference_is_said_by_family(
    pipeline: Build, candidate: dict[str, Any], reference: dict[str, Any], said: str
) -> None:
    assert difference(pipeline(**candidate), pipeline(**reference)) == said


def test_what_was_fitted_differently_is_a_difference(pipeline: Build) -> None:
    plain = pipeline()
    place = [family.name for family in FAMILIES].index("passage_filter")
    fitted = tuple(replace(g, fit=Fit({"a": 1})) if i == place else g for i, g in enumerate(plain))
    assert difference(fitted, plain) == "changes top_k: the numbers that were fitted"


SOME = {
    "query_expansion": ["none", "hyde", "multi_query"],
    "retrieval": ["vector", "bm25"],
    "reranking": ["none", "cross_encoder"],
    "passage_augment": ["none", "prev_next"],
}


@given(st.fixed_dictionaries({k: st.sampled_from(v) for k, v in SOME.items()}), st.data())
@hypothesis_settings(max_examples=40)
def test_the_families_said_are_those_that_differ(options: dict[str, str], data: st.DataObject) -> None:
    others = {k: data.draw(st.sampled_from(v), label=k) for k, v in SOME.items()}

    def build(chosen: dict[str, str]) -> Candidate:
        plain = {"passage_filter": "top_k", "prompt_maker": "listing", **chosen}
        return tuple(make_gene(family.name, plain.get(family.name, "none")) for family in FAMILIES)

    there, back = difference(build(options), build(others)), difference(build(others), build(options))
    changed = [family for family in SOME if options[family] != others[family]]
    assert [part.split()[1] for part in there.split("; ")] == (changed or ["nothing"])
    mirror = {"adds": "removes", "removes": "adds", "replaces": "replaces", "changes": "changes"}
    assert [part.split()[0] for part in back.split("; ")] == [mirror[part.split()[0]] for part in there.split("; ")]

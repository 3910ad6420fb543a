"""The difference of two pipelines is named after the genes that differ, and only after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragsmith.pipelines.genes import Candidate, Fit, describe_changes, make_gene
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
    assert describe_changes(pipeline(**candidate), pipeline(**reference)) == said


def test_what_was_fitted_differently_is_a_difference(pipeline: Build) -> None:
    plain = pipeline()
    place = [family.name for family in FAMILIES].index("passage_filter")
    fitted = tuple(replace(g, fit=Fit({"a": 1})) if i == place else g for i, g in enumerate(plain))
    assert describe_changes(fitted, plain) == "changes top_k: the fitted numbers"


def test_a_tool_that_is_a_choice_of_a_parameter_is_used_only_if_it_is_chosen() -> None:
    assert make_gene("pre_embedding", "contextual_chunk_headers").tools == frozenset()
    written = make_gene("pre_embedding", "contextual_chunk_headers", {"source": "language_model"})
    assert written.tools == {"language_model"}
    assert make_gene("query_expansion", "hyde").tools == {"language_model"}

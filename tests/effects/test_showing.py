"""What was learned as tables, on a world that was made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from effect_model import learned_from

from ragsmith.effects.knowledge import Knowledge, ObservedDataset, RecommendationCheck, describe_pipeline
from ragsmith.effects.showing import option_effects, pair_effects, pool_gains
from ragsmith.effects.terms import PLAIN


def check(gain: float, reach: float = 0.02, measure: str = "fitness", most: int | None = 1) -> RecommendationCheck:
    return RecommendationCheck("d", measure, most, PLAIN, 0.01, 0.02, gain, gain - reach, gain + reach, 1.0)


def test_each_option_has_its_effect_and_its_cost(knowledge: Knowledge) -> None:
    found = {one.option: one for one in option_effects(knowledge)}
    assert found["reranking.cross_encoder"].alone == pytest.approx(0.04, abs=0.012)
    assert found["reranking.cross_encoder"].usual == pytest.approx(0.04, abs=0.012)
    assert found["passage_filter.nr"].alone == pytest.approx(-0.05, abs=0.015)
    assert found["query_expansion.iterative"].calls == pytest.approx(2, abs=0.05)
    assert found["query_expansion.iterative"].alone == pytest.approx(0, abs=0.012)
    assert {one.datasets for one in found.values()} == {4}
    assert all(one.alone_se > 0 and one.between >= 0 and not one.stale for one in found.values())
    assert "reranking.none" not in found


def test_pairs_that_change_each_other_are_shown(knowledge: Knowledge) -> None:
    """BM25 and the cross-encoder, which add up otherwise, are made to gain 0.05 less together."""

    def means(one: ObservedDataset, part: str) -> tuple[float, ...]:
        pairs = zip(one.means[part], one.pipelines, strict=True)
        return tuple(mean - 0.05 * (labels[2] == "bm25" and labels[3] == "cross_encoder") for mean, labels in pairs)

    changed = [replace(one, means={part: means(one, part) for part in one.means}) for one in knowledge.observed]
    first, *others = pair_effects(learned_from(changed, steps=10), most=3)
    assert (first.first, first.second) == ("retrieval.bm25", "reranking.cross_encoder")
    assert -0.05 < first.gain < -0.01  # few of the sample have the pair, so that it is shrunk
    assert len(others) == 2
    assert all(abs(other.gain) / other.sd < abs(first.gain) / first.sd for other in others)


def test_gains_are_pooled_with_what_data_sets_differ_by() -> None:
    gains = [0.01, 0.03, 0.05]
    found = pool_gains([*(check(gain, 1e-9) for gain in gains), check(9.0, measure="retrieval")])[1]
    error = np.std(gains, ddof=1) / np.sqrt(3)
    assert (found.mean, found.above, found.datasets) == (pytest.approx(0.03), 3, 3)
    assert found.high - found.mean == pytest.approx(4.303 * error, rel=0.05)


def test_a_data_set_for_which_bm25_is_named_counts_like_others() -> None:
    assert pool_gains([check(0.03), check(0.0, 0.0)])[1].mean == pytest.approx(0.015)


def test_one_data_set_is_not_pooled() -> None:
    assert pool_gains([check(0.01)]) == {}


def test_pipelines_in_words() -> None:
    labels = ("none", "none", "hybrid", "hybrid", "top_k", "prev_next", "none", "listing", "none")
    assert describe_pipeline(labels) == "retrieval hybrid + reranking hybrid + prev_next"
    assert describe_pipeline(PLAIN) == "naive RAG"

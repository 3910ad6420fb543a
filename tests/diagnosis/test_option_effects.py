"""Effects of options over a run: every pair of its pipelines that differ in nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ragsmith.comparison.questions import Clusters
from ragsmith.diagnosis.estimates import estimate_option_effects
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques

load_techniques()
QUESTIONS = tuple(f"q{n:02}" for n in range(30))
ALONE = Clusters.singletons(QUESTIONS)
PLAIN = {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"}
NAMES = ("hyde", "bm25", "cross_encoder", "hybrid")


def pipeline(**changed: str) -> Candidate:
    return tuple(make_gene(f.name, changed.get(f.name, PLAIN.get(f.name, "none"))) for f in FAMILIES)


def scored(candidate: Candidate, effects: Mapping[str, np.ndarray], answered: int = len(QUESTIONS)) -> Evaluation:
    names = [str(gene) for gene in candidate]
    gained = sum((effects[name] for name in names if name in effects), np.full(len(QUESTIONS), 0.4))
    keys = ("recall", "map", "ndcg", "mrr", "judge", "similarity")
    records = {
        question: {"measures": dict.fromkeys(keys, float(score)), "usage": {"calls": 1}, "answer": "", "retrieved": []}
        for question, score in zip(QUESTIONS[:answered], gained, strict=False)
    }
    return Evaluation("+".join(names), candidate, QUESTIONS, records, {})


@hypothesis_settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_where_scores_add_up_each_option_gains_its_effect_however_many_pairs_there_are(seed: int) -> None:
    draw = np.random.default_rng(seed)
    effects = {name: draw.normal(0.01, 0.05, len(QUESTIONS)) for name in NAMES}
    listed = [
        pipeline(query_expansion=expansion, retrieval=retrieval, reranking=reranking)
        for expansion in ("none", "hyde")
        for retrieval in ("vector", "bm25", "hybrid")
        for reranking in ("none", "cross_encoder")
        if draw.random() < 0.8 or (expansion, retrieval, reranking) == ("none", "vector", "none")
    ]
    found = [*estimate_option_effects([scored(one, effects) for one in listed], Fitness(), ALONE)]
    pairs = {(one.family, one.option): one.pairs for one in found}
    whole = {tuple(map(str, one)) for one in listed}
    for one in found:
        place = next(i for i, family in enumerate(FAMILIES) if family.name == one.family)
        counted = sum(
            str(its[place]) == one.option
            and (*map(str, its[:place]), one.instead, *map(str, its[place + 1 :])) in whole
            for its in listed
        )
        assert pairs[one.family, one.option] == counted > 0
        assert one.gain.mean == pytest.approx(effects[one.option].mean())
        assert one.gain.error == pytest.approx(effects[one.option].std(ddof=1) / len(QUESTIONS) ** 0.5)
    assert {one.instead for one in found} <= {"none", "vector"}


def test_a_pipeline_that_was_dropped_counts_on_what_it_answered() -> None:
    effects = {"hyde": np.linspace(-0.1, 0.1, 30), "bm25": np.linspace(0, 0.2, 30)}
    listed = [
        scored(pipeline(), effects),
        scored(pipeline(query_expansion="hyde"), effects, answered=10),
        scored(pipeline(retrieval="bm25"), effects),
        scored(pipeline(retrieval="bm25", query_expansion="hyde"), effects),
    ]
    hyde = next(one for one in estimate_option_effects(listed, Fitness(), ALONE) if one.option == "hyde")
    both = np.concatenate([effects["hyde"][:10], effects["hyde"]])  # every difference of every pair, as it stands
    assert hyde.pairs == 2
    assert hyde.gain.n == 30
    assert hyde.gain.mean == pytest.approx(both.mean())


def test_groups_of_questions_make_it_less_sure_and_one_group_says_nothing() -> None:
    effects = {"hyde": np.repeat([0.1, -0.1, 0.2, 0.0, 0.05], 6)}
    listed = [scored(pipeline(), effects), scored(pipeline(query_expansion="hyde"), effects)]
    [alone] = estimate_option_effects(listed, Fitness(), ALONE)
    groups = Clusters(tuple(QUESTIONS[start : start + 6] for start in range(0, 30, 6)))
    [grouped] = estimate_option_effects(listed, Fitness(), groups)
    assert grouped.gain.error == pytest.approx(np.std([0.1, -0.1, 0.2, 0.0, 0.05], ddof=1) / 5**0.5)
    assert grouped.gain.error > 2 * alone.gain.error
    assert (grouped.gain.low, grouped.gain.high) == (None, None)  # five groups are too few for an interval
    [one] = estimate_option_effects(listed, Fitness(), Clusters((QUESTIONS,)))
    assert (one.gain.low, one.gain.high, one.gain.error, one.gain.excludes_zero) == (None, None, 0, False)


@pytest.mark.parametrize(
    ("sizes", "rare"), [([3] * 10, 0.085), ([12, 6, 3, 2, 2, 1, 1, 1, 1, 1], 0.1), ([21, *[1] * 9], 0.085)]
)
def test_where_nothing_differs_an_interval_is_rarely_clear_of_0_however_unequal_groups_are(
    sizes: list[int], rare: float
) -> None:
    ends = np.cumsum(sizes)
    clusters = Clusters(tuple(QUESTIONS[end - size : end] for end, size in zip(ends, sizes, strict=True)))
    draw = np.random.default_rng(5)
    shown, worlds = 0, 400  # two standard errors of 5 %: 2.2 %
    for _ in range(worlds):
        lifts = np.repeat(draw.normal(0, 0.05, len(sizes)), sizes) + draw.normal(0, 0.02, len(QUESTIONS))
        effects = {"hyde": lifts}
        listed = [scored(pipeline(), effects), scored(pipeline(query_expansion="hyde"), effects)]
        shown += next(estimate_option_effects(listed, Fitness(), clusters)).gain.excludes_zero
    assert shown / worlds < rare


def test_a_group_in_which_more_pairs_were_compared_counts_as_a_larger_one() -> None:
    clusters = Clusters(tuple(QUESTIONS[start : start + 3] for start in range(0, 30, 3)))
    draw = np.random.default_rng(1)
    effects = {"hyde": draw.normal(0, 0.05, 30), "bm25": np.zeros(30)}
    listed = [
        scored(pipeline(), effects),
        scored(pipeline(query_expansion="hyde"), effects),
        scored(pipeline(retrieval="bm25"), effects, answered=9),
        scored(pipeline(retrieval="bm25", query_expansion="hyde"), effects, answered=9),
    ]
    hyde = next(one.gain for one in estimate_option_effects(listed, Fitness(), clusters) if one.option == "hyde")
    sums = np.add.reduceat(effects["hyde"], range(0, 30, 3)) * [2, 2, 2, *[1] * 7]
    counted = np.array([6, 6, 6, *[3] * 7])
    mean = sums.sum() / 39
    effective = 39**2 / (counted**2).sum()
    error = np.sqrt(((sums - counted * mean) ** 2).sum() * effective / (effective - 1)) / 39
    assert hyde.error == pytest.approx(error)
    assert hyde.high == pytest.approx(mean + 2.30600413 * error)  # Student's, of round(8.9) - 1 degrees of freedom


def test_an_interval_ends_where_scores_do() -> None:
    draw = np.random.default_rng(2)
    effects = {"hyde": draw.normal(0, 0.3, 30)}
    listed = [scored(pipeline(), effects), scored(pipeline(query_expansion="hyde"), effects)]
    alone = tuple((question,) for question in QUESTIONS[23:])
    [found] = estimate_option_effects(listed, Fitness(), Clusters((QUESTIONS[:23], *alone)))
    assert -1 <= found.gain.low < 0 < found.gain.high <= 1


def test_pipelines_that_differ_in_two_options_say_nothing_of_either() -> None:
    listed = [scored(pipeline(), {}), scored(pipeline(query_expansion="hyde", retrieval="bm25"), {})]
    assert not [*estimate_option_effects(listed, Fitness(), ALONE)]


def test_where_only_questions_without_gold_were_finished_nothing_is_known_of_the_error() -> None:
    clusters = Clusters(tuple((question,) for question in QUESTIONS[3:]), without_gold=QUESTIONS[:3])
    effects = {"bm25": np.linspace(0, 0.2, len(QUESTIONS))}
    listed = [scored(pipeline(retrieval=name), effects, answered=3) for name in ("vector", "bm25")]
    [found] = estimate_option_effects(listed, Fitness(), clusters)
    assert (found.gain.n, found.gain.groups, found.gain.low) == (3, 0, None)
    assert found.gain.error == 0

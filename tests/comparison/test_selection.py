"""Cross-validation of a selection: each fold is scored by what is best on the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean

import numpy as np
import pytest

from ragsmith.comparison.selection import cross_validate_choice
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import Terms
from ragsmith.pipelines.genes import Candidate

Build = Callable[..., Candidate]
FOLDS = (("a", "b"), ("c", "d"), ("e", "f"))
FAILURE = {"stage": "generation.answer", "kind": "refused content", "error": "RefusedContent: no"}


def evaluated(key: str, candidate: Candidate, scores: Mapping[str, float | None], calls: float = 1.0) -> Evaluation:
    """An evaluation whose fitness is as given; None is a failure."""
    measures = ("recall", "map", "ndcg", "mrr", "judge", "similarity")
    records = {
        question: {"measures": dict.fromkeys(measures, score), "usage": {"calls": calls}, "retrieved": []}
        for question, score in scores.items()
        if score is not None
    }
    failures = {question: FAILURE for question, score in scores.items() if score is None}
    return Evaluation(key, candidate, tuple(scores), records, failures)


def choice(*each: Evaluation) -> dict[str, float]:
    found = cross_validate_choice(each, Terms.from_evaluations(each, Fitness(), 0.5), FOLDS)
    assert found is not None
    return found.by_question(Fitness())


def test_each_fold_is_scored_by_the_best_on_the_others(pipeline: Build) -> None:
    lucky = evaluated("lucky", pipeline(), dict(zip("abcdef", (1.0, 1.0, 0.2, 0.2, 0.2, 0.2), strict=True)))
    steady = evaluated("steady", pipeline(retrieval="bm25"), dict.fromkeys("abcdef", 0.4))
    # without a and b the steady one leads, 0.4 to 0.2; without c and d, or e and f, the lucky one, 0.6 to 0.4
    assert choice(lucky, steady) == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.2, "d": 0.2, "e": 0.2, "f": 0.2})


def test_failures_count_with_the_lowest_score_and_ties_go_to_fewer_calls(pipeline: Build) -> None:
    scores = dict.fromkeys("abcdef", 0.5)
    failing = evaluated("failing", pipeline(), {**scores, "a": None, "c": None, "e": None}, calls=0.0)
    dear = evaluated("dear", pipeline(retrieval="hybrid"), {**scores, "a": 0.6, "c": 0.6, "e": 0.6}, calls=2.0)
    cheap = evaluated("cheap", pipeline(retrieval="bm25"), {**scores, "b": 0.6, "d": 0.6, "f": 0.6})
    assert choice(failing, dear, cheap) == pytest.approx({**scores, "b": 0.6, "d": 0.6, "f": 0.6})


def test_one_fold_or_no_pipeline_gives_no_estimate(pipeline: Build) -> None:
    one = evaluated("one", pipeline(), dict.fromkeys("abcdef", 0.5))
    terms = Terms.from_evaluations([one], Fitness(), 0.5)
    assert cross_validate_choice([one], terms, [tuple("abcdef")]) is None
    assert cross_validate_choice([], terms, FOLDS) is None


def test_of_equal_pipelines_the_highest_mean_is_too_high_and_the_estimate_is_not(pipeline: Build) -> None:
    rng = np.random.default_rng(0)
    names = [f"q{place}" for place in range(30)]
    folds = [tuple(names[place::5]) for place in range(5)]
    highest, estimated = [], []
    for _ in range(60):
        each = [
            evaluated(f"{i}", pipeline(), dict(zip(names, map(float, row), strict=True)))
            for i, row in enumerate(rng.uniform(0, 1, (20, 30)))
        ]
        terms = Terms.from_evaluations(each, Fitness(), 0.1)
        found = cross_validate_choice(each, terms, folds)
        assert found is not None
        highest.append(max(fmean(one.values("fitness", Fitness())) for one in each))
        estimated.append(fmean(found.values("fitness", Fitness())))
    assert fmean(highest) > 0.58
    assert abs(fmean(estimated) - 0.5) < 0.02

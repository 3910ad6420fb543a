"""The way of a question through learned rankings: what each signal adds to the score of a hit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from learned_ranking import weighing

from ragsmith.diagnosis.explaining import QuestionExplanation, StageExplanation, explain_question
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.fitting import add_general_weights
from ragsmith.pipelines.genes import Candidate, out_of_fold
from ragsmith.store.store import Store
from ragsmith.techniques.families import reranking, retrieval

Build = Callable[..., Candidate]


def way(setup: Experiment, store: Store, candidate: Candidate, question: str = "ferry-1") -> QuestionExplanation:
    return explain_question(setup.engine(store), setup, candidate, setup.examples[question], Fitness())


def stages(found: QuestionExplanation) -> dict[str, StageExplanation]:
    return {stage.family: stage for stage in found.stages}


def adds_up(stage: StageExplanation, names: tuple[str, ...]) -> bool:
    for hit in stage.hits:
        assert {name for name, _ in hit.signals} == set(names)
        assert sum(value for _, value in hit.signals) == pytest.approx(hit.score, abs=1e-6)
        sizes = [abs(value) for _, value in hit.signals]
        assert sizes == sorted(sizes, reverse=True)
    return len(stage.hits) > 1


def test_what_signals_add_is_the_score_of_a_hit(tiny_setup: Experiment, store: Store, pipeline: Build) -> None:
    candidate = add_general_weights(
        tiny_setup, pipeline(retrieval="listnet", reranking=("listnet", {"without": "title"}))
    )
    found = stages(way(tiny_setup, store, candidate))
    assert adds_up(found["query_expansion"], retrieval["listnet"].signals)
    assert adds_up(found["reranking"], reranking["listnet"].signals)
    assert {dict(hit.signals)["title"] for hit in found["reranking"].hits} == {0.0}
    assert not any(hit.signals for hit in found["passage_filter"].hits)
    assert not any(hit.signals for stage in found.values() for hit in stage.dropped)


def test_fitted_weights_are_those_that_the_question_was_answered_with(
    tiny_setup: Experiment, store: Store, pipeline: Build
) -> None:
    setup = replace(tiny_setup, weights=weighing(questions=3, retrieval={"bm25": -1.0, "cosine": -1.0}))
    with Evaluator(setup, store, 1) as evaluator:
        [evaluation] = evaluator.evaluate([pipeline(retrieval=("listnet", {"weights": "fitted"}))], setup.calibration)
    question = setup.calibration[0]
    fits = [its[2].fit for its in (evaluation.candidate, out_of_fold(evaluation.candidate, question.question))]
    assert fits[0] is not None
    assert fits[1] is not None
    assert fits[0].numbers["weights"] != fits[1].numbers["weights"]
    found = stages(way(setup, store, evaluation.candidate, question.id))
    assert adds_up(found["query_expansion"], retrieval["listnet"].signals)


def test_rankings_that_were_not_learned_or_are_of_other_queries_have_no_signals(
    tiny_setup: Experiment, store: Store, pipeline: Build
) -> None:
    for candidate in (pipeline(retrieval="hybrid"), pipeline(retrieval="listnet", query_expansion="hyde")):
        found = way(tiny_setup, store, add_general_weights(tiny_setup, candidate))
        assert not any(hit.signals for stage in found.stages for hit in stage.hits)

"""A run stores diagnoses of questions at its end, and a report reads them without the data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragsmith.diagnosis.causes import MEANINGS, Cause
from ragsmith.diagnosis.diagnosed import select_shown_questions
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunSettings
from ragsmith.reporting import RunReport, load_report
from ragsmith.runs.final_comparison import diagnose
from ragsmith.runs.run import Run, RunOutcome
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings

GENETIC = GeneticSettings(population=6, generations=3, elitism=2, mutation="random", mutation_rate=0.3)
SETTINGS = RunSettings(genetic=GENETIC, seed=7)


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory, tiny_setup: Experiment, space: Space
) -> Iterator[tuple[Store, RunOutcome]]:
    """A run to its end; tests only read what it left."""
    with Store.open(tmp_path_factory.mktemp("run") / "cache.sqlite") as opened:
        yield opened, Run(tiny_setup, space, opened, SETTINGS).go()


@pytest.fixture(scope="module")
def domain(finished: tuple[Store, RunOutcome], tiny_setup: Experiment) -> RunReport:
    return load_report(finished[0], tiny_setup.dataset.name)


def test_every_question_has_a_cause_in_the_winner_and_in_naive_rag(domain: RunReport) -> None:
    split = domain.about.record.split
    assert [one.question for one in domain.questions.asked] == [*split.search, *split.test]
    for one in domain.questions.asked:
        assert one.taken.cause in MEANINGS
        assert one.naive.cause in MEANINGS
        assert one.text.endswith("?")
        assert one.gain == pytest.approx(one.taken.scores["fitness"] - one.naive.scores["fitness"])


def test_every_answer_of_a_tested_pipeline_has_a_cause(domain: RunReport) -> None:
    assert {"naive", "bm25", "winner"} < {one.pipeline for one in domain.answered}
    assert {one.cause for one in domain.answered} <= MEANINGS.keys()
    causes = [one.cause for one in domain.answered if (one.pipeline, one.split) == ("bm25", "test")]
    [counted] = [one.counts for one in domain.questions.causes if (one.pipeline, one.split) == ("bm25", "test")]
    assert counted == {cause.value: causes.count(cause) for cause in Cause if cause in causes}


def test_counts_add_up_to_the_questions(domain: RunReport) -> None:
    split = domain.about.record.split
    sizes = {"search": len(split.search), "test": len(split.test)}
    counted = {(one.pipeline, one.split): one for one in domain.questions.causes}
    assert {("winner", "search"), ("winner", "test"), ("naive", "search"), ("bm25", "test")} <= counted.keys()
    for one in counted.values():
        assert one.n == sum(one.counts.values()) == sizes[one.split]
    found = [one.taken.cause for one in domain.questions.asked if one.split == "test"]
    assert counted["winner", "test"].counts == {c.value: found.count(c.value) for c in Cause if c.value in found}


def test_repairs_are_what_differs_between_the_causes(domain: RunReport) -> None:
    [whole] = [one for one in domain.questions.repairs if one.view == "whole"]
    searched = [one for one in domain.questions.asked if one.split == "search"]
    good = [(Cause(one.naive.cause).good, Cause(one.taken.cause).good) for one in searched]
    assert whole.compared == len(searched)
    assert sum(whole.repaired.values()) == good.count((False, True))
    assert sum(whole.broken.values()) == good.count((True, False))


def test_examples_have_both_answers_and_what_was_read(
    domain: RunReport, tiny_setup: Experiment, finished: tuple[Store, RunOutcome]
) -> None:
    documents = {document.id: document.text for document in tiny_setup.dataset.documents}
    asked = {one.question: one for one in domain.questions.asked}
    assert domain.questions.shown
    for one in domain.questions.shown:
        example = tiny_setup.examples[one.question]
        assert [(gold.doc, gold.start, gold.end) for gold in one.gold] == [
            (span.doc, span.start, span.end) for span in example.evidence
        ]
        assert asked[one.question].taken.read == sum(not gold.lost for gold in one.gold)
        for replied in (one.taken, one.naive):
            assert replied.answer
            for passage in replied.passages:
                for piece in passage.pieces:
                    assert piece.text == "…" or piece.text in documents[passage.doc][passage.start : passage.end]
                    assert not piece.gold or any(
                        piece.text in documents[s.doc][s.start : s.end] for s in example.evidence
                    )


def test_diagnoses_are_not_counted_in_the_run_and_not_repeated(
    finished: tuple[Store, RunOutcome], tiny_setup: Experiment, space: Space, domain: RunReport
) -> None:
    store, _ = finished
    again = Run(tiny_setup, space, store, replace(SETTINGS, margin=0.03)).go()  # another run, of the same answers
    assert again.work is None
    assert load_report(store, tiny_setup.dataset.name).questions == domain.questions


def test_of_many_questions_a_sample_is_followed_and_those_that_are_shown(
    tiny_setup: Experiment, store: Store, pipeline: Callable[..., Candidate]
) -> None:
    candidates = {"winner": pipeline(retrieval="bm25", passage_filter=("top_k", {"k": 2})), "naive": pipeline()}
    with Evaluator(tiny_setup, store, 1) as evaluator:
        evaluated = evaluator.evaluate(list(candidates.values()), tiny_setup.split.search)
        roles = {name: [one] for name, one in zip(candidates, evaluated, strict=True)}
        diagnose(evaluator, tiny_setup, store, Fitness(), roles, evaluated, most=2)
    worth = [one.by_question(Fitness()) for one in evaluated]
    searched = {example.id for example in tiny_setup.split.search}
    first = [question for question in tiny_setup.order if question in searched][:2]
    wanted = {*first, *select_shown_questions(*worth)}
    assert len(wanted) < len(searched)
    for one in evaluated:
        kept = store.diagnoses([one.key])[one.key]
        assert kept.keys() == wanted
        in_full = {question for question, value in kept.items() if "passages" in value}
        assert in_full == set(select_shown_questions(*worth))


def test_a_run_of_rankings_says_where_gold_was_lost(tiny_setup: Experiment, space: Space, tmp_path: Path) -> None:
    with Store.open(tmp_path / "cache.sqlite") as store:
        Run(
            tiny_setup, space, store, replace(SETTINGS, fitness=Fitness.from_spec(None).with_objective("retrieval"))
        ).go()
        found = load_report(store, tiny_setup.dataset.name).questions
    causes = {one.taken.cause for one in found.asked}
    assert causes <= {"found", "not retrieved", "cut by the filter", "lost by the reranker", "not in the index"}
    assert "found" in causes
    assert not found.shown

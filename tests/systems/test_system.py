"""Another system is scored as a pipeline that retrieved and answered the same: every measure is equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.assessment.causes import diagnose
from ragsmith.datasets.relevance import ChunkMap, Relevance
from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.stages import TOTAL
from ragsmith.store.store import Store
from ragsmith.systems.answers import Context, GivenAnswer
from ragsmith.systems.contexts import ContextLocator, LocatedAnswer
from ragsmith.systems.system import System, SystemExperiment, relevance_of_contexts
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.registry import Technique
from ragsmith.types import Chunk, Hits, Question, Span

OF_PROMPT_OR_POOL = {"context_chars", "recall_50"}
"""Measures of what a system does not tell: how its prompt is laid out, and the candidates behind its contexts."""


def answers_of(pipeline: Pipeline) -> dict[str, GivenAnswer]:
    """What a pipeline retrieved and answered, as rows tell it."""
    found = {}
    for example in pipeline.setup.dataset.examples:
        trace = pipeline.engine.answer(pipeline.candidate, Question(example.question))
        cited = "".join(f" [{place + 1}]" for place in trace.answer.cited)
        contexts = tuple(Context(doc=c.doc, start=c.start, end=c.end) for c in (hit.chunk for hit in trace.hits))
        found[example.id] = GivenAnswer(trace.answer.text + cited, contexts, cost=0.5, seconds=2.0)
    return found


def system_of(setup: Experiment, answers: dict[str, GivenAnswer]) -> System:
    locator = ContextLocator(setup.corpus, {})
    return System(setup, {question: locator.locate(question, one) for question, one in answers.items()})


@pytest.fixture
def bm25(tiny_setup: Experiment, pipeline: Callable[..., Candidate]) -> Pipeline:
    return Pipeline(pipeline(retrieval="bm25", passage_filter=("top_k", {"k": 4})), tiny_setup)


@pytest.fixture
def system(bm25: Pipeline) -> System:
    return system_of(bm25.setup, answers_of(bm25))


def columns(found: Evaluation) -> dict[str, Any]:
    return {name: found.column(name) for name in found.measures if name not in OF_PROMPT_OR_POOL}


def test_every_measure_equals_that_of_the_pipeline_with_these_contexts_and_answers(
    bm25: Pipeline, system: System, store: Store
) -> None:
    measured = columns(bm25.evaluate(store))
    assert {"recall", "ndcg_10", "map", "span_recall", "judge", "faithfulness", "citation_recall"} <= measured.keys()
    assert columns(system.evaluate(store)) == measured


def test_a_question_without_an_answer_fails_and_is_no_score(bm25: Pipeline, store: Store) -> None:
    answers = answers_of(bm25)
    first, second, *_ = sorted(answers)
    del answers[first]
    answers[second] = GivenAnswer("", error="out of quota")
    found = system_of(bm25.setup, answers).evaluate(store)
    assert {question: why["error"] for question, why in found.failures.items()} == {
        first: "SystemFailure: it has no answer to this question",
        second: "SystemFailure: out of quota",
    }
    assert len(found.records) == len(bm25.setup.dataset.examples) - 2
    assert found.mean("fitness") is None


def test_scores_depend_on_what_was_answered_and_not_on_its_price(bm25: Pipeline, system: System) -> None:
    answers = answers_of(bm25)
    free = system_of(bm25.setup, {id_: GivenAnswer(one.answer, one.contexts) for id_, one in answers.items()})
    assert free.configuration == system.configuration
    first = next(iter(answers))
    answers[first] = GivenAnswer("Something else.", answers[first].contexts)
    assert system_of(bm25.setup, answers).configuration != system.configuration


def test_causes_are_those_of_the_pipeline_up_to_what_a_system_does_not_tell(
    tiny_setup: Experiment,
    pipeline: Callable[..., Candidate],
    store: Store,
    registered: Callable[..., Technique],
) -> None:
    """A pipeline that cut gold after retrieval had it among its candidates; of a system the contexts are all."""

    def forgets(question: Question, hits: Hits) -> Hits:
        return hits[3:5] if len(question.text) % 3 == 0 else hits[:2]

    registered(passage_filter, forgets)
    narrow = Pipeline(pipeline(passage_filter="forgets"), tiny_setup)
    ours, theirs = (
        {
            question: one.cause
            for one in diagnose(each, store, part="all", day="2026-11-28").causes
            for question in one.questions
        }
        for each in (narrow, system_of(narrow.setup, answers_of(narrow)))
    )
    retold = {"cut by the filter": "not retrieved", "lost by the reranker": "not retrieved"}
    assert theirs == {question: retold.get(cause, cause) for question, cause in ours.items()}
    assert "not retrieved" in theirs.values()


def test_stated_seconds_and_costs_are_those_of_the_rows(system: System) -> None:
    examples = system.setup.dataset.examples
    assert {time.seconds[TOTAL] for time in system.timings(examples)} == {2.0}
    assert system.costs(examples) == [0.5] * len(examples)
    silent = system_of(system.base, {id_: GivenAnswer("x") for id_ in system.setup.answers})
    with pytest.raises(UsageError, match="the rows have no 'seconds'"):
        silent.timings(examples)


def relevance_of(setup: Experiment, contexts: Sequence[tuple[int, int]], gold: tuple[int, int]) -> Relevance:
    """The relevance of contexts in a document of the island, which are its places, to a question with one gold span."""
    document = setup.dataset.documents[0]
    chunks = tuple(
        Chunk(f"{start}-{end}", document.id, place, start, end, document.text[start:end])
        for place, (start, end) in enumerate(contexts)
    )
    return relevance_of_contexts(chunks, [Span(document.id, *gold)], ChunkMap(setup.corpus.chunks))


@given(size=st.integers(40, 400), seed=st.integers(0, 10_000))
def test_chunks_of_any_size_given_as_contexts_are_relevant_as_in_their_own_chunking(
    size: int, seed: int, tiny_setup: Experiment
) -> None:
    other = Experiment(tiny_setup.dataset, chunk_size=size)
    example = other.dataset.examples[seed % len(other.dataset.examples)]
    expected = other.relevance[example.id]
    whole = tuple(chunk for chunk in other.corpus.chunks if chunk.doc == example.evidence[0].doc)
    setup = SystemExperiment.of(other, {example.id: LocatedAnswer(GivenAnswer("x"), whole)}, "x")
    found = setup.relevance[example.id]
    for chunk in whole:
        assert (found.unit(chunk.id) in found.units) == (expected.unit(chunk.id) in expected.units)
    assert len(found.units) == len(expected.units)


@given(
    places=st.lists(st.tuples(st.integers(0, 300), st.integers(20, 200)), max_size=6),
    place=st.tuples(st.integers(0, 300), st.integers(20, 120)),
    shift=st.integers(1, 5),
)
def test_retrieving_a_passage_again_a_little_shifted_changes_no_measure(
    places: list[tuple[int, int]], place: tuple[int, int], shift: int, tiny_setup: Experiment
) -> None:
    contexts = [(start, start + length) for start, length in places]
    gold = place[0], place[0] + place[1]
    reaching = (gold[0], gold[1])
    alone = relevance_of(tiny_setup, [reaching, *contexts], gold)
    again = relevance_of(tiny_setup, [reaching, (gold[0], gold[1] + shift), *contexts], gold)
    ids = [f"{start}-{end}" for start, end in [reaching, *contexts]]
    shifted = [ids[0], f"{gold[0]}-{gold[1] + shift}", *ids[1:]]
    ranked = [list(dict.fromkeys(map(alone.unit, ids))), list(dict.fromkeys(map(again.unit, shifted)))]
    assert [unit in alone.units for unit in ranked[0]] == [unit in again.units for unit in ranked[1]]
    assert len(alone.units) == len(again.units)


@given(
    places=st.lists(st.tuples(st.integers(0, 300), st.integers(20, 200)), max_size=6),
    gold=st.tuples(st.integers(0, 300), st.integers(20, 120)),
    last=st.tuples(st.integers(0, 300), st.integers(20, 200)),
)
def test_a_context_below_the_others_never_raises_their_ranks(
    places: list[tuple[int, int]], gold: tuple[int, int], last: tuple[int, int], tiny_setup: Experiment
) -> None:
    """Reciprocal rank may rise from 0 by the last context alone, when it is the first that reaches the gold."""
    contexts = [(start, start + length) for start, length in places]
    wanted = gold[0], gold[0] + gold[1]
    further = (last[0], last[0] + last[1])
    ranks = []
    for each in (contexts, [*contexts, further]):
        found = relevance_of(tiny_setup, each, wanted)
        units = list(dict.fromkeys(found.unit(f"{start}-{end}") for start, end in each))
        ranks.append(next((rank for rank, unit in enumerate(units, 1) if unit in found.units), None))
    before, after = ranks
    longest = max((end - start for start, end in contexts), default=0)
    if further[1] - further[0] <= longest:  # a longer one may tell that contexts could have held the gold
        assert after == before or (before is None and after == len(dict.fromkeys([*contexts, further])))


def test_gold_that_no_context_reaches_counts_by_the_chunks(tiny_setup: Experiment) -> None:
    setup, own = SystemExperiment.of(tiny_setup, {}, ""), ChunkMap(tiny_setup.corpus.chunks)
    for example in tiny_setup.dataset.examples:
        assert setup.relevance[example.id].units == own.relevance(example.evidence).units

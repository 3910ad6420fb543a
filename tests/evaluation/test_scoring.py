"""The record of one question: what is scored, and on what."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count, product
from pathlib import Path

import pytest

from ragsmith.digest import to_canonical_json
from ragsmith.errors import ModelError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.keys import evaluation_key
from ragsmith.evaluation.scoring import score_answer
from ragsmith.measures.case import Case
from ragsmith.measures.registry import Measure
from ragsmith.models.calls import Completion
from ragsmith.models.roles import Models
from ragsmith.models.usage import Usage
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.trace import Trace
from ragsmith.text.declining import NOT_FOUND
from ragsmith.types import Answer, Chunk, Example, Hit, Hits, Passage, Prompt, Question, Scale

Build = Callable[..., Candidate]

OUTSIDE = count(-1, -1)
"""Numbers of values that no engine made."""


@pytest.fixture(scope="module")
def engine(tiny_setup: Experiment) -> Engine:
    return tiny_setup.engine()


def measured(engine: Engine, setup: Experiment, trace: Trace, example: Example) -> dict[str, float | None]:
    found: dict[str, float | None] = score_answer(engine, setup, trace, example)["measures"]
    return found


def test_a_record_is_complete_and_can_be_stored(engine: Engine, tiny_setup: Experiment, pipeline: Build) -> None:
    example = tiny_setup.examples["lighthouse-4"]
    trace = engine.answer(pipeline(query_expansion="hyde", reranking="cross_encoder"), Question(example.question))
    kept = score_answer(engine, tiny_setup, trace, example)
    assert set(kept["measures"]) == {
        *("recall", "map", "ndcg", "mrr", "success", "span_recall"),
        *("success_10", "ndcg_10", "recall_50"),
        *("judge", "similarity", "exact_match", "token_f1", "faithfulness"),
        *("redundancy_ratio", "mean_pairwise_cosine", "context_chars"),
        *("kept_precision", "context_precision", "citation_precision", "citation_recall", "answer_in_context"),
    }
    assert all(isinstance(value, float) for value in kept["measures"].values())
    assert json.loads(to_canonical_json(kept)) == json.loads(json.dumps(kept))
    assert kept["retrieved"] == [hit.chunk.id for hit in trace.hits]
    assert kept["answer"] == trace.answer.text
    assert kept["measures"]["context_chars"] == len(trace.prompt.text)
    assert set(kept["stages"]) == set(trace.outputs)
    assert kept["usage"]["calls"] >= 2
    assert kept["usage"]["pairs_scored"] > 0


def test_a_record_is_the_same_whatever_was_scored_before(tiny_setup: Experiment, pipeline: Build) -> None:
    shared = tiny_setup.engine()
    choices = product(("bm25", "vector"), ("none", "tree_summarize"), ("none", "reflection_revising"))
    pipelines = [
        pipeline(retrieval=retrieval, passage_compress=compress, post_generation=post)
        for retrieval, compress, post in choices
    ]
    for example in (tiny_setup.examples["lighthouse-4"], tiny_setup.examples["market-1"]):
        for candidate in pipelines:
            fresh = tiny_setup.engine()
            kept = [
                to_canonical_json(
                    score_answer(engine, tiny_setup, engine.answer(candidate, Question(example.question)), example)
                )
                for engine in (shared, fresh)
            ]
            assert kept[0] == kept[1]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"query_expansion": ()},
        {"passage_filter": ()},
        {"prompt_maker": Prompt("Nothing.", (Passage("Nothing.", (), 1.0),) * 9)},
        {"post_generation": Answer("Nobody knows.")},
        {"passage_filter": (), "post_generation": Answer("Nobody knows.")},
    ],
)
def test_a_measure_is_computed_again_where_something_that_it_reads_is_another(
    tiny_setup: Experiment, pipeline: Build, changed: dict[str, object]
) -> None:
    example = tiny_setup.examples["market-1"]
    trace = tiny_setup.engine().answer(pipeline(), Question(example.question))
    read = {
        "one": {"passage_filter"},
        "other": {"passage_filter"},
        "both": {"passage_filter", "post_generation"},
        "pool": {"query_expansion"},
        "shown": {"prompt_maker"},
        "either": {"post_generation", *(() if "post_generation" in changed else ("prompt_maker",))},
        "all": {"passage_filter", "post_generation", "prompt_maker", "query_expansion"},
        "none": set(),
    }
    ran: list[str] = []

    def found(case: Case) -> int:
        return len(case.hits)

    def known(name: str, read: Callable[[Case], object]) -> Measure:
        def fn(case: Case) -> float:
            ran.append(name)
            read(case)
            return 1.0

        return Measure(name, fn, name, "answer")

    setup = replace(tiny_setup)
    vars(setup)["measures"] = (
        known("one", lambda case: case.memoize(found)),
        known("other", lambda case: case.memoize(found)),
        known("both", lambda case: (case.ranking, case.answer)),
        known("pool", lambda case: case.pool),
        known("shown", lambda case: case.prompt),
        known("either", lambda case: case.answer == "Nobody knows." or case.passages),
        known("all", vars),
        known("none", lambda case: (case.question, case.reference, case.relevant, case.evidence, case.relevance)),
    )
    engine = setup.engine()
    score_answer(engine, setup, trace, example)
    assert ran == list(read)
    ran.clear()
    for stage, value in changed.items():
        trace.outputs[stage] = type(trace.outputs[stage])(value, next(OUTSIDE))
    score_answer(engine, setup, trace, example)
    assert ran == [name for name, stages in read.items() if stages & set(changed)]


def test_retrieval_is_scored_on_what_passed_the_filter(engine: Engine, tiny_setup: Experiment, pipeline: Build) -> None:
    example = tiny_setup.examples["ferry-4"]
    gold = tiny_setup.relevance[example.id]
    [relevant] = gold.relevant
    wide = engine.answer(pipeline(passage_filter=("top_k", {"k": 20})), Question(example.question))
    rank = [hit.chunk.id for hit in wide.hits].index(relevant) + 1
    found = measured(engine, tiny_setup, wide, example)
    assert found["mrr"] == found["map"] == 1 / rank
    assert found["recall"] == found["success"] == float(rank <= 5)
    narrow = engine.answer(pipeline(passage_filter=("top_k", {"k": 1})), Question(example.question))
    assert measured(engine, tiny_setup, narrow, example)["mrr"] == float(rank == 1)


def test_the_pool_is_scored_before_reranking_and_filter(
    engine: Engine, tiny_setup: Experiment, pipeline: Build
) -> None:
    example = tiny_setup.examples["ferry-4"]
    gold = tiny_setup.relevance[example.id]
    trace = engine.answer(pipeline(passage_filter=("top_k", {"k": 1})), Question(example.question))
    pool = [hit.chunk.id for hit in trace.outputs["query_expansion"].value]
    assert len(pool) > len(trace.hits) == 1
    assert measured(engine, tiny_setup, trace, example)["recall_50"] == len(gold.relevant.intersection(pool)) / len(
        gold.relevant
    )


def with_hits(trace: Trace, hits: Hits) -> Trace:
    held = trace.outputs["passage_filter"]
    trace.outputs["passage_filter"] = type(held)(hits, next(OUTSIDE))
    return trace


def test_a_summary_takes_a_place_in_the_ranking_and_covers_nothing(
    engine: Engine, tiny_setup: Experiment, pipeline: Build
) -> None:
    example = tiny_setup.examples["ferry-4"]
    gold = tiny_setup.relevance[example.id]
    [relevant] = gold.relevant
    trace = engine.answer(pipeline(), Question(example.question))
    [chunk] = [chunk for chunk in tiny_setup.corpus.chunks if chunk.id == relevant]
    summaries = [
        Chunk(f"summary {n}", chunk.doc, -1, 0, 0, chunk.text, level=1, sources=(chunk.span,)) for n in range(5)
    ]
    hits = tuple(Hit(found, 1.0 - n / 10, Scale.COSINE) for n, found in enumerate([*summaries, chunk]))
    found = measured(engine, tiny_setup, with_hits(trace, hits), example)
    assert (found["span_recall"], found["recall"], found["success"], found["success_10"]) == (0, 0, 0, 1)
    assert found["mrr"] == pytest.approx(1 / 6)
    found = measured(engine, tiny_setup, with_hits(trace, hits[1:]), example)
    assert (found["span_recall"], found["success"]) == (1, 1)


def test_faithfulness_is_measured_where_the_judge_costs_nothing_or_when_asked_for(
    engine: Engine, tiny_setup: Experiment, pipeline: Build
) -> None:
    example = tiny_setup.examples["market-1"]
    trace = engine.answer(pipeline(), Question(example.question))
    kept = score_answer(engine, tiny_setup, trace, example)
    assert kept["measures"]["faithfulness"] == 1.0  # an extractive answer is a sentence of its passages
    held = trace.outputs["post_generation"]
    for said, expected in (("Whales sing in the copper mines.", 0.0), (NOT_FOUND, None)):
        trace.outputs["post_generation"] = type(held)(Answer(said), next(OUTSIDE))
        kept = score_answer(engine, tiny_setup, trace, example)
        assert kept["measures"]["faithfulness"] == expected
        assert json.loads(to_canonical_json(kept))["measures"]["faithfulness"] == expected
    unasked = replace(tiny_setup, faithfulness=False)
    assert "faithfulness" not in {measure.name for measure in unasked.measures}
    assert evaluation_key(unasked, pipeline()) != evaluation_key(tiny_setup, pipeline())
    served = replace(tiny_setup, models=tiny_setup.models.override({"judge": "openai:some"}))
    assert "faithfulness" not in {measure.name for measure in served.measures}
    assert "faithfulness" in {measure.name for measure in replace(served, faithfulness=True).measures}


def test_generation_is_scored_on_what_is_delivered(engine: Engine, tiny_setup: Experiment, pipeline: Build) -> None:
    example = tiny_setup.examples["market-1"]
    trace = engine.answer(pipeline(), Question(example.question))
    held = trace.outputs["post_generation"]
    trace.outputs["post_generation"] = type(held)(Answer(example.answer), next(OUTSIDE))
    kept = score_answer(engine, tiny_setup, trace, example)
    assert kept["measures"]["exact_match"] == kept["measures"]["token_f1"] == 1.0
    assert kept["measures"]["similarity"] == pytest.approx(1.0)
    assert kept["measures"]["judge"] == pytest.approx(1.0)


class Judge:
    """A chat model that says what it is told to."""

    id = "judge"

    def __init__(self, reply: str) -> None:
        self._reply = reply

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        return Completion(self._reply, Usage(1, 0, 0, 500, 2, 1.0))


def judged(tiny_setup: Experiment, reply: str) -> Engine:
    engine = tiny_setup.engine()
    models = engine.models
    engine.models = Models(models.language_model, models.embedder, models.cross_encoder, Judge(reply))
    return engine


def test_what_scoring_costs_is_not_the_pipeline_s(tiny_setup: Experiment, pipeline: Build) -> None:
    example = tiny_setup.examples["market-1"]
    engine = judged(tiny_setup, "Score: 4")
    unchecked = replace(tiny_setup, faithfulness=False)
    kept = score_answer(engine, unchecked, engine.answer(pipeline(), Question(example.question)), example)
    assert kept["measures"]["judge"] == 0.75
    assert kept["usage"]["input_tokens"] == 0
    assert kept["usage"]["calls"] == 1


@pytest.mark.parametrize("reply", ["", "good", "Score: 7", "Score: 3 or 4", "Score: 3\nScore: 4", "0.5"])
def test_an_unreadable_verdict_is_a_failure_and_not_a_score(
    tiny_setup: Experiment, pipeline: Build, reply: str
) -> None:
    example = tiny_setup.examples["market-1"]
    engine = judged(tiny_setup, reply)
    trace = engine.answer(pipeline(), Question(example.question))
    with pytest.raises(ModelError, match="judge"):
        score_answer(engine, replace(tiny_setup, faithfulness=False), trace, example)


def test_citations_become_spans_of_documents(
    engine: Engine, tiny_setup: Experiment, pipeline: Build, tiny_folder: Path
) -> None:
    example = tiny_setup.examples["lighthouse-1"]
    trace = engine.answer(pipeline(), Question(example.question))
    kept = score_answer(engine, tiny_setup, trace, example)
    assert kept["cited"]
    for doc, start, end in kept["cited"]:
        text = tiny_setup.corpus.documents[doc].text
        assert text[start:end] in trace.prompt.text

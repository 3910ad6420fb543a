"""The fold over the families: what is shared, what is paid for, and who is named when something fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragsmith.errors import ModelError, StageFailed
from ragsmith.gateway.gateway import Gateway
from ragsmith.index.index import Corpus, Index
from ragsmith.models.calls import Completion
from ragsmith.models.loading import ModelNames, load_models
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.roles import Models
from ragsmith.models.tasks import Task, parse_text
from ragsmith.models.usage import Usage
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.techniques.families import passage_augment, passage_filter, query_expansion, reranking, retrieval
from ragsmith.techniques.registry import Technique
from ragsmith.testing import example_chunks, example_documents
from ragsmith.types import Hit, Hits, Passage, Passages, Queries, Question, Rankings, Search

QUESTION = Question("Who paid for the new sea wall?")
OTHER = Question("What does the keeper do at low water?")

Register = Callable[..., Technique]
Build = Callable[..., Candidate]

NOTE = Task("note", "Note {text}", parse_text, lambda model, *, sample, text: text)


@pytest.fixture(scope="module")
def models() -> Models:
    return load_models(ModelNames(), [chunk.text for chunk in example_chunks()])


@pytest.fixture
def engine(models: Models) -> Engine:
    return Engine(Corpus(example_documents(), example_chunks()), models, Gateway())


def ran(engine: Engine) -> int:
    """How many stages were really run so far."""
    return len(engine.stages)


def test_the_same_again_runs_nothing(engine: Engine, pipeline: Build) -> None:
    first = engine.answer(pipeline(), QUESTION)
    stages, requested = ran(engine), engine.requested
    second = engine.answer(pipeline(), QUESTION)
    assert ran(engine) == stages == 8  # seven families that see a question, and the generator
    assert engine.requested == 2 * requested
    assert second.outputs == first.outputs
    assert second.usage == first.usage


def test_what_is_dropped_is_run_again_to_the_same_end(models: Models, pipeline: Build) -> None:

    class Nowhere:
        """No room for anything."""

        def __init__(self) -> None:
            self.level = 0.0

        def admit(self, entries: dict[Any, Any], key: Any, *_: object) -> None:
            del entries[key]

    corpus = Corpus(example_documents(), example_chunks())
    keeping, forgetting = Engine(corpus, models, Gateway()), Engine(corpus, models, Gateway(eviction=Nowhere()))
    numbers: dict[Any, Any] = {}
    for candidate in (pipeline(), pipeline(passage_augment="prev_next"), pipeline()):
        for question in (QUESTION, OTHER):
            whole, again = keeping.answer(candidate, question), forgetting.answer(candidate, question)
            assert {family: held.value for family, held in again.outputs.items()} == {
                family: held.value for family, held in whole.outputs.items()
            }
            assert again.usage == whole.usage
            for held in again.outputs.values():
                assert numbers.setdefault(held.number, held.value) == held.value
    assert len(forgetting.stages) == 0
    assert forgetting.stages.computed > keeping.stages.computed


def test_candidates_share_what_comes_before_their_difference(engine: Engine, pipeline: Build) -> None:
    engine.answer(pipeline(), QUESTION)
    before = ran(engine)
    engine.answer(pipeline(passage_augment="prev_next"), QUESTION)
    # new are the augmentation and, as passages differ, compression, prompt, answer and what follows it
    assert ran(engine) - before == 5


def test_a_stage_that_changes_nothing_joins_the_others_again(
    engine: Engine, pipeline: Build, registered: Register
) -> None:
    def idle(question: Question, hits: Hits) -> Hits:
        """Do nothing, at some expense."""
        return tuple(Hit(hit.chunk, hit.score, hit.scale) for hit in hits)

    registered(reranking, idle)
    plain = engine.answer(pipeline(), QUESTION)
    before = ran(engine)
    same = engine.answer(pipeline(reranking="idle"), QUESTION)
    assert ran(engine) - before == 1
    assert same.outputs == plain.outputs


def test_a_query_is_searched_once_whoever_asks(engine: Engine, pipeline: Build, registered: Register) -> None:
    searched: list[str] = []

    def counting(index: Index, queries: Queries, *, k: int = 5) -> Rankings:
        """Count."""
        searched.extend(queries)
        return index.by_words(queries, k)

    def twice(question: Question, search: Search) -> Hits:
        """Search for the question and for something else."""
        return search(("salt", question.text, "salt"))[1]

    registered(retrieval, counting)
    registered(query_expansion, twice)
    engine.answer(pipeline(retrieval="counting"), QUESTION)
    assert searched == [QUESTION.text]
    engine.answer(pipeline(retrieval="counting", query_expansion="twice"), QUESTION)
    assert searched == [QUESTION.text, "salt"]
    engine.answer(pipeline(retrieval=("counting", {"k": 4}), query_expansion="twice"), QUESTION)
    assert sorted(searched[2:]) == sorted(["salt", QUESTION.text])


def test_rankings_stand_in_the_order_of_the_queries(engine: Engine, pipeline: Build, registered: Register) -> None:
    seen: list[Rankings] = []

    def watching(question: Question, search: Search) -> Hits:
        """Look at what the search gives."""
        seen.append(search(("bell", "oath", "bell", question.text)))
        return seen[0][0]

    registered(query_expansion, watching)
    engine.answer(pipeline(query_expansion="watching", retrieval="bm25"), QUESTION)
    index = engine.index(pipeline()[0])
    assert seen == [index.by_words(["bell", "oath", "bell", QUESTION.text], 20)]


def test_every_stage_sees_the_question_as_it_was_asked(engine: Engine, pipeline: Build, registered: Register) -> None:
    asked = Question("  Who paid — for the\tSEA wall? ")
    seen: list[Question] = []

    def rewriting(question: Question, search: Search) -> Hits:
        """Search for something else."""
        seen.append(question)
        return search(("salt pans",))[0]

    def looking(question: Question, hits: Hits) -> Hits:
        """Look at the question."""
        seen.append(question)
        return hits

    def reading(corpus: Corpus, question: Question, hits: Hits) -> Passages:
        """Look at the question."""
        seen.append(question)
        return tuple(Passage(corpus.text(hit.chunk.span), (hit.chunk.span,), hit.score) for hit in hits)

    registered(query_expansion, rewriting)
    registered(reranking, looking)
    registered(passage_augment, reading)
    trace = engine.answer(pipeline(query_expansion="rewriting", reranking="looking", passage_augment="reading"), asked)
    assert seen == [asked] * 3
    assert trace.hits[0].chunk.id in {"guild:0", "guild:1", "flood:0"}


def test_fingerprints_say_what_a_stage_put_out(engine: Engine, models: Models, pipeline: Build) -> None:
    other = Engine(engine.corpus, models, Gateway())
    other.answer(pipeline(), OTHER)  # so that numbers differ between the two
    traces = [e.answer(pipeline(), QUESTION) for e in (engine, other)]
    prints = [
        {family: held.fingerprint for family, held in trace.outputs.items()}
        for e, trace in zip((engine, other), traces, strict=True)
    ]
    assert prints[0] == prints[1]
    assert prints[0]["reranking"] == prints[0]["query_expansion"]
    assert prints[0]["prompt_maker"] != prints[0]["passage_compress"]


class Counting:
    """A chat model that answers everything alike, for 10 tokens in and 3 out."""

    id = "counting"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        self.prompts.append(prompt)
        return Completion("It is so. [1]", Usage(1, 0, 0, 10, 3, 0.25))


def test_a_remembered_stage_costs_what_it_cost(models: Models, pipeline: Build) -> None:
    chat = Counting()
    real = Models(chat, models.embedder, models.cross_encoder, chat)
    engine = Engine(Corpus(example_documents(), example_chunks()), real, Gateway())
    candidate = pipeline(query_expansion="hyde", reranking="cross_encoder")
    first = engine.answer(candidate, QUESTION)
    second = engine.answer(candidate, QUESTION)
    assert len(chat.prompts) == 2
    assert second.usage == first.usage
    assert first.usage["query_expansion"] == Usage(1, 1, 0, 10, 3, 0.25)  # a passage imagined, one query embedded
    assert first.usage["reranking"].pairs_scored == 10
    assert first.usage["generation"] == Usage(1, 0, 0, 10, 3, 0.25)
    assert first.usage["passage_filter"] == Usage()


def test_a_shared_search_is_on_the_bill_of_everyone_who_uses_it(engine: Engine, pipeline: Build) -> None:
    first = engine.answer(pipeline(), QUESTION)
    second = engine.answer(pipeline(query_expansion=("hyde", {"keep_question": True})), QUESTION)
    assert first.usage["query_expansion"].texts_embedded == 1
    assert second.usage["query_expansion"].texts_embedded == 2


def test_the_collection_is_nobody_s_question(engine: Engine, pipeline: Build) -> None:
    engine.answer(pipeline(), QUESTION)
    assert engine.collection_usage.total().texts_embedded == 10
    engine.answer(pipeline(pre_embedding="hype"), QUESTION)
    assert engine.collection_usage.total().calls >= 10


def failing_after(times: int) -> Callable[..., Any]:
    left = [times]

    def brittle(question: Question, hits: Hits) -> Hits:
        """Fail at first."""
        if left[0]:
            left[0] -= 1
            raise LookupError("no luck")
        return hits

    return brittle


def test_a_failure_names_the_technique_and_keeps_the_cause(
    engine: Engine, pipeline: Build, registered: Register
) -> None:
    registered(passage_filter, failing_after(1))
    with pytest.raises(StageFailed) as raised:
        engine.answer(pipeline(passage_filter="brittle"), QUESTION)
    assert raised.value.stage == "passage_filter.brittle"
    assert isinstance(raised.value.cause, LookupError)
    assert str(raised.value) == "passage_filter.brittle: LookupError: no luck"


def test_a_failure_is_not_remembered(engine: Engine, pipeline: Build, registered: Register) -> None:
    registered(passage_filter, failing_after(1))
    candidate = pipeline(passage_filter="brittle")
    with pytest.raises(StageFailed):
        engine.answer(candidate, QUESTION)
    stages = ran(engine)
    assert len(engine.answer(candidate, QUESTION).hits) == 10
    assert ran(engine) - stages == 6


def test_a_search_that_fails_inside_an_expansion_is_the_one_that_is_named(
    engine: Engine, pipeline: Build, registered: Register
) -> None:
    failing = [True]

    def breaking(index: Index, queries: Queries) -> Rankings:
        """Fail at first."""
        if failing[0]:
            raise TimeoutError("too slow")
        return index.by_words(queries, 5)

    registered(retrieval, breaking)
    candidate = pipeline(retrieval="breaking", query_expansion="rag_fusion")
    with pytest.raises(StageFailed) as raised:
        engine.answer(candidate, QUESTION)
    assert raised.value.stage == "retrieval.breaking"
    assert len(engine.searches) == 0
    failing[0] = False
    assert engine.answer(candidate, QUESTION).hits


def test_a_model_that_fails_fails_the_stage_that_asked(models: Models, pipeline: Build, registered: Register) -> None:
    class Down:
        id = "down"

        def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
            raise ModelError("down: no answer")

    def asking(question: Question, hits: Hits, *, language_model: LanguageModel) -> Hits:
        """Ask."""
        language_model.run(NOTE, text="x")
        return hits

    registered(reranking, asking)
    broken = Models(Down(), models.embedder, models.cross_encoder, Down())
    engine = Engine(Corpus(example_documents(), example_chunks()), broken, Gateway())
    for options, stage in (({"reranking": "asking"}, "reranking.asking"), ({}, "generation.generate")):
        with pytest.raises(StageFailed) as raised:
            engine.answer(pipeline(**options), QUESTION)
        assert raised.value.stage == stage
        assert isinstance(raised.value.cause, ModelError)


def test_a_failure_while_the_collection_is_prepared_names_the_technique(
    engine: Engine, pipeline: Build, registered: Register
) -> None:
    from ragsmith.techniques.families import pre_embedding  # noqa: PLC0415
    from ragsmith.types import Chunks, Entries  # noqa: PLC0415, F401

    def refusing(chunks: Any) -> Any:
        """Refuse."""
        raise ValueError("no chunks today")

    registered(pre_embedding, refusing)
    with pytest.raises(StageFailed, match=r"pre_embedding\.refusing: ValueError: no chunks today"):
        engine.answer(pipeline(pre_embedding="refusing"), QUESTION)


def test_retrieving_ends_before_anything_is_generated(engine: Engine, pipeline: Build) -> None:
    candidate = pipeline(passage_augment="prev_next", passage_compress="tree_summarize")
    found = engine.retrieve(candidate, QUESTION)
    asked = engine.gateway.counts()["language_model"].asked
    assert found == engine.answer(candidate, QUESTION).outputs["passage_augment"].value
    assert (asked, len(found) > 0) == (0, True)


def test_a_gene_is_shown_with_what_differs_from_the_defaults() -> None:
    assert str(make_gene("retrieval", "hybrid")) == "hybrid"
    assert str(make_gene("retrieval", "hybrid", {"weight": 0.3, "k": 20})) == "hybrid(weight=0.3)"


def test_an_installed_index_is_not_built(engine: Engine, models: Models, pipeline: Build) -> None:
    index, _ = engine.prepare(pipeline(retrieval="hybrid"))
    other = Engine(engine.corpus, models, Gateway())
    other.install_index(pipeline()[0], index)
    trace = other.answer(pipeline(), QUESTION)
    assert other.collection_usage.total() == Usage()
    assert (
        trace.outputs["query_expansion"].value == engine.answer(pipeline(), QUESTION).outputs["query_expansion"].value
    )

"""Forty failures that are planted, four of each kind, and looked for with the real engine.

What goes wrong is built into documents, techniques or models; nothing here measures what a stage holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ragsmith.diagnosis.causes import Cause, good_score_threshold
from ragsmith.diagnosis.diagnosed import EvidenceTracer, make_diagnosis
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.scoring import score_answer
from ragsmith.models.calls import Completion
from ragsmith.models.usage import Usage
from ragsmith.pipelines.genes import Candidate
from ragsmith.techniques.families import passage_compress, post_generation, pre_embedding, prompt_maker, reranking
from ragsmith.techniques.fusion import rank
from ragsmith.text.blocks import number_blocks
from ragsmith.types import (
    Answer,
    Chunks,
    Dataset,
    Document,
    Entries,
    Example,
    Hits,
    IndexEntry,
    Passage,
    Passages,
    Prompt,
    Question,
    Scale,
    Span,
)


@dataclass(frozen=True)
class World:
    """What is asked, a fact that says it in the question's words, and one that says it in none of them."""

    question: str
    answer: str
    near: str
    far: str
    opposite: str
    decoys: list[str]
    beside: str

    @property
    def mentioned(self) -> str:
        """What has one of the question's words, the last."""
        last = self.question.rstrip("?").split()[-1]
        return f"{self.far} So it is with the {last}."


WORLDS = tuple(World(**world) for world in json.loads(Path(__file__).with_name("worlds.json").read_text()))

FOUR = WORLDS * 2
"""One for each way to plant a failure."""


class Says:
    """A chat model that says the same whatever it is asked, and reads no more than its window."""

    def __init__(self, reply: str, window: int | None = None) -> None:
        self.id = f"says:{reply}@{window}"
        self.context_window = window
        self._reply = reply

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        return Completion(self._reply, Usage(1, 0, 0, 10, 2))


class Dislikes:
    """A cross-encoder that puts what has a number last."""

    id = "dislikes@1"

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        return tuple(float(not any(map(str.isdigit, text))) for text in texts)


# --- techniques that do one thing wrong ------------------------------------------------------------------------------


def without_annex(chunks: Chunks) -> Entries:
    """Index all but the annex."""
    return tuple(IndexEntry((chunk.text,), chunk) for chunk in chunks if chunk.doc != "annex")


def first_chunks(chunks: Chunks) -> Entries:
    """Index the first chunk of each document."""
    return tuple(IndexEntry((chunk.text,), chunk) for chunk in chunks if chunk.index == 0)


def backwards(question: Question, hits: Hits) -> Hits:
    """Turn the ranking round."""
    return rank(hit.rescored(float(place), Scale.LISTWISE) for place, hit in enumerate(hits))


def without_the_first(question: Question, hits: Hits) -> Hits:
    """Drop whoever leads."""
    return tuple(hits[1:])


def shortest_first(question: Question, hits: Hits) -> Hits:
    """Rank by brevity."""
    return rank(hit.rescored(-float(len(hit.chunk.text)), Scale.LISTWISE) for hit in hits)


def first_sentence(question: Question, passages: Passages) -> Passages:
    """Keep the first sentence of each passage."""
    return tuple(Passage(passage.text.partition(". ")[0], passage.sources, passage.score) for passage in passages)


def first_alone(question: Question, passages: Passages) -> Prompt:
    """Show the first passage."""
    return Prompt(number_blocks([passages[0].text]), passages[:1])


def small_talk(question: Question, prompt: Prompt, answer: Answer) -> Answer:
    """Change the subject."""
    return Answer("The weather on the island changes quickly and nobody minds.")


def misreads(question: Question, prompt: Prompt, answer: Answer) -> Answer:
    """Get the numbers of the passages wrong."""
    wrong = {"12": "30", "45": "95"}
    return Answer(" ".join(wrong.get(word, word) for word in answer.text.rstrip(".").split()) + ".")


OWN: Sequence[tuple[Any, Callable[..., Any]]] = (
    (pre_embedding, without_annex),
    (pre_embedding, first_chunks),
    (reranking, backwards),
    (reranking, without_the_first),
    (reranking, shortest_first),
    (passage_compress, first_sentence),
    (prompt_maker, first_alone),
    (post_generation, small_talk),
    (post_generation, misreads),
)


@pytest.fixture(autouse=True)
def own(registered: Callable[..., object]) -> None:
    for family, fn in OWN:
        registered(family, fn)


# --- plants ----------------------------------------------------------------------------------------------------------

Option = str | tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Plant:
    """A question of ``world`` that fails, for the reason that ``cause`` names.

    Every text of ``documents`` is a file; ``gold`` is quoted from them.
    """

    cause: Cause
    world: World
    documents: dict[str, str]
    gold: tuple[str, ...]
    options: dict[str, Option]
    chunk_size: int = 900
    answer: str = ""
    models: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.cause.value.replace(' ', '-')}-{WORLDS.index(self.world)}"

    def setup(self) -> Experiment:
        documents = tuple(Document(name, name, text) for name, text in self.documents.items())
        spans = []
        for quote in self.gold:
            [name] = [name for name, text in self.documents.items() if quote in text]
            start = self.documents[name].index(quote)
            spans.append(Span(name, start, start + len(quote)))
        answer = self.answer or self.world.answer
        example = Example("planted", self.world.question, answer, "factual", tuple(spans))
        data = Dataset("planted", "Planted", "", "CC0", "en", documents, (example,), "0" * 64)
        return Experiment(data, chunk_size=self.chunk_size)


def apart(*texts: str) -> dict[str, str]:
    """Each text in a document of its own, so that it is a chunk."""
    return {f"text-{place}": text for place, text in enumerate(texts)}


def not_in_the_index() -> Iterator[Plant]:
    """Headings are in no chunk, be they all that says it, and pre-embedding may leave things out."""
    cause, (a, b, c, d) = Cause.NOT_INDEXED, FOUR
    heading = f"# Rules\n\n## {a.near}\n\n{a.decoys[0]}\n"
    documents = {"rules": heading, **apart(*a.decoys[1:])}
    yield Plant(cause, a, documents, (a.decoys[0], a.near), {"retrieval": "bm25"})
    annex = {"annex": b.near, **apart(*b.decoys)}
    yield Plant(cause, b, annex, (b.near,), {"pre_embedding": "without_annex"})
    chapters = f"# {c.near}\n\n{c.beside}\n"
    documents = {"chapters": chapters, **apart(*c.decoys)}
    yield Plant(cause, c, documents, (c.near, c.beside), {"retrieval": "hybrid"})
    text = f"# One\n\n{d.beside}\n\n# Two\n\n{d.near}\n"
    yield Plant(cause, d, {"book": text, **apart(*d.decoys)}, (d.near,), {"pre_embedding": "first_chunks"})


def cut_by_chunking() -> Iterator[Plant]:
    """The rule is far longer than chunks are, and one of its pieces is not enough."""
    steps = (
        "first the ledger is opened by the clerk on duty and the date is entered in red ink",
        "then two witnesses from another parish swear that they know the owner by name",
        "after that the brass seal is warmed over a candle and pressed beside the signature",
        "finally the copy is folded in three and carried to the archive before the evening bell",
    )
    filters: tuple[Option, ...] = (
        ("top_k", {"k": 1}),
        ("top_k", {"k": 1}),
        ("similarity_threshold", {"keep_at_most": 1}),
        ("top_k", {"k": 1}),
    )
    retrievals = ("bm25", "vector", "bm25", "hybrid")
    for world, passage_filter, retrieval in zip(FOUR, filters, retrievals, strict=True):
        rule = f"{world.question.rstrip('?')}, asks the rule, and answers: {'; '.join(steps)}."
        options: dict[str, Option] = {"retrieval": retrieval, "passage_filter": passage_filter}
        documents = {"rules": f"{world.beside}\n\n{rule}\n\nWhoever asks again is told the same.\n"}
        yield Plant(Cause.CUT_BY_CHUNKING, world, documents, (rule,), options, 120, answer=f"It is so: {steps[3]}.")


Way = dict[str, Any]
"""Options of a pipeline; ``model`` is what answers instead of the embedded model."""


@dataclass(frozen=True)
class Shape:
    """A failure that is planted in each world: documents, the gold among them, and the pipelines that lose it."""

    texts: Callable[[World], Sequence[str]]
    gold: Callable[[World], str]
    ways: Sequence[Way]
    further: Way = field(default_factory=dict)


def one_word_each(world: World) -> list[str]:
    """Texts with a word of the question each, and the gold in a long text."""
    words = world.question.rstrip("?").split()
    others = [f"Of the {word} {world.beside.lower()}" for word in words[-4:]]
    long = f"{world.near} It has been so for as long as anybody can remember, and the elders see no reason to change."
    return [*others, long]


def decoys_and(gold: Callable[[World], str]) -> Callable[[World], list[str]]:
    return lambda world: [*world.decoys, gold(world)]


SHAPES: dict[Cause, Shape] = {
    # the gold has none of the question's words, and everything else has all of them
    Cause.NOT_RETRIEVED: Shape(
        decoys_and(lambda world: world.far),
        lambda world: world.far,
        (
            {"retrieval": ("bm25", {"k": 3})},
            {"retrieval": ("vector", {"k": 2})},
            {"retrieval": ("bm25", {"k": 2}), "reranking": "backwards"},
            {"retrieval": ("bm25", {"k": 3}), "query_expansion": "decomposition"},
        ),
    ),
    # the gold is found first, by words that nothing else has
    Cause.LOST_BY_RERANKER: Shape(
        one_word_each,
        lambda world: world.near,
        (
            {"reranking": "backwards", "passage_filter": ("top_k", {"k": 1})},
            {"reranking": "without_the_first"},
            {"reranking": "shortest_first", "passage_filter": ("top_k", {"k": 2})},
            {"reranking": ("cross_encoder", {"first_stage_weight": 0.0}), "passage_filter": ("top_k", {"k": 1})},
        ),
        {"retrieval": "bm25"},
    ),
    # all is retrieved: the gold has one word of the question, and the decoys in front of it have all
    Cause.CUT_BY_FILTER: Shape(
        lambda world: [*(f"{world.question} {decoy}" for decoy in world.decoys), world.mentioned],
        lambda world: world.mentioned,
        (
            {"passage_filter": ("top_k", {"k": 1})},
            {"passage_filter": ("top_k", {"k": 2})},
            {"passage_filter": ("similarity_threshold", {"keep_at_most": 1})},
            {"retrieval": "hybrid", "passage_filter": ("top_k", {"k": 1})},
        ),
        {"retrieval": "bm25"},
    ),
    # the gold is last in a paragraph about the question, and says it in words of its own
    Cause.LOST_IN_COMPRESSION: Shape(
        lambda world: [f"{world.decoys[0]} {world.decoys[1]} {world.far}", world.decoys[2], world.beside],
        lambda world: world.far,
        (
            {"passage_compress": ("tree_summarize", {"max_words": 15})},
            {"passage_compress": ("llm_refine", {"max_words": 15})},
            {"passage_compress": ("tree_summarize", {"max_words": 15}), "passage_augment": "prev_next"},
            {"passage_compress": "first_sentence"},
        ),
        {"retrieval": "bm25"},
    ),
    # the gold is kept, in the last place, and what follows the filter has no room for it
    Cause.CUT_FROM_PROMPT: Shape(
        lambda world: [*(f"{decoy} " * 8 for decoy in world.decoys), world.mentioned],
        lambda world: world.mentioned,
        (
            {"model": Says("The weather changes quickly.", 1500)},
            {"prompt_maker": "first_alone"},
            {"passage_augment": ("relevant_segments", {"minimum_value": 0.6})},
            {"model": Says("Nobody minds the rain.", 1500)},
        ),
        {"retrieval": "bm25"},
    ),
    # everything is read, and the answer is about something else
    Cause.UNUSED: Shape(
        decoys_and(lambda world: world.near),
        lambda world: world.near,
        (
            {"model": Says("Ropes and nets are kept in the long shed.")},
            {"post_generation": "small_talk"},
            {"retrieval": "bm25", "model": Says("The old rule is printed on the door.")},
            {"reranking": "backwards", "post_generation": "small_talk"},
        ),
    ),
    # everything is read, and the answer turns it round
    Cause.CONTRADICTED: Shape(
        decoys_and(lambda world: world.near),
        lambda world: world.near,
        (
            {"model": Says(WORLDS[0].opposite)},
            {"post_generation": "misreads", "model": Says(WORLDS[1].answer)},
            {"model": Says(WORLDS[0].answer.replace("may keep", "may not keep"))},
            {"retrieval": "bm25", "model": Says(WORLDS[1].opposite)},
        ),
    ),
    # everything is read, and the answer is that there is none
    Cause.REFUSED: Shape(
        decoys_and(lambda world: f"{world.near} {world.beside}"),
        lambda world: world.near,
        (
            {"model": Says("The passages do not contain the answer.")},
            {"post_generation": ("abstain", {"least": 1.0})},
            {"model": Says("Sorry, I don't know.")},
            {"retrieval": "bm25", "model": Says("Unfortunately, the documents do not mention that.")},
        ),
    ),
}


def planted() -> Iterator[Plant]:
    yield from not_in_the_index()
    yield from cut_by_chunking()
    for cause, shape in SHAPES.items():
        for world, way in zip(FOUR, shape.ways, strict=True):
            options = {**shape.further, **way}
            answers = options.pop("model", None)
            models = {"cross_encoder": Dislikes()} if cause is Cause.LOST_BY_RERANKER else {}
            models |= {"language_model": answers} if answers else {}
            yield Plant(cause, world, apart(*shape.texts(world)), (shape.gold(world),), options, models=models)


PLANTS = tuple(planted())


def found(plant: Plant, build: Callable[..., Candidate]) -> Cause:
    """The cause of the plant's failure, by the way that a run takes."""
    setup, candidate = plant.setup(), build(**plant.options)
    engine = setup.engine()
    engine.models = replace(engine.models, **plant.models)
    example = setup.examples["planted"]
    trace = engine.answer(candidate, Question(example.question))
    record = score_answer(engine, setup, trace, example)
    followed = EvidenceTracer()(engine, setup, candidate, trace, example)
    return make_diagnosis(followed, example, record["measures"], good_score_threshold(setup)).cause


def test_there_are_four_plants_of_each_kind() -> None:
    kinds = [plant.cause for plant in PLANTS]
    assert len(set(kinds)) == 10
    assert all(kinds.count(kind) == 4 for kind in kinds)


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_a_planted_failure_is_found(plant: Plant, pipeline: Callable[..., Candidate]) -> None:
    assert found(plant, pipeline) == plant.cause


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_where_nothing_is_planted_nothing_is_found(world: World, pipeline: Callable[..., Candidate]) -> None:
    plant = Plant(Cause.WELL, world, apart(world.near, world.beside), (world.near,), {"retrieval": "bm25"})
    assert found(plant, pipeline) == Cause.WELL

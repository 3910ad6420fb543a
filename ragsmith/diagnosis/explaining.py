"""The whole way of one question through a pipeline: what went into each stage, what came out, and where gold was."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragsmith.datasets.relevance import count_overlap
from ragsmith.diagnosis.causes import MEANINGS, RANKED, REMEDIES, Followed, well_from
from ragsmith.diagnosis.diagnosed import Follow, GoldPassage, ReadPassage, diagnosed
from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness, composite
from ragsmith.evaluation.scoring import scored
from ragsmith.models.calls import is_chat_model
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, facing
from ragsmith.pipelines.trace import Trace
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Example, Gold, Hit, Passages, Question, Span

_ID = re.compile(r"[!-~]*[\w-]", re.ASCII)
"""A word that an id may be; questions of scripts without spaces are none, nor is what ends in a question mark."""

BEGINNING = 80
"""Characters of a chunk that are shown in a ranking."""


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A chunk at its ``place`` in a ranking, from 1, and its place before that stage; None if it was not ranked.

    ``gold`` numbers the gold passages that it has a part of, from 1; ``text`` is its beginning. Where a learned ranking
    gave its score, and what was searched with is the question as it is, ``signals`` has what each signal adds to it,
    its value times its weight, the largest first.
    """

    place: int
    chunk: str
    doc: str
    start: int
    end: int
    score: float
    scale: str
    gold: tuple[int, ...]
    before: int | None
    text: str
    signals: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class StageExplanation:
    """One stage: the ``option`` of its ``family``, the model calls that it took, and what came out, in words.

    ``hits`` are what it left where it ranks, best first, and ``dropped`` what it did not keep of those before it, at
    their old places. ``held`` is the share of each gold passage that came out, in their order. ``queries`` are what
    query expansion searched with.
    """

    family: str
    option: str
    calls: int
    said: str
    hits: tuple[RankedChunk, ...] = ()
    dropped: tuple[RankedChunk, ...] = ()
    held: tuple[float, ...] = ()
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionExplanation:
    """The way of one question: its stations in order, what was read, the answer, and the first thing that went wrong.

    A question that is not of the data set has no ``id``, ``reference``, ``gold`` and ``scores``; its ``cause`` is "",
    and ``note`` says so.
    ``scores`` are F, R and G as ``fitness``, ``retrieval`` and ``generation``, and the judge's mark as ``judge``.
    ``prompt`` is all that the generator was shown, ``passages`` the same in short with the gold marked, and ``further``
    counts those that are left out there.
    """

    question: str
    id: str
    type: str
    reference: str
    gold: tuple[GoldPassage, ...]
    stations: tuple[StageExplanation, ...]
    passages: tuple[ReadPassage, ...]
    further: int
    prompt: str
    draft: str
    answer: str
    scores: Mapping[str, float]
    cause: str
    meaning: str
    remedy: str
    note: str = ""


def explain_question(
    engine: Engine, setup: Experiment, candidate: Candidate, example: Example, fitness: Fitness
) -> QuestionExplanation:
    """Run ``candidate`` on ``example`` and follow it; one without an id is any question.

    ``engine`` is fresh: what it has searched with afterwards is what this question was searched with.

    Raises:
        StageFailed: a technique raised; the cause is kept.
    """
    able = facing(candidate, example.question)
    is_known = bool(example.id)
    gold = Gold(setup.relevance[example.id].relevant) if is_known else None
    trace = engine.answer(able, Question(example.question), gold)
    way, reading, evidence = Follow(frozenset([example.id]))(engine, setup, able, trace, example)
    measures = scored(setup.marking(engine), setup, trace, example)["measures"] if is_known else {}
    cause = diagnosed((way, None, ()), example, measures, well_from(setup.marking(engine).models.judge)).cause
    prompt = trace.prompt
    return QuestionExplanation(
        question=example.question,
        id=example.id,
        type=example.type if is_known else "",
        reference=example.answer,
        gold=evidence,
        stations=_stations(engine, able, Question(example.question), trace, way),
        passages=reading.passages if reading else (),
        further=reading.further if reading else 0,
        prompt=prompt.text,
        draft=trace.outputs["generation"].value.text,
        answer=trace.answer.text,
        scores=_scores(measures, fitness),
        cause=cause.value if is_known else "",
        meaning=MEANINGS[cause] if is_known else "",
        remedy=REMEDIES.get(cause, "") if is_known else "",
        note="" if is_known else f"not a question of {setup.dataset.name}: followed without gold",
    )


def _scores(measures: Mapping[str, float | None], fitness: Fitness) -> dict[str, float]:
    if not measures:
        return {}
    found = {
        "fitness": fitness(measures),
        **{name: composite(name, measures) for name in ("retrieval", "generation")},
        "judge": measures.get("judge"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _stations(
    engine: Engine, candidate: Candidate, question: Question, trace: Trace, way: Followed
) -> tuple[StageExplanation, ...]:
    genes = {gene.technique.family: gene for gene in candidate}
    golds = [fate.span for fate in way.fates]
    index = engine.index(candidate[0])

    def held(station: str) -> tuple[float, ...]:
        return tuple(fate.held.get(station, 0.0) for fate in way.fates)

    keys = sum(len(entry.keys) for entry in index.entries)
    indexed = f"{len(index.entries):,} chunks, searched by {keys:,} keys"
    stations = [StageExplanation("pre_embedding", str(genes["pre_embedding"]), 0, indexed, held=held("index"))]
    before: Sequence[Hit] = ()
    for family in RANKED:
        hits: Sequence[Hit] = trace.outputs[family].value
        places = {hit.chunk.id: place for place, hit in enumerate(before, 1)}
        left = {hit.chunk.id for hit in hits}
        dropped = [(place, hit) for place, hit in enumerate(before, 1) if hit.chunk.id not in left]
        first = family == RANKED[0]
        queries = _queries(engine, candidate) if first else ()
        learned = "retrieval" if queries == (question.text,) else family
        weighed = _weighed(engine, candidate, learned, question)
        option = f"{genes[family]}, retrieval {genes['retrieval']}" if first else str(genes[family])
        stations.append(
            StageExplanation(
                family,
                option,
                trace.usage[family].calls,
                f"{len(hits)} hits" if first else _ranked(len(before), len(hits), tuple(before) == tuple(hits)),
                tuple(
                    _found(place, hit, golds, places.get(hit.chunk.id), weighed) for place, hit in enumerate(hits, 1)
                ),
                tuple(_found(place, hit, golds, place, {}) for place, hit in dropped),
                held(family),
                queries,
            )
        )
        before = hits
    passages: Passages = ()
    for family in ("passage_augment", "passage_compress"):
        read: Passages = trace.outputs[family].value
        said = "as before" if read == passages and passages else _size(read)
        stations.append(
            StageExplanation(family, str(genes[family]), trace.usage[family].calls, said, held=held(family))
        )
        passages = read
    shown = f"{_size(trace.prompt.passages)}, as {len(trace.prompt.text):,} characters"
    shares = tuple([*fate.held.values()][-1] for fate in way.fates)
    stations.append(StageExplanation("prompt_maker", str(genes["prompt_maker"]), 0, shown, held=shares))
    draft, answer = trace.outputs["generation"].value, trace.answer
    cites = f"{_counted(len(draft.text.split()), 'word')}, citing {_counted(len(draft.cited), 'passage')}"
    stations.append(StageExplanation("generation", _model(engine), trace.usage["generation"].calls, cites))
    changed = "delivered as it is" if answer == draft else "changed"
    last = str(genes["post_generation"])
    stations.append(StageExplanation("post_generation", last, trace.usage["post_generation"].calls, changed))
    return tuple(stations)


def _ranked(before: int, after: int, is_same: bool) -> str:
    if is_same:
        return "as before"
    return f"{after} of {before} hits, in a new order" if after == before else f"{after} of {before} hits"


def _size(passages: Passages) -> str:
    return f"{_counted(len(passages), 'passage')} of {sum(len(passage.text) for passage in passages):,} characters"


def _model(engine: Engine) -> str:
    """The model that answers, without the digests of an embedded one."""
    model = engine.models.language_model
    return model.id if is_chat_model(model) else model.id.partition(":")[0]


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _queries(engine: Engine, candidate: Candidate) -> tuple[str, ...]:
    """What was searched with, in order."""
    retrieval = next(gene for gene in candidate if gene.technique.family == "retrieval")
    made = engine.searches.keys()
    return tuple(query for identity, _, query in made if identity == retrieval.identity)


def _weighed(
    engine: Engine, candidate: Candidate, family: str, question: Question
) -> Mapping[str, tuple[tuple[str, float], ...]]:
    """By chunk id, what each signal adds to its score, the largest first; nothing where no ranking was learned."""
    gene = next(gene for gene in candidate if gene.technique.family == family)
    if not gene.technique.signals or gene.fit is None:
        return {}
    weights: Mapping[str, float] = gene.fit.numbers["weights"]
    found = {}
    for chunk, values in engine.signals(candidate, family, question).items():
        added = [(name, weights.get(name, 0.0) * value) for name, value in values.items()]
        found[chunk] = tuple(sorted(added, key=lambda one: -abs(one[1])))
    return found


def _found(
    place: int,
    hit: Hit,
    golds: Sequence[Span],
    before: int | None,
    weighed: Mapping[str, tuple[tuple[str, float], ...]],
) -> RankedChunk:
    chunk = hit.chunk
    holds = tuple(n for n, gold in enumerate(golds, 1) if any(count_overlap(gold, span) for span in chunk.spans))
    text = " ".join(chunk.text.split())[:BEGINNING]
    signals = weighed.get(chunk.id, ())
    return RankedChunk(
        place, chunk.id, chunk.doc, chunk.start, chunk.end, hit.score, hit.scale.value, holds, before, text, signals
    )


def find_question(setup: Experiment, question: str) -> Example:
    """The question of the data set that ``question`` is the id or the text of; else one without id and gold.

    Texts are the same whatever their case, spaces and last punctuation.

    Raises:
        UsageError: it is a single word as ids are, and the data set has no such question.
    """
    if question in setup.examples:
        return setup.examples[question]
    same = _plain(question)
    for example in setup.dataset.examples:
        if _plain(example.question) == same:
            return example
    if setup.examples and _ID.fullmatch(question.strip()):
        known = did_you_mean(question.strip(), setup.examples)
        raise UsageError(f"{setup.dataset.name!r} has no question {question.strip()!r}: {known}")
    return Example("", question, "", "", ())


def _plain(question: str) -> str:
    return " ".join(question.casefold().split()).rstrip(" .?!")

"""Explain a question: the output of every stage of a pipeline, and the gold in it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean

from ragsmith.datasets.relevance import count_overlap
from ragsmith.diagnosis.causes import MEANINGS, RANKING_STAGES, QuestionTrace, good_score_threshold, name_remedy
from ragsmith.diagnosis.diagnosed import EvidenceTracer, GoldPassage, ReadPassage, make_diagnosis
from ragsmith.display import short_repr
from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness, composite
from ragsmith.evaluation.scoring import score_answer
from ragsmith.models.calls import is_chat_model
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, out_of_fold
from ragsmith.pipelines.trace import Trace
from ragsmith.text import numbers
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.table import Table, counts, figures, texts
from ragsmith.text.terminal import aligned
from ragsmith.types import Example, Gold, Hit, Passages, Question, Span

_ID = re.compile(r"[!-~]*[\w-]", re.ASCII)
"""A word that may be an id: ASCII, without a final question mark."""

SHOWN_CHARACTERS = 80
"""Characters shown of a chunk in a ranking."""


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A chunk at its ``place`` in a ranking, from 1, and its place before that stage; None if it was not ranked.

    ``gold`` numbers the gold passages that it has a part of, from 1; ``text`` is its beginning. If a learned ranking
    scored it and the query was the question itself, ``signals`` has the contribution of each signal, its value times
    its weight, the largest first.
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
    """A stage: the ``option`` of its ``family``, its model calls, and a description of its output (``said``).

    ``hits`` are the output of a ranking stage, best first, and ``dropped`` the hits of the previous stage that are not
    in it, at their old places. ``held`` is the share of each gold passage in the output. ``queries`` are those of
    query expansion; none for a question with a filter.
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
    """The ``stages`` of a question, its prompt, its answer, and the cause of a failure.

    A question that is not in the data set has no ``id``, ``reference``, ``gold`` and ``scores``; its ``cause`` is "",
    and ``note`` says so.
    ``scores`` are F, R and G as ``fitness``, ``retrieval`` and ``generation``, and the judge's score as ``judge``.
    ``non_answer`` is what the answer of a chat model is instead of one (`find_non_answers`).
    ``prompt`` is the whole prompt, ``passages`` are its passages, shortened with the gold marked, and ``further`` is
    the number of passages left out.
    """

    question: str
    id: str
    type: str
    reference: str
    gold: tuple[GoldPassage, ...]
    stages: tuple[StageExplanation, ...]
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
    non_answer: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def _ends(self) -> tuple[tuple[str, str], ...]:
        """The reference, the answer, the cause and what to try, as far as they are known."""
        cause = self.cause and f"{self.cause}: {self.meaning}"
        ends = ("reference", self.reference), ("answer", self.answer), ("cause", cause), ("try", self.remedy)
        return tuple(end for end in ends if end[1])

    def __str__(self) -> str:
        stages = [(stage.family, f"{stage.option}: {stage.said}") for stage in self.stages]
        return "\n".join(aligned([("question", self.question), *stages, *self._ends], ()))

    def _repr_html_(self) -> str:
        columns = (*texts("stage", "option", "output"), *counts("calls"), *figures(numbers.share, "gold"))
        rows = [
            (one.family, one.option, one.said, one.calls, fmean(one.held) if one.held else None) for one in self.stages
        ]
        ends = "".join(f"<p>{name}: {escape(text)}</p>" for name, text in self._ends)
        return Table(self.question, columns, rows)._repr_html_() + ends


def explain_question(
    engine: Engine, setup: Experiment, candidate: Candidate, example: Example, fitness: Fitness
) -> QuestionExplanation:
    """Run ``candidate`` on ``example`` and explain it; an example without an id is not in the data set.

    ``engine`` must be new, as its queries are reported as those of this question.

    Raises:
        StageFailed: a technique raised an error, which is its cause.
    """
    able = out_of_fold(candidate, example.question)
    is_known = bool(example.id)
    gold = Gold(setup.relevance[example.id].relevant) if is_known else None
    trace = engine.answer(able, example.as_question, gold)
    way, reading, evidence = EvidenceTracer(frozenset([example.id]))(engine, setup, able, trace, example)
    measures = (
        score_answer(setup.scoring_engine(engine, example.id), setup, trace, example)["measures"] if is_known else {}
    )
    cause = make_diagnosis(
        (way, None, ()), example, measures, good_score_threshold(setup, tested=example.id in setup.tested)
    ).cause
    prompt = trace.prompt
    return QuestionExplanation(
        question=example.question,
        id=example.id,
        type=example.type if is_known else "",
        reference=example.answer,
        gold=evidence,
        stages=_explain_stages(engine, able, example.as_question, trace, way),
        passages=reading.passages if reading else (),
        further=reading.further if reading else 0,
        prompt=prompt.text,
        draft=trace.outputs["generation"].value.text,
        answer=trace.answer.text,
        scores=_scores(measures, fitness),
        cause=cause.value if is_known else "",
        meaning=MEANINGS[cause] if is_known else "",
        remedy=name_remedy(cause, candidate) if is_known else "",
        note="" if is_known else f"not a question of {setup.dataset.name}: followed without gold",
        non_answer=way.non_answer,
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


def _explain_stages(
    engine: Engine, candidate: Candidate, question: Question, trace: Trace, way: QuestionTrace
) -> tuple[StageExplanation, ...]:
    golds = [gold_trace.span for gold_trace in way.gold_traces]
    if not candidate:
        return _explain_contexts(trace, way, golds)
    genes = {gene.technique.family: gene for gene in candidate}
    index = engine.index(candidate[0])

    def held(stage: str) -> tuple[float, ...]:
        return tuple(gold_trace.held.get(stage, 0.0) for gold_trace in way.gold_traces)

    keys = sum(len(entry.keys) for entry in index.entries)
    indexed = f"{len(index.entries):,} chunks, searched by {keys:,} keys"
    stages = [StageExplanation("pre_embedding", str(genes["pre_embedding"]), 0, indexed, held=held("index"))]
    before: Sequence[Hit] = ()
    for family in RANKING_STAGES:
        hits: Sequence[Hit] = trace.outputs[family].value
        places = {hit.chunk.id: place for place, hit in enumerate(before, 1)}
        left = {hit.chunk.id for hit in hits}
        dropped = [(place, hit) for place, hit in enumerate(before, 1) if hit.chunk.id not in left]
        first = family == RANKING_STAGES[0]
        queries = _list_queries(engine, candidate) if first else ()
        learned = "retrieval" if queries == (question.text,) else family
        weighed = _signal_contributions(engine, candidate, learned, question)
        option = f"{genes[family]}, retrieval {genes['retrieval']}" if first else str(genes[family])
        stages.append(
            StageExplanation(
                family,
                option,
                trace.usage[family].calls,
                f"{len(hits)} hits"
                if first
                else _describe_ranking(len(before), len(hits), tuple(before) == tuple(hits)),
                tuple(
                    _ranked_chunk(place, hit, golds, places.get(hit.chunk.id), weighed)
                    for place, hit in enumerate(hits, 1)
                ),
                tuple(_ranked_chunk(place, hit, golds, place, {}) for place, hit in dropped),
                held(family),
                () if question.filter else queries,  # the embedded model writes some with words of other documents
            )
        )
        before = hits
    passages: Passages = ()
    for family in ("passage_augment", "passage_compress"):
        read: Passages = trace.outputs[family].value
        said = "as before" if read == passages and passages else _describe_size(read)
        stages.append(StageExplanation(family, str(genes[family]), trace.usage[family].calls, said, held=held(family)))
        passages = read
    shown = f"{_describe_size(trace.prompt.passages)}, as {len(trace.prompt.text):,} characters"
    shares = tuple([*gold_trace.held.values()][-1] for gold_trace in way.gold_traces)
    stages.append(StageExplanation("prompt_maker", str(genes["prompt_maker"]), 0, shown, held=shares))
    draft, answer = trace.outputs["generation"].value, trace.answer
    cites = f"{_count_noun(len(draft.text.split()), 'word')}, citing {_count_noun(len(draft.cited), 'passage')}"
    stages.append(StageExplanation("generation", _model_name(engine), trace.usage["generation"].calls, cites))
    changed = "delivered as it is" if answer == draft else "changed"
    last = str(genes["post_generation"])
    stages.append(StageExplanation("post_generation", last, trace.usage["post_generation"].calls, changed))
    return tuple(stages)


def _explain_contexts(trace: Trace, way: QuestionTrace, golds: Sequence[Span]) -> tuple[StageExplanation, ...]:
    """Return the stages of another system that are known: its contexts and its answer."""
    hits = tuple(_ranked_chunk(place, hit, golds, None, {}) for place, hit in enumerate(trace.hits, 1))
    held = tuple(gold_trace.held["passage_filter"] for gold_trace in way.gold_traces)
    answer = trace.answer
    cites = f"{_count_noun(len(answer.text.split()), 'word')}, citing {_count_noun(len(answer.cited), 'passage')}"
    return (
        StageExplanation("retrieval", "contexts", 0, _describe_size(trace.prompt.passages), hits, held=held),
        StageExplanation("generation", "answer", 0, cites),
    )


def _describe_ranking(before: int, after: int, is_same: bool) -> str:
    if is_same:
        return "as before"
    return f"{after} of {before} hits, in a new order" if after == before else f"{after} of {before} hits"


def _describe_size(passages: Passages) -> str:
    return f"{_count_noun(len(passages), 'passage')} of {sum(len(passage.text) for passage in passages):,} characters"


def _model_name(engine: Engine) -> str:
    """Return the id of the generator, without the digests of an embedded one."""
    model = engine.models.language_model
    return model.id if is_chat_model(model) else model.id.partition(":")[0]


def _count_noun(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _list_queries(engine: Engine, candidate: Candidate) -> tuple[str, ...]:
    """Return the queries, in order."""
    retrieval = next(gene for gene in candidate if gene.technique.family == "retrieval")
    made = engine.searches.keys()
    return tuple(query for identity, _, query in made if identity == retrieval.identity)


def _signal_contributions(
    engine: Engine, candidate: Candidate, family: str, question: Question
) -> Mapping[str, tuple[tuple[str, float], ...]]:
    """Return the contributions of signals to scores by chunk id, the largest first; empty without a learned ranking."""
    gene = next(gene for gene in candidate if gene.technique.family == family)
    if not gene.technique.signals or gene.fit is None:
        return {}
    weights: Mapping[str, float] = gene.fit.numbers["weights"]
    added = {
        chunk: [(name, weights.get(name, 0.0) * value) for name, value in values.items()]
        for chunk, values in engine.signals(candidate, family, question).items()
    }
    return {chunk: tuple(sorted(parts, key=lambda part: -abs(part[1]))) for chunk, parts in added.items()}


def _ranked_chunk(
    place: int,
    hit: Hit,
    golds: Sequence[Span],
    before: int | None,
    weighed: Mapping[str, tuple[tuple[str, float], ...]],
) -> RankedChunk:
    chunk = hit.chunk
    holds = tuple(n for n, gold in enumerate(golds, 1) if any(count_overlap(gold, span) for span in chunk.spans))
    text = " ".join(chunk.text.split())[:SHOWN_CHARACTERS]
    signals = weighed.get(chunk.id, ())
    return RankedChunk(
        place, chunk.id, chunk.doc, chunk.start, chunk.end, hit.score, hit.scale.value, holds, before, text, signals
    )


def find_question(setup: Experiment, question: str) -> Example:
    """Return the question of the data set with the id or text ``question``, else one without id and gold.

    Texts are compared without case, spaces and final punctuation.

    Raises:
        UsageError: ``question`` looks like an id, and the data set has no such question.
    """
    if question in setup.examples:
        return setup.examples[question]
    same = _normalise(question)
    for example in setup.dataset.examples:
        if _normalise(example.question) == same:
            return example
    if setup.examples and _ID.fullmatch(question.strip()):
        known = did_you_mean(question.strip(), setup.examples)
        raise UsageError(f"{setup.dataset.name!r} has no question {question.strip()!r}: {known}")
    return Example("", question, "", "", ())


def _normalise(question: str) -> str:
    return " ".join(question.casefold().split()).rstrip(" .?!")

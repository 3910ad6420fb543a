"""Another system as a pipeline: its answers to the questions of a data set are scored like those of any pipeline.

A system has no genes: its candidate is empty. Its contexts take the place of ranked chunks, and its answers that of the
generator's, so that measures, groups, looks and verdicts are the same.

A context is relevant if it covers at least half of a gold span, or has at least half of its own text in a span more
than twice as long as any context of the question, which is the rule of `ragsmith.datasets.relevance` for the chunks of
a pipeline. As the contexts that were not retrieved are unknown, gold counts once, and by the chunks of the experiment
if no context reaches it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from ragsmith.datasets.relevance import ChunkMap, Relevance, count_overlap
from ragsmith.digest import digest
from ragsmith.errors import ModelError, StageFailed, UsageError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment, sort_examples
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.threads import ANSWER, RANKING, FinishedQuestion, Part, Runner, ThreadRunner, TraceObserver
from ragsmith.exported.pipeline import Pipeline
from ragsmith.gateway.gateway import Gateway
from ragsmith.index.index import Corpus, Index
from ragsmith.models.roles import Models
from ragsmith.models.usage import NO_USAGE
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.stages import TOTAL, WARM, Clock, StageTimes
from ragsmith.pipelines.trace import Trace
from ragsmith.systems.contexts import LocatedAnswer
from ragsmith.techniques.generation import parse_citations
from ragsmith.types import (
    Answer,
    Chunk,
    Chunks,
    Example,
    Gold,
    Hit,
    IndexEntry,
    Passage,
    Prompt,
    Question,
    RepeatedSpan,
    Scale,
    Span,
    places_of,
)

if TYPE_CHECKING:  # answering needs no database, whose import is slow
    from ragsmith.store.store import Store


class SystemFailure(ModelError):
    """Another system has no answer to a question."""

    kind = "no answer"


RANKED = ("query_expansion", "reranking", "passage_filter")
READ = ("passage_augment", "passage_compress")


class SystemEngine(Engine):
    """Returns ``answers``, by question id; ``ids`` maps the text of a question to its id."""

    usage = NO_USAGE  # of given answers nothing is known

    def __init__(
        self,
        corpus: Corpus,
        models: Models,
        gateway: Gateway,
        answers: Mapping[str, LocatedAnswer],
        ids: Mapping[str, str],
    ) -> None:
        super().__init__(corpus, models, gateway)
        self._answers, self._ids = answers, ids
        self._searched: Index | None = None

    def answer(self, candidate: Candidate, question: Question, gold: Gold | None = None) -> Trace:
        """Return the answer to ``question`` as a trace, in which each stage passes on the contexts.

        Raises:
            StageFailed: the system has no answer to the question, or failed on it.
        """
        trace = self.rank(candidate, question, gold)
        found = self._answers[self._ids[question.text]]  # as it was ranked
        passages = tuple(
            Passage(hit.chunk.text, hit.chunk.spans if hit.chunk.doc else (), hit.score) for hit in trace.hits
        )
        said = found.given.answer
        text, cited = parse_citations(said, len(passages)) if said.strip() else (said, ())
        answer = Answer(text, cited)
        prompt = Prompt("\n\n".join(passage.text for passage in passages), passages)
        outputs = {**dict.fromkeys(READ, passages), "prompt_maker": prompt, "generation": answer}
        for stage, value in {**outputs, "post_generation": answer}.items():
            trace.outputs[stage] = self._intern(value)
            trace.usage[stage] = NO_USAGE
        return trace

    def searched(self, candidate: Candidate) -> Index:
        """Return the contexts of all questions and the chunks of the corpus, as what the system searches is unknown."""
        if self._searched is None:
            chunks = {chunk.id: chunk for one in self._answers.values() for chunk in one.chunks if chunk.doc}
            chunks |= {chunk.id: chunk for chunk in self.corpus.chunks}
            self._searched = Index(tuple(IndexEntry((chunk.text,), chunk) for chunk in chunks.values()))
        return self._searched

    def rank(self, candidate: Candidate, question: Question, gold: Gold | None = None) -> Trace:
        """Return the contexts for ``question`` as a trace up to the filter; see `answer`."""
        found = self._find(self._ids.get(question.text, ""))
        if found is None or found.given.error:
            why = found.given.error if found else "it has no answer to this question"
            raise StageFailed("system", "answer", SystemFailure(why))
        hits = tuple(Hit(chunk, 1.0 / rank, Scale.RRF) for rank, chunk in enumerate(found.chunks, 1))
        ranking = self._intern(hits)
        return Trace(dict.fromkeys(RANKED, ranking), {**dict.fromkeys(RANKED, NO_USAGE), RANKED[0]: self.usage})

    def _find(self, id_: str) -> LocatedAnswer | None:
        """Return the answer to the question ``id_``; None if there is none."""
        return self._answers.get(id_)


class _Relevance(dict[str, Relevance]):
    """The relevance of the contexts of ``answers`` by question id, computed when it is first read after the answer."""

    def __init__(self, setup: Experiment, answers: Mapping[str, LocatedAnswer]) -> None:
        self._examples, self._answers = setup.examples, answers
        self._chunk_map = ChunkMap(setup.corpus.chunks)

    def __missing__(self, id_: str) -> Relevance:
        found = self._answers.get(id_)
        relevance = relevance_of_contexts(found.chunks if found else (), self._examples[id_].evidence, self._chunk_map)
        if found is not None:  # a system whose parameters are searched may not have been asked yet
            self[id_] = relevance
        return relevance


@dataclass(frozen=True)
class SystemExperiment(Experiment):
    """An experiment whose engine returns ``answers``, by the id of their question, which ``identity`` identifies."""

    answers: Mapping[str, LocatedAnswer] = field(default_factory=dict, kw_only=True, hash=False)
    identity: str = field(default="", kw_only=True)

    @classmethod
    def of(cls, setup: Experiment, answers: Mapping[str, LocatedAnswer], identity: str, **further: Any) -> Self:
        """Return the experiment of a system, scored by the models of ``setup``."""
        given = {one.name: getattr(setup, one.name) for one in fields(Experiment)}
        return cls(**{**given, "searched": (), "answers": answers, "identity": identity, **further})

    @property
    def chunking_key(self) -> int | list[Any]:
        """The identity of the answers, as there is no chunking, and of the chunks by which missed gold counts."""
        return ["answers", self.identity, super().chunking_key]

    @cached_property
    def relevance(self) -> dict[str, Relevance]:
        """The relevant contexts by question id, and the chunks with the gold that no context reaches."""
        return _Relevance(self, self.answers)

    def modality(self, example: Example) -> str:
        """Return the modality of the documents with the gold of a question, ``mixed``, or ``none`` without evidence."""
        kinds = {self.corpus.documents[gold.doc].modality.value for gold in example.evidence} or {"none"}
        return kinds.pop() if len(kinds) == 1 else "mixed"

    def _make_engine(self, gateway: Gateway, kind: type[Engine] = Engine) -> Engine:
        """Return a new engine with the answers; see `Experiment.engine`."""
        ids = {example.question: example.id for example in self.dataset.examples if example.id in self.answers}
        return SystemEngine(self.corpus, self.loaded_models, gateway, self.answers, ids)


@dataclass(frozen=True)
class ContextRelevance(Relevance):
    """The relevant contexts of a question; ``same`` maps contexts to the units that they count as."""

    same: Mapping[str, str] = field(default_factory=dict)

    def unit(self, chunk: str) -> str:
        """Return the unit of a context; see `Relevance.unit`."""
        return self.same.get(chunk, chunk)

    @cached_property
    def units(self) -> Mapping[str, float]:
        """The relevant units and their grades."""
        return {chunk: grade for chunk, grade in self.grades.items() if self.unit(chunk) == chunk}


def relevance_of_contexts(contexts: Chunks, evidence: Sequence[Span], chunk_map: ChunkMap) -> Relevance:
    """Return the relevance of ``contexts``, best first, to a question; ``chunk_map`` has the chunks of the experiment.

    Gold more than twice as long as the longest context cannot be half covered: a context within it reaches it.

    Gold counts once, as the first context that reaches it: further contexts with the same gold count as that one, so
    that retrieving a passage several times gains nothing. Coarse gold is one unit, as for chunks.
    """
    own = chunk_map.relevance(evidence)
    longest = max((context.end - context.start for context in contexts if context.doc), default=0)
    coarse = set(own.coarse.values())
    golds = dict(enumerate(dict.fromkeys(evidence)))
    whole = coarse | {n for n, gold in golds.items() if isinstance(gold, RepeatedSpan)}
    grades: dict[str, float] = {}
    same: dict[str, str] = {}
    units: dict[int, str] = {}
    for context in contexts:
        found = {n: _nearest_place(context, gold) for n, gold in golds.items()} if context.doc else {}
        shared = {n: count_overlap(context.span, place) for n, place in found.items()}
        own_half = (context.end - context.start) / 2
        inside = {n for n, gold in golds.items() if n in coarse or gold.end - gold.start > 2 * longest}
        reached = [
            n
            for n, count in shared.items()
            if count and (2 * count >= found[n].end - found[n].start or (n in inside and count >= own_half))
        ]
        new = [n for n in reached if n not in units]
        if new:
            unit = f"gold {new[0]}" if new[0] in coarse else context.id
            grades[unit] = max(1.0 if n in whole else shared[n] / (found[n].end - found[n].start) for n in new)
            units |= dict.fromkeys(new, unit)
        if reached:
            same[context.id] = units[(new or reached)[0]]
            grades[context.id] = grades[same[context.id]]
        elif coarse and (near := chunk_map.overlaps(context.span)):
            nearest = max(near, key=lambda chunk: (near[chunk], chunk))
            same[context.id] = own.homes.get(nearest, context.id)
    for n in golds.keys() - units.keys():
        missed = {f"gold {n}": 1.0} if n in whole else chunk_map.relevance([golds[n]]).grades
        grades |= {chunk: max(grade, grades.get(chunk, 0.0)) for chunk, grade in missed.items()}
    return ContextRelevance(grades, own.partial, own.missed, dict.fromkeys(same, 0), same=same)


def _nearest_place(context: Chunk, gold: Span) -> Span:
    """Return the place of ``gold`` of which the context covers the largest share."""
    return max(places_of(gold), key=lambda place: count_overlap(context.span, place) / max(1, place.end - place.start))


class System(Pipeline):
    """Another system, with its answers to the questions of a data set."""

    setup: SystemExperiment

    def __init__(
        self,
        base: Experiment,
        answers: Mapping[str, LocatedAnswer],
        fitness: Fitness | None = None,
        identity: str = "",
    ) -> None:
        """Create a system with ``answers`` to questions of ``base``, whose models score them.

        Without an ``identity``, it is identified by its answers.
        """
        rows = [[id_, one.given.answer, one.given.contexts, one.given.error] for id_, one in answers.items()]
        super().__init__((), SystemExperiment.of(base, answers, identity or digest(sorted(rows))), fitness=fitness)
        self.base = base

    @property
    def configuration(self) -> dict[str, Any]:
        """The identity of the answers; see `Pipeline.configuration`."""
        return {"answers": self.setup.chunking_key}

    def evaluate(self, store: Store, examples: Sequence[Example] | None = None, *, workers: int = 1) -> Evaluation:
        """Score the answers to ``examples``, by default all; replies of a paid judge are kept in ``store``.

        Scores are not stored, as they are computed in no time.
        """
        examples = self.setup.dataset.examples if examples is None else examples
        done = self._run(store, examples, RANKING if self.fitness.ranking_only else ANSWER, workers)
        parts = ({id_: one.value for id_, one in done.items() if one.ok is state} for state in (True, False))
        return Evaluation(digest(self.setup.chunking_key), (), tuple(done), *parts)

    def observe(
        self, store: Store, examples: Sequence[Example], observer: TraceObserver, *, workers: int = 1
    ) -> tuple[Evaluation, dict[str, Any]]:
        """See `Pipeline.observe`."""
        seen = self._run(store, examples, observer, workers)
        found = self.evaluate(store, examples, workers=workers)
        return found, {id_: one.value for id_, one in seen.items() if one.ok}

    def _run(self, store: Store, examples: Sequence[Example], part: Part, workers: int) -> dict[str, FinishedQuestion]:
        """Return the results of a ``part`` by question, sorted."""
        engine = self.setup.engine(store)
        ids = [example.id for example in sort_examples(self.select(examples))]
        with (
            ThreadRunner(self.setup, engine, workers) if self.setup.prefers_threads else Runner(self.setup, engine)
        ) as runner:
            done = {one.job[1]: one for batch in runner.run([()], [(0, id_) for id_ in ids], part) for one in batch}
        return {id_: done[id_] for id_ in ids}

    def timings(self, examples: Sequence[Example], *, clock: Clock | None = None) -> list[StageTimes]:
        """Return the seconds that the system states, by question.

        Raises:
            UsageError: it states none.
        """
        given = {
            example.id: self.setup.answers[example.id].given for example in examples if example.id in self.setup.answers
        }
        times = [StageTimes(id_, WARM, {TOTAL: one.seconds}) for id_, one in given.items() if one.seconds is not None]
        if not times:
            raise UsageError(
                "the rows have no 'seconds', and a system is not timed again: add them, or leave --latency out"
            )
        return times

    def costs(self, examples: Sequence[Example]) -> list[float]:
        """Return the costs that the system states."""
        given = (self.setup.answers[example.id].given.cost for example in examples if example.id in self.setup.answers)
        return [cost for cost in given if cost is not None]

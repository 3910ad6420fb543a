"""A candidate and a question to an answer: a memoised fold over the families.

A stage is remembered by what ran (technique, code, parameters, tools) and by the *values* it read, not by the genome
that led there: candidates share all they can, and where two paths produce equal values they join again.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from ragsmith.digest import decides_no_value
from ragsmith.errors import RagsmithError, StageFailed
from ragsmith.gateway.memo import Memo
from ragsmith.index.entity_graph import EntityGraph, build_graph
from ragsmith.index.index import Corpus, Index
from ragsmith.index.vector_store import OpenStore
from ragsmith.index.vector_stores.exact import ExactVectors
from ragsmith.models.usage import Meter, Usage
from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.pipelines.trace import StageOutput, Trace
from ragsmith.plugins import tools_of
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.generation import generate
from ragsmith.techniques.registry import TOOLS, Family, Signals
from ragsmith.types import Fitted, Gold, Hit, Hits, LazyHits, Passages, Queries, Question, Rankings

if TYPE_CHECKING:  # how models are reached and counted is no part of what a pipeline does, nor of its fingerprint
    from ragsmith.gateway.gateway import Gateway
    from ragsmith.models.roles import Models


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Binding:
    """The retrieval gene and the index behind `search`."""

    gene: Gene
    index: Index


@dataclass(frozen=True, slots=True)
class _Way:
    """What is the same whatever the question: where a candidate searches, and its stages, each with its gene."""

    search: StageOutput
    stages: tuple[tuple[Family[Any], Gene], ...]


class _Known:
    """A value as a key, hashed once."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._hash = hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self._hash == other._hash and bool(self.value == other.value)


class _Search:
    """A bound retrieval, remembered by query; ``meter`` adds up what its rankings cost, each query once."""

    def __init__(self, engine: Engine, bound: _Binding) -> None:
        self._engine = engine
        self._bound = bound
        self._billed: set[str] = set()
        self.meter = Meter()

    def __call__(self, queries: Queries) -> Rankings:
        gene, index = self._bound.gene, self._bound.index

        def compute(missing: list[tuple[str, str, str]]) -> Sequence[tuple[Hits, Usage]]:
            rankings, usage = self._engine.call(gene, (index, [query for *_, query in missing]))
            return list(zip(rankings, usage.shares(len(missing)), strict=True))

        found = self._engine.searches.get_many([(gene.identity, index.id, query) for query in queries], compute)
        for query, (_, usage) in zip(queries, found, strict=True):
            if query not in self._billed:
                self._billed.add(query)
                self.meter.add(usage)
        return tuple(ranking for ranking, _ in found)


class Engine:
    """Runs candidates over one corpus with one set of models; ``open_store`` says where an index has its vectors."""

    def __init__(self, corpus: Corpus, models: Models, gateway: Gateway, open_store: OpenStore = ExactVectors) -> None:
        self.corpus = corpus
        self.models = models
        self.gateway = gateway
        self._open_store = open_store
        self.stages: Memo[tuple[StageOutput, Usage]] = Memo(gateway.eviction, lambda _, kept: (kept[0].value,))
        self.searches: Memo[tuple[Hits, Usage]] = Memo(gateway.eviction, lambda _, kept: (kept[0],))
        self.requested = 0
        self.collection_usage = Meter()
        self._companions: dict[type, Any] = {}
        self._indexes: Memo[Index] = Memo()
        self._graph: Memo[EntityGraph] = Memo()
        self._warm: Memo[object] = Memo()
        self._held: WeakValueDictionary[_Known, StageOutput] = WeakValueDictionary()
        self._numbers = count(1)
        self._ways: dict[Candidate, _Way] = {}
        self._corpus = StageOutput(corpus, 0)
        self._lock = threading.Lock()

    @decides_no_value
    def companion(self, kind: type[T]) -> T:
        """The one object of class ``kind`` that holds what is derived from outputs by their numbers in this engine."""
        with self._lock:
            if kind not in self._companions:
                self._companions[kind] = kind()
            found: T = self._companions[kind]
            return found

    @decides_no_value
    def share_companions(self, other: Engine) -> None:
        """Use the companions of an engine whose outputs this one measures."""
        self._companions = other._companions

    def index(self, gene: Gene) -> Index:
        """The index of a pre-embedding gene."""

        def build() -> Index:
            value, usage = self.call(gene, (self.corpus.chunks,))
            self.collection_usage.add(usage)
            with failing_as(gene.technique.family, gene.technique.name):
                return Index(value, self._open_store)

        return self._indexes.get(gene.identity, build)

    def entity_graph(self) -> EntityGraph:
        """The entity graph of the corpus."""

        def build() -> EntityGraph:
            model = self.gateway.language_model(self.models.technique_model, self.collection_usage)
            with failing_as("collection", "entity_graph"):
                return build_graph(self.corpus.chunks, model)

        return self._graph.get("graph", build)

    def prepare(self, candidate: Candidate) -> tuple[Index, EntityGraph | None]:
        """Build what ``candidate`` needs once for the whole collection.

        Retrieval is asked for nothing: what it derives from the index is then there before any question.
        """
        index = self.index(candidate[0])
        for gene in candidate:
            if gene.technique.family == "retrieval" and "embedder" in gene.technique.tools.values():
                with failing_as(gene.technique.family, gene.technique.name):
                    index.vector_store(self.gateway.embedder(self.models.embedder, self.collection_usage))
                if not gene.unfitted:
                    self._warm.get((gene.identity, index.id), partial(self.call, gene, (index, ())))
        needs_graph = any("entity_graph" in gene.technique.tools.values() for gene in candidate)
        return index, self.entity_graph() if needs_graph else None

    def install_index(self, gene: Gene, index: Index) -> None:
        """Take over an index that another process prepared, or one with vectors that this one lacks."""
        self._indexes.get(gene.identity, lambda: index).take_vectors(index)

    def install_graph(self, graph: EntityGraph) -> None:
        """Take over a graph that another process built."""
        self._graph.get("graph", lambda: graph)

    def share_collection(self, other: Engine) -> None:
        """Build what is needed for the whole collection together with another engine on the same corpus and models."""
        self._indexes, self._graph, self._warm = other._indexes, other._graph, other._warm

    def take_over(self, other: Engine, candidate: Candidate) -> None:
        """Take over what another engine on the same corpus has built for the whole collection."""
        index, graph = other.prepare(candidate)
        self.install_index(candidate[0], index)
        if graph is not None:
            self.install_graph(graph)

    def answer(self, candidate: Candidate, question: Question, gold: Gold | None = None) -> Trace:
        """Run ``candidate`` on ``question``; ``gold`` is for techniques of analysis only.

        Raises:
            StageFailed: a technique raised; the cause is kept.
        """
        trace, _ = self._run(candidate, question, gold)
        with self._lock:
            self.requested += len(trace.outputs)
        return trace

    def rank(self, candidate: Candidate, question: Question, gold: Gold | None = None) -> Trace:
        """Run ``candidate`` on ``question`` up to its filter: nothing is read, and nothing generated.

        Raises:
            StageFailed: a technique raised; the cause is kept.
        """
        trace, _ = self._run(candidate, question, gold, before="passage_augment")
        with self._lock:
            self.requested += len(trace.outputs)
        return trace

    def retrieve(self, candidate: Candidate, question: Question) -> Passages:
        """The passages around what ``candidate`` finds for ``question``: nothing is compressed, nothing generated.

        Raises:
            StageFailed: a technique raised; the cause is kept.
        """
        trace, _ = self._run(candidate, question, None, before="passage_compress")
        passages: Passages = trace.outputs["passage_augment"].value
        return passages

    def observe(self, candidate: Candidate, family: str, question: Question, gold: Gold) -> Any:
        """What the gene of ``family``, which is not fitted yet, observes on a calibration question.

        Raises:
            StageFailed: a technique raised; the cause is kept.
        """
        gene = next(gene for gene in candidate if gene.technique.family == family)
        fitting = gene.technique.fitting
        if fitting is None:
            raise RagsmithError(f"{family}.{gene.technique.name} has nothing to fit")
        return self._asked(fitting.observe, candidate, gene, question, gold)

    def signals(self, candidate: Candidate, family: str, question: Question) -> Signals:
        """The signals that the gene of ``family`` orders candidates by, by chunk id; none where it has no signals.

        Raises:
            StageFailed: a technique raised; the cause is kept.
        """
        gene = next(gene for gene in candidate if gene.technique.family == family)
        fitting = gene.technique.fitting
        if fitting is None or fitting.signals is None:
            return {}
        found: Signals = self._asked(fitting.signals, candidate, gene, question, None)
        return found

    def _asked(
        self, function: Callable[..., Any], candidate: Candidate, gene: Gene, question: Question, gold: Gold | None
    ) -> Any:
        """Call a function of a technique (observe, signals) on the inputs of the technique, with the tools it names."""
        family = gene.technique.family
        arguments = self._observed(candidate, family, question)
        tools = {name: self._tool(kind, Meter(), gene, gold) for name, kind in tools_of(function, TOOLS).items()}
        named = inspect.signature(function).parameters
        parameters = {name: value for name, value in gene.parameters.items() if name in named}
        with failing_as(family, gene.technique.name):
            return function(*arguments, **tools, **parameters)

    def _observed(self, candidate: Candidate, family: str, question: Question) -> list[Any]:
        """What a gene of ``family`` learns from: what it would read. Retrieval is asked for the question as it is."""
        if family == "retrieval":
            return [self.prepare(candidate)[0], (question.text,)]
        _, reads = self._run(candidate, question, None, before=family)
        return self._arguments(reads)

    def _run(
        self, candidate: Candidate, question: Question, gold: Gold | None, before: str | None = None
    ) -> tuple[Trace, list[StageOutput]]:
        """Run the stages before the family ``before``, or all; also return what the next one would read."""
        way = self._way(candidate)
        held = {"question": StageOutput(question, question.text), "corpus": self._corpus, "search": way.search}
        trace = Trace()
        for family, gene in way.stages:
            reads = [held[name] for name in family.reads]
            if family.name == before:
                return trace, reads
            output, trace.usage[family.name] = self._technique(gene, reads, gold)
            held[family.writes] = trace.outputs[family.name] = output
            if family.writes == "prompt":
                held["answer"], trace.usage["generation"] = self._generation([held["question"], output])
                trace.outputs["generation"] = held["answer"]
        return trace, []

    def _way(self, candidate: Candidate) -> _Way:
        """What a candidate does with any question; what it needs once for the collection is there then."""
        way = self._ways.get(candidate)
        if way is None:
            index, _ = self.prepare(candidate)
            genes = {gene.technique.family: gene for gene in candidate}
            bound = _Binding(genes["retrieval"], index)
            search = StageOutput(bound, ("search", bound.gene.identity, index.id))
            stages = tuple((family, genes[family.name]) for family in FAMILIES if family.tier == "question")
            way = self._ways[candidate] = _Way(search, stages)
        return way

    def call(self, gene: Gene, arguments: Sequence[Any], gold: Gold | None = None) -> tuple[Any, Usage]:
        """Run a gene's technique on values with metered tools."""
        meter = Meter()
        with failing_as(gene.technique.family, gene.technique.name):
            tools = {name: self._tool(kind, meter, gene, gold) for name, kind in gene.technique.tools.items()}
            value = gene.technique.fn(*arguments, **tools, **gene.parameters)
            if isinstance(value, list):
                raise TypeError("it returned a list: return a tuple, which can be remembered")
        return value, meter.total()

    def _technique(self, gene: Gene, reads: Sequence[StageOutput], gold: Gold | None) -> tuple[StageOutput, Usage]:
        def run() -> tuple[StageOutput, Usage]:
            arguments = self._arguments(reads)
            value, usage = self.call(gene, arguments, gold)
            for search in arguments:
                if isinstance(search, _Search):
                    usage += search.meter.total()
            return self._hold(value), usage

        if gene.technique.analysis_only:
            return self._remember(gene.identity, [*reads, StageOutput(gold, ("gold", gold))], run)
        return self._remember(gene.identity, reads, run)

    def _arguments(self, reads: Sequence[StageOutput]) -> list[Any]:
        return [_Search(self, read.value) if isinstance(read.value, _Binding) else read.value for read in reads]

    def _generation(self, reads: Sequence[StageOutput]) -> tuple[StageOutput, Usage]:
        def run() -> tuple[StageOutput, Usage]:
            meter = Meter()
            model = self.gateway.language_model(self.models.language_model, meter, "language_model")
            with failing_as("generation", "generate"):
                answer = generate(*(read.value for read in reads), language_model=model)
            return self._hold(answer), meter.total()

        return self._remember("generation", reads, run)

    def _remember(
        self, identity: str, reads: Sequence[StageOutput], run: Callable[[], tuple[StageOutput, Usage]]
    ) -> tuple[StageOutput, Usage]:
        return self.stages.get((identity, *[read.number for read in reads]), run)

    def _hold(self, value: Any) -> StageOutput:
        """``value``, or an equal one that is alive; a number is never reused."""
        known = _Known(_content(value))
        with self._lock:
            held = self._held.get(known)
            if held is None:
                held = self._held[known] = StageOutput(value, next(self._numbers))
            return held

    def _tool(self, kind: str, meter: Meter, gene: Gene, gold: Gold | None) -> Any:
        if kind == "language_model":
            return self.gateway.language_model(
                self.models.technique_model, meter, "controller" if self.models.controller else ""
            )
        if kind == "embedder":
            return self.gateway.embedder(self.models.embedder, meter)
        if kind == "cross_encoder":
            return self.gateway.cross_encoder(self.models.cross_encoder, meter)
        if kind == "entity_graph":
            return self.entity_graph()
        if kind == "fitted" and not gene.unfitted:
            return Fitted(gene.fit.numbers if gene.fit else {})
        if kind == "gold" and gold is not None:
            return gold
        raise RagsmithError(f"{gene.technique.family}.{gene.technique.name} has not been given its {kind}")


def _content(value: Any) -> Any:
    """The cache key of a stage value. Rankings are compared by their columns, whether or not hits were made.

    A chunk is as good as its id to be hashed by, and they are compared as a whole.
    """
    if isinstance(value, LazyHits):
        return (value.scale, value.found, value.scores) if value else ()
    if type(value) is tuple and value and type(value[0]) is Hit:
        scales = {hit.scale for hit in value}
        if len(scales) == 1 and not any(hit.survival for hit in value):
            return value[0].scale, tuple([hit.chunk for hit in value]), tuple([hit.score for hit in value])
    return value


@contextmanager
def failing_as(family: str, technique: str) -> Iterator[None]:
    """Whatever is raised is a failure of this stage, unless one inside it has said already that it was its own."""
    try:
        yield
    except StageFailed:
        raise
    except (Exception, SystemExit) as error:  # a technique of a user's own may try to end the program
        raise StageFailed(family, technique, error) from error

"""The engine that runs candidates on questions, with memoised stages.

The cache key of a stage consists of the technique, its code, parameters and tools, and the values of its inputs.
Candidates therefore share the results of a stage if its inputs are equal, even if the earlier stages differ.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from ragsmith.caches import bounded_cache
from ragsmith.digest import not_fingerprinted
from ragsmith.errors import RagsmithError, StageFailed
from ragsmith.gateway.memo import Memo
from ragsmith.index.entity_graph import EntityGraph, build_graph
from ragsmith.index.fields import FieldSearch
from ragsmith.index.filtering import Admission
from ragsmith.index.index import Corpus, Index
from ragsmith.index.mapped_index import MappedIndex
from ragsmith.index.vector_store import OpenStore
from ragsmith.index.vector_stores.exact import ExactVectors
from ragsmith.models.own_prompts import with_prompts
from ragsmith.models.usage import Meter, Usage
from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.pipelines.trace import StageOutput, Trace
from ragsmith.plugins import tools_of
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.generation import generate
from ragsmith.techniques.registry import TOOLS, Family, Signals
from ragsmith.types import Filter, Fitted, Gold, Hit, Hits, LazyHits, Passages, Queries, Question, Rankings

if TYPE_CHECKING:  # the gateway does not change results and is not part of the fingerprint
    from ragsmith.gateway.gateway import Gateway
    from ragsmith.models.roles import Models


T = TypeVar("T")

MAX_FILTERS = 256
"""Maximum number of filters whose admitted documents are cached."""


@dataclass(frozen=True, slots=True)
class _Binding:
    """The retrieval gene and the index behind `search`, which finds only what ``filter`` admits of the ``whole``."""

    gene: Gene
    index: Index
    whole: Index
    filter: Filter | None = None


@dataclass(frozen=True, slots=True)
class _RunPlan:
    """The parts of a run that do not depend on the question: the bound search, and the stages with their genes."""

    search: StageOutput
    stages: tuple[tuple[Family[Any], Gene], ...]


def _bind(bound: _Binding) -> StageOutput:
    return StageOutput(bound, ("search", bound.gene.identity, bound.index.id))


class _HashedKey:
    """A key with a cached hash."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._hash = hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HashedKey) and self._hash == other._hash and bool(self.value == other.value)


class _Search:
    """A bound retrieval, cached by query; ``meter`` sums the usage of its rankings, each query once."""

    def __init__(self, engine: Engine, bound: _Binding, meter: Meter | None = None) -> None:
        self._engine = engine
        self._bound = bound
        self._billed: set[str] = set()
        self.meter = Meter() if meter is None else meter

    def within(self, filter_: Filter) -> _Search:
        """Return the search among what ``filter_`` admits as well, with the same meter."""
        return _Search(self._engine, self._engine._narrow(self._bound, filter_), self.meter)

    def __call__(self, queries: Queries) -> Rankings:
        gene, index = self._bound.gene, self._bound.index

        def compute(missing: list[tuple[str, str, str]]) -> Sequence[tuple[Hits, Usage]]:
            arguments = index, [query for *_, query in missing]
            rankings, usage = self._engine.call(gene, arguments, None, self._bound.filter)
            return list(zip(rankings, usage.shares(len(missing)), strict=True))

        results = self._engine.searches.get_many([(gene.identity, index.id, query) for query in queries], compute)
        for query, (_, usage) in zip(queries, results, strict=True):
            if query not in self._billed:
                self._billed.add(query)
                self.meter.add(usage)
        return tuple(ranking for ranking, _ in results)


class Engine:
    """Runs candidates on a corpus with a set of models; ``open_store`` opens the vector stores of indexes."""

    def __init__(self, corpus: Corpus, models: Models, gateway: Gateway, open_store: OpenStore = ExactVectors) -> None:
        self.corpus = corpus
        self.models = models
        self.gateway = gateway
        self._open_store = open_store
        self.stages: Memo[tuple[StageOutput, Usage]] = Memo(gateway.eviction, lambda _, entry: (entry[0].value,))
        self.searches: Memo[tuple[Hits, Usage]] = Memo(gateway.eviction, lambda _, entry: (entry[0],))
        self.requested = 0
        self.collection_usage = Meter()
        self._companions: dict[type, Any] = {}
        self._indexes: Memo[Index] = Memo()
        self._graph: Memo[EntityGraph] = Memo()
        self._warmed_up: Memo[object] = Memo()
        self._interned: WeakValueDictionary[_HashedKey, StageOutput] = WeakValueDictionary()
        self._numbers = count(1)
        self._run_plans: dict[Candidate, _RunPlan] = {}
        self._admit = bounded_cache(MAX_FILTERS, key="a filter")(partial(Admission, corpus))
        self._corpus = StageOutput(corpus, 0)
        self._lock = threading.Lock()

    @not_fingerprinted
    def companion(self, kind: type[T]) -> T:
        """Return the instance of ``kind`` of this engine, a cache whose keys contain the numbers of stage outputs."""
        with self._lock:
            if kind not in self._companions:
                self._companions[kind] = kind()
            companion: T = self._companions[kind]
            return companion

    @not_fingerprinted
    def share_companions(self, other: Engine) -> None:
        """Use the companions of another engine that shares its stage outputs."""
        self._companions = other._companions

    def index(self, gene: Gene) -> Index:
        """Return the index of a pre-embedding gene."""

        def build() -> Index:
            value, usage = self.call(gene, (self.corpus.chunks,))
            self.collection_usage.add(usage)
            with stage_errors(gene.technique.family, gene.technique.name):
                return MappedIndex(value, self._open_store)

        return self._indexes.get(gene.identity, build)

    @not_fingerprinted
    def searched(self, candidate: Candidate) -> Index:
        """Return the index that ``candidate`` searches."""
        return self.index(candidate[0])

    def entity_graph(self) -> EntityGraph:
        """Return the entity graph of the corpus."""

        def build() -> EntityGraph:
            model = self.gateway.language_model(self.models.technique_model, self.collection_usage)
            with stage_errors("collection", "entity_graph"):
                return build_graph(self.corpus.chunks, model)

        return self._graph.get("graph", build)

    def prepare(self, candidate: Candidate) -> tuple[Index, EntityGraph | None]:
        """Return the index of ``candidate`` and its entity graph, if any, and build them if necessary.

        Retrieval is called without queries, so that the values it derives from the index are computed in advance.
        """
        index = self.index(candidate[0])
        for gene in candidate:
            if gene.technique.family == "retrieval" and "embedder" in gene.technique.tools.values():
                with stage_errors(gene.technique.family, gene.technique.name):
                    index.vector_store(self.gateway.embedder(self.models.embedder, self.collection_usage))
                if not gene.unfitted:
                    self._warmed_up.get((gene.identity, index.id), partial(self.call, gene, (index, ())))
        needs_graph = any("entity_graph" in gene.technique.tools.values() for gene in candidate)
        return index, self.entity_graph() if needs_graph else None

    def install_index(self, gene: Gene, index: Index) -> None:
        """Install an index; if there is one already, only add the vectors that it lacks."""
        self._indexes.get(gene.identity, lambda: index).copy_cached_from(index)

    def install_graph(self, graph: EntityGraph) -> None:
        """Install an entity graph unless there is one already."""
        self._graph.get("graph", lambda: graph)

    def share_collection(self, other: Engine) -> None:
        """Use the indexes and the entity graph of another engine on the same corpus and models."""
        self._indexes, self._graph, self._warmed_up = other._indexes, other._graph, other._warmed_up
        self._admit = other._admit

    def take_over(self, other: Engine, candidate: Candidate) -> None:
        """Install the index and entity graph that another engine on the same corpus has for ``candidate``."""
        index, graph = other.prepare(candidate)
        self.install_index(candidate[0], index)
        if graph is not None:
            self.install_graph(graph)

    def answer(self, candidate: Candidate, question: Question, gold: Gold | None = None) -> Trace:
        """Run ``candidate`` on ``question``; only techniques for analysis use ``gold``.

        Raises:
            StageFailed: a technique raised an exception, which is the cause.
        """
        trace, _ = self._run(candidate, question, gold)
        with self._lock:
            self.requested += len(trace.outputs)
        return trace

    def rank(self, candidate: Candidate, question: Question, gold: Gold | None = None) -> Trace:
        """Run ``candidate`` on ``question`` up to its filter, without augmentation or generation.

        Raises:
            StageFailed: a technique raised an exception, which is the cause.
        """
        trace, _ = self._run(candidate, question, gold, before="passage_augment")
        with self._lock:
            self.requested += len(trace.outputs)
        return trace

    def retrieve(self, candidate: Candidate, question: Question) -> Passages:
        """Return the augmented passages of ``candidate`` for ``question``, without compression or generation.

        Raises:
            StageFailed: a technique raised an exception, which is the cause.
        """
        trace, _ = self._run(candidate, question, None, before="passage_compress")
        passages: Passages = trace.outputs["passage_augment"].value
        return passages

    def observe(self, candidate: Candidate, family: str, question: Question, gold: Gold) -> Any:
        """Return the observation of the unfitted gene of ``family`` on a calibration question.

        Raises:
            StageFailed: a technique raised an exception, which is the cause.
        """
        gene = next(gene for gene in candidate if gene.technique.family == family)
        fitting = gene.technique.fitting
        if fitting is None:
            raise RagsmithError(f"{family}.{gene.technique.name} has nothing to fit")
        return self._call_observer(fitting.observe, candidate, gene, question, gold)

    def signals(self, candidate: Candidate, family: str, question: Question) -> Signals:
        """Return the ranking signals of the gene of ``family`` by chunk id; empty if it has none.

        Raises:
            StageFailed: a technique raised an exception, which is the cause.
        """
        gene = next(gene for gene in candidate if gene.technique.family == family)
        fitting = gene.technique.fitting
        if fitting is None or fitting.signals is None:
            return {}
        signals: Signals = self._call_observer(fitting.signals, candidate, gene, question, None)
        return signals

    def _call_observer(
        self, function: Callable[..., Any], candidate: Candidate, gene: Gene, question: Question, gold: Gold | None
    ) -> Any:
        """Call a function of a technique (observe, signals) with the inputs and tools of the technique."""
        family = gene.technique.family
        arguments = self._inputs(candidate, family, question)
        tools = {
            name: self._tool(kind, Meter(), gene, gold, question.filter, arguments)
            for name, kind in tools_of(function, TOOLS).items()
        }
        accepted = inspect.signature(function).parameters
        parameters = {name: value for name, value in gene.parameters.items() if name in accepted}
        with stage_errors(family, gene.technique.name):
            return function(*arguments, **tools, **parameters)

    def _inputs(self, candidate: Candidate, family: str, question: Question) -> list[Any]:
        """Return the inputs of the gene of ``family``; the only query of retrieval is the question itself."""
        if family == "retrieval":
            return [self._admit(question.filter).restrict(self.prepare(candidate)[0]), (question.text,)]
        _, reads = self._run(candidate, question, None, before=family)
        return self._arguments(reads)

    def _run(
        self, candidate: Candidate, question: Question, gold: Gold | None, before: str | None = None
    ) -> tuple[Trace, list[StageOutput]]:
        """Run all stages, or those before the family ``before``; also return the inputs of that family."""
        plan = self._run_plan(candidate)
        search = plan.search
        if question.filter:
            search = _bind(self._narrow(search.value, question.filter))
        asked = StageOutput(question, (question.text, repr(question.filter)) if question.filter else question.text)
        outputs = {"question": asked, "corpus": self._corpus, "search": search}
        trace = Trace()
        for family, gene in plan.stages:
            reads = [outputs[name] for name in family.reads]
            if family.name == before:
                return trace, reads
            output, trace.usage[family.name] = self._technique(gene, reads, gold)
            outputs[family.writes] = trace.outputs[family.name] = output
            if family.writes == "prompt":
                outputs["answer"], trace.usage["generation"] = self._generation(gene, [outputs["question"], output])
                trace.outputs["generation"] = outputs["answer"]
        return trace, []

    def _run_plan(self, candidate: Candidate) -> _RunPlan:
        """Return the run plan of a candidate, after building its index and entity graph."""
        plan = self._run_plans.get(candidate)
        if plan is None:
            index, _ = self.prepare(candidate)
            genes = {gene.technique.family: gene for gene in candidate}
            stages = tuple((family, genes[family.name]) for family in FAMILIES if family.tier == "question")
            plan = self._run_plans[candidate] = _RunPlan(_bind(_Binding(genes["retrieval"], index, index)), stages)
        return plan

    def _narrow(self, bound: _Binding, filter_: Filter) -> _Binding:
        """Return a binding that finds only what its filter and ``filter_`` both admit."""
        both = filter_ & bound.filter
        return replace(bound, index=self._admit(both).restrict(bound.whole), filter=both)

    def call(
        self, gene: Gene, arguments: Sequence[Any], gold: Gold | None = None, filter_: Filter | None = None
    ) -> tuple[Any, Usage]:
        """Run a gene's technique on values with metered tools; its result has only what the filter admits."""
        meter = Meter()
        with stage_errors(gene.technique.family, gene.technique.name):
            tools = {
                name: self._tool(kind, meter, gene, gold, filter_, arguments)
                for name, kind in gene.technique.tools.items()
            }
            value = gene.technique.fn(*arguments, **tools, **gene.parameters)
            if isinstance(value, list):
                raise TypeError("it returned a list: return a tuple, which can be cached")
        return (self._admit(filter_).select(value) if filter_ else value), meter.total()

    def _technique(self, gene: Gene, reads: Sequence[StageOutput], gold: Gold | None) -> tuple[StageOutput, Usage]:
        def run() -> tuple[StageOutput, Usage]:
            arguments = self._arguments(reads)
            question = next(each for each in arguments if isinstance(each, Question))
            value, usage = self.call(gene, arguments, gold, question.filter)
            for search in arguments:
                if isinstance(search, _Search):
                    usage += search.meter.total()
            return self._intern(value), usage

        if gene.technique.analysis_only:
            return self._remember(gene.identity, [*reads, StageOutput(gold, ("gold", gold))], run)
        return self._remember(gene.identity, reads, run)

    def _arguments(self, reads: Sequence[StageOutput]) -> list[Any]:
        return [_Search(self, read.value) if isinstance(read.value, _Binding) else read.value for read in reads]

    def _generation(self, prompt_maker: Gene, reads: Sequence[StageOutput]) -> tuple[StageOutput, Usage]:
        own = prompt_maker.prompts

        def run() -> tuple[StageOutput, Usage]:
            meter = Meter()
            model = with_prompts(self.gateway.language_model(self.models.language_model, meter, "language_model"), own)
            with stage_errors("generation", "generate"):
                answer = generate(*(read.value for read in reads), language_model=model)
            return self._intern(answer), meter.total()

        return self._remember(f"generation {prompt_maker.identity}" if own else "generation", reads, run)

    def _remember(
        self, identity: str, reads: Sequence[StageOutput], run: Callable[[], tuple[StageOutput, Usage]]
    ) -> tuple[StageOutput, Usage]:
        return self.stages.get((identity, *[read.number for read in reads]), run)

    def _intern(self, value: Any) -> StageOutput:
        """Return the output of an equal value that is still referenced, or a new one; numbers are never reused."""
        key = _HashedKey(_value_key(value))
        with self._lock:
            output = self._interned.get(key)
            if output is None:
                output = self._interned[key] = StageOutput(value, next(self._numbers))
            return output

    def _tool(
        self, kind: str, meter: Meter, gene: Gene, gold: Gold | None, filter_: Filter | None, inputs: Sequence[Any]
    ) -> Any:
        if kind == "language_model":
            role = "controller" if self.models.controller else ""
            model = self.gateway.language_model(self.models.technique_model, meter, role)
            return with_prompts(model, gene.prompts)
        if kind == "embedder":
            return self.gateway.embedder(self.models.embedder, meter)
        if kind == "cross_encoder":
            return self.gateway.cross_encoder(self.models.cross_encoder, meter)
        searches = [each for each in inputs if isinstance(each, _Search)]
        if kind == "entity_graph" or (kind == "field_search" and searches):
            admission = self._admit(filter_)
            return (
                admission.restrict(self.entity_graph())
                if kind == "entity_graph"
                else FieldSearch(admission.fields, searches[0].within)
            )
        if kind == "fitted" and not gene.unfitted:
            return Fitted(gene.fit.numbers if gene.fit else {})
        if kind == "gold" and gold is not None:
            return gold
        raise RagsmithError(f"{gene.technique.family}.{gene.technique.name} lacks its {kind}")


def _value_key(value: Any) -> Any:
    """Return the cache key of a stage value; rankings are compared by their columns, without creating hits.

    The hash of a chunk is that of its id; equality compares all fields.
    """
    if isinstance(value, LazyHits):
        return (value.scale, value.found, value.scores) if value else ()
    if type(value) is tuple and value and type(value[0]) is Hit:
        scales = {hit.scale for hit in value}
        if len(scales) == 1 and not any(hit.survival for hit in value):
            return value[0].scale, tuple([hit.chunk for hit in value]), tuple([hit.score for hit in value])
    return value


@contextmanager
def stage_errors(family: str, technique: str) -> Iterator[None]:
    """Convert exceptions into `StageFailed` of this stage; a `StageFailed` of an inner stage is raised unchanged."""
    try:
        yield
    except StageFailed:
        raise
    except (Exception, SystemExit) as error:  # a user-defined technique may call sys.exit
        raise StageFailed(family, technique, error) from error

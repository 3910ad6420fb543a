"""Experiment: a data set cut into chunks, and models by name, from which a process builds its engine.

An `Experiment` is small and picklable, and is sent to worker processes. Models passed as objects stay in their process
and are called from threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ragsmith.building import log_progress
from ragsmith.cells import is_in_cell
from ragsmith.datasets.chunking.chunking import cut_documents
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.groups import MAX_GAP
from ragsmith.datasets.relevance import ChunkMap, Relevance
from ragsmith.datasets.splits import Split, make_folds, split, stratify
from ragsmith.digest import digest, fingerprint, not_fingerprinted
from ragsmith.errors import DatasetError, UsageError
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.general_weights import GeneralWeights, embedder_class, load_shipped_weights
from ragsmith.gateway.budget import Budget
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.index.index import Corpus
from ragsmith.index.stores import open_vector_store
from ragsmith.measures.registry import Measure, measures
from ragsmith.models.loading import ModelNames, SharedModels, collect_limits, load_models
from ragsmith.models.names import model_name_from
from ragsmith.models.roles import MEASURES_EMBEDDER, Models
from ragsmith.models.vector_stores import resolve_address
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import CHUNK_SETTINGS, N_FAMILIES, ROLES, Candidate, Gene, HyperparameterGene
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.listwise import WeightPrior
from ragsmith.types import Dataset, Example

if TYPE_CHECKING:  # not part of the fingerprint of a diagnosis
    from ragsmith.pipelines.telemetry import Traces

MIN_CHUNK_SIZE = 100
"""Minimum chunk size in characters; shorter chunks would hardly hold a sentence."""

PROGRESS_DOCUMENTS = 5_000
"""Number of documents from which chunking takes seconds, so that progress is reported."""

FITTING_FOLDS = 5
"""Number of cross-fitting folds of the search questions, for techniques that learn."""

CHUNK_SIZE = 900
"""Default chunk size in characters. The published law data has chunks of about 700; see `chunking`."""


@dataclass(frozen=True)
class Experiment:
    """A data set, its chunking, and the models that answer and score questions.

    ``faithfulness`` is whether answers are checked claim by claim; by default if the models of the search cost nothing.
    The test judge of ``models``, if there is one, scores the answers to test questions alone. ``given`` has the models
    passed as objects, by role. ``chunk_overlap`` is the maximum number of characters that a chunk repeats
    from the previous one. A drawn split keeps the gold of search and test more than ``gap`` characters apart.

    ``searched`` has the options of chunking and models that are part of the search space; `for_candidate` returns the
    experiment with the settings of a candidate. ``scored_by`` has the models that score answers and rankings in such an
    experiment, as a candidate must not choose its own judge. ``fixed_split`` replaces the given or drawn split. With
    ``requires_evidence``, questions without evidence are left out, as their rankings have no score. ``weights`` are
    the general weights of signals; by default those shipped for the class of the embedder. ``traces`` is where
    engines send spans of what they do, if anywhere. ``system`` makes the experiments of candidates that are other
    systems, if their parameters are searched.
    """

    dataset: Dataset
    models: ModelNames = field(default_factory=ModelNames)
    chunk_size: int = CHUNK_SIZE
    faithfulness: bool | None = None
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)
    chunk_overlap: int = field(default=0, kw_only=True)
    gap: int = field(default=MAX_GAP, kw_only=True)
    searched: tuple[tuple[Gene, ...], ...] = field(default=(), kw_only=True)
    scored_by: Experiment | None = field(default=None, kw_only=True)
    requires_evidence: bool = field(default=False, kw_only=True)
    fixed_split: Split | None = field(default=None, kw_only=True)
    weights: GeneralWeights | None = field(default=None, kw_only=True, hash=False)
    traces: Traces | None = field(default=None, kw_only=True)
    system: SearchedSystem | None = field(default=None, kw_only=True, hash=False)

    counts_looks = True  # a comparison on test questions is a use of them

    def for_fitness(self, fitness: Fitness) -> Experiment:
        """Return the experiment with the questions that have this fitness: for rankings, those with evidence."""
        if not fitness.needs_evidence or all(example.evidence for example in self.dataset.examples):
            return self
        return self._changed(requires_evidence=True)

    def with_searched_settings(self, settings: tuple[tuple[Gene, ...], ...]) -> Experiment:
        """Return the experiment of a search over ``settings``, with the first option of each as the default.

        Raises:
            UsageError: an overlap is not smaller than every chunk size.
        """
        if settings == self.searched or self.system:
            return self._changed(searched=settings)
        first = self._with_settings([genes[0] for genes in settings])
        found = first._changed(searched=settings)
        sizes, overlaps = (set(values) for values in zip(*found.chunkings, strict=True))
        if max(overlaps) >= min(sizes):
            raise UsageError(
                f"chunks of {min(sizes)} characters cannot overlap by {max(overlaps)}, as the space has it: list less "
                "as its chunk_overlap, or give longer chunks"
            )
        gap = max(self.gap, max(sizes) + max(overlaps))
        return found._changed(gap=gap) if len(found.chunkings) > 1 else found

    def for_candidate(self, candidate: Candidate) -> Experiment:
        """Return the experiment with the settings of a candidate; this one if they are the same."""
        return self._at(candidate[N_FAMILIES:])

    def _at(self, settings: tuple[Gene, ...]) -> Experiment:
        if settings not in self._variants and self.system:
            self._variants[settings] = self.system.experiment(self, settings)
        if settings not in self._variants:  # the genes of a stored pipeline have no addresses of models
            searched = {gene: gene for genes in self.searched for gene in genes}
            variant = self._with_settings([searched.get(gene, gene) for gene in settings])
            same = (variant.chunking_key, variant.models) == (self.chunking_key, self.models)
            self._variants[settings] = self if same else variant._changed(searched=(), scored_by=self)
        return self._variants[settings]

    def _with_settings(self, settings: Sequence[Gene]) -> Experiment:
        """Return the experiment with other settings."""
        chosen = [gene.technique for gene in settings]
        values: dict[str, Any] = {one.family: one.value for one in chosen if isinstance(one, HyperparameterGene)}
        names = {role: model_name_from(values.pop(role)) for role in ROLES if role in values}
        return self._changed(models=self.models.override(names) if names else self.models, **values)

    @not_fingerprinted
    def _changed(self, **values: Any) -> Experiment:
        """Return the experiment with other values of fields, and with the same chunks if they are cut alike."""
        found = replace(self, **values)
        if "corpus" in vars(self) and found.chunking_key == self.chunking_key:
            vars(found)["corpus"] = self.corpus
        return found

    @cached_property
    def _variants(self) -> dict[tuple[Gene, ...], Experiment]:
        return {(): self}

    def data_digest(self, genes: Iterable[Gene]) -> str:
        """Return the digest of the data set, with the fields of documents if one of ``genes`` searches by them."""
        reads_fields = any("field_search" in gene.technique.tools.values() for gene in genes)
        return self._digest_with_fields if reads_fields else self.dataset.digest

    @cached_property
    def _digest_with_fields(self) -> str:
        fields = [repr(sorted(document.fields.items())) for document in self.dataset.documents]
        return digest("data set with fields", self.dataset.digest, fields)

    @property
    def chunking_key(self) -> int | list[Any]:
        """The identity of the chunking: the chunk size and, with an overlap, the overlap and a code fingerprint."""
        if not self.chunk_overlap:
            return self.chunk_size
        return [self.chunk_size, self.chunk_overlap, fingerprint(cut_documents.__module__, cut_documents.__name__)]

    @property
    def chunkings(self) -> list[tuple[int, int]]:
        """All pairs of chunk size and overlap in the search space."""
        values = {genes[0].technique.family: [gene.parameters["value"] for gene in genes] for genes in self.searched}
        return list(product(*(values.get(name, [getattr(self, name)]) for name in CHUNK_SETTINGS)))

    @cached_property
    def corpus(self) -> Corpus:
        """The documents and their chunks."""
        documents = self.dataset.documents
        if len(documents) >= PROGRESS_DOCUMENTS:
            log_progress(f"cutting {len(documents):,} documents")
        return Corpus(documents, cut_documents(documents, self.chunk_size, self.chunk_overlap))

    @cached_property
    def loaded_models(self) -> Models:
        """The models, which load their weights at first use."""
        shared = (self.scored_by or self)._shared
        chunks = self.corpus.chunks
        languages = [chunk.language for chunk in chunks]
        return load_models(self.models, [chunk.text for chunk in chunks], self.given, shared, languages=languages)

    @cached_property
    def _shared(self) -> SharedModels:
        """Models that do not depend on the corpus, and servers, shared by all variants."""
        each = [variant.models for variant in self.variants]
        return SharedModels(limits=collect_limits((role, n.for_role(role)) for n in each for role in n.named_roles))

    @property
    def variants(self) -> list[Experiment]:
        """The experiments of all combinations of searched settings; parameters of a system change none of ours."""
        return [self] if self.system else [self._at(chosen) for chosen in product(*self.searched)]

    @property
    def served(self) -> tuple[str, ...]:
        """The names of all models called over a network, which may cost money."""
        return tuple(dict.fromkeys(name for variant in self.variants for name in variant.loaded_models.served()))

    @property
    def workers(self) -> int:
        """The default number of workers for the models; see `ModelNames.workers`. A system is asked one by one."""
        return 1 if self.system else max(variant.models.workers() for variant in self.variants)

    @property
    @not_fingerprinted
    def prefers_threads(self) -> bool:
        """Whether threads suit it: models are remote or objects, a system is searched, or code is in cells."""
        remote = (one.loaded_models.prefers_threads for one in self.variants)
        return bool(self.given or self.system or self.uses_cells) or any(remote)

    @property
    @not_fingerprinted
    def uses_cells(self) -> bool:
        """Whether techniques or measures are defined in cells of a notebook, which other processes cannot import."""
        functions = [one.fn for family in FAMILIES for one in family.techniques.values()]
        return any(map(is_in_cell, [*functions, *(one.fn for one in measures().values())]))

    @cached_property
    def split(self) -> Split:
        """The split into search and test questions."""
        found = self.fixed_split or split(self.dataset, gap=self.gap)
        return found.with_evidence() if self.requires_evidence else found

    @cached_property
    def examples(self) -> dict[str, Example]:
        """Questions by id."""
        return {example.id: example for example in self.dataset.examples}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The ids of all questions in the order of evaluation, in which every prefix is a stratified sample."""
        parts = self.split
        return tuple(example.id for part in (parts.search, parts.test, parts.unused) for example in stratify(part))

    @cached_property
    def relevance(self) -> dict[str, Relevance]:
        """The relevant chunks by question id."""
        chunk_map = ChunkMap(self.corpus.chunks)
        return {example.id: chunk_map.relevance(example.evidence) for example in self.dataset.examples}

    def general_weights(self, gene: Gene) -> WeightPrior:
        """Return the general weights of the signals of a gene; a zero prior if there are none and it learns its own.

        Raises:
            UsageError: there are no weights, and the gene needs them.
        """
        if gene.learns and self.lacks_weights(gene):
            return WeightPrior.zero(gene.technique.signals)
        return self._general_weights.for_technique(gene.technique)

    def lacks_weights(self, gene: Gene) -> bool:
        """Return whether a gene has signals without general weights from data sets on other documents."""
        return bool(gene.technique.signals) and not self._general_weights.has_weights_for(gene.technique)

    @cached_property
    def _general_weights(self) -> GeneralWeights:
        known = self.weights or load_shipped_weights(embedder_class(self.models))
        return known.without(known.overlapping(self.dataset.documents))

    @cached_property
    def folds(self) -> list[list[str]]:
        """The ids of the calibration questions by fold; one fold if all questions are linked."""
        return [[example.id for example in part] for part in make_folds(self.dataset, self.calibration, FITTING_FOLDS)]

    def modality(self, example: Example) -> str:
        """Return the modality of the relevant chunks of a question, ``mixed``, or ``none`` without evidence."""
        if not example.evidence:
            return "none"
        kinds = {self._modalities[chunk] for chunk in self.relevance[example.id].relevant}
        return kinds.pop() if len(kinds) == 1 else "mixed"

    @cached_property
    def _modalities(self) -> dict[str, str]:
        return {chunk.id: chunk.modality.value for chunk in self.corpus.chunks}

    @cached_property
    def calibration(self) -> tuple[Example, ...]:
        """The questions for fitting: those of the search split that have evidence."""
        return tuple(example for example in self.split.search if example.evidence)

    @not_fingerprinted
    def engine(
        self,
        store: CallStore | None = None,
        budget: Budget | None = None,
        failures: Failures | None = None,
        *,
        gateway: Gateway | None = None,
        room: EvictionPolicy | None = None,
    ) -> Engine:
        """Return a new engine, with a new gateway whose cache has the eviction policy ``room``, unless one is given."""
        if not self.traces:
            return self._make_engine(gateway or Gateway(store, budget, failures, room))
        from ragsmith.pipelines.telemetry import TracedEngine, TracedGateway  # noqa: PLC0415  rarely needed

        return self._make_engine(gateway or TracedGateway(self.traces, store, budget, failures, room), TracedEngine)

    @not_fingerprinted
    def _make_engine(self, gateway: Gateway, kind: type[Engine] = Engine) -> Engine:
        """Return a new engine of a ``kind`` that asks models through ``gateway``."""
        models = self.loaded_models
        open_store = partial(open_vector_store, resolve_address(models.vector_store_address, Path.cwd()))
        return kind(self.corpus, models, gateway, open_store)

    @cached_property
    def tested(self) -> frozenset[str]:
        """The ids of the test questions, the answers to which the test judge scores if there is one."""
        return frozenset(example.id for example in self.split.test)

    def scoring_engine(self, engine: Engine, question: str) -> Engine:
        """Return the engine that scores the results of ``engine`` on a question.

        It is ``engine`` itself, unless ``scored_by`` is set or the question has another judge.
        """
        models = (self.scored_by or self).loaded_models
        judge = models.test_judge if models.test_judge and question in self.tested else models.judge
        if self.scored_by is None and judge is models.judge:
            return engine
        marking = Engine(engine.corpus, replace(models, judge=judge), engine.gateway)
        marking.share_companions(engine)
        return marking

    @property
    def checks_claims(self) -> bool:
        """Whether answers are checked claim by claim."""
        if self.scored_by:
            return self.scored_by.checks_claims
        return self._searches_free if self.faithfulness is None else self.faithfulness

    @property
    def _searches_free(self) -> bool:
        """Whether a search costs nothing, whatever judges the test: it must not decide what the search measures."""
        return replace(self.models, test_judge=None).embedded

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of records; costly ones only if the judge costs nothing or they are requested."""
        if self.scored_by:
            return self.scored_by.measures
        free = self._searches_free
        declining = any(not example.answerable for example in self.dataset.examples)
        wanted = {"faithfulness": self.checks_claims, "refusal": declining, "false_refusal": declining}
        return tuple(known for known in measures().values() if wanted.get(known.name, free or not known.costly))

    @cached_property
    def model_ids(self) -> dict[str, str]:
        """The ids of the models by role; those that score are the models of ``scored_by`` if it is set."""
        ids = self.loaded_models.ids()
        if self.scored_by:
            marking = self.scored_by.loaded_models
            judges = {role: id_ for role, id_ in marking.ids().items() if role in ("judge", "test_judge")}
            ids = {role: id_ for role, id_ in ids.items() if role != "test_judge"} | judges
            if marking.embedder.id != self.loaded_models.embedder.id:
                ids[MEASURES_EMBEDDER] = marking.embedder.id
        return ids


class SearchedSystem(Protocol):
    """Another system whose parameters are searched (`ragsmith.systems.searched`)."""

    @property
    def place(self) -> str:
        """``FILE.py:FUNCTION``, the function that builds it."""

    def experiment(self, setup: Experiment, settings: tuple[Gene, ...]) -> Experiment:
        """Return the experiment whose engine asks the system with these ``settings``, scored by ``setup``."""


class Engines:
    """Engines for all variants of an experiment, which share one gateway and its cache of replies."""

    def __init__(self, setup: Experiment, engine: Engine) -> None:
        self._setup = setup
        self._gateway = engine.gateway
        self._engines = {id(setup): (engine, setup)}

    def get(self, candidate: Candidate) -> tuple[Engine, Experiment]:
        """Return the engine and the experiment of a candidate."""
        setup = self._setup.for_candidate(candidate)
        if id(setup) not in self._engines:
            self._engines[id(setup)] = setup.engine(gateway=self._gateway), setup
        return self._engines[id(setup)]

    def copy_with(self, room: EvictionPolicy) -> Engines:
        """Return new engines with the eviction policy ``room`` that share the indexes and graphs of these."""
        copy = Engines(self._setup, self._setup.engine(room=room))
        for key, (built, setup) in self._engines.items():
            if key not in copy._engines:
                copy._engines[key] = setup.engine(gateway=copy._gateway), setup
            copy._engines[key][0].share_collection(built)
        return copy

    def __iter__(self) -> Iterator[Engine]:
        return iter([engine for engine, _ in self._engines.values()])


def sort_examples(examples: Sequence[Example]) -> list[Example]:
    """Return examples sorted by id, the order in which results are listed and averaged."""
    return sorted(examples, key=lambda example: example.id)


def prepare_experiment(
    dataset: Dataset | str | Path,
    models: ModelNames,
    chunk_size: int,
    *,
    faithfulness: bool | None = None,
    given: Mapping[str, Any] | None = None,
    traces: Traces | None = None,
) -> Experiment:
    """Load the data set and validate all inputs of a run before any computation.

    Raises:
        UsageError: the data set or a model name cannot be used, or a question cannot be scored on these chunks.
    """
    if chunk_size < MIN_CHUNK_SIZE:
        raise UsageError(f"the chunk size is {chunk_size}: give at least {MIN_CHUNK_SIZE} characters")
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    setup = Experiment(data, models, chunk_size, faithfulness, given=given or {}, traces=traces)
    setup.loaded_models.ids()
    labelled = [example for example in sort_examples(setup.dataset.examples) if example.evidence]
    unreachable = [example.id for example in labelled if not setup.relevance[example.id].relevant]
    if unreachable:
        raise DatasetError(
            [
                f"{question}: all its evidence is in headings, which are in no chunk: quote the text"
                for question in unreachable
            ]
        )
    return setup

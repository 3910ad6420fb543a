"""Types of the arguments of the public functions, and loading of pipelines, models and spaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from ragsmith.errors import UsageError, WrongOption, warn_caller
from ragsmith.evaluation.experiment import CHUNK_SIZE, Experiment, prepare_experiment
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.exported.file import ExportedFile, check_file
from ragsmith.exported.pipeline import Pipeline
from ragsmith.gateway.budget import Price, Prices, read_prices
from ragsmith.models.file import EXAMPLE_MODELS, read_models
from ragsmith.models.local.multilingual_e5 import EXTRA
from ragsmith.models.local.multilingual_e5 import MODEL as MULTILINGUAL
from ragsmith.models.names import WORDLLAMA, ModelNames, partition_models
from ragsmith.pipelines.genes import ROLES
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.pipelines.telemetry import Traces
from ragsmith.store import DEFAULT_FILE
from ragsmith.systems.answers import SystemFunction
from ragsmith.systems.loading import is_system, is_system_file, load_system
from ragsmith.systems.system import System
from ragsmith.techniques.user_code import import_files
from ragsmith.text.languages import ENGLISH, get_language_name
from ragsmith.types import Dataset

if TYPE_CHECKING:
    from ragsmith.index.artifact_cache import ArtifactCache
    from ragsmith.store.store import Store

CACHE = DEFAULT_FILE

ModelSpec = Annotated[ModelNames | Mapping[str, Any] | str | Path | None, f"a YAML file, or {EXAMPLE_MODELS}"]
"""Type of ``models`` of `ragsmith.search`."""

FitnessSpec = Fitness | Weights | str | Callable[..., float] | None
"""Type of ``fitness`` of `ragsmith.search`: a name, weights, ``FILE.py:function``, or a function or lambda."""

SpaceSpec = Space | str | Path | Mapping[str, Any]
"""Type of ``space`` of `ragsmith.search`: a space, a bundled name, a file, or a dictionary; see `load_space`."""

PriceSpec = Prices | Mapping[str, Price | Mapping[str, float]] | str | Path | None
"""Type of ``prices`` of `ragsmith.search`."""


SystemSpec = Pipeline | str | Path | SystemFunction
"""Type of a pipeline or another system: a file, an address, ``FILE.py:function``, a function, or a loaded one."""


def describe_source(source: SystemSpec, default: str = "the system") -> str:
    """Return the name of a pipeline or system in messages."""
    return str(source) if isinstance(source, str | Path) else getattr(source, "__qualname__", default)


def models_by_role(models: ModelSpec) -> Mapping[str, Any]:
    """Return the models of an argument ``models`` by role."""
    if isinstance(models, str | Path):
        return read_models(Path(models))
    return (
        {role: models.for_role(role) for role in models.named_roles} if isinstance(models, ModelNames) else models or {}
    )


@dataclass(frozen=True)
class Resources:
    """The models, imported files, workers, cache and traces of a call: see `ragsmith.api.arguments`.

    Files are imported on creation.
    """

    models: ModelSpec = None
    base_url: str | None = None
    vector_store: str | None = None
    imports: str | Path | Sequence[str | Path] = ()
    workers: int | None = None
    cache: Store | str | Path = CACHE
    traces: Traces | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise WrongOption("workers", f"is {self.workers}: give at least 1")
        import_files(self.imports)

    @classmethod
    def pop_from(cls, arguments: dict[str, Any]) -> Resources:
        """Return the resources in ``arguments``, which are removed from it."""
        return cls(**{field.name: arguments.pop(field.name) for field in fields(cls) if field.name in arguments})

    def resolve_models(self, default: ModelNames | None = None) -> tuple[ModelNames, Mapping[str, Any]]:
        """Return the models by name, those given or else of ``default``, checked, and the models given as objects."""
        named, given = partition_models(models_by_role(self.models))
        names = self.models if isinstance(self.models, ModelNames) else default or ModelNames()
        chosen = names.override(named, self.base_url, self.vector_store)
        chosen.check()
        return chosen, given

    def setup(
        self, dataset: Dataset | str | Path, chunk_size: int | None = None, faithfulness: bool | None = None
    ) -> Experiment:
        """Return the experiment on a data set with the models, loaded and checked."""
        chosen, given = self.resolve_models()
        if self.base_url is not None and not chosen.self_hosted:
            raise UsageError(
                "--base-url is the server of openai: and rerank: models, and there is none: name one (--llm "
                "openai:NAME)"
            )
        size = CHUNK_SIZE if chunk_size is None else chunk_size
        return prepare_experiment(dataset, chosen, size, faithfulness=faithfulness, given=given, traces=self.traces)

    def pipeline(
        self,
        pipeline: Pipeline | str | Path,
        dataset: Dataset | str | Path | None = None,
        documents: str | Path | None = None,
    ) -> Pipeline:
        """Return the pipeline of a file, or a loaded pipeline, which keeps its data set and models."""
        if not isinstance(pipeline, Pipeline):
            return Pipeline.load(
                require_file(pipeline),
                dataset=dataset,
                documents=documents,
                models=models_by_role(self.models),
                base_url=self.base_url,
                vector_store=self.vector_store,
                traces=self.traces,
            )
        given = (self.models, self.base_url, self.vector_store, self.traces, dataset, documents)
        if any(one is not None for one in given):
            raise UsageError("a loaded pipeline has its data set, models and traces: give others to Pipeline.load")
        return pipeline

    def assessed(self, source: SystemSpec, dataset: Dataset | str | Path | None = None) -> Pipeline:
        """Return a pipeline as `pipeline` does, or another system with its answers to the questions of a data set."""
        if isinstance(source, Pipeline) or not is_system(source):
            return self.pipeline(cast("Pipeline | str | Path", source), dataset)
        return self.system(source, dataset)

    def system(self, source: SystemSpec, dataset: Dataset | str | Path | None, like: Pipeline | None = None) -> System:
        """Return another system, scored by the models of the pipeline ``like`` on its data set, or by the given ones.

        Raises:
            UsageError: no data set is given, or it has no questions, or as `load_system`.
        """
        exported = ExportedFile(Path(str(source))) if is_system_file(source) else None
        if like is None and dataset is None and exported is None:
            raise WrongOption(
                "dataset", f"is missing: name the data set whose questions {describe_source(source)} answers"
            )
        if like is not None:
            base = like.base if isinstance(like, System) else like.setup
        elif exported is not None:
            names, given = self.resolve_models(exported.models())
            base = exported.setup(exported.dataset(dataset), names, None, given)
        else:
            base = self.setup(dataset or "")
        if not base.dataset.examples:
            raise UsageError(f"{base.dataset.name!r} has no questions to score by: name a data set that has some")
        fitness = like.fitness if like else exported.fitness() if exported else None
        return load_system(source, base, self.answers, fitness=fitness, workers=self.workers or 1)

    def workers_for(self, *setups: Experiment) -> int:
        """Return the given number of workers, or the default for the models."""
        return self.workers or max(setup.models.workers() for setup in setups)

    @contextmanager
    def store(self, *, read_only: bool = False) -> Iterator[Store]:
        """Open the cache as a context."""
        from ragsmith.store.store import open_store  # noqa: PLC0415  not needed without paid requests

        with open_store(self.cache, read_only=read_only) as store:
            yield store

    @contextmanager
    def caching_replies(self, pipeline: Pipeline) -> Iterator[Pipeline]:
        """Yield ``pipeline`` such that paid replies are stored in the cache."""
        if not pipeline.setup.loaded_models.prefers_threads:
            yield pipeline
            return
        with self.store() as store, pipeline.remembering(store) as cached:
            yield cached

    @property
    def answers(self) -> Path:
        """The folder with the answers of other systems, next to the cache."""
        return self.artifacts.folder.with_suffix(".answers")

    @property
    def artifacts(self) -> ArtifactCache:
        """The artifact cache with the indexes, next to the cache."""
        from ragsmith.exported.index import artifact_cache_for  # noqa: PLC0415  not needed for small collections

        return artifact_cache_for(self.cache if isinstance(self.cache, str | Path) else self.cache.place)


def require_file(pipeline: str | Path) -> Path:
    """Return the file of a pipeline; raise UsageError if it names another system, no file, or a folder."""
    if is_system(pipeline):
        raise UsageError(f"{pipeline} is another system, and this runs a pipeline: name the file of one (winner.yaml)")
    return check_file(Path(pipeline))


def read_given_prices(prices: PriceSpec) -> Prices:
    """Return the prices as `Prices`."""
    return prices if isinstance(prices, Prices) else read_prices(prices or {})


_EMBEDDER_LANGUAGES = {WORDLLAMA: frozenset({ENGLISH})}
"""Supported languages by name of embedder; vectors of texts in other languages carry little information.

This is not an attribute of the embedder, because its code is part of the keys of stored vectors."""


def warn_unsupported_languages(setup: Experiment) -> None:
    """Warn with a `Notice` of languages of the documents that an embedder does not support.

    User-defined embedders declare their languages with the attribute ``languages``, a set of codes.
    """
    counts = Counter(document.language for document in setup.dataset.documents)
    for name, variant in {variant.models.for_role("embedder").name: variant for variant in setup.variants}.items():
        supported = getattr(variant.loaded_models.embedder, "languages", _EMBEDDER_LANGUAGES.get(name))
        if supported is None or counts.keys() <= set(supported):
            continue
        foreign = ", ".join(
            f"{n:,} in {get_language_name(code)}" for code, n in counts.most_common() if code not in supported
        )
        listed = ", ".join(sorted(map(get_language_name, supported)))
        warn_caller(
            f"of {counts.total():,} documents {foreign}: the embedder {name} supports {listed} only, so "
            "that vector search finds little in them; use BM25, or an embedder of about 100 languages: "
            f"pip install 'ragsmith[{EXTRA}]', then --embedder {MULTILINGUAL}",
        )


def resolve_space(space: SpaceSpec | None, preset: str | None, without: Sequence[str] | None = None) -> Space:
    """Return the given space, or else that of the preset, without the options in ``without``."""
    if not isinstance(space, Space):
        default = preset if preset in ("paper", "quick") else "default"
        space = load_space(default if space in (None, "") else space)
    return space.without_options([without] if isinstance(without, str) else without or ())


def resolve_pipeline_space(space: SpaceSpec | None) -> Space:
    """Return the space as `resolve_space` does, if it is one of pipelines.

    Raises:
        UsageError: it is that of another system.
    """
    found = resolve_space(space, None)
    if found.system:
        raise WrongOption(
            "space", f"{found.name!r} is of another system, and this needs pipelines: only a search takes it"
        )
    return found


def reject_fixed_dimensions(space: Space, chunk_size: int | None, models: ModelSpec) -> None:
    """Raise UsageError if the space searches over a given argument."""
    given = {*(["chunk_size"] if chunk_size is not None else []), *models_by_role(models)}
    if isinstance(models, ModelNames):
        given = {role for role in given if role not in ROLES or models.for_role(role) != ModelNames().for_role(role)}
    for name in space.names:
        if name in given:
            raise WrongOption(name, f"is searched over by the space {space.name!r}: leave it out")

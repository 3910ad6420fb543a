"""What arguments of the public functions may be, and the data sets, models and spaces that are made of them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragsmith.errors import Notice, UsageError, WrongOption
from ragsmith.evaluation.experiment import CHUNK_SIZE, Experiment, prepare
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.exported.pipeline import Pipeline
from ragsmith.gateway.budget import Price, Prices, read_prices
from ragsmith.models.file import read_models
from ragsmith.models.names import WORDLLAMA, ModelNames, partition_models
from ragsmith.pipelines.genes import ROLES
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.techniques.user_code import import_files
from ragsmith.text.languages import ENGLISH, name_of
from ragsmith.types import Dataset

if TYPE_CHECKING:
    from ragsmith.index.artifact_cache import ArtifactCache
    from ragsmith.store.store import Store

CACHE = "cache.sqlite"

ModelSpec = ModelNames | Mapping[str, Any] | str | Path | None
"""Models as `ragsmith.search` takes them."""

FitnessSpec = Fitness | Weights | str | Callable[..., float] | None
"""A fitness as `ragsmith.search` takes it: a name, weights, ``FILE.py:function``, or the function of a file."""

PriceSpec = Prices | Mapping[str, Price | Mapping[str, float]] | str | Path | None
"""Prices as `ragsmith.search` takes them."""


def by_role(models: ModelSpec) -> Mapping[str, Any]:
    """The models that are named, by role."""
    if isinstance(models, str | Path):
        return read_models(Path(models))
    return (
        {role: models.for_role(role) for role in models.named_roles} if isinstance(models, ModelNames) else models or {}
    )


@dataclass(frozen=True)
class Resources:
    """The models, files of one's own, workers and cache of a call: see `ragsmith.api.arguments`.

    Files are imported as soon as it is made.
    """

    models: ModelSpec = None
    base_url: str | None = None
    vector_store: str | None = None
    imports: Sequence[str | Path] = ()
    workers: int | None = None
    cache: Store | str | Path = CACHE

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise WrongOption("workers", f"is {self.workers}: give at least 1")
        import_files(self.imports)

    @classmethod
    def taken_from(cls, arguments: dict[str, Any]) -> Resources:
        """Those of ``arguments``, which are taken out of it."""
        return cls(**{field.name: arguments.pop(field.name) for field in fields(cls) if field.name in arguments})

    def named(self) -> tuple[ModelNames, Mapping[str, Any]]:
        """The models by name, checked, and those that are objects."""
        named, given = partition_models(by_role(self.models))
        names = self.models if isinstance(self.models, ModelNames) else ModelNames()
        chosen = names.overridden(named, self.base_url, self.vector_store)
        chosen.check()
        return chosen, given

    def setup(
        self, dataset: Dataset | str | Path, chunk_size: int | None = None, faithfulness: bool | None = None
    ) -> Experiment:
        """Data set and models, loaded and checked."""
        chosen, given = self.named()
        if self.base_url is not None and not chosen.self_hosted:
            raise UsageError(
                "--base-url is where openai: and rerank: models are asked, and there is none: name one (--llm "
                "openai:NAME)"
            )
        size = CHUNK_SIZE if chunk_size is None else chunk_size
        return prepare(dataset, chosen, size, faithfulness=faithfulness, given=given)

    def pipeline(
        self,
        pipeline: Pipeline | str | Path,
        dataset: Dataset | str | Path | None = None,
        documents: str | Path | None = None,
    ) -> Pipeline:
        """The pipeline of a file; or the one that is loaded already, which keeps its data set and models."""
        if not isinstance(pipeline, Pipeline):
            return Pipeline.load(
                existing(pipeline),
                dataset=dataset,
                documents=documents,
                models=by_role(self.models),
                base_url=self.base_url,
                vector_store=self.vector_store,
            )
        given = (self.models, self.base_url, self.vector_store, dataset, documents)
        if any(one is not None for one in given):
            raise UsageError("a loaded pipeline has its data set and models: give others to Pipeline.load")
        return pipeline

    def workers_for(self, *setups: Experiment) -> int:
        """How many workers there are: as many as were asked for, or as suit the models."""
        return self.workers or max(setup.models.workers() for setup in setups)

    @contextmanager
    def store(self, *, read_only: bool = False) -> Iterator[Store]:
        """The cache, open."""
        from ragsmith.store.store import open_store  # noqa: PLC0415  what is not paid for needs no database

        with open_store(self.cache, read_only=read_only) as store:
            yield store

    @contextmanager
    def remembering(self, pipeline: Pipeline) -> Iterator[Pipeline]:
        """``pipeline``, whose paid replies are stored in the cache."""
        if not pipeline.setup.loaded_models.waits:
            yield pipeline
            return
        with self.store() as store, pipeline.remembering(store) as able:
            yield able

    @property
    def shelf(self) -> ArtifactCache:
        """The artifact cache with the indexes, next to the cache."""
        from ragsmith.exported.index import artifact_cache_for  # noqa: PLC0415  a small collection needs none of it

        return artifact_cache_for(self.cache if isinstance(self.cache, str | Path) else self.cache.place)


def existing(pipeline: str | Path) -> Path:
    """The file of a pipeline. Raises ``UsageError`` if there is none."""
    if not Path(pipeline).exists():
        raise UsageError(
            f"there is no file {str(pipeline)!r}: name the file of a pipeline, which a search writes (winner.yaml); "
            "naive, bm25 and recommended are names for `ragsmith compare` and for --against of a gate"
        )
    return Path(pipeline)


def read_given_prices(prices: PriceSpec) -> Prices:
    """Prices, of whatever form they were given in."""
    return prices if isinstance(prices, Prices) else read_prices(prices or {})


_KNOWN = {WORDLLAMA: frozenset({ENGLISH})}
"""Languages of the embedded embedder, by its name: texts of others have vectors, too, and they mean little. It does not
say so itself, since its code is part of its id, by which vectors are stored."""


def warn_unsupported_languages(setup: Experiment) -> None:
    """Say with a `Notice` which languages of the documents an embedder does not know, where it says what it knows.

    An embedder of one's own does so with ``languages``, a set of codes.
    """
    found = Counter(document.language for document in setup.dataset.documents)
    for name, variant in {variant.models.for_role("embedder").name: variant for variant in setup.variants}.items():
        known = getattr(variant.loaded_models.embedder, "languages", _KNOWN.get(name))
        if known is None or found.keys() <= set(known):
            continue
        foreign = ", ".join(f"{n:,} in {name_of(code)}" for code, n in found.most_common() if code not in known)
        warnings.warn(
            f"of {found.total():,} documents {foreign}: the embedder {name} knows {_listed(known)} alone, so that what "
            "goes by vectors finds little in them; BM25 reads their words, and --embedder names one that knows them",
            Notice,
            stacklevel=3,
        )


def _listed(languages: Iterable[str]) -> str:
    return ", ".join(sorted(map(name_of, languages)))


def resolve_space(space: Space | str | Path | None, preset: str | None, without: Sequence[str] | None = None) -> Space:
    """A space as it was given; unless it was, that of the preset; and without what ``without`` names."""
    if not isinstance(space, Space):
        space = load_space(space or (preset if preset in ("paper", "quick") else "default"))
    return space.leaving_out(without or ())


def reject_fixed_dimensions(space: Space, chunk_size: int | None, models: ModelSpec) -> None:
    """Raise UsageError where the space searches over what is given."""
    given = {*(["chunk_size"] if chunk_size is not None else []), *by_role(models)}
    if isinstance(models, ModelNames):
        given = {role for role in given if role not in ROLES or models.for_role(role) != ModelNames().for_role(role)}
    for name in space.names:
        if name in given:
            raise WrongOption(name, f"is searched over by the space {space.name!r}: leave it out")

"""What arguments of the public functions may be, and the data sets, models and spaces that are made of them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsmith.errors import Notice, UsageError, WrongOption
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.testbed import CHUNK_SIZE, Setup, prepare
from ragsmith.gateway.budget import Price, Prices
from ragsmith.models.file import read_models
from ragsmith.models.given import apart
from ragsmith.models.names import WORDLLAMA, ModelNames
from ragsmith.pipelines.further import ROLES
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.text.languages import ENGLISH, name_of
from ragsmith.types import Dataset

CACHE = "cache.sqlite"

GivenModels = ModelNames | Mapping[str, Any] | str | Path | None
"""Models as `ragsmith.search` takes them."""

GivenFitness = Fitness | Weights | str | Callable[..., float] | None
"""A fitness as `ragsmith.search` takes it: a name, weights, ``FILE.py:function``, or the function of a file."""

GivenPrices = Prices | Mapping[str, Price | Mapping[str, float]] | str | Path | None
"""Prices as `ragsmith.search` takes them."""


def named_models(
    models: GivenModels, base_url: str | None, vector_store: str | None = None
) -> tuple[ModelNames, Mapping[str, Any]]:
    """The models by name, checked, and those that are objects."""
    named, given = apart(by_role(models))
    names = models if isinstance(models, ModelNames) else ModelNames()
    chosen = names.overridden(named, base_url, vector_store)
    chosen.check()
    return chosen, given


def by_role(models: GivenModels) -> Mapping[str, Any]:
    """The models that are named, by role."""
    if isinstance(models, str | Path):
        return read_models(Path(models))
    return {role: models.of(role) for role in models.named} if isinstance(models, ModelNames) else models or {}


def setup_of(
    dataset: Dataset | str | Path,
    models: GivenModels,
    base_url: str | None,
    vector_store: str | None,
    chunk_size: int | None,
    faithfulness: bool | None = None,
) -> Setup:
    """Data set and models, loaded and checked."""
    chosen, given = named_models(models, base_url, vector_store)
    if base_url is not None and not chosen.self_hosted:
        raise UsageError(
            "--base-url is where openai: and rerank: models are asked, and there is none: name one (--llm openai:NAME)"
        )
    size = CHUNK_SIZE if chunk_size is None else chunk_size
    return prepare(dataset, chosen, size, faithfulness=faithfulness, given=given)


_KNOWN = {WORDLLAMA: frozenset({ENGLISH})}
"""Languages of the embedded embedder, by its name: texts of others have vectors, too, and they mean little. It does not
say so itself, since its code is part of its id, by which vectors are stored."""


def say_what_is_not_covered(setup: Setup) -> None:
    """Say with a `Notice` which languages of the documents an embedder does not know, where it says what it knows.

    An embedder of one's own does so with ``languages``, a set of codes.
    """
    found = Counter(document.language for document in setup.dataset.documents)
    for name, variant in {variant.models.of("embedder").name: variant for variant in setup.variants}.items():
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


def space_of(space: Space | str | Path | None, preset: str | None, without: Sequence[str] | None = None) -> Space:
    """A space as it was given; unless it was, that of the preset; and without what ``without`` names."""
    if not isinstance(space, Space):
        space = load_space(space or (preset if preset in ("paper", "quick") else "default"))
    return space.leaving_out(without or ())


def refuse_twice(space: Space, chunk_size: int | None, models: GivenModels) -> None:
    """Raise UsageError where the space searches over what is given."""
    given = {*(["chunk_size"] if chunk_size is not None else []), *by_role(models)}
    if isinstance(models, ModelNames):
        given = {role for role in given if role not in ROLES or models.of(role) != ModelNames().of(role)}
    for name in space.names:
        if name in given:
            raise WrongOption(name, f"is searched over by the space {space.name!r}: leave it out")


def refuse_no_workers(workers: int | None) -> None:
    """Raise UsageError where there would be no worker; None leaves their number to the models."""
    if workers is not None and workers < 1:
        raise WrongOption("workers", f"is {workers}: give at least 1")

"""`ask` and `verify`: an exported pipeline at work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragsmith.api.given import CACHE, GivenModels, by_role
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline, Reply, Verified
from ragsmith.techniques.own import import_files
from ragsmith.types import Dataset

if TYPE_CHECKING:
    from ragsmith.datasets.changes import Changes
    from ragsmith.index.shelf import Shelf
    from ragsmith.store.store import Store

LARGE = 500_000
"""Characters of a collection whose index is kept by whoever asks it; a smaller one is built about as soon as opened."""


def ask(
    pipeline: Pipeline | str | Path,
    question: str,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    indexed: bool = False,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    imports: Sequence[str | Path] = (),
    cache: Store | str | Path = CACHE,
) -> Reply:
    """Answer a question with an exported pipeline; replies that are paid for are kept in ``cache``.

    >>> ragsmith.ask("winner.yaml", "When does the limitation period start?").sources[0].doc
    'obligations-code'

    ``dataset``, ``models``, ``base_url`` and ``vector_store`` take the place of those that the file names; ``imports``
    are files of your own, where they lie elsewhere than it says. ``documents`` is a folder of documents to ask instead;
    the reply says how they differ from those that the pipeline was found on. With ``indexed``, those are asked that
    `ragsmith.build_index` holds. The index of a large collection is kept beside the cache, and opened from there the
    next time.

    Raises:
        UsageError: the file, its documents or a model cannot be used.
    """
    import_files(imports)
    if indexed:
        dataset = held_documents(pipeline, cache, dataset, documents)
    loaded = loaded_pipeline(pipeline, dataset, models, base_url, vector_store, documents)
    with remembering(loaded, cache) as able:
        if indexed or is_large(able):
            open_index(able, cache)
        reply = able.ask(question)
    return reply if documents is None and not indexed else replace(reply, changes=changes_of(able, pipeline, cache))


def verify(
    pipeline: Pipeline | str | Path,
    *,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    imports: Sequence[str | Path] = (),
    cache: Store | str | Path = CACHE,
) -> Verified:
    """Run a pipeline again, from its documents, and compare with the scores that it was exported with.

    >>> ragsmith.verify("winner.yaml").differences
    ()

    Raises:
        UsageError: the file, its documents or a model cannot be used, or it has no scores.
        RagsmithError: a question fails now.
    """
    import_files(imports)
    loaded = loaded_pipeline(pipeline, None, models, base_url, vector_store)
    with remembering(loaded, cache) as able:
        differences = tuple(able.verify())
    questions = {part: scores["questions"] for part, scores in loaded.expected.items()}
    return Verified(differences, loaded.changed_models(), questions)


def loaded_pipeline(
    pipeline: Pipeline | str | Path,
    dataset: Dataset | str | Path | None,
    models: GivenModels,
    base_url: str | None,
    vector_store: str | None,
    documents: str | Path | None = None,
) -> Pipeline:
    """The pipeline of a file; or the one that is loaded already, which keeps its data set and models."""
    if not isinstance(pipeline, Pipeline):
        named = by_role(models)
        return Pipeline.load(
            existing(pipeline),
            dataset=dataset,
            documents=documents,
            models=named,
            base_url=base_url,
            vector_store=vector_store,
        )
    if any(given is not None for given in (dataset, documents, models, base_url, vector_store)):
        raise UsageError("a loaded pipeline has its data set and models: give others to Pipeline.load")
    return pipeline


def existing(pipeline: str | Path) -> Path:
    """The file of a pipeline. Raises ``UsageError`` if there is none."""
    if not Path(pipeline).exists():
        raise UsageError(
            f"there is no file {str(pipeline)!r}: name the file of a pipeline, which a search writes (winner.yaml); "
            "naive, bm25 and recommended are names for `ragsmith compare` and for --against of a gate"
        )
    return Path(pipeline)


def held_documents(
    pipeline: Pipeline | str | Path,
    cache: Store | str | Path,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
) -> Dataset:
    """The documents that the index of a pipeline holds.

    Raises:
        UsageError: it has no index; or ``dataset`` or ``documents`` say something else.
    """
    if isinstance(pipeline, Pipeline) or dataset is not None or documents is not None:
        raise UsageError("--indexed asks the documents that `ragsmith index` holds for a file: give no others with it")
    from ragsmith.exported.collection import Collection  # noqa: PLC0415  a pipeline that is asked as it is needs none of it

    return Collection(existing(pipeline), shelf_of(cache)).read()


def is_large(pipeline: Pipeline) -> bool:
    """Whether the index of a pipeline is sooner opened than built."""
    return sum(len(document.text) for document in pipeline.setup.dataset.documents) >= LARGE


def open_index(pipeline: Pipeline, cache: Store | str | Path, *, complete: bool = False) -> None:
    """Open the index of a pipeline beside the cache, and build what is not there; see `open_with_index`."""
    from ragsmith.exported.index import open_with_index  # noqa: PLC0415  a small collection needs none of it

    open_with_index(pipeline, shelf_of(cache), complete=complete)


def changes_of(loaded: Pipeline, file: Pipeline | str | Path, cache: Store | str | Path) -> Changes | None:
    """How the documents of a pipeline differ from those that it was found on; None if that is not known."""
    from ragsmith.exported.index import changed_documents  # noqa: PLC0415  as above

    return None if isinstance(file, Pipeline) else changed_documents(loaded, file, shelf_of(cache))


def shelf_of(cache: Store | str | Path) -> Shelf:
    """Where the indexes beside a cache lie."""
    from ragsmith.exported.index import shelf_beside  # noqa: PLC0415  as above

    return shelf_beside(cache if isinstance(cache, str | Path) else cache.place)


@contextmanager
def remembering(pipeline: Pipeline, cache: Store | str | Path) -> Iterator[Pipeline]:
    """``pipeline``, whose replies are kept in the cache where a model is paid for."""
    if not pipeline.setup.loaded_models.waits:
        yield pipeline
        return
    from ragsmith.store.store import opened  # noqa: PLC0415  what is not paid for needs no database

    with opened(cache) as store, pipeline.remembering(store) as able:
        yield able

"""`ask` and `verify`: an exported pipeline at work; `build_index` and the like: its index as documents change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import CacheArguments
from ragsmith.api.resources import CACHE, Resources, existing
from ragsmith.datasets.changes import DocumentChanges
from ragsmith.errors import UsageError
from ragsmith.exported.collection import Collection, all_documents
from ragsmith.exported.pipeline import Pipeline, Reply
from ragsmith.exported.reference import Verified
from ragsmith.store.store import Store
from ragsmith.types import Dataset

LARGE = 500_000
"""Characters of a collection whose index is kept by whoever asks it; a smaller one is built about as soon as opened."""


def ask(
    pipeline: Pipeline | str | Path,
    question: str,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    indexed: bool = False,
    **given: Unpack[CacheArguments],
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
    resources = Resources(**given)
    if indexed:
        dataset = indexed_documents(pipeline, resources, dataset, documents)
    loaded = resources.pipeline(pipeline, dataset, documents)
    with resources.remembering(loaded) as able:
        if indexed or is_large(able):
            open_index(able, resources)
        reply = able.ask(question)
    return reply if documents is None and not indexed else replace(reply, changes=changes_of(able, pipeline, resources))


def verify(
    pipeline: Pipeline | str | Path,
    **given: Unpack[CacheArguments],
) -> Verified:
    """Run a pipeline again, from its documents, and compare with the scores that it was exported with.

    >>> ragsmith.verify("winner.yaml").differences
    ()

    Raises:
        UsageError: the file, its documents or a model cannot be used, or it has no scores.
        RagsmithError: a question fails now.
    """
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline)
    with resources.remembering(loaded) as able:
        differences = tuple(able.verify())
    questions = {part: scores["questions"] for part, scores in loaded.expected.items()}
    return Verified(differences, loaded.changed_models(), questions)


def indexed_documents(
    pipeline: Pipeline | str | Path,
    resources: Resources,
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

    return Collection(existing(pipeline), resources.shelf).read()


def is_large(pipeline: Pipeline) -> bool:
    """Whether the index of a pipeline is sooner opened than built."""
    return sum(len(document.text) for document in pipeline.setup.dataset.documents) >= LARGE


def open_index(pipeline: Pipeline, resources: Resources, *, complete: bool = False) -> None:
    """Open the index of a pipeline beside the cache, and build what is not there; see `open_with_index`."""
    from ragsmith.exported.index import open_with_index  # noqa: PLC0415  a small collection needs none of it

    open_with_index(pipeline, resources.shelf, complete=complete)


def changes_of(loaded: Pipeline, file: Pipeline | str | Path, resources: Resources) -> DocumentChanges | None:
    """How the documents of a pipeline differ from those that it was found on; None if that is not known."""
    from ragsmith.exported.index import changed_documents  # noqa: PLC0415  as above

    return None if isinstance(file, Pipeline) else changed_documents(loaded, file, resources.shelf)


@dataclass(frozen=True, slots=True)
class Indexed:
    """The index of a pipeline: how many documents and chunks it holds.

    ``changes`` is how its documents differ from those that the pipeline was found on, None if that is not known.
    """

    documents: int
    chunks: int
    changes: DocumentChanges | None


@dataclass(frozen=True, slots=True)
class ArtifactTotal:
    """What is kept of one kind (``vectors``, ``words``): in how many volumes, and their bytes together."""

    kind: str
    volumes: int
    size: int


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Where indexes are kept, what is there of each kind, of all pipelines, and the index that was asked for."""

    folder: str
    kept: tuple[ArtifactTotal, ...]
    index: Indexed | None = None


def build_index(
    pipeline: str | Path,
    *,
    documents: str | Path | None = None,
    replace: bool = False,
    **given: Unpack[CacheArguments],
) -> Indexed:
    """Hold the documents of a pipeline, or those in a folder, and build its index on them.

    >>> ragsmith.build_index("winner.yaml").documents  # doctest: +SKIP
    10

    The index is kept beside ``cache``; what is there already is not built again. Documents that it holds now, and that
    are not among these, are only given up to ``replace`` them. `ragsmith.ask` with ``indexed`` asks what is held. The
    other arguments are those of `ragsmith.ask`.

    Raises:
        UsageError: the file, its documents or a model cannot be used; or documents that are held would be given up.
        StageFailed: the index cannot be built.
    """
    loaded = Resources(**given).pipeline(existing(pipeline), documents=documents)
    return _changed(
        pipeline, lambda held: held.start(all_documents(loaded.setup.dataset), replace=replace), given, loaded
    )


def add_to_index(
    pipeline: str | Path,
    paths: Sequence[str | Path],
    **given: Unpack[CacheArguments],
) -> Indexed:
    """Add documents in files and folders to the index of a pipeline; those of the same names are replaced.

    >>> ragsmith.add_to_index("winner.yaml", ["minutes-of-may.md"]).changes.added  # doctest: +SKIP
    ('minutes-of-may',)

    Only their texts are read and embedded. The other arguments are those of `build_index`.

    Raises:
        UsageError: there is no index yet, or a document or a model cannot be used.
        StageFailed: the index cannot be built.
    """
    return _changed(pipeline, lambda held: held.add(paths), given)


def remove_from_index(
    pipeline: str | Path,
    documents: Sequence[str],
    **given: Unpack[CacheArguments],
) -> Indexed:
    """Remove documents, by identifier, from the index of a pipeline.

    >>> ragsmith.remove_from_index("winner.yaml", ["minutes-of-may"]).changes.added  # doctest: +SKIP
    ()

    The other arguments are those of `build_index`.

    Raises:
        UsageError: there is no index yet, or it does not hold one of them, or no others.
        StageFailed: the index cannot be built.
    """
    return _changed(pipeline, lambda held: held.remove(documents), given)


def index_status(pipeline: str | Path | None = None, *, cache: Store | str | Path = CACHE) -> IndexStatus:
    """Say what is kept beside ``cache``, and what the index of a pipeline holds.

    >>> ragsmith.index_status("winner.yaml").index.documents  # doctest: +SKIP
    10

    Raises:
        UsageError: the file cannot be used, or there is no index of it.
    """
    resources = Resources(cache=cache)
    shelf = resources.shelf
    volumes: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for one in shelf.listed():
        volumes[one.address.kind] += 1
        sizes[one.address.kind] += one.size
    kept = tuple(ArtifactTotal(kind, volumes[kind], sizes[kind]) for kind in sorted(volumes))
    if pipeline is None:
        return IndexStatus(str(shelf.folder), kept)
    loaded = resources.pipeline(pipeline, indexed_documents(pipeline, resources))
    documents, chunks = len(loaded.setup.dataset.documents), len(loaded.setup.corpus.chunks)
    return IndexStatus(str(shelf.folder), kept, Indexed(documents, chunks, changes_of(loaded, pipeline, resources)))


def _changed(
    pipeline: str | Path, change: Callable[[Collection], Dataset], given: CacheArguments, loaded: Pipeline | None = None
) -> Indexed:
    """Change what the index of a pipeline holds, and build what is missing of it."""
    resources = Resources(**given)
    data = change(Collection(existing(pipeline), resources.shelf))
    if loaded is None or loaded.setup.dataset.digest != data.digest:
        loaded = resources.pipeline(pipeline, data)
    with resources.remembering(loaded) as able:
        open_index(able, resources, complete=True)
    return Indexed(len(data.documents), len(loaded.setup.corpus.chunks), changes_of(loaded, pipeline, resources))

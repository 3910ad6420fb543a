"""`ask` and `verify`: an exported pipeline at work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ragsmith.api.arguments import CacheArguments
from ragsmith.api.resources import Resources, existing
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline, Reply
from ragsmith.exported.verification import Verified
from ragsmith.types import Dataset

if TYPE_CHECKING:
    from ragsmith.datasets.changes import DocumentChanges

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

"""Haystack: an exported pipeline as a retriever component."""

import asyncio
from pathlib import Path
from typing import Any

from ragsmith.errors import MissingExtra, UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.integrations.retrieval import retrieve_parts

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise MissingExtra("haystack-ai", "haystack") from error

__all__ = ["HaystackRetriever", "as_retriever"]


def as_retriever(pipeline: Pipeline) -> Any:
    """Return ``pipeline`` as a Haystack component: retrieval up to and including passage augmentation.

    >>> as_retriever(ragsmith.Pipeline.load("winner.yaml")).run("Who pays the fee?")["documents"][0].meta["doc"]
    'obligations-code'

    Raises:
        UsageError: a model of the pipeline cannot be used.
    """
    return HaystackRetriever(pipeline)


@component
class HaystackRetriever:
    """Retrieves with a pipeline, in its order.

    The input is ``query``, the output ``documents`` with scores; their ``meta`` has ``doc``, ``title``, ``start`` and
    ``end`` (offsets in characters). A blank query raises UsageError, a failed stage StageFailed.
    """

    def __init__(self, pipeline: Pipeline | str | Path) -> None:
        """Create the component from a loaded pipeline, or from the path of its file, which can be serialised."""
        self._file = None if isinstance(pipeline, Pipeline) else str(pipeline)
        self.pipeline = pipeline if isinstance(pipeline, Pipeline) else Pipeline.load(pipeline)
        _ = self.pipeline.engine  # built here, so that errors are raised early and threads share it

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, list[Document]]:
        """Return the documents retrieved for ``query``, best first."""
        retrieved = [
            Document(id=part.id("haystack"), content=part.text, meta=part.metadata, score=part.score)
            for part in retrieve_parts(self.pipeline, query)
        ]
        return {"documents": retrieved}

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str) -> dict[str, list[Document]]:
        """Run in a thread, without blocking the event loop."""
        return await asyncio.to_thread(self.run, query)

    def to_dict(self) -> dict[str, Any]:
        """Serialise the path of the pipeline's file.

        Raises:
            UsageError: the component was created from a loaded pipeline.
        """
        if self._file is None:
            raise UsageError("a loaded pipeline has no file to serialise: give the retriever the path of winner.yaml")
        return dict(default_to_dict(self, pipeline=self._file))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """Restore a component from `to_dict`."""
        return default_from_dict(cls, data)

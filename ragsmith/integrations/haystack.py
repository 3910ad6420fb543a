"""Haystack: an exported pipeline as a retriever, a component of its pipelines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ragsmith.errors import MissingExtra, UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.integrations.found import found

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise MissingExtra("haystack-ai", "haystack") from error

__all__ = ["HaystackRetriever", "as_retriever"]


def as_retriever(pipeline: Pipeline) -> Any:
    """``pipeline`` as a Haystack component: everything up to and with the passages around the hits, no generation.

    >>> as_retriever(ragsmith.Pipeline.load("winner.yaml")).run("Who pays the fee?")["documents"][0].meta["doc"]
    'obligations-code'

    Raises:
        UsageError: a model of the pipeline cannot be used.
    """
    return HaystackRetriever(pipeline)


@component
class HaystackRetriever:
    """Finds what a pipeline finds, best first as the pipeline has it.

    It takes a ``query`` and gives ``documents`` with their scores; their ``meta`` are ``doc``, ``title``, ``start`` and
    ``end`` (characters of the document). A query that is blank raises UsageError, a stage that fails StageFailed.
    """

    def __init__(self, pipeline: Pipeline | str | Path) -> None:
        """``pipeline`` is loaded, or the file of one: only such a component can be written to a file of Haystack."""
        self._file = None if isinstance(pipeline, Pipeline) else str(pipeline)
        self.pipeline = pipeline if isinstance(pipeline, Pipeline) else Pipeline.load(pipeline)
        _ = self.pipeline.engine  # built now, in one thread: a mistake shows at once, and concurrent questions share it

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, list[Document]]:
        """The documents that are found for ``query``, best first."""
        made = [
            Document(id=one.id("haystack"), content=one.text, meta=one.place, score=one.score)
            for one in found(self.pipeline, query)
        ]
        return {"documents": made}

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str) -> dict[str, list[Document]]:
        """The same, without holding up the event loop."""
        return await asyncio.to_thread(self.run, query)

    def to_dict(self) -> dict[str, Any]:
        """What a file of Haystack keeps of it: which file it was made of.

        Raises:
            UsageError: it was made of a loaded pipeline.
        """
        if self._file is None:
            raise UsageError("a loaded pipeline is in no file: give PipelineRetriever the path of winner.yaml instead")
        return dict(default_to_dict(self, pipeline=self._file))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """The component that `to_dict` wrote."""
        return default_from_dict(cls, data)

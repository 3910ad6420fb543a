"""LangChain: an exported pipeline as a retriever."""

from __future__ import annotations

from typing import Any

from ragsmith.errors import MissingExtra
from ragsmith.exported.pipeline import Pipeline
from ragsmith.integrations.retrieval import retrieve_parts

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise MissingExtra("langchain-core", "langchain") from error

__all__ = ["LangChainRetriever", "as_retriever"]


def as_retriever(pipeline: Pipeline) -> LangChainRetriever:
    """Return ``pipeline`` as a LangChain retriever: retrieval up to and including passage augmentation.

    >>> as_retriever(ragsmith.Pipeline.load("winner.yaml")).invoke("Who pays the fee?")[0].metadata["doc"]
    'obligations-code'

    Raises:
        UsageError: a model of the pipeline cannot be used.
    """
    return LangChainRetriever(pipeline=pipeline)


class LangChainRetriever(BaseRetriever):
    """Retrieves with a pipeline, in its order.

    The metadata of a document has ``doc``, ``title``, ``start`` and ``end`` (offsets in characters) and ``score``. A
    blank question raises UsageError, a failed stage StageFailed.
    """

    pipeline: Any

    def model_post_init(self, context: Any, /) -> None:
        """Build the engine, so that errors are raised early and threads share it."""
        super().model_post_init(context)
        _ = self.pipeline.engine

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [
            Document(page_content=part.text, id=part.id("langchain"), metadata={**part.metadata, "score": part.score})
            for part in retrieve_parts(self.pipeline, query)
        ]

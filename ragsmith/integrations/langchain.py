"""LangChain: an exported pipeline as its retriever."""

from __future__ import annotations

from typing import Any

from ragsmith.errors import MissingExtra
from ragsmith.exported.pipeline import Pipeline
from ragsmith.integrations.found import found

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise MissingExtra("langchain-core", "langchain") from error

__all__ = ["LangChainRetriever", "as_retriever"]


def as_retriever(pipeline: Pipeline) -> LangChainRetriever:
    """``pipeline`` as a LangChain retriever: everything up to and with the passages around the hits, no generation.

    >>> as_retriever(ragsmith.Pipeline.load("winner.yaml")).invoke("Who pays the fee?")[0].metadata["doc"]
    'obligations-code'

    Raises:
        UsageError: a model of the pipeline cannot be used.
    """
    return LangChainRetriever(pipeline=pipeline)


class LangChainRetriever(BaseRetriever):
    """Finds what a pipeline finds, best first as the pipeline has it.

    The metadata of a document are ``doc``, ``title``, ``start`` and ``end`` (characters of the document), and
    ``score``. A question that is blank raises UsageError, a stage that fails StageFailed, which names it.
    """

    pipeline: Any

    def model_post_init(self, context: Any, /) -> None:
        """Build what is asked now, in one thread: a mistake shows at once, and concurrent questions share it."""
        super().model_post_init(context)
        _ = self.pipeline.engine

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [
            Document(page_content=one.text, id=one.id("langchain"), metadata={**one.place, "score": one.score})
            for one in found(self.pipeline, query)
        ]

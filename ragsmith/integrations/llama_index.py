"""LlamaIndex: an exported pipeline as a retriever or query engine, and documents of readers as a data set."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ragsmith.errors import MissingExtra
from ragsmith.exported.pipeline import Pipeline
from ragsmith.integrations.llama_index_documents import WrittenDocuments, dataset_from_documents, write_documents
from ragsmith.integrations.retrieval import RetrievedPart, distinct_parts, retrieve_parts
from ragsmith.pipelines.trace import Trace

try:
    from llama_index.core.base.base_query_engine import BaseQueryEngine
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.response.schema import Response
    from llama_index.core.prompts.mixin import PromptMixinType
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
except ImportError as error:
    raise MissingExtra("llama-index-core", "llama-index") from error

__all__ = [
    "LlamaIndexQueryEngine",
    "LlamaIndexRetriever",
    "WrittenDocuments",
    "as_query_engine",
    "as_retriever",
    "dataset_from_documents",
    "write_documents",
]

HIDDEN_KEYS = ["doc", "start", "end", "cited"]
"""Metadata that is excluded from the input of language models and embedders."""


def as_retriever(pipeline: Pipeline) -> LlamaIndexRetriever:
    """Return ``pipeline`` as a LlamaIndex retriever: retrieval up to and including passage augmentation.

    Raises:
        UsageError: a model of the pipeline cannot be used.
    """
    return LlamaIndexRetriever(pipeline)


def as_query_engine(pipeline: Pipeline) -> LlamaIndexQueryEngine:
    """Return ``pipeline`` as a LlamaIndex query engine: its answers, with their passages as source nodes.

    Raises:
        UsageError: a model of the pipeline cannot be used.
    """
    return LlamaIndexQueryEngine(pipeline)


class LlamaIndexRetriever(BaseRetriever):
    """Retrieves with a pipeline, in its order.

    A blank question raises UsageError, a failed stage StageFailed.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        self.pipeline = pipeline
        _ = pipeline.engine  # built here, so that errors are raised early and threads share it

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(part, {}) for part in retrieve_parts(self.pipeline, query_bundle.query_str)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class LlamaIndexQueryEngine(BaseQueryEngine):
    """Answers with a pipeline.

    A blank question raises UsageError, a failed stage StageFailed.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(callback_manager=None)
        self.pipeline = pipeline
        self._retriever = LlamaIndexRetriever(pipeline)

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Retrieve as `LlamaIndexRetriever` does."""
        return self._retriever.retrieve(query_bundle)

    def _query(self, query_bundle: QueryBundle) -> Response:
        trace = self.pipeline.run(query_bundle.query_str)
        nodes = _source_nodes(self.pipeline, trace)
        return Response(trace.answer.text, nodes, {part.node_id: part.metadata for part in nodes})

    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        return await asyncio.to_thread(self._query, query_bundle)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}


def _source_nodes(pipeline: Pipeline, trace: Trace) -> list[NodeWithScore]:
    """Return the parts in the prompt; a part is cited if a passage from it is."""
    passages, cited = trace.prompt.passages, set(trace.answer.cited)
    cited_spans = {span for position in cited for span in passages[position].sources}
    return [_node(part, {"cited": part.span in cited_spans}) for part in distinct_parts(pipeline, passages)]


def _node(part: RetrievedPart, metadata: Mapping[str, Any]) -> NodeWithScore:
    """Convert a part of a document to a node with its score."""
    span = part.span
    node = TextNode(
        id_=part.id("llama_index"),
        text=part.text,
        start_char_idx=span.start,
        end_char_idx=span.end,
        metadata={**part.metadata, **metadata},
        excluded_llm_metadata_keys=HIDDEN_KEYS,
        excluded_embed_metadata_keys=HIDDEN_KEYS,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=span.doc)},
    )
    return NodeWithScore(node=node, score=part.score)

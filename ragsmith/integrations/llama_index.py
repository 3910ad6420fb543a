"""LlamaIndex: an exported pipeline as its retriever or query engine, and documents of its readers as a data set."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from ragsmith.digest import digest
from ragsmith.errors import MissingExtra, UsageError
from ragsmith.integrations.llama_index_documents import WrittenDocuments, dataset_from_documents, write_documents
from ragsmith.pipelines.trace import Trace
from ragsmith.runs.pipeline import Pipeline
from ragsmith.types import Passages, Question, Span

try:
    from llama_index.core.base.base_query_engine import BaseQueryEngine
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.response.schema import Response
    from llama_index.core.prompts.mixin import PromptMixinType
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
except ImportError as error:
    raise MissingExtra("llama-index-core", "llama-index") from error

__all__ = [
    "PipelineQueryEngine",
    "PipelineRetriever",
    "WrittenDocuments",
    "as_query_engine",
    "as_retriever",
    "dataset_from_documents",
    "write_documents",
]

PLACE_KEYS = ["doc", "start", "end", "cited"]
"""Metadata that is for programs; a language model or an embedder that reads a node sees its title only."""


def as_retriever(pipeline: Pipeline) -> PipelineRetriever:
    """``pipeline`` as a LlamaIndex retriever: everything up to and with the passages around the hits, no generation.

    Raises:
        UsageError: a model of the pipeline cannot be used.
    """
    return PipelineRetriever(pipeline)


def as_query_engine(pipeline: Pipeline) -> PipelineQueryEngine:
    """``pipeline`` as a LlamaIndex query engine: its answers, and as source nodes what the answer rests on.

    Raises:
        UsageError: a model of the pipeline cannot be used.
    """
    return PipelineQueryEngine(pipeline)


class PipelineRetriever(BaseRetriever):
    """Finds what a pipeline finds, best first as the pipeline has it.

    A question that is blank raises UsageError, a stage that fails StageFailed, which names it.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        self.pipeline = pipeline
        _ = pipeline.engine  # built now, in one thread: a mistake shows at once, and concurrent questions share it

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question = Question(_asked(query_bundle))
        pipeline = self.pipeline
        return _nodes(pipeline, pipeline.engine.retrieve(pipeline.candidate, question))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class PipelineQueryEngine(BaseQueryEngine):
    """Answers as a pipeline answers.

    A question that is blank raises UsageError, a stage that fails StageFailed, which names it.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(callback_manager=None)
        self.pipeline = pipeline
        self._retriever = PipelineRetriever(pipeline)

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """What `PipelineRetriever` finds."""
        return self._retriever.retrieve(query_bundle)

    def _query(self, query_bundle: QueryBundle) -> Response:
        trace = self.pipeline.run(_asked(query_bundle))
        nodes = _answered(self.pipeline, trace)
        return Response(trace.answer.text, nodes, {found.node_id: found.metadata for found in nodes})

    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        return await asyncio.to_thread(self._query, query_bundle)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}


def _asked(query: QueryBundle) -> str:
    if not query.query_str.strip():
        raise UsageError("the question is blank: ask something")
    return query.query_str


def _answered(pipeline: Pipeline, trace: Trace) -> list[NodeWithScore]:
    """The spans behind what the generator was shown; cited if any passage made from them is."""
    passages, cited = trace.prompt.passages, set(trace.answer.cited)
    behind = {span for position in cited for span in passages[position].sources}
    return _nodes(pipeline, passages, lambda span: {"cited": span in behind})


def _nodes(pipeline: Pipeline, passages: Passages, more: Any = lambda span: {}) -> list[NodeWithScore]:
    """Each span behind ``passages`` once, in their order, with the best score of those it is in."""
    best: dict[Span, float] = {}
    for passage in passages:
        for span in passage.sources:
            best[span] = max(passage.score, best.get(span, passage.score))
    return [NodeWithScore(node=_node(pipeline, span, more(span)), score=score) for span, score in best.items()]


def _node(pipeline: Pipeline, span: Span, more: dict[str, Any]) -> TextNode:
    """A span as a node. Its id depends on its place and text alone, and is a UUID, as vector stores want it."""
    corpus = pipeline.setup.corpus
    text, title = corpus.text(span), corpus.documents[span.doc].title
    return TextNode(
        id_=str(UUID(digest("llama_index", span, text))),
        text=text,
        start_char_idx=span.start,
        end_char_idx=span.end,
        metadata={"doc": span.doc, "title": title, "start": span.start, "end": span.end, **more},
        excluded_llm_metadata_keys=PLACE_KEYS,
        excluded_embed_metadata_keys=PLACE_KEYS,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=span.doc)},
    )

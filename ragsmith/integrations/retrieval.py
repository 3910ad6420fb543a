"""Retrieve with a pipeline, for the retrievers of all frameworks: parts of documents in the pipeline's order."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ragsmith.digest import digest
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.types import Passages, Question, Span


@dataclass(frozen=True, slots=True)
class RetrievedPart:
    """A part of a document, with the best score of the passages that contain it."""

    span: Span
    text: str
    title: str
    score: float

    def id(self, framework: str) -> str:
        """Return a UUID, as vector stores require, that depends only on framework, span and text."""
        return str(UUID(digest(framework, self.span, self.text)))

    @property
    def metadata(self) -> dict[str, Any]:
        """Document, title and offsets in characters."""
        return {"doc": self.span.doc, "title": self.title, "start": self.span.start, "end": self.span.end}


def retrieve_parts(pipeline: Pipeline, question: str) -> Iterator[RetrievedPart]:
    """Retrieve for ``question``, up to and including passage augmentation, without generation.

    Raises:
        UsageError: the question is blank.
        StageFailed: a stage failed.
    """
    if not question.strip():
        raise UsageError("the question is blank: give a question")
    return distinct_parts(pipeline, pipeline.engine.retrieve(pipeline.candidate, Question(question)))


def distinct_parts(pipeline: Pipeline, passages: Passages) -> Iterator[RetrievedPart]:
    """Yield the distinct parts of documents behind ``passages``, in their order."""
    best_scores: dict[Span, float] = {}
    for passage in passages:
        for span in passage.sources:
            best_scores[span] = max(passage.score, best_scores.get(span, passage.score))
    corpus = pipeline.setup.corpus
    for span, score in best_scores.items():
        yield RetrievedPart(span, corpus.text(span), corpus.documents[span.doc].title, score)

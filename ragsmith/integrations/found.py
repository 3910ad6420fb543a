"""What a pipeline finds for a question, as every framework's retriever hands it on: places, in the pipeline's order."""

from __future__ import annotations

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
    """A part of a document, and the best score of the passages that it is in."""

    span: Span
    text: str
    title: str
    score: float

    def id(self, framework: str) -> str:
        """What depends on place and text alone, and is a UUID, as vector stores want it."""
        return str(UUID(digest(framework, self.span, self.text)))

    @property
    def place(self) -> dict[str, Any]:
        """The metadata that it is handed on with."""
        return {"doc": self.span.doc, "title": self.title, "start": self.span.start, "end": self.span.end}


def found(pipeline: Pipeline, question: str) -> Iterator[RetrievedPart]:
    """What ``pipeline`` finds, with the passages around the hits; nothing is generated.

    Raises:
        UsageError: the question is blank.
        StageFailed: a stage fails; it is named.
    """
    return parts(pipeline, pipeline.engine.retrieve(pipeline.candidate, Question(asked(question))))


def asked(question: str) -> str:
    """``question``, which is refused if it is blank."""
    if not question.strip():
        raise UsageError("the question is blank: ask something")
    return question


def parts(pipeline: Pipeline, passages: Passages) -> Iterator[RetrievedPart]:
    """Each part of a document behind ``passages`` once, in their order."""
    best: dict[Span, float] = {}
    for passage in passages:
        for span in passage.sources:
            best[span] = max(passage.score, best.get(span, passage.score))
    corpus = pipeline.setup.corpus
    for span, score in best.items():
        yield RetrievedPart(span, corpus.text(span), corpus.documents[span.doc].title, score)

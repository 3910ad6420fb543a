"""Models by name: what ``--llm``, ``--embedder``, ``--reranker`` and ``--judge`` accept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragsmith.errors import ModelUnavailable, UsageError
from ragsmith.models.extractive import ExtractiveModel
from ragsmith.models.late_interaction import LateInteractionScorer
from ragsmith.models.wordllama import WordLlamaEmbedder

if TYPE_CHECKING:
    from ragsmith.gateway import ChatModel
    from ragsmith.models import LanguageModel
    from ragsmith.pipeline import Models

EXTRACTIVE = "extractive"
WORDLLAMA = "wordllama"
LATE_INTERACTION = "late_interaction"
NONE = "none"
"""The name of a model that a run does without."""
QUESTIONS_IN_FLIGHT = 16


@dataclass(frozen=True, slots=True)
class ModelNames:
    """Which models a run uses. ``base_url`` is where an OpenAI-compatible server answers; it is not part of any key."""

    language_model: str = EXTRACTIVE
    embedder: str = WORDLLAMA
    cross_encoder: str = LATE_INTERACTION
    judge: str | None = None
    base_url: str | None = None

    @property
    def embedded(self) -> bool:
        """Whether every model runs in this process, so that processes save time and waiting does not."""
        return self.language_model == EXTRACTIVE and self.judge in (None, EXTRACTIVE)

    def workers(self) -> int:
        """How many workers suit these models: a process for each core, or a number of questions in flight."""
        return (os.cpu_count() or 1) if self.embedded else QUESTIONS_IN_FLIGHT


class NoReranker:
    """Stands where a reranker would; `requirements` sees to it that nothing asks it."""

    id = NONE

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Raise: there is none."""
        raise ModelUnavailable("this run has no reranker: name one with --reranker")


def load_models(names: ModelNames, texts: Sequence[str]) -> Models:
    """Models for a corpus of ``texts``; the embedded ones take word statistics from it.

    Raises:
        UsageError: a name is unknown; the message lists what there is.
    """
    from ragsmith.pipeline import Models  # noqa: PLC0415  the pipeline imports the protocols of this package

    if names.embedder != WORDLLAMA:
        raise UsageError(f"unknown embedder {names.embedder!r}: known is {WORDLLAMA}")
    if names.cross_encoder not in (LATE_INTERACTION, NONE):
        raise UsageError(f"unknown reranker {names.cross_encoder!r}: known are {LATE_INTERACTION} and {NONE}")
    embedder = WordLlamaEmbedder()
    embedded = ExtractiveModel(texts, embedder)

    def language_model(name: str, role: str) -> LanguageModel | ChatModel:
        if name == EXTRACTIVE:
            return embedded
        provider, _, model = name.partition(":")
        if provider == "openai" and model:
            from ragsmith.models.openai_chat import OpenAIChat  # noqa: PLC0415  the client takes 0.4 s to import

            return OpenAIChat(model, base_url=names.base_url)
        raise UsageError(f"unknown {role} {name!r}: give {EXTRACTIVE}, or openai:MODEL (with --base-url for a server)")

    return Models(
        language_model=language_model(names.language_model, "language model"),
        embedder=embedder,
        cross_encoder=NoReranker() if names.cross_encoder == NONE else LateInteractionScorer(embedder, texts),
        judge=language_model(names.judge or names.language_model, "judge"),
    )

"""The models of a run, by the role they play in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragsmith.models.calls import ChatModel, completes, keeps, takes_cut_answers
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel
from ragsmith.models.vector_address import EXACT
from ragsmith.models.vector_stores import shapes_results

MARKING = "marking_embedder"
"""What the embedder goes by that measures ask, where another one works."""


@dataclass(frozen=True)
class Models:
    """The models of a run.

    ``language_model`` writes the answers; ``controller``, the same unless another is given, does what techniques ask;
    ``judge`` scores answers and is never handed to a technique. ``vectors_at`` says where the embedder's vectors lie
    (`open_vectors`); where that may change results, it is part of the embedder's id.
    """

    language_model: LanguageModel | ChatModel
    embedder: Embedder
    cross_encoder: CrossEncoder
    judge: LanguageModel | ChatModel
    controller: LanguageModel | ChatModel | None = None
    vectors_at: str = EXACT

    @property
    def asked(self) -> LanguageModel | ChatModel:
        """The model that techniques ask."""
        return self.controller or self.language_model

    @property
    def waits(self) -> bool:
        """Whether a model is somewhere else, or slow, so that processes would not help and threads do."""
        chats = any(completes(model) for model in (self.language_model, self.asked, self.judge))
        return chats or keeps(self.embedder) or keeps(self.cross_encoder)

    def all(self) -> tuple[Any, ...]:
        """Every model, each once."""
        models = (self.language_model, self.asked, self.judge, self.embedder, self.cross_encoder)
        return tuple({id(model): model for model in models}.values())

    def served(self) -> tuple[str, ...]:
        """The names of the models that are asked over a network, which may cost money."""
        served = [model.id.partition("@")[0] for model in self.all() if getattr(model, "provider", None) is not None]
        return tuple(dict.fromkeys(served))

    def ids(self) -> dict[str, str]:
        """Role to model id; that of the language model says, too, that answers which were cut are scored.

        That of the embedder says so where vectors are searched approximately.
        """
        roles = ("language_model", "embedder", "cross_encoder", "judge")
        own = {"controller": self.controller.id} if self.controller else {}
        if takes_cut_answers(self.language_model):
            own["language_model"] = f"{self.language_model.id}@cut_answers=True"
        if how := shapes_results(self.vectors_at):
            own["embedder"] = f"{self.embedder.id}@{how}"
        return {role: getattr(self, role).id for role in roles} | own

"""The models of a run, by role."""

from dataclasses import dataclass
from typing import Any

from ragsmith.models.calls import ChatModel, accepts_cut_answers, answer_tokens, is_chat_model, is_stored
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel
from ragsmith.models.vector_stores import EXACT, identify_store

MEASURES_EMBEDDER = "marking_embedder"
"""The name under which the embedder of the measures is recorded, if it differs from that of the pipelines."""


@dataclass(frozen=True)
class Models:
    """The models of a run.

    ``language_model`` writes the answers. ``controller``, by default the language model, performs the tasks of
    techniques. ``judge`` scores answers and is never passed to a technique; ``test_judge`` scores those to test
    questions in its place, and is None if it has the id of the judge. ``vector_store_address`` is that of the embedder
    (`open_vectors`); it is part of the embedder's id if it may change results.
    """

    language_model: LanguageModel | ChatModel
    embedder: Embedder
    cross_encoder: CrossEncoder
    judge: LanguageModel | ChatModel
    controller: LanguageModel | ChatModel | None = None
    vector_store_address: str = EXACT
    test_judge: LanguageModel | ChatModel | None = None

    def __post_init__(self) -> None:
        if self.test_judge is not None and self.test_judge.id == self.judge.id:
            object.__setattr__(self, "test_judge", None)  # or one judge would be reported as two

    @property
    def technique_model(self) -> LanguageModel | ChatModel:
        """The model that techniques call."""
        return self.controller or self.language_model

    @property
    def judges(self) -> tuple[LanguageModel | ChatModel, ...]:
        """The judge of search questions, and that of test questions if it is another."""
        return (self.judge, self.test_judge) if self.test_judge else (self.judge,)

    @property
    def prefers_threads(self) -> bool:
        """Whether a model is remote or slow, so that threads help and processes would not."""
        chats = any(is_chat_model(model) for model in (self.language_model, self.technique_model, *self.judges))
        return chats or is_stored(self.embedder) or is_stored(self.cross_encoder)

    @property
    def reads_prompts(self) -> bool:
        """Whether a model of a pipeline reads prompts; the embedded one does not."""
        return is_chat_model(self.language_model) or is_chat_model(self.technique_model)

    def all(self) -> tuple[Any, ...]:
        """Return every model once."""
        models = (self.language_model, self.technique_model, *self.judges, self.embedder, self.cross_encoder)
        return tuple({id(model): model for model in models}.values())

    def served(self) -> tuple[str, ...]:
        """Return the names of the models that are called over a network, which may cost money."""
        served = [model.id.partition("@")[0] for model in self.all() if getattr(model, "provider", None) is not None]
        return tuple(dict.fromkeys(served))

    def ids(self) -> dict[str, str]:
        """Return the model id of each role.

        The id of the language model includes whether truncated answers are scored, and their token limit if it is set;
        that of the embedder an approximate search.
        """
        ids = {role: getattr(self, role).id for role in ("language_model", "embedder", "cross_encoder", "judge")}
        ids |= {role: model.id for role in ("controller", "test_judge") if (model := getattr(self, role))}
        if accepts_cut_answers(self.language_model):
            ids["language_model"] += "@cut_answers=True"
        if limit := answer_tokens(self.language_model):
            ids["language_model"] += f"@answer_tokens={limit}"
        if store_id := identify_store(self.vector_store_address):
            ids["embedder"] += f"@{store_id}"
        return ids

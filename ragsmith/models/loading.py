"""From names to models: what ``--llm``, ``--controller``, ``--judge``, ``--embedder`` and ``--reranker`` stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ragsmith.errors import ModelUnavailable
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.late_interaction import LateInteractionScorer
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.given import refuse_absent
from ragsmith.models.kinds import COHERE, EXTRACTIVE, GIVEN, LATE_INTERACTION, LOCAL, NONE, OPENAI, WORDLLAMA
from ragsmith.models.local.weights import installed_version
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.models.served.servers import Servers, server_of
from ragsmith.models.vector_address import QDRANT

if TYPE_CHECKING:
    from ragsmith.models.calls import ChatModel
    from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel
    from ragsmith.models.roles import Models

__all__ = ["Loader", "ModelName", "ModelNames", "load_models"]

_SERVED_OPTIONS: Mapping[str, str] = {
    "dimensions": "dimensions",
    "query_prefix": "query_prefix",
    "document_prefix": "document_prefix",
    "batch_size": "batch_texts",
    "context_window": "context_window",
}
_LOCAL_OPTIONS: Mapping[str, str] = {
    "query_prefix": "query_prefix",
    "document_prefix": "document_prefix",
    "device": "device",
    "dtype": "dtype",
    "batch_size": "batch_size",
    "revision": "revision",
    "context_window": "max_length",
}
"""Option to what the client of a model calls it."""


class NoReranker:
    """Stands where a reranker would; `requirements` sees to it that nothing asks it."""

    id = NONE

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Raise: there is none."""
        raise ModelUnavailable("this run has no reranker: name one with --reranker")


def load_models(names: ModelNames, texts: Sequence[str], given: Mapping[str, Any] | None = None) -> Models:
    """Models for a corpus of ``texts``; the embedded ones take word statistics from it, objects are ``given`` by role.

    Nothing is sent and no weights are read before a model is used. Those asked at one server with one key have one
    ``provider``.

    Raises:
        UsageError: a name is unknown, a model lacks its key or address, or an object is not given; the message says
            what there is.
        MissingExtra: a package is not installed.
    """
    from ragsmith.models.roles import Models  # noqa: PLC0415  the pipeline imports the protocols of this package

    names.check()
    if names.vectors_at.startswith(f"{QDRANT}:"):
        installed_version("qdrant-client", QDRANT)
    loader = Loader({role: names.of(role) for role in names.named}, texts, given)
    return Models(
        language_model=loader.language_model("language_model"),
        embedder=loader.embedder("embedder"),
        cross_encoder=loader.cross_encoder("cross_encoder"),
        judge=loader.language_model("judge" if names.judge else "language_model"),
        controller=loader.language_model("controller") if names.controller else None,
        vectors_at=names.vectors_at,
    )


class Loader:
    """Makes the models of each role from checked names; roles with equal models have one."""

    def __init__(
        self,
        chosen: Mapping[str, ModelName],
        texts: Sequence[str],
        given: Mapping[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        """``limits`` (``in_flight``, ``attempts``, ``deadline``) go before those of the names."""
        self._given: Mapping[str, Any] = given or {}
        refuse_absent(chosen, self._given)
        self._chosen = chosen
        self._texts = texts
        self._chats: dict[ModelName, ChatModel] = {}
        self.servers = Servers(chosen, **limits)

    def language_model(self, role: str) -> LanguageModel | ChatModel:
        """The model of ``role`` that performs tasks, or completes prompts."""
        chosen = self._chosen[role]
        if chosen.kind == GIVEN:
            return cast("LanguageModel | ChatModel", self._given[role])
        if chosen.kind == EXTRACTIVE:
            return self._extractive
        from ragsmith.models.served.openai_chat import OpenAIChat  # noqa: PLC0415

        if chosen not in self._chats:
            self._chats[chosen] = OpenAIChat(chosen.model, **self._openai(role))
        return self._chats[chosen]

    def embedder(self, role: str) -> Embedder:
        """The model that embeds."""
        chosen = self._chosen[role]
        if chosen.kind == GIVEN:
            return cast("Embedder", self._given[role])
        if chosen.kind == WORDLLAMA:
            return self._word_vectors
        if chosen.kind == OPENAI:
            from ragsmith.models.served.openai_embeddings import OpenAIEmbeddings  # noqa: PLC0415

            return OpenAIEmbeddings(chosen.model, **self._openai(role))
        if chosen.kind == COHERE:
            from ragsmith.models.served.cohere import CohereEmbedder  # noqa: PLC0415

            return CohereEmbedder(chosen.model, **self._served(role))
        from ragsmith.models.local.sentence_transformers import SentenceTransformersEmbedder  # noqa: PLC0415

        return SentenceTransformersEmbedder(chosen.model, **self._local(chosen))

    def cross_encoder(self, role: str) -> CrossEncoder:
        """The model that scores texts against a query."""
        chosen = self._chosen[role]
        if chosen.kind == GIVEN:
            return cast("CrossEncoder", self._given[role])
        if chosen.kind == LATE_INTERACTION:
            return LateInteractionScorer(self._word_vectors, self._texts)
        if chosen.kind == NONE:
            return NoReranker()
        if chosen.kind == LOCAL:
            from ragsmith.models.local.sentence_transformers import SentenceTransformersCrossEncoder  # noqa: PLC0415

            return SentenceTransformersCrossEncoder(chosen.model, **self._local(chosen))
        if chosen.kind == COHERE:
            from ragsmith.models.served.cohere import CohereReranker  # noqa: PLC0415

            return CohereReranker(chosen.model, **self._served(role))
        from ragsmith.models.served.rerank_endpoint import RerankEndpoint  # noqa: PLC0415

        return RerankEndpoint(chosen.model, kind=chosen.kind, **self._served(role))

    @cached_property
    def _word_vectors(self) -> WordLlamaEmbedder:
        return WordLlamaEmbedder()

    @cached_property
    def _extractive(self) -> ExtractiveModel:
        return ExtractiveModel(self._texts, self._word_vectors)

    def _served(self, role: str) -> dict[str, Any]:
        """How the client of a served model is made."""
        chosen = self._chosen[role]
        server = server_of(chosen, role)
        given = {_SERVED_OPTIONS[o]: value for o, value in chosen.options.items() if o in _SERVED_OPTIONS}
        return given | {"base_url": server.base_url, "key": server.key, "provider": self.servers.provider(server)}

    def _openai(self, role: str) -> dict[str, Any]:
        """How the client of an OpenAI-compatible server is made, which looks its key up by itself."""
        made = self._served(role)
        del made["key"]
        variable = self._chosen[role].api_key_env
        return made | ({"api_key_env": variable} if variable else {})

    def _local(self, chosen: ModelName) -> dict[str, Any]:
        """How a model in this process is made. Raises MissingExtra: its library is not installed."""
        from ragsmith.models.local.sentence_transformers import EXTRA, PACKAGE  # noqa: PLC0415

        installed_version(PACKAGE, EXTRA)
        return {_LOCAL_OPTIONS[o]: value for o, value in chosen.options.items() if o in _LOCAL_OPTIONS}

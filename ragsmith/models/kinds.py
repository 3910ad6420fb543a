"""The kinds of model there are: what a name may be in each role, and which options go with it."""

from __future__ import annotations

from collections.abc import Mapping

from ragsmith.text.files import shown
from ragsmith.text.redaction import redacted
from ragsmith.text.suggest import did_you_mean, nearest

EXTRACTIVE, WORDLLAMA, LATE_INTERACTION = "extractive", "wordllama", "late_interaction"
"""The embedded models: a language model, an embedder, and what stands in a cross-encoder's place."""
NONE = "none"
"""The name of a model that a run does without."""
GIVEN = "given"
"""What stands before the colon where a model was handed over as an object: see `ragsmith.models.given`."""
OPENAI, COHERE, RERANK, JINA, LOCAL = "openai", "cohere", "rerank", "jina", "sentence-transformers"
"""What stands before the colon of a name: servers that speak OpenAI's, Cohere's or Jina's language, and a library."""
SERVED = (OPENAI, COHERE, RERANK, JINA)
"""Those that are asked over a network."""

NOTHING: frozenset[str] = frozenset()
ASKED = frozenset({"base_url", "api_key_env", "in_flight", "attempts", "deadline"})
LOADED = frozenset({"device", "dtype", "batch_size", "revision", "context_window"})
PREFIXES = frozenset({"query_prefix", "document_prefix"})
KEPT = frozenset({"vector_store"})
"""Options of every embedder: where its vectors lie."""

_LANGUAGE_MODELS: Mapping[str, frozenset[str]] = {EXTRACTIVE: NOTHING, OPENAI: ASKED | {"context_window"}}
_EMBEDDERS: Mapping[str, frozenset[str]] = {
    WORDLLAMA: KEPT,
    OPENAI: ASKED | PREFIXES | KEPT | {"dimensions", "batch_size"},
    COHERE: ASKED | KEPT | {"dimensions", "batch_size", "context_window"},
    LOCAL: LOADED | PREFIXES | KEPT,
}
_RERANKERS: Mapping[str, frozenset[str]] = {
    LATE_INTERACTION: NOTHING,
    NONE: NOTHING,
    COHERE: ASKED | {"batch_size", "context_window"},
    JINA: ASKED | {"batch_size", "context_window"},
    RERANK: ASKED | {"batch_size", "context_window"},
    LOCAL: LOADED,
}
ROLES: Mapping[str, Mapping[str, frozenset[str]]] = {
    "language_model": _LANGUAGE_MODELS,
    "embedder": _EMBEDDERS,
    "cross_encoder": _RERANKERS,
    "judge": _LANGUAGE_MODELS,
    "controller": _LANGUAGE_MODELS,
}
"""Role to the kinds of model it may be given, each with the options it has."""
SPOKEN = {role: role.replace("_", " ") for role in ROLES} | {"cross_encoder": "reranker"}


def problem_with_name(role: str, name: str) -> str | None:
    """Why ``role`` cannot be given the model ``name``, in a sentence; None if it can."""
    kinds = ROLES[role]
    kind, colon, model = name.partition(":")
    if kind in kinds and bool(model.strip()) == is_family(kind) == bool(colon):
        return None
    if kind == GIVEN and model.strip():
        return None
    near = nearest(kind, kinds) if kind not in kinds else kind
    meant = f"{near}:{model or 'MODEL'}" if near and is_family(near) else near
    known = did_you_mean("", (f"{k}:MODEL" if is_family(k) else k for k in kinds))
    return redacted(f"unknown {SPOKEN[role]} {shown(name)}; " + (f"did you mean {meant!r}? " if meant else "") + known)


def problem_with_option(role: str, name: str, option: str) -> str | None:
    """Why the model ``name`` in ``role`` has no ``option``, in a sentence; None if it has."""
    has = ROLES[role].get(name.partition(":")[0], NOTHING)
    if option in has:
        return None
    known = f"it has {', '.join(sorted(has))}" if has else "it has no options"
    return f"the {SPOKEN[role]} {name} has no option {option!r}: {known}"


def is_family(kind: str) -> bool:
    """Whether a model's name follows ``kind`` after a colon."""
    return kind in (*SERVED, LOCAL)

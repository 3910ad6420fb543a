"""Calls of models: the chat model's protocol, its replies, and the cache keys of replies, vectors and scores."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

from ragsmith.digest import digest
from ragsmith.models.tasks import ReplyForm, Task
from ragsmith.models.usage import Usage

T = TypeVar("T")
Json: TypeAlias = Any
"""A value of JSON types, as ``json.loads`` returns; mappings have sorted keys."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply of a chat model.

    ``cut_at`` is the token limit at which the reply was truncated, or 0 if it is complete; a truncated ``text`` may be
    empty. ``thought_tokens`` is the number of output tokens used for thinking, if the server reports it, and ``loops``
    whether a truncated reply, with its thoughts, ends in a loop.
    """

    text: str
    usage: Usage
    cut_at: int = 0
    thought_tokens: int = 0
    loops: bool = False


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A stored reply of a model, and its original cost (``seconds`` of wall clock)."""

    key: str
    model: str
    task: str
    value: Json
    calls: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    @classmethod
    def from_completion(cls, key: str, model: str, task: str, completion: Completion) -> StoredCall:
        """Return a reply of ``model`` to ``task`` with its cost."""
        cost = completion.usage
        return cls(key, model, task, completion.text, cost.calls, cost.input_tokens, cost.output_tokens, cost.seconds)


class ChatModel(Protocol):
    """A model that completes prompts. Replies are paid for, so they are cached without expiry."""

    @property
    def id(self) -> str:
        """Provider, model and sampling: everything but the prompt that determines a reply."""

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        """Reply to ``prompt`` with at most ``max_tokens``, which include thoughts; the reply does not contain them.

        A model whose attribute ``structured_output`` is true also takes a `ReplyForm` as ``form``.

        Raises:
            ModelError: there was no valid reply.
        """


def may_vary(model: object) -> bool:
    """Whether a model may reply differently to another sample: a chat model, or a stub of one, which ``varies``."""
    return is_chat_model(model) or getattr(model, "varies", False)


def is_chat_model(model: object) -> TypeGuard[ChatModel]:
    """Whether ``model`` completes prompts (`ChatModel`), rather than performing tasks itself (`LanguageModel`)."""
    return hasattr(model, "complete")


def accepts_cut_answers(model: object) -> bool:
    """Whether truncated answers of ``model`` are scored."""
    return bool(getattr(model, "cut_answers", False))


def form_argument(model: object, task: Task[Any]) -> dict[str, Any]:
    """Return the form of ``task`` as the argument of a request to ``model``; empty if one of them has no form."""
    return {"form": task.form} if task.form and getattr(model, "structured_output", False) else {}


def answer_tokens(model: object) -> int | None:
    """Return the token limit of answers that is set for ``model``; None is that of the task."""
    return getattr(model, "answer_tokens", None)


def limit_answer(model: object, task: Task[T]) -> Task[T]:
    """Return ``task`` with the token limit that is set for ``model`` if it is that of answers, which are usable cut."""
    limit = answer_tokens(model)
    return replace(task, max_tokens=limit) if limit and task.usable_cut else task


def completion_key(
    model: str, prompt: str, max_tokens: int, sample: int, *, form: ReplyForm | None = None, cut: bool = False
) -> str:
    """Return the cache key of a completion, which differs between truncated (``cut``) and complete ones.

    A reply depends on the requested ``form`` and on the order of its keys.
    """
    return digest(
        "cut completion" if cut else "completion",
        *(model, prompt, max_tokens, sample),
        *((form.name, json.dumps(form.schema)) if form else ()),
    )


def result_key(kind: str, model: str, text: str, query: str = "text") -> str:
    """Return the cache key of a vector or score of ``text``; ``query`` is a reranker's query, or `text` or `query`."""
    return digest(kind, query, model, text)


def is_costly(model: object) -> bool:
    """Whether calling ``model`` costs money or time; a stub counts as the model that it replaces."""
    real = getattr(model, "real", model)
    return is_chat_model(real) or is_stored(real)


def is_stored(model: object) -> bool:
    """Whether the results of ``model`` are cached on disk, because they cost money or time."""
    return hasattr(model, "provider") or bool(getattr(model, "slow", False))

"""What a call of a model is: a chat model and its reply, and where replies, vectors and scores are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeGuard

from ragsmith.digest import digest
from ragsmith.models.usage import Usage

Json: TypeAlias = Any
"""What ``json.loads`` returns; whoever stored it knows its shape. Mappings come back with sorted keys."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply of a chat model.

    ``cut_at`` is the limit on tokens at which it was cut, and ``text`` what there is, perhaps nothing; 0 where it ended
    by itself. ``thought_tokens`` are those of the tokens written that were thoughts, as far as the server shows it.
    """

    text: str
    usage: Usage
    cut_at: int = 0
    thought_tokens: int = 0


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A model's reply, and what it cost when it was made (seconds of wall clock)."""

    key: str
    model: str
    task: str
    value: Json
    calls: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


class ChatModel(Protocol):
    """A model that completes prompts; its replies are paid for, so they are kept for good."""

    @property
    def id(self) -> str:
        """Provider, model and sampling: everything but the prompt that determines a reply."""
        ...

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        """Reply to ``prompt`` with at most ``max_tokens``, thoughts included, which are no part of the reply.

        Raises:
            ModelError: no valid reply could be had.
        """
        ...


def completes(model: object) -> TypeGuard[ChatModel]:
    """Whether ``model`` is a chat model, which completes prompts, and not one that performs tasks itself."""
    return hasattr(model, "complete")


def takes_cut_answers(model: object) -> bool:
    """Whether answers of ``model`` that reached their limit on tokens are scored."""
    return bool(getattr(model, "cut_answers", False))


def completion_key(model: str, prompt: str, max_tokens: int, sample: int, *, cut: bool = False) -> str:
    """Where a reply is kept: everything that determines it. One that was ``cut`` is kept apart from whole ones."""
    return digest("cut completion" if cut else "completion", model, prompt, max_tokens, sample)


def result_key(kind: str, model: str, text: str, query: str = "text") -> str:
    """Where a vector or a score of ``text`` is kept; ``query`` is what a score is against, or says how to embed."""
    return digest(kind, query, model, text)


def costs(model: object) -> bool:
    """Whether asking ``model`` costs money or patience; what stands in for another costs what that does."""
    real = getattr(model, "real", model)
    return completes(real) or keeps(real)


def keeps(model: object) -> bool:
    """Whether what a model returns is kept on disk: it is paid for, or takes longer to compute than to read."""
    return hasattr(model, "provider") or bool(getattr(model, "slow", False))

"""Language tasks: what a technique asks of a language model, in a form that needs no particular model.

A `Task` carries a prompt and a parser for a chat model **and** a classical method for the embedded extractive model, so
the same technique runs on either. Both stand in the file of the technique that asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from ragsmith.blocks import numbered

if TYPE_CHECKING:
    from ragsmith.models.extractive import ExtractiveModel

T = TypeVar("T")
Input = str | int | float | tuple[str, ...]
"""What a task may be given: values with one canonical form, so that every call has a complete key."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d+[.):])\s+")


@dataclass(frozen=True)
class Task(Generic[T]):
    """One kind of request to a language model.

    ``prompt`` names its inputs as ``{placeholders}``; a tuple of texts is shown as numbered blocks. ``parse`` turns a
    chat model's reply into the result and raises `ValueError` when it cannot: an unreadable reply is a failure, never
    a default. ``offline`` is the classical method: it is given the embedded model and the same inputs by keyword, with
    ``sample`` numbering repeated requests.
    """

    name: str
    prompt: str
    parse: Callable[[str], T]
    offline: Callable[..., T]
    max_tokens: int = 512

    def __hash__(self) -> int:  # equality still compares everything
        return hash(self.name)

    def render(self, inputs: dict[str, Input]) -> str:
        """Fill the prompt by plain replacement: braces in a document are text, and nothing is filled twice."""
        missing = {name for name in _PLACEHOLDER.findall(self.prompt) if name not in inputs}
        if missing:
            raise TypeError(f"task {self.name!r} was not given {', '.join(sorted(missing))}")
        return _PLACEHOLDER.sub(lambda match: _shown(inputs[match[1]]), self.prompt)

    def run_offline(self, model: ExtractiveModel, sample: int, inputs: dict[str, Input]) -> T:
        """Run the classical method."""
        return self.offline(model, sample=sample, **inputs)


def _shown(value: Input) -> str:
    if isinstance(value, tuple):
        return numbered(value)
    return str(value)


def text(reply: str) -> str:
    """Parse a reply that is one text.

    Raises:
        ValueError: the reply is blank.
    """
    reply = reply.strip()
    if not reply:
        raise ValueError("the reply is blank")
    return reply


def lines(reply: str) -> tuple[str, ...]:
    """Parse a reply of one item a line; bullets, numbers and lines that only announce a list (``...:``) are dropped.

    Raises:
        ValueError: no item is left.
    """
    items = (_BULLET.sub("", line).strip() for line in reply.splitlines())
    kept = tuple(dict.fromkeys(item for item in items if item and not item.endswith(":")))
    if not kept:
        raise ValueError("the reply has no items")
    return kept

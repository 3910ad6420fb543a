"""How a function becomes a drafting method. Everything known about one is read from its own file.

```python
@drafting_method(type="deadline", prompt=PROMPT)
def deadlines(passage: Chunk, links: Links, *, longest: Count = 4000) -> Sequence[Chunk]:
    \"\"\"Ask for time limits.\"\"\"
    return (passage,) if "within" in passage.text and len(passage.text) <= longest else ()
```

From then on ``deadlines`` is a method of ``ragsmith dataset draft``. What prompts have in common, and parsers, are in
`ragsmith.labelling.drafting.replies`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragsmith.digest import digest
from ragsmith.extensions import Extension, Package, Registry
from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.replies import DraftReply, chat_task, questions_in
from ragsmith.models.tasks import Task
from ragsmith.types import Chunk

ChoosePassages = Callable[..., Sequence[Chunk]]


@dataclass(frozen=True, kw_only=True)
class DraftingMethod(Extension):
    """A function that chooses the passages which the model is shown, and the prompt that it is shown them with.

    ``prompt`` has the places ``{title}`` and ``{>text}``, or ``{>texts}`` for several passages; ``type`` is that of its
    questions, which are ``answerable`` from the passages or not. ``parse`` reads a reply of ``max_tokens`` at most.
    """

    type: str
    prompt: str
    parse: Callable[[str], tuple[DraftReply, ...]] = questions_in
    max_tokens: int = 512
    answerable: bool = True

    @cached_property
    def task(self) -> Task[tuple[DraftReply, ...]]:
        """What the model is asked."""
        return chat_task(self.name, self.prompt, self.parse, self.max_tokens)

    @property
    def digest(self) -> str:
        """What rows name the prompt by: it changes with each word of it."""
        return digest("prompt", self.task.name, self.prompt)

    def shown(self, passage: Chunk, links: Links) -> tuple[Chunk, ...]:
        """The passages that the model is shown: ``passage`` is the first; none where the method does not suit it."""
        with self.named_errors():
            return tuple(self.fn(passage, links, **self.chosen))


METHODS: Registry[DraftingMethod] = Registry("drafting method", "ragsmith.labelling.drafting.methods")


def drafting_method(
    *,
    type: str,  # noqa: A002  as rows call it
    prompt: str,
    parse: Callable[[str], tuple[DraftReply, ...]] = questions_in,
    max_tokens: int = 512,
    answerable: bool = True,
    paper: str = "",
    package: Package | None = None,
) -> Callable[[ChoosePassages], ChoosePassages]:
    """Register the decorated function as the drafting method of its name; see `DraftingMethod` for the arguments."""

    def register(fn: ChoosePassages) -> ChoosePassages:
        METHODS.add(
            DraftingMethod(
                name=fn.__name__,
                fn=fn,
                paper=paper,
                package=package,
                type=type,
                prompt=prompt,
                parse=parse,
                max_tokens=max_tokens,
                answerable=answerable,
            )
        )
        return fn

    return register

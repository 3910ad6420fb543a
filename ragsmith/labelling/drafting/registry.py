"""Registration of functions as drafting methods. All metadata of a method is in its own file.

```python
@drafting_method(type="deadline", prompt=PROMPT)
def deadlines(passage: Chunk, links: Links, *, longest: Count = 4000) -> Sequence[Chunk]:
    \"\"\"Ask for time limits.\"\"\"
    return (passage,) if "within" in passage.text and len(passage.text) <= longest else ()
```

This registers ``deadlines`` as a method of ``ragsmith dataset draft``. Common parts of prompts, and parsers, are in
`ragsmith.labelling.drafting.replies`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragsmith.digest import digest
from ragsmith.extensions import Extension, Package, Registry
from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.replies import DRAFTS, DraftReply, chat_task, questions_in
from ragsmith.models.tasks import ReplyForm, Task
from ragsmith.types import Chunk

ChoosePassages = Callable[..., Sequence[Chunk]]


@dataclass(frozen=True, kw_only=True)
class DraftingMethod(Extension):
    """Function that selects the passages for a prompt.

    ``prompt`` has the placeholders ``{title}`` and ``{>text}``, or ``{>texts}`` for several passages; ``type`` is that
    of its questions, and ``answerable`` whether the passages answer them. ``parse`` parses a reply of at most
    ``max_tokens``, whose form is ``form`` for servers that enforce one; that of `questions_in` is known.
    """

    type: str
    prompt: str
    parse: Callable[[str], tuple[DraftReply, ...]] = questions_in
    max_tokens: int = 512
    answerable: bool = True
    form: ReplyForm | None = None

    @cached_property
    def task(self) -> Task[tuple[DraftReply, ...]]:
        """Task for the chat model."""
        return chat_task(
            self.name,
            self.prompt,
            self.parse,
            self.max_tokens,
            self.form or (DRAFTS if self.parse is questions_in else None),
        )

    @property
    def digest(self) -> str:
        """Digest of the prompt, which identifies it in rows."""
        return digest("prompt", self.task.name, self.prompt)

    def shown(self, passage: Chunk, links: Links) -> tuple[Chunk, ...]:
        """Return the passages for the prompt, ``passage`` first; none if the method does not apply to it."""
        with self.named_errors():
            return tuple(self.fn(passage, links, **self.chosen))


METHODS: Registry[DraftingMethod] = Registry("drafting method", "ragsmith.labelling.drafting.methods")


def drafting_method(
    *,
    type: str,  # noqa: A002  the key in rows
    prompt: str,
    parse: Callable[[str], tuple[DraftReply, ...]] = questions_in,
    max_tokens: int = 512,
    answerable: bool = True,
    form: ReplyForm | None = None,
    paper: str = "",
    package: Package | None = None,
) -> Callable[[ChoosePassages], ChoosePassages]:
    """Register the decorated function as a drafting method under its name; see `DraftingMethod` for the arguments."""
    return METHODS.registers(
        lambda fn: DraftingMethod(
            name=fn.__name__,
            fn=fn,
            paper=paper,
            package=package,
            type=type,
            prompt=prompt,
            parse=parse,
            max_tokens=max_tokens,
            answerable=answerable,
            form=form,
        )
    )

"""The trace of a question through a pipeline: the output and the cost of every stage."""

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragsmith.models.usage import Usage
from ragsmith.types import Answer, Hits, LazyHits, Passage, Prompt


class StageOutput:
    """The output of a stage; equal values have equal numbers as long as one of them is referenced."""

    __slots__ = ("__weakref__", "_fingerprint", "number", "value")

    def __init__(self, value: Any, number: Hashable) -> None:
        self.value = value
        self.number = number
        self._fingerprint: str | None = None

    @property
    def fingerprint(self) -> str:
        """A short digest of the value: see `stage_fingerprint`."""
        if self._fingerprint is None:
            self._fingerprint = stage_fingerprint(self.value)
        return self._fingerprint


@dataclass(slots=True)
class Trace:
    """The outputs and the usage of a candidate for a question, by stage."""

    outputs: dict[str, StageOutput] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)

    @property
    def hits(self) -> Hits:
        """The hits after the filter, on which retrieval is scored."""
        hits: Hits = self.outputs["passage_filter"].value
        return hits

    @property
    def prompt(self) -> Prompt:
        """The prompt of the generator."""
        prompt: Prompt = self.outputs["prompt_maker"].value
        return prompt

    @property
    def answer(self) -> Answer:
        """The final answer."""
        answer: Answer = self.outputs["post_generation"].value
        return answer


def stage_fingerprint(value: Any) -> str:
    """Return a short digest of the output of a stage: of chunk ids in order, or of texts."""
    parts: Sequence[str]
    if isinstance(value, LazyHits):
        parts = value.ids
    elif isinstance(value, Prompt | Answer):
        parts = [value.text]
    else:
        parts = [item.text if isinstance(item, Passage) else item.chunk.id for item in value]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=4).hexdigest()

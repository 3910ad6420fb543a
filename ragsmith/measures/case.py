"""What a measure may read: one question, what a pipeline found and answered, and what is right."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from ragsmith.datasets.relevance import Relevance
from ragsmith.types import Hits, Passages, Span, get_ids

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question as one pipeline answered it.

    ``reference`` is the reference answer; the documents have one where the question is ``answerable``. ``hits`` passed
    the filter, best first; ``pool`` is what the query expansion found before reranking and filter. ``prompt`` is the
    text that the generator read, made of ``passages``. ``evidence`` holds the gold spans, and ``relevance`` the chunks
    that have them.
    """

    question: str = ""
    reference: str = ""
    answer: str = ""
    hits: Hits = ()
    pool: Hits = ()
    passages: Passages = ()
    prompt: str = ""
    evidence: tuple[Span, ...] = ()
    relevance: Relevance = field(default_factory=lambda: Relevance({}))
    answerable: bool = True

    def has(self, needed: str) -> bool:
        """Whether the question has the ``evidence`` or ``reference`` that is needed, or is ``answerable`` or not."""
        if needed == "evidence":
            return bool(self.evidence or self.relevance.relevant)
        if needed == "reference":
            return self.answerable
        return self.answerable == (needed == "answerable")

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """What passed the filter, each once, best first: ids of chunks, or of what they count as."""
        return self.units(self.hits)

    @cached_property
    def relevant(self) -> frozenset[str]:
        """What is relevant, in the same terms: ids of chunks, unless there is coarse gold."""
        return frozenset(self.relevance.units)

    def units(self, hits: Hits) -> tuple[str, ...]:
        """Return the units that the chunks of ``hits`` count as, each once, best first; see `Relevance.unit`."""
        if not self.relevance.coarse:
            return tuple(dict.fromkeys(get_ids(hits)))
        return tuple(dict.fromkeys(map(self.relevance.unit, get_ids(hits))))

    def once(self, compute: Callable[..., T], *tools: Any) -> T:
        """Return ``compute(self, *tools)``, computed once for this case."""
        if compute not in self._computed:
            self._computed[compute] = compute(self, *tools)
        found: T = self._computed[compute]
        return found

    @cached_property
    def _computed(self) -> dict[Callable[..., Any], Any]:
        return {}

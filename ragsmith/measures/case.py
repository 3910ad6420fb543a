"""The input of a measure: a question with gold labels, and the output of a pipeline."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from ragsmith.datasets.relevance import Relevance
from ragsmith.types import Hits, Passages, Span, get_ids

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question and the result of a pipeline for it.

    ``reference`` is the reference answer, which exists if the question is ``answerable``. ``hits`` are the filtered
    hits, best first; ``pool`` are the hits of query expansion, before reranking and filter. ``prompt`` is the context
    of the generator, composed of ``passages``, and ``cited`` are the positions of those that the answer cites.
    ``evidence`` are the gold spans, and ``relevance`` the chunks that overlap with them.
    """

    question: str = ""
    reference: str = ""
    answer: str = ""
    hits: Hits = ()
    pool: Hits = ()
    passages: Passages = ()
    prompt: str = ""
    cited: tuple[int, ...] = ()
    evidence: tuple[Span, ...] = ()
    relevance: Relevance = field(default_factory=lambda: Relevance({}))
    answerable: bool = True

    def satisfies(self, requirement: str) -> bool:
        """Whether the question has ``evidence`` or a ``reference``, or is ``answerable`` or ``unanswerable``."""
        if requirement == "evidence":
            return bool(self.evidence or self.relevance.relevant)
        if requirement == "reference":
            return self.answerable
        return self.answerable == (requirement == "answerable")

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """The distinct ids of the filtered hits, best first; see `units`."""
        return self.units(self.hits)

    @cached_property
    def relevant(self) -> frozenset[str]:
        """The relevant ids; see `units`."""
        return frozenset(self.relevance.units)

    def units(self, hits: Hits) -> tuple[str, ...]:
        """Return the distinct units of ``hits``, best first, by `Relevance.rank_units`."""
        return self.relevance.rank_units(get_ids(hits))

    def memoize(self, compute: Callable[..., T], *tools: Any) -> T:
        """Return ``compute(self, *tools)``, which is cached for this case."""
        if compute not in self._cache:
            self._cache[compute] = compute(self, *tools)
        value: T = self._cache[compute]
        return value

    @cached_property
    def _cache(self) -> dict[Callable[..., Any], Any]:
        return {}

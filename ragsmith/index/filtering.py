"""What a filter admits of a corpus: nothing else is retrieved, ranked or read.

The statistics of words and the edges between chunks remain those of all documents, so that the score of a chunk does
not depend on the filter.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.fields import Field, list_fields
from ragsmith.index.index import Corpus, Index
from ragsmith.types import Filter, Hit, Span

T = TypeVar("T", Index, EntityGraph)


class Admission:
    """What ``filter_`` admits of ``corpus``: ``documents``, by identifier. Without a filter, everything is admitted."""

    def __init__(self, corpus: Corpus, filter_: Filter | None) -> None:
        self._filter, self._all = filter_, corpus.documents.values()
        self.documents = frozenset(each.id for each in self._all if filter_ and filter_.admits(each.fields))
        self._restricted: dict[str, Any] = {}

    def restrict(self, whole: T) -> T:
        """Return an index or graph in which only chunks that are admitted can be found; always the same object."""
        if self._filter is None:
            return whole
        if whole.id not in self._restricted:
            admitted = [self._admits(c.sources) if c.level else c.doc in self.documents for c in whole.chunks]
            self._restricted[whole.id] = whole.restrict(np.array(admitted, dtype=np.bool_))
        return cast(T, self._restricted[whole.id])

    def select(self, value: Any) -> Any:
        """Return rankings, hits or passages without those that are not admitted, and any other value unchanged.

        A summary, or a passage from several places, is admitted only if all its sources are.
        """
        if self._filter is None or not isinstance(value, Sequence):
            return value
        if value and isinstance(value[0], Sequence):
            return tuple(map(self.select, value))
        selected = [
            each
            for each in value
            if (
                each.chunk.doc in self.documents
                if isinstance(each, Hit) and not each.chunk.level
                else self._admits(each.chunk.sources if isinstance(each, Hit) else each.sources)
            )
        ]
        return value if len(selected) == len(value) else tuple(selected)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the documents that are admitted, with their values in these alone."""
        return list_fields(each.fields for each in self._all if not self._filter or each.id in self.documents)

    def _admits(self, spans: Sequence[Span]) -> bool:
        return bool(spans) and all(span.doc in self.documents for span in spans)

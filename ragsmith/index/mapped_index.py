"""The index of a search: word statistics shared with the embedded language model, and large arrays in files."""

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.index import Index
from ragsmith.mapped import move_to_file
from ragsmith.models.protocols import Embedder
from ragsmith.text.bm25 import BM25
from ragsmith.text.shared_bm25 import get_shared_bm25

T = TypeVar("T")


class MappedIndex(Index):
    """An `Index` with the results of any other, whose large arrays processes share in files (`ragsmith.mapped`)."""

    @cached_property
    def _bm25(self) -> BM25:
        return get_shared_bm25(self.keys, tuple(entry.chunk.language for entry in self.entries for _ in entry.keys))

    def _embedded(self, embedder: Embedder) -> NDArray[np.floating]:
        return move_to_file(super()._embedded(embedder))

    def derived(self, name: str, build: Callable[[], T]) -> T:
        """See `Index.derived`."""

        def build_in_file() -> T:
            value = build()
            return cast(T, move_to_file(value)) if isinstance(value, np.ndarray) else value

        return super().derived(name, build_in_file)

"""One BM25 index for all that search the same texts: an index of chunks, and the embedded language model."""

from collections.abc import Mapping
from functools import cached_property
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ragsmith.mapped import move_to_file
from ragsmith.text.bm25 import BM25


class SharedBM25(BM25):
    """A `BM25` whose large arrays are in files, and whose terms are numbered.

    ``frequencies`` has the number of texts that contain each term.
    """

    def _index(self, tokens: NDArray[np.int32], texts: NDArray[np.int32], size: int) -> None:
        super()._index(tokens, texts, size)
        self._tokens, self._texts = move_to_file(self._tokens), move_to_file(self._texts)
        self._gains, self._rows = move_to_file(self._gains), move_to_file(self._rows)
        self.frequencies = np.diff(self._cuts)

    @cached_property
    def _by_gain(self) -> NDArray[np.int64]:
        return move_to_file(super()._by_gain)

    @property
    def numbers(self) -> Mapping[str, int]:
        """The number of each term."""
        return self._vocabulary

    @property
    def tokens(self) -> NDArray[np.int32]:
        """The numbers of all terms in order, text by text."""
        return self._tokens


_in_use: WeakValueDictionary[tuple[tuple[str, ...], tuple[str, ...]], SharedBM25] = WeakValueDictionary()
_building = Lock()


def get_shared_bm25(texts: tuple[str, ...], languages: tuple[str, ...]) -> SharedBM25:
    """Return the index over ``texts``, which is the same object for all that use it at the same time."""
    with _building:
        index = _in_use.get((texts, languages))
        if index is None:
            index = _in_use[texts, languages] = SharedBM25(texts, languages=languages)
        return index

"""An index in parts: its entries, the vectors of each embedder, and each thing that was derived from it.

So only what was built since is sent, to processes that have the rest. A part refers to what it shares with others: the
vector store of an index is sent without the vectors it searches, which are a part of their own.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.index import Index

IndexPart = tuple[str, str]
"""`ENTRIES`; or `VECTORS` and of which embedder, or `DERIVED` and under which name."""

ENTRIES: IndexPart = "entries", ""
VECTORS, DERIVED = "vectors", "derived"

Packed = tuple[bytes, list[NDArray[np.uint8]]]
"""What `pickle` made of a part, and the bytes of its arrays, which are not copied."""


def parts_of(index: Index) -> list[IndexPart]:
    """The parts that ``index`` has so far, each after those that it may share something with."""
    vectors, derived = index.built()
    return [ENTRIES, *((VECTORS, name) for name in vectors), *((DERIVED, name) for name in derived)]


def packed(index: Index, part: IndexPart) -> Packed:
    """A part, as it can be sent."""
    kind, name = part
    vectors, derived = index.built()
    shared: dict[int, IndexPart] = {}
    value: Any
    if part == ENTRIES:
        value = index.with_only({}, {})
    elif kind == VECTORS:
        value = vectors[name]
    else:
        value = derived[name]
        shared = {id(index): ENTRIES, **{id(own): (VECTORS, of) for of, own in vectors.items()}}
        for earlier, own in derived.items():
            if earlier == name:
                break
            shared[id(own)] = DERIVED, earlier
    written = BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    _Pickler(written, buffers, shared).dump(value)
    return written.getvalue(), [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]


def with_part(index: Index | None, part: IndexPart, sent: Packed) -> Index:
    """An index of the entries of ``index`` with this part alone; the entries need none. What it shares is in ``index``.

    `Index.take_vectors` puts it to the others.
    """
    value = _Unpickler(sent, index).load()
    if index is None:
        entries: Index = value
        return entries
    kind, name = part
    return index.with_only({name: value}, {}) if kind == VECTORS else index.with_only({}, {name: value})


class _Pickler(pickle.Pickler):
    def __init__(self, file: BytesIO, buffers: list[pickle.PickleBuffer], shared: Mapping[int, IndexPart]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._shared = shared

    def persistent_id(self, value: Any) -> IndexPart | None:
        return self._shared.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, sent: Packed, index: Index | None) -> None:
        super().__init__(BytesIO(sent[0]), buffers=sent[1])
        self._index = index

    def persistent_load(self, part: IndexPart) -> Any:
        kind, name = part
        if self._index is None or part == ENTRIES:
            return self._index
        vectors, derived = self._index.built()
        return vectors[name] if kind == VECTORS else derived[name]

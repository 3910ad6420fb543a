"""The parts of an index, each of which is sent to another process once: entries, vectors, and what is derived."""

import pickle
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.index import Index

IndexPart = tuple[str, str]
"""A part of an index: `ENTRIES`, `VECTORS` and the embedder, or `DERIVED` and the name of the structure."""

ENTRIES: IndexPart = "entries", ""
VECTORS, DERIVED = "vectors", "derived"

PackedPart = tuple[bytes, list[NDArray[np.uint8]]]
"""A pickled part of an index, and the buffers of its arrays, which are not copied."""


def list_parts(index: Index) -> list[IndexPart]:
    """Return the parts built so far, each after those that it may share objects with."""
    vectors, derived = index.get_cached()
    return [ENTRIES, *((VECTORS, name) for name in vectors), *((DERIVED, name) for name in derived)]


def pack_part(index: Index, part: IndexPart) -> PackedPart:
    """Return a part in pickled form."""
    kind, name = part
    vectors, derived = index.get_cached()
    shared: dict[int, IndexPart] = {}
    value: Any
    if part == ENTRIES:
        value = index.copy_with({}, {})
    elif kind == VECTORS:
        value = vectors[name]
    else:
        value = derived[name]
        shared = {id(index): ENTRIES, **{id(matrix): (VECTORS, embedder) for embedder, matrix in vectors.items()}}
        for earlier, structure in derived.items():
            if earlier == name:
                break
            shared[id(structure)] = DERIVED, earlier
    written = BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    _PartPickler(written, buffers, shared).dump(value)
    return written.getvalue(), [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]


def unpack_part(index: Index | None, part: IndexPart, sent: PackedPart) -> Index:
    """Return an index with the entries of ``index`` and this part alone; shared objects are taken from ``index``.

    For `ENTRIES`, ``index`` may be None. `Index.copy_cached_from` merges the part into another index.
    """
    value = _PartUnpickler(sent, index).load()
    if index is None:
        entries: Index = value
        return entries
    kind, name = part
    return index.copy_with({name: value}, {}) if kind == VECTORS else index.copy_with({}, {name: value})


class _PartPickler(pickle.Pickler):
    def __init__(self, file: BytesIO, buffers: list[pickle.PickleBuffer], shared: Mapping[int, IndexPart]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._shared = shared

    def persistent_id(self, value: Any) -> IndexPart | None:
        return self._shared.get(id(value))


class _PartUnpickler(pickle.Unpickler):
    def __init__(self, sent: PackedPart, index: Index | None) -> None:
        super().__init__(BytesIO(sent[0]), buffers=sent[1])
        self._index = index

    def persistent_load(self, part: IndexPart) -> Any:
        kind, name = part
        if self._index is None or part == ENTRIES:
            return self._index
        vectors, derived = self._index.get_cached()
        return vectors[name] if kind == VECTORS else derived[name]

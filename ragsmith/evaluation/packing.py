"""Records that are packed where there is no room for them: what a run has met is known to its end.

As it comes, a record is a dictionary of dictionaries; packed it is a string of bytes, and is read as before, a little
slower. Which are packed depends on how much a process may have (`ragsmith.gateway.memory`); what is read does not.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from ragsmith.gateway.memo import Entry, Room

PACKING_SECONDS = 2e-5
"""About what it takes to pack a record, and to read it a few times."""

Shape = tuple[tuple[str, ...], tuple[tuple[str, ...] | None, ...]]
"""The names in a record, and in each of its parts that has names."""


class Packable(Mapping[str, Any]):
    """A record, whole or packed: a mapping equal to the one it was made of."""

    __slots__ = ("_bytes", "_shape", "_whole")

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._whole: Mapping[str, Any] | None = record
        self._bytes = b""
        self._shape: Shape = ((), ())

    def pack(self, shapes: dict[Shape, Shape]) -> None:
        """Make it small; ``shapes`` are those met so far, of which there are few."""
        record = self._whole
        if record is None:
            return
        shape = tuple(record), tuple(tuple(part) if type(part) is dict else None for part in record.values())
        values = [list(part.values()) if type(part) is dict else part for part in record.values()]
        self._shape, self._bytes = shapes.setdefault(shape, shape), pickle.dumps(values, pickle.HIGHEST_PROTOCOL)
        self._whole = None  # as the last: others may be reading

    def _record(self) -> Mapping[str, Any]:
        record = self._whole
        if record is not None:
            return record
        names, inner = self._shape
        values = pickle.loads(self._bytes)
        parts = [
            value if known is None else dict(zip(known, value, strict=True))
            for known, value in zip(inner, values, strict=True)
        ]
        return dict(zip(names, parts, strict=True))

    def __getitem__(self, name: str) -> Any:
        return self._record()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._record()

    def __iter__(self) -> Iterator[str]:
        return iter(self._record())

    def __len__(self) -> int:
        return len(self._record())

    def __repr__(self) -> str:
        return repr(self._record())


class Packed(dict[Hashable, Entry[Packable]]):
    """Records that are whole in ``room``: what it drops is packed."""

    def __init__(self, room: Room) -> None:
        super().__init__()
        self._room = room
        self._number = 0
        self._shapes: dict[Shape, Shape] = {}

    def add(self, record: Mapping[str, Any]) -> Packable:
        """``record``, which may be packed from now on."""
        packable = Packable(record)
        self._number += 1
        entry = self[self._number] = Entry(packable, PACKING_SECONDS, self._room.level)
        self._room.admit(self, self._number, entry, None)
        return packable

    def __delitem__(self, key: Hashable) -> None:
        self.pop(key).value.pack(self._shapes)

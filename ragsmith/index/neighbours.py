"""Where the entries of an index stand among each other: in which document, beside which neighbours, how long.

Built once for an index and kept with it, at 28 bytes an entry.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.index import Index

_Numbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Entry ``i`` is one of document ``document[i]``; a summary is a document of its own.

    The entries of document ``d`` are ``members[starts[d]:starts[d + 1]]``, in reading order. ``previous`` and ``next``
    hold the position of the chunk before and behind, -1 where there is none. ``characters`` is the length of a chunk.
    Entries of the same ``section`` have title, headings and language in common.
    """

    document: _Numbers
    members: _Numbers
    starts: _Numbers
    previous: _Numbers
    next: _Numbers
    characters: _Numbers
    section: _Numbers

    def of_documents(self, documents: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The positions of the entries of ``documents``, one document after the other, and how many each has."""
        sizes = (self.starts[documents + 1] - self.starts[documents]).astype(np.int64)
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.members[np.repeat(self.starts[documents], sizes) + within].astype(np.int64), sizes


def neighbours(index: Index) -> Neighbours:
    """The neighbours of all entries of ``index``."""
    return index.derived("neighbours", partial(_neighbours, index))


def _neighbours(index: Index) -> Neighbours:
    chunks = index.chunks
    numbers: dict[Hashable, int] = {}
    keys: list[Hashable] = [(chunk.id,) if chunk.level else chunk.doc for chunk in chunks]
    document = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int32)
    order = np.array([chunk.index for chunk in chunks], dtype=np.int64)
    members = np.lexsort((order, document)).astype(np.int32)
    starts = np.searchsorted(document[members], np.arange(len(numbers) + 1)).astype(np.int32)
    before, behind = members[:-1], members[1:]
    adjacent = (document[before] == document[behind]) & (order[before] + 1 == order[behind])
    previous, following = np.full(len(chunks), -1, dtype=np.int32), np.full(len(chunks), -1, dtype=np.int32)
    previous[behind[adjacent]] = before[adjacent]
    following[before[adjacent]] = behind[adjacent]
    characters = np.array([len(chunk.text) for chunk in chunks], dtype=np.int32)
    sections: dict[Hashable, int] = {}
    named = [(chunk.title, chunk.headings, chunk.language) for chunk in chunks]
    section = np.array([sections.setdefault(one, len(sections)) for one in named], dtype=np.int32)
    return Neighbours(document, members, starts, previous, following, characters, section)

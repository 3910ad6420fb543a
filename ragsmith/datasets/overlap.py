"""Estimate the overlap of two collections of documents from samples of their shingles of five words.

A shingle is sampled if its hash is small, so the same shingles are sampled from every collection, and a few hundred
numbers estimate the containment of one in another (FracMinHash, Irber et al. 2022,
https://doi.org/10.1101/2022.01.11.475838), even if documents are reordered, edited or missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache
from ragsmith.types import Document

RUN = 5
"""Words of a shingle."""

ONE_IN = 128
"""One of this many shingles is sampled."""

LEAST = 64
"""Least sampled shingles of a short collection: those of the smallest hashes."""

BITS = 48
"""Bits of a hash; those in a sample are below ``2**BITS / ONE_IN``."""

OVERLAPPING = 0.1
"""Containment from which collections overlap; unrelated collections of one subject have less than 0.01."""

BOUND = 2**BITS // ONE_IN
"""Upper bound of sampled hashes."""

FEWEST = 3
"""Least common shingles for an estimate."""

_WORD = re.compile(r"\w+")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@bounded_cache(8, key="the documents of a data set")
def sample_of(documents: tuple[Document, ...]) -> tuple[int, ...]:
    """Return the sample of a collection: sorted hashes of `BITS` bits, one for about `ONE_IN` words, or `LEAST`."""
    smallest = kept = np.zeros(0, dtype=np.uint64)
    numbers: dict[str, int] = {}
    for document in documents:
        words = _WORD.findall(document.text.lower())
        for word in words:
            if word not in numbers:
                numbers[word] = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
        runs = _runs(np.array([numbers[word] for word in words], dtype=np.uint64))
        kept = np.union1d(kept, runs[runs < BOUND])
        if len(kept) < LEAST:
            smallest = np.union1d(smallest, runs)[:LEAST]
    return tuple((kept if len(kept) >= LEAST else smallest).tolist())


def overlap(one: Sequence[int], other: Sequence[int]) -> float:
    """Return the estimated containment of the smaller of two collections in the other; 0 below `FEWEST` shingles.

    Only hashes up to which both samples are complete are compared, so an excerpt of fewer than about 600 words of a
    large collection may be missed.
    """
    if not one or not other:
        return 0.0
    bound = min(one[-1], other[-1])
    first, second = ({number for number in sample if number <= bound} for sample in (one, other))
    common = len(first & second)
    return common / min(len(first), len(second)) if common >= FEWEST else 0.0


def _runs(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hashes of all shingles."""
    count = len(words) - RUN + 1
    if count < 1:
        return np.zeros(0, dtype=np.uint64)
    hashes = np.zeros(count, dtype=np.uint64)
    for place in range(RUN):  # a polynomial of the words, in the ring of 64-bit integers
        hashes = hashes * _FACTOR + words[place : place + count]
    hashes ^= hashes >> np.uint64(29)
    hashes *= _FACTOR
    return np.asarray(hashes >> np.uint64(64 - BITS))

"""Estimate the overlap of two collections of documents from samples of their shingles of five words.

A shingle is sampled if its hash is small, so the same shingles are sampled from every collection, and a few hundred
numbers estimate the containment of one in another (FracMinHash, Irber et al. 2022,
https://doi.org/10.1101/2022.01.11.475838), even if documents are reordered, edited or missing.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache
from ragsmith.types import Document

SHINGLE_WORDS = 5
"""Number of words in a shingle."""

SAMPLING_RATIO = 128
"""One in this number of shingles is sampled."""

MIN_SAMPLED = 64
"""Minimum number of sampled shingles of a short collection: those with the smallest hashes."""

HASH_BITS = 48
"""Number of bits of a hash; sampled hashes are below `HASH_BOUND`."""

MIN_CONTAINMENT = 0.1
"""Minimum containment of overlapping collections; unrelated collections on one subject have less than 0.01."""

HASH_BOUND = 2**HASH_BITS // SAMPLING_RATIO
"""Exclusive upper bound of sampled hashes."""

MIN_COMMON = 3
"""Minimum number of common shingles for an estimate."""

_WORD = re.compile(r"\w+")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@bounded_cache(8, key="the documents of a data set")
def sample_shingles(documents: tuple[Document, ...]) -> tuple[int, ...]:
    """Return the sorted sampled hashes of a collection: about one in `SAMPLING_RATIO`, at least `MIN_SAMPLED`."""
    smallest = sampled = np.zeros(0, dtype=np.uint64)
    word_hashes: dict[str, int] = {}
    for document in documents:
        words = _WORD.findall(document.text.lower())
        for word in words:
            if word not in word_hashes:
                word_hashes[word] = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
        hashes = _hash_shingles(np.array([word_hashes[word] for word in words], dtype=np.uint64))
        sampled = np.union1d(sampled, hashes[hashes < HASH_BOUND])
        if len(sampled) < MIN_SAMPLED:
            smallest = np.union1d(smallest, hashes)[:MIN_SAMPLED]
    return tuple((sampled if len(sampled) >= MIN_SAMPLED else smallest).tolist())


def estimate_containment(first: Sequence[int], second: Sequence[int]) -> float:
    """Return the estimated containment of the smaller of two collections in the other; 0 below `MIN_COMMON` shingles.

    Only hashes up to which both samples are complete are compared, so an excerpt of fewer than about 600 words of a
    large collection may be missed.
    """
    if not first or not second:
        return 0.0
    bound = min(first[-1], second[-1])
    a, b = ({number for number in sample if number <= bound} for sample in (first, second))
    common = len(a & b)
    return common / min(len(a), len(b)) if common >= MIN_COMMON else 0.0


def _hash_shingles(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hashes of all shingles."""
    count = len(words) - SHINGLE_WORDS + 1
    if count < 1:
        return np.zeros(0, dtype=np.uint64)
    hashes = np.zeros(count, dtype=np.uint64)
    for position in range(SHINGLE_WORDS):  # a polynomial of the words, in the ring of 64-bit integers
        hashes = hashes * _FACTOR + words[position : position + count]
    hashes ^= hashes >> np.uint64(29)
    hashes *= _FACTOR
    return np.asarray(hashes >> np.uint64(64 - HASH_BITS))

"""Find near-duplicate texts by MinHash and banding (Broder 1997; Leskovec et al. 2020, chapter 3).

A text is the set of its shingles of five words. Candidate pairs come from bands of MinHash signatures, and their
Jaccard similarity is computed exactly.
"""

import re
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from ragsmith.grouping import group_values

SHINGLE_WORDS = 5
"""Number of words in a shingle."""

N_BANDS, N_ROWS = 32, 4
"""Bands of a signature, and hashes per band; pairs of similarity 0.4 are candidates with probability 0.5, pairs of
similarity 0.8 almost surely."""

MIN_SIMILARITY = 0.8
"""Minimum Jaccard similarity of near-duplicates."""

MAX_BUCKET_SIZE = 50
"""Maximum size of a bucket for comparing all pairs; in a larger one, usually filled-in forms of one template, only
consecutive texts are compared."""

_SEED = 5
_PRIME = np.uint64((1 << 31) - 1)
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+|january|february|march|april|may|june|july|august|september|october|november|december")
"""A word that is a number or the English name of a month, in lower case."""


@dataclass(frozen=True, slots=True)
class NearDuplicatePair:
    """Two document identifiers and the Jaccard similarity of their shingles."""

    first: str
    second: str
    similarity: float


def find_near_duplicates(texts: Mapping[str, str]) -> tuple[NearDuplicatePair, ...]:
    """Return near-duplicate pairs of ``texts``, the most similar first; the result is deterministic."""
    shingles = {name: _hash_shingles(text) for name, text in texts.items()}
    names = sorted(name for name, hashes in shingles.items() if hashes.size)
    buckets: dict[tuple[int, bytes], list[str]] = defaultdict(list)
    for name in names:
        signature = _minhash_signature(shingles[name])
        for band in range(N_BANDS):
            buckets[band, signature[band * N_ROWS : (band + 1) * N_ROWS].tobytes()].append(name)
    pairs: set[tuple[str, str]] = set()
    for bucket in buckets.values():
        pairs.update(combinations(bucket, 2) if len(bucket) <= MAX_BUCKET_SIZE else pairwise(bucket))
    compared = (NearDuplicatePair(a, b, _jaccard(shingles[a], shingles[b])) for a, b in pairs)
    similar = [pair for pair in compared if pair.similarity >= MIN_SIMILARITY]
    return tuple(sorted(similar, key=lambda pair: (-pair.similarity, pair.first, pair.second)))


def find_versions(texts: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of texts whose words are the same except for numbers and dates, such as old price lists.

    Texts with fewer than `SHINGLE_WORDS` distinct other words, such as tables of numbers, are in no group.
    """
    read = {name: _WORD.findall(text.lower()) for name, text in sorted(texts.items())}
    kept = {name: tuple(word for word in words if not _NUMBER.fullmatch(word)) for name, words in read.items()}
    groups = group_values((words, name) for name, words in kept.items() if len(set(words)) >= SHINGLE_WORDS)
    return tuple(tuple(group) for group in groups.values() if any(read[name] != read[group[0]] for name in group))


def _hash_shingles(text: str) -> NDArray[np.uint64]:
    """Return the distinct shingles as numbers below 2^31; a shorter text is one shingle."""
    words = np.array([zlib.crc32(word.encode()) for word in _WORD.findall(text.lower())], dtype=np.uint64)
    length = min(SHINGLE_WORDS, len(words))
    if not length:
        return words
    total = np.zeros(len(words) - length + 1, dtype=np.uint64)
    for at in range(length):
        total = (total * np.uint64(1_000_003) + words[at : at + total.size]) % _PRIME
    return np.unique(total)


def _minhash_signature(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the MinHash signature: the minimum of each hash function ``a x + b`` modulo a prime."""
    random = np.random.default_rng(_SEED)
    a = random.integers(1, int(_PRIME), N_BANDS * N_ROWS, dtype=np.uint64)
    b = random.integers(0, int(_PRIME), N_BANDS * N_ROWS, dtype=np.uint64)
    minima = np.full(N_BANDS * N_ROWS, np.iinfo(np.uint64).max, dtype=np.uint64)
    for start in range(0, hashes.size, 4096):
        part = hashes[start : start + 4096]
        minima = np.minimum(minima, ((part[:, None] * a + b) % _PRIME).min(axis=0))
    return minima


def _jaccard(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> float:
    common = np.intersect1d(first, second, assume_unique=True).size
    return float(common / (first.size + second.size - common))

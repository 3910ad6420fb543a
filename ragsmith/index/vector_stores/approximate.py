"""Approximate search by short codes of all vectors in memory; the best are scored again with vectors on the disk.

Product quantisation (Jégou, Douze & Schmid 2011) with 4 bits for every two dimensions, compared in registers (André,
Kermarrec & Le Scouarnec 2015), by FAISS (Douze et al. 2024): a code has a sixteenth of the bytes of a vector in single
precision. A query is compared with all codes; the entries of the nearest codes are scored with their vectors in double
precision, so that their scores and order are those of exact search. Other entries are missed.

Up to `MIN_DEPTH`, the number of keys scored again does not depend on ``k``, so that the best 20 entries are those of a
search for 60. For deeper searches this number is doubled as often as needed; an entry that would rank before those of a
shallower search remains missed, so that results do not depend on the depth.

Vectors and codes are an artifact (`artifact_cache`): written atomically, verified, mapped into memory by all processes
of a machine, and identified by the digest of the texts and the embedder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path
from threadpoolctl import threadpool_limits

from ragsmith.building import TaskProgress
from ragsmith.digest import fingerprint
from ragsmith.errors import UsageError
from ragsmith.extensions import Package
from ragsmith.gateway.vectors_and_scores import COLLECTION_TEXTS
from ragsmith.index.artifact_cache import (
    Arrays,
    Artifact,
    ArtifactCache,
    ArtifactKey,
    digest_texts,
    gather_rows,
    match_rows,
)
from ragsmith.index.screening import compute_tolerance, find_nearest, rank_entries
from ragsmith.index.vector_store import Admitted, Keys, MakeVectors, Positions, Scores, TextPositions, start_results
from ragsmith.models.local.weights import installed_version
from ragsmith.models.vector_stores import get_machine_type, vector_store

MIN_CODED_KEYS = 4_096
"""Minimum number of keys for which codes are used; fewer are searched exactly."""
MIN_CANDIDATES = 400
"""Minimum number of keys that are scored again; for 100,000 synthetic chunks, 100 would be enough."""
MIN_DEPTH = 60
"""Minimum number of entries searched for, whatever ``k`` is: as many as retrievers pool."""
CANDIDATES_PER_KEY = 4
"""Number of keys scored again for each key of the entries searched for."""

_BLOCK_ROWS = 2 * COLLECTION_TEXTS
_TRAINING_VECTORS = 1 << 14
"""Number of vectors, evenly spaced, that the codes are trained on."""
_SEED = 1
_SUBFOLDER = "ragsmith-vectors"
"""The subfolder with all files of the cache; other files of the folder are not touched."""
_MAX_BYTES = 100 << 30


class ApproximateVectors:
    """The vectors of ``keys`` in single precision, stored in ``folder``; ``make`` is called only for missing ones.

    All files are in the subfolder ``ragsmith-vectors``.
    """

    def __init__(self, keys: Keys, make: MakeVectors, folder: Path, coded_rows: int = MIN_CODED_KEYS) -> None:
        self._keys, self._coded_rows = keys, coded_rows
        self._folder = folder.absolute()
        self._cache = ArtifactCache(self._folder / _SUBFOLDER, _MAX_BYTES)
        faiss = f"{installed_version('faiss-cpu', 'large')} {get_machine_type()}"
        made_by = f"{faiss} {fingerprint(__name__, '_encode_vectors')} {coded_rows}"
        self._key = ArtifactKey("approximate", made_by, keys.name)
        arrays = self._load(make)
        self.vectors: NDArray[np.float32] = arrays["vectors"]
        """The vectors of all keys, shape ``(keys, dimensions)``, mapped read-only from a file."""
        self._codes: Any = _import_faiss().deserialize_index(np.array(arrays["codes"])) if "codes" in arrays else None

    def search(
        self, query_vectors: NDArray[np.floating], k: int, admitted: Admitted | None = None
    ) -> tuple[Positions, Scores]:
        """See `VectorStore.search`, except that entries may be missed."""
        positions, scores, rows = start_results(self._keys, query_vectors, k, admitted)
        for row in rows:
            positions[row], scores[row] = self._search_one(query_vectors[row], positions.shape[1], admitted)
        return positions, scores

    def _search_one(self, query: NDArray[np.floating], k: int, admitted: Admitted | None) -> tuple[Positions, Scores]:
        """Return the first ``k`` entries of one ranking, which does not depend on ``k``."""
        keys_per_entry = -(-self._keys.count // len(self._keys.starts))
        limit = max(MIN_CANDIDATES, CANDIDATES_PER_KEY * MIN_DEPTH * keys_per_entry)
        depth = limit // (CANDIDATES_PER_KEY * keys_per_entry)
        # about as many admitted keys are scored again as keys without a filter
        limit = limit if admitted is None else limit * len(admitted) // int(np.count_nonzero(admitted))
        if self._codes is None or limit >= self._keys.count:
            return self._search_exactly(query, k, admitted)
        found, best = self._search_codes(query, limit, depth, admitted)
        while len(found) < k:
            limit, depth = 2 * limit, 2 * depth
            is_last = limit >= self._keys.count
            more, cosines = (
                self._search_exactly(query, len(self._keys.starts), admitted)
                if is_last
                else self._search_codes(query, limit, depth, admitted)
            )
            new = ~np.isin(more, found)
            more, cosines = more[new], cosines[new]
            missed = np.zeros(len(more), dtype=np.bool_)
            if len(found):
                missed = (cosines > best[-1]) | ((cosines == best[-1]) & (more < found[-1]))
            order = np.flatnonzero(~missed)
            if is_last:  # a search for all entries returns all
                order = np.append(order, np.flatnonzero(missed))
            found, best = np.append(found, more[order]), np.append(best, cosines[order])
        return found[:k], best[:k]

    def _search_exactly(
        self, query: NDArray[np.floating], k: int, admitted: Admitted | None
    ) -> tuple[Positions, Scores]:
        [positions], [scores] = find_nearest(self._keys, query[None], self.vectors, k, admitted)
        return positions, scores

    def _search_codes(
        self, query: NDArray[np.floating], limit: int, k: int, admitted: Admitted | None
    ) -> tuple[Positions, Scores]:
        """Return the ``k`` best entries of the ``limit`` keys with the nearest codes; fewer if they have fewer."""
        _, [numbers] = self._codes.search(_pad_to_even(query[None].astype(np.float32)), limit)
        numbers = numbers[numbers >= 0]
        numbers = np.sort(numbers if admitted is None else numbers[admitted[self._find_owners(numbers)]])
        vectors = self.vectors[numbers]
        rough = vectors @ query.astype(np.float32)
        entries = self._find_owners(numbers)  # both ascend: keys are read in the order of the file
        entry_scores = np.maximum.reduceat(rough, np.flatnonzero(np.diff(entries, prepend=-1)))
        if len(entry_scores) > k:  # only keys that can be among the best are scored in double precision
            kth = np.partition(entry_scores, len(entry_scores) - k)[len(entry_scores) - k]
            near = rough >= kth - compute_tolerance(query)
            numbers, vectors = numbers[near], vectors[near]
        return rank_entries(self._keys, query, numbers, vectors, k)

    def _find_owners(self, numbers: Positions) -> Positions:
        """Return the entries of the keys ``numbers``, which are these themselves if each entry has one key."""
        if len(self._keys.starts) == self._keys.count:
            return numbers
        return np.searchsorted(self._keys.starts, numbers, side="right") - 1

    def _load(self, make: MakeVectors) -> Arrays:
        texts = self._texts_artifact(make) if isinstance(make, TextPositions) else None
        artifact = self._cache.read(self._key)
        if artifact is None:
            if isinstance(make, TextPositions) and texts is not None:
                vectors = self._reuse_vectors(make, texts)
            else:
                vectors = _make_all_vectors(self._keys.count, make)
            arrays: Arrays = {"vectors": vectors}
            if len(vectors) >= max(self._coded_rows, 16):  # a code of 4 bits has 16 values
                # codes are trained on all vectors, so that they do not depend on artifacts reused before
                arrays = {"vectors": vectors, "codes": _encode_vectors(vectors)}
            self._cache.write(self._key, arrays)
            artifact = self._cache.read(self._key)
        if texts is not None and artifact is not None and not self._cache.contains(texts.key):
            self._cache.write(texts.key, texts.arrays)
        return (
            arrays if artifact is None else artifact.arrays
        )  # writing failed, for example on a full disk, which issued a notice

    def _texts_artifact(self, make: TextPositions) -> Artifact:
        """Return the texts of the vectors as an artifact, by which later collections find vectors to reuse."""
        key = ArtifactKey("approximate texts", f"{make.embedder.id} {self._key.made_by}", self._keys.name)
        return self._cache.read(key) or Artifact(key, {"rows": digest_texts(make.texts)})

    def _reuse_vectors(self, make: TextPositions, texts: Artifact) -> NDArray[np.float32]:
        """Return the vectors of texts: those of earlier artifacts where they have the text, and new embeddings."""
        rows = texts.arrays["rows"]
        taken, missing = match_rows(rows, self._find_earlier(texts.key))
        if not taken:
            return _make_all_vectors(len(rows), make)
        if len(missing):
            new = [make.texts[place] for place in missing.tolist()]
            vectors = _make_all_vectors(len(new), lambda start, end: make.embedder.embed(new[start:end]))
            taken.append((vectors, missing, np.arange(len(new))))
        return gather_rows(len(rows), taken)

    def _find_earlier(self, texts: ArtifactKey) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.float32]]]:
        """Yield the texts of earlier artifacts with their vectors by the same embedder, the last used first."""
        for known in self._cache.iter_recent(texts):
            artifact = self._cache.read(replace(self._key, of=known.key.of))
            if artifact is not None:
                yield known.arrays["rows"], artifact.arrays["vectors"]

    def __reduce__(self) -> tuple[type[ApproximateVectors], tuple[Keys, MakeVectors, Path, int]]:
        make = (
            partial(_raise_removed, self._folder)
            if self._cache.contains(self._key)
            else partial(_slice_vectors, self.vectors)
        )
        return ApproximateVectors, (self._keys, make, self._folder, self._coded_rows)


def _slice_vectors(vectors: NDArray[np.float32], start: int, end: int) -> NDArray[np.float32]:
    return vectors[start:end]


def _raise_removed(folder: Path, start: int, end: int) -> NDArray[np.floating]:
    raise UsageError(
        f"{folder} does not contain the vectors {start} to {end} on this machine; name a folder that all machines "
        "share, which must be of one kind, or run the same command again if they were removed"
    )


def _make_all_vectors(count: int, make: MakeVectors) -> NDArray[np.float32]:
    """Return all vectors that ``make`` makes, in blocks of equal size, as embedders may cache small blocks."""
    vectors = np.zeros((0, 1), dtype=np.float32)
    building = TaskProgress("embedding texts", count)
    bounds = np.linspace(0, count, -(-count // _BLOCK_ROWS) + 1).astype(np.int64).tolist()
    for start, end in pairwise(bounds):
        with building.around():
            part = make(start, end)
        if not start:
            vectors = np.empty((count, part.shape[1]), dtype=np.float32)
        vectors[start:end] = part
        building.done(end)
    return vectors


def _encode_vectors(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the codes of ``vectors`` as serialised by FAISS; computed by one thread, so that they are reproducible."""
    faiss = _import_faiss()
    width = vectors.shape[1] + vectors.shape[1] % 2
    sampled = np.linspace(0, len(vectors) - 1, min(_TRAINING_VECTORS, len(vectors))).astype(np.int64)
    codes = faiss.IndexPQFastScan(width, width // 2, 4, faiss.METRIC_INNER_PRODUCT)
    codes.pq.cp.seed = _SEED
    with threadpool_limits(1):
        codes.train(_pad_to_even(vectors[sampled]))
        for start in range(0, len(vectors), _BLOCK_ROWS):
            codes.add(_pad_to_even(vectors[start : start + _BLOCK_ROWS]))
    written: NDArray[np.uint8] = faiss.serialize_index(codes)
    return written


def _pad_to_even(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Pad ``rows`` with a zero if their number of dimensions is odd."""
    return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, 1))) if rows.shape[1] % 2 else rows)


def _import_faiss() -> Any:
    import faiss  # noqa: PLC0415  0.2 s

    return faiss


@vector_store(
    "approximate",
    form="approximate or approximate:FOLDER",
    exact=False,
    paper="https://doi.org/10.1109/TPAMI.2010.57",
    package=Package("faiss", "faiss-cpu", "large"),
)
def approximate(address: str, keys: Keys, make: MakeVectors) -> ApproximateVectors:
    """Short codes in memory and vectors on the disk, for millions of keys; it may miss some."""
    folder = Path(address) if address else user_cache_path("ragsmith", appauthor=False) / "vectors"
    return ApproximateVectors(keys, make, folder)

"""Approximate search: short codes of all vectors in memory, the vectors on the disk; the best by codes scored again.

Product quantisation (Jégou, Douze & Schmid 2011) with 4 bits for every two dimensions, compared in registers (André,
Kermarrec & Le Scouarnec 2015), by FAISS (Douze et al. 2024): a code has a sixteenth of the bytes of a vector in single
precision. All codes are compared with a query; the entries of the best of them are scored with their vectors in double
precision, so their scores and order are those of exact search. One that is not among them is missed.

How many are scored again does not depend on how many are asked for, up to a depth, so that the best 20 are those of a
search for 60. Beyond it twice as many are, up to twice the depth, and so on; what would come before what a shallower
search found stays missed.

Vectors and codes are an artifact (`artifact_cache`): written whole or not at all, checked, mapped into memory by all
processes of a machine, and found again by the digest of texts and embedder.
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
    gathered,
    rows_of,
    taken_over,
)
from ragsmith.index.screening import best_entries, doubt, nearest
from ragsmith.index.vector_store import Keys, MakeVectors, Positions, Scores, TextPositions
from ragsmith.models.local.weights import installed_version
from ragsmith.models.vector_stores import kind_of_machine, vector_store

CODED_ROWS = 4_096
"""Fewer keys have no codes: all are compared, and nothing is missed."""
CANDIDATES = 400
"""How many keys are scored again at least. Of 100,000 made-up chunks, 100 would be enough."""
DEPTH = 60
"""So many entries are found at once, however few are asked for: as many as retrievers pool."""
FACTOR = 4
"""How many keys are scored again for each that such entries have."""

_BLOCK = 2 * COLLECTION_TEXTS
_TRAINED_ON = 1 << 14
"""Vectors, in even steps, of which the codes are learned."""
_SEED = 1
_OWN = "ragsmith-vectors"
"""The folder of the cache in the one that is named: what else is there stays as it is."""
_MOST_BYTES = 100 << 30


class ApproximateVectors:
    """The vectors of ``keys`` in ``folder``, in single precision; ``make`` is asked only if they are not there.

    All files are in a folder of their own in it, ``ragsmith-vectors``.
    """

    def __init__(self, keys: Keys, make: MakeVectors, folder: Path, coded_rows: int = CODED_ROWS) -> None:
        self._keys, self._coded_rows = keys, coded_rows
        self._folder = folder.absolute()
        self._shelf = ArtifactCache(self._folder / _OWN, _MOST_BYTES)
        faiss = f"{installed_version('faiss-cpu', 'large')} {kind_of_machine()}"
        made_by = f"{faiss} {fingerprint(__name__, '_coded')} {coded_rows}"
        self._address = ArtifactKey("approximate", made_by, keys.name)
        arrays = self._arrays(make)
        self.vectors: NDArray[np.float32] = arrays["vectors"]
        """Of all keys, shape ``(keys, dimensions)``, mapped from a file that cannot be written to."""
        self._codes: Any = _faiss().deserialize_index(np.array(arrays["codes"])) if "codes" in arrays else None

    def search(self, query_vectors: NDArray[np.floating], k: int) -> tuple[Positions, Scores]:
        """See `VectorStore.search`; but entries may be missed."""
        entries = len(self._keys.starts)
        shape = (len(query_vectors), min(k, entries))
        positions, scores = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        if 0 in shape:
            return positions, scores
        positions[:] = np.arange(shape[1])
        for row in np.flatnonzero(query_vectors.any(axis=1)).tolist():  # to a zero vector all are as near
            positions[row], scores[row] = self._nearest(query_vectors[row], shape[1])
        return positions, scores

    def _nearest(self, query: NDArray[np.floating], k: int) -> tuple[Positions, Scores]:
        """The first ``k`` of the same ranking whatever ``k`` is."""
        each = -(-self._keys.count // len(self._keys.starts))
        limit = max(CANDIDATES, FACTOR * DEPTH * each)
        if self._codes is None or limit >= self._keys.count:
            return self._exactly(query, k)
        depth = limit // (FACTOR * each)
        found, best = self._best(query, limit, depth)
        while len(found) < k:
            limit, depth = 2 * limit, 2 * depth
            is_last = limit >= self._keys.count
            more, cosines = self._exactly(query, len(self._keys.starts)) if is_last else self._best(query, limit, depth)
            new = ~np.isin(more, found)
            more, cosines = more[new], cosines[new]
            missed = np.zeros(len(more), dtype=np.bool_)
            if len(found):
                missed = (cosines > best[-1]) | ((cosines == best[-1]) & (more < found[-1]))
            order = np.flatnonzero(~missed)
            if is_last:  # a search for all entries finds all
                order = np.append(order, np.flatnonzero(missed))
            found, best = np.append(found, more[order]), np.append(best, cosines[order])
        return found[:k], best[:k]

    def _exactly(self, query: NDArray[np.floating], k: int) -> tuple[Positions, Scores]:
        [positions], [scores] = nearest(self._keys, query[None], self.vectors, k)
        return positions, scores

    def _best(self, query: NDArray[np.floating], limit: int, k: int) -> tuple[Positions, Scores]:
        """The ``k`` best entries of the ``limit`` keys whose codes are nearest; fewer where they are of fewer."""
        _, [numbers] = self._codes.search(_even(query[None].astype(np.float32)), limit)
        numbers = np.sort(numbers[numbers >= 0])  # a file is read in its order
        vectors = self.vectors[numbers]
        rough = vectors @ query.astype(np.float32)
        owners = np.searchsorted(self._keys.starts, numbers, side="right")
        of_entries = np.maximum.reduceat(rough, np.flatnonzero(np.diff(owners, prepend=-1)))
        if len(of_entries) > k:  # double precision is for those that may be among the best
            kth = np.partition(of_entries, len(of_entries) - k)[len(of_entries) - k]
            near = rough >= kth - doubt(query)
            numbers, vectors = numbers[near], vectors[near]
        return best_entries(self._keys, query, numbers, vectors, k)

    def _arrays(self, make: MakeVectors) -> Arrays:
        texts = self._texts(make) if isinstance(make, TextPositions) else None
        volume = self._shelf.read(self._address)
        if volume is None:
            if isinstance(make, TextPositions) and texts is not None:
                vectors = self._taken(make, texts)
            else:
                vectors = _filled(self._keys.count, make)
            arrays: Arrays = {"vectors": vectors}
            if len(vectors) >= max(self._coded_rows, 16):  # as many as a code of 4 bits tells apart
                # codes depend on all vectors, and are made anew of them: the same whatever was before
                arrays = {"vectors": vectors, "codes": _coded(vectors)}
            self._shelf.write(self._address, arrays)
            volume = self._shelf.read(self._address)
        if texts is not None and volume is not None and not self._shelf.holds(texts.key):
            self._shelf.write(texts.key, texts.arrays)
        return arrays if volume is None else volume.arrays  # the disk is full, say, as a notice has said

    def _texts(self, make: TextPositions) -> Artifact:
        """Of which texts the vectors are: kept with them, as a search alone does not say it."""
        address = ArtifactKey("approximate texts", f"{make.embedder.id} {self._address.made_by}", self._keys.name)
        return self._shelf.read(address) or Artifact(address, {"rows": rows_of(make.texts)})

    def _taken(self, make: TextPositions, texts: Artifact) -> NDArray[np.float32]:
        """Vectors of texts: from what there was earlier, the others embedded."""
        rows = texts.arrays["rows"]
        taken, missing = taken_over(rows, self._earlier(texts.key))
        if not taken:
            return _filled(len(rows), make)
        if len(missing):
            new = [make.texts[place] for place in missing.tolist()]
            vectors = _filled(len(new), lambda start, end: make.embedder.embed(new[start:end]))
            taken.append((vectors, missing, np.arange(len(new))))
        return gathered(len(rows), taken)

    def _earlier(self, texts: ArtifactKey) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.float32]]]:
        """Which texts there are, with their vectors by the same embedder, the last used first."""
        for known in self._shelf.recent(texts):
            volume = self._shelf.read(replace(self._address, of=known.key.of))
            if volume is not None:
                yield known.arrays["rows"], volume.arrays["vectors"]

    def __reduce__(self) -> tuple[type[ApproximateVectors], tuple[Keys, MakeVectors, Path, int]]:
        make = partial(_removed, self._folder) if self._shelf.holds(self._address) else partial(_part, self.vectors)
        return ApproximateVectors, (self._keys, make, self._folder, self._coded_rows)


def _part(vectors: NDArray[np.float32], start: int, end: int) -> NDArray[np.float32]:
    return vectors[start:end]


def _removed(folder: Path, start: int, end: int) -> NDArray[np.floating]:
    raise UsageError(
        f"{folder} has not these vectors here: {start} to {end} of them; name a folder that all machines share, which "
        "have to be of one kind, or run the same command again if they were removed"
    )


def _filled(count: int, make: MakeVectors) -> NDArray[np.float32]:
    """All vectors that ``make`` makes, in even blocks: a smaller last one might be cached by the embedder."""
    vectors = np.zeros((0, 1), dtype=np.float32)
    building = TaskProgress("embedding texts", count)
    bounds = np.linspace(0, count, -(-count // _BLOCK) + 1).astype(np.int64).tolist()
    for start, end in pairwise(bounds):
        with building.around():
            part = make(start, end)
        if not start:
            vectors = np.empty((count, part.shape[1]), dtype=np.float32)
        vectors[start:end] = part
        building.done(end)
    return vectors


def _coded(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Codes of ``vectors``, as FAISS writes them: the same every time, as one thread makes them."""
    faiss = _faiss()
    width = vectors.shape[1] + vectors.shape[1] % 2
    sampled = np.linspace(0, len(vectors) - 1, min(_TRAINED_ON, len(vectors))).astype(np.int64)
    codes = faiss.IndexPQFastScan(width, width // 2, 4, faiss.METRIC_INNER_PRODUCT)
    codes.pq.cp.seed = _SEED
    with threadpool_limits(1):
        codes.train(_even(vectors[sampled]))
        for start in range(0, len(vectors), _BLOCK):
            codes.add(_even(vectors[start : start + _BLOCK]))
    written: NDArray[np.uint8] = faiss.serialize_index(codes)
    return written


def _even(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """``rows`` with a zero at the end of each, if they have an odd number of dimensions."""
    return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, 1))) if rows.shape[1] % 2 else rows)


def _faiss() -> Any:
    import faiss  # noqa: PLC0415  0.2 s

    return faiss


def default_folder() -> Path:
    """The folder of vectors by default: in the folder for caches of this user."""
    return user_cache_path("ragsmith", appauthor=False) / "vectors"


@vector_store(
    "approximate",
    form="approximate or approximate:FOLDER",
    exact=False,
    paper="https://doi.org/10.1109/TPAMI.2010.57",
    package=Package("faiss", "faiss-cpu", "large"),
)
def approximate(address: str, keys: Keys, make: MakeVectors) -> ApproximateVectors:
    """Short codes in memory and vectors on the disk, for millions of keys; it may miss some."""
    return ApproximateVectors(keys, make, Path(address) if address else default_folder())

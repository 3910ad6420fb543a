"""Libraries for approximate search, compared on one made-up collection, as a Markdown table.

    python benchmarks/bench_approximate.py [SIZE] [--questions N] [--only NAME ...] [--seed N]

SIZE chunks (100,000 unless another is given) of `growing_corpus.py` are embedded by the embedded embedder, and N
questions (1,000), each in words of one chunk. What every library finds is scored again in double precision, as ragsmith
does it. The row of each is the library with the least work for a query at which it has 0.99 of the ten best of exact
search, or the most that was tried. CPU seconds and milliseconds are of one thread; memory is what the process has more
than before, after a search of all questions, and the vectors where the library does not keep them itself; "again" is
how long it takes until the index lies open in another process; and what is added are 1 % of the vectors, to an index of
the others, which is part of building it. "4-bit codes, 2 dimensions each" is how `ragsmith/index/approximate.py` does
it. Libraries that are not installed are left out: pip install faiss-cpu usearch hnswlib
"""

# ruff: noqa: PLC0415  each library is imported by those who have it

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from bench_growth import EMBEDDER
from growing_corpus import SEED, asked, growing_corpus
from large_corpus import table

from ragsmith.index.rescoring import best_entries
from ragsmith.index.screening import nearest
from ragsmith.index.vector_store import Keys

BEST = 10
ENOUGH = 0.99
EFFORTS = (64, 128, 256, 512, 1024, 2048)
"""How much of its graph an HNSW index looks at for a query."""
CELLS = (64, 128, 256, 512, 768)
"""Of an inverted file with ``4 sqrt(n)`` cells, those that are searched."""
CANDIDATES = (50, 100, 200, 400, 800)
"""Best by short codes that are scored again."""

Search = Callable[[Any], Any]


class Faiss:
    """An index that a FAISS factory makes."""

    module = "faiss"

    def __init__(self, spec: str, efforts: tuple[int, ...], size: int) -> None:
        self.spec, self.efforts = spec.format(cells=4 * int(size**0.5)), efforts

    def build(self, vectors: Any) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.index = faiss.index_factory(vectors.shape[1], self.spec, faiss.METRIC_INNER_PRODUCT)
        if "IVF" in self.spec:
            self.index.cp.seed = 1
        self.index.train(vectors[:: max(1, len(vectors) // 50_000)])
        self.index.add(vectors)

    def add(self, vectors: Any) -> None:
        self.index.add(vectors)

    def save(self, path: str) -> None:
        import faiss

        faiss.write_index(self.index, path)

    def open(self, path: str) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        mapped = faiss.IO_FLAG_MMAP if "IVF" in self.spec else 0
        self.index = faiss.read_index(path, mapped)

    def at(self, effort: int) -> Search:
        if "IVF" in self.spec:
            self.index.nprobe = effort
        elif "HNSW" in self.spec:
            self.index.hnsw.efSearch = effort
        n = effort if "fs" in self.spec or "SQ" in self.spec else BEST
        return lambda query: self.index.search(query[None], n)[1][0]


class Usearch:
    """usearch's HNSW, as it comes: memory-mapped where it is opened again."""

    module, efforts = "usearch", EFFORTS

    def build(self, vectors: Any) -> None:
        from usearch.index import Index

        self.index = Index(ndim=vectors.shape[1], metric="ip", dtype="f32")
        self.add(vectors)

    def add(self, vectors: Any) -> None:
        first = len(self.index)
        self.index.add(np.arange(first, first + len(vectors)), vectors, threads=1)

    def save(self, path: str) -> None:
        self.index.save(path)

    def open(self, path: str) -> None:
        from usearch.index import Index

        self.index = Index.restore(path, view=True)

    def at(self, effort: int) -> Search:
        self.index.expansion_search = effort
        return lambda query: np.asarray(self.index.search(query, BEST, threads=1).keys).astype(np.int64)


class Hnswlib:
    """hnswlib with its own M and 200 for the construction."""

    module, efforts = "hnswlib", EFFORTS

    def __init__(self, size: int) -> None:
        self.size = size

    def build(self, vectors: Any) -> None:
        self.open(None)
        self.index.init_index(max_elements=self.size, ef_construction=200, M=16, random_seed=1)
        self.add(vectors)

    def add(self, vectors: Any) -> None:
        first = self.index.get_current_count()
        self.index.add_items(vectors, np.arange(first, first + len(vectors)), num_threads=1)

    def save(self, path: str) -> None:
        self.index.save_index(path)

    def open(self, path: str | None) -> None:
        import hnswlib

        self.index = hnswlib.Index(space="ip", dim=EMBEDDER.embed(["a"]).shape[1])
        if path:
            self.index.load_index(path)

    def at(self, effort: int) -> Search:
        self.index.set_ef(effort)
        return lambda query: self.index.knn_query(query, BEST, num_threads=1)[0][0]


def libraries(size: int) -> dict[str, Any]:
    """What is compared, by name."""
    return {
        "usearch HNSW": Usearch(),
        "hnswlib HNSW": Hnswlib(size),
        "faiss HNSW": Faiss("HNSW32,Flat", EFFORTS, size),
        "faiss inverted file": Faiss("IVF{cells},Flat", CELLS, size),
        "faiss 8-bit codes": Faiss("SQ8", CANDIDATES, size),
        "faiss 4-bit codes, 2 dimensions each": Faiss("PQ128x4fs", CANDIDATES, size),
        "faiss 4-bit codes, 4 dimensions each": Faiss("PQ64x4fs", CANDIDATES, size),
    }


def measured(name: str, folder: Path) -> dict[str, Any]:
    """One library, in this process."""
    vectors, queries, exact = (np.load(folder / f"{part}.npy") for part in ("vectors", "queries", "exact"))
    library = libraries(len(vectors))[name]
    before = _memory()
    less = len(vectors) - len(vectors) // 100
    started = time.process_time()
    library.build(vectors[:less])
    built = time.process_time()
    library.add(vectors[less:])
    ended = time.process_time()
    found: dict[str, Any] = {"build": ended - started, "add": ended - built}
    library.save(str(folder / "index"))
    found["file"] = (folder / "index").stat().st_size / 2**20
    for effort in library.efforts:
        search, keys = library.at(effort), Keys("all", np.arange(len(vectors)), len(vectors))
        times, hits = [], 0
        for query, best in zip(queries, exact, strict=True):
            begun = time.perf_counter()
            numbers = np.sort(search(query))
            numbers = numbers[numbers >= 0]
            entries, _ = best_entries(keys, query, numbers, vectors[numbers], BEST)
            times.append(time.perf_counter() - begun)
            hits += len({*entries.tolist()} & {*best.tolist()})
        found |= {"effort": effort, "recall": hits / exact.size, "ms": median(times) * 1000}
        if found["recall"] >= ENOUGH:
            break
    found["memory"] = _memory() - before
    if "codes" in name:
        found["memory"] += vectors.nbytes / 2**20  # which only ragsmith keeps, and others keep themselves
    return found


def opened(name: str, folder: Path) -> dict[str, Any]:
    """How long it takes, in milliseconds, until the index lies open."""
    library = libraries(len(np.load(folder / "exact.npy")))[name]
    __import__(library.module)
    started = time.perf_counter()
    library.open(str(folder / "index"))
    return {"open": (time.perf_counter() - started) * 1000}


def _memory() -> float:
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def prepare(folder: Path, size: int, count: int, seed: int) -> None:
    """Vectors, queries and what exact search finds."""
    chunks, _ = growing_corpus(size, seed)
    rng = random.Random(seed + 1)
    vectors = EMBEDDER.embed([chunk.text for chunk in chunks])
    queries = EMBEDDER.embed([asked(rng, rng.choice(chunks).text) for _ in range(count)])
    keys = Keys("all", np.arange(size), size)
    exact, _ = nearest(keys, queries, vectors, BEST)
    for name, array in {"vectors": vectors, "queries": queries, "exact": exact}.items():
        np.save(folder / f"{name}.npy", array)


def rows(folder: Path, names: list[str], size: int) -> Iterator[list[str]]:
    """A row of the table for each library."""
    for name in names:
        if find_spec(libraries(size)[name].module) is None:
            print(f"{name}: not installed", file=sys.stderr)
            continue
        found: dict[str, Any] = {}
        for part in ("measure", "open"):
            command = [sys.executable, __file__, "--part", part, "--folder", str(folder), "--only", name]
            env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            found |= json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True).stdout)
        print(name, found, file=sys.stderr)
        yield [
            name,
            f"{found['recall']:.4f}",
            f"{found['effort']:,}",
            f"{found['ms']:.2f}",
            f"{found['build']:.1f}",
            f"{found['add']:.2f}",
            f"{found['memory']:,.0f}",
            f"{found['file']:,.0f}",
            f"{found['open']:.1f}",
        ]


def main() -> None:
    """Measure, and print the table; or, in a process of its own, one library as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", type=int, nargs="?", default=100_000, metavar="SIZE", help="chunks")
    parser.add_argument("--questions", type=int, default=1_000, help="how many")
    parser.add_argument("--only", nargs="+", choices=libraries(1), default=list(libraries(1)), metavar="NAME")
    parser.add_argument("--seed", type=int, default=SEED, help="of the corpus")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        print(json.dumps({"measure": measured, "open": opened}[given.part](given.only[0], given.folder)))
        return
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), given.size, given.questions, given.seed)
        head = ["library", "recall@10", "effort", "ms a query", "build, s", "add 1 %, s", "memory, MiB", "file, MiB"]
        print(table([*head, "again, ms"], list(rows(Path(name), given.only, given.size))))


if __name__ == "__main__":
    main()

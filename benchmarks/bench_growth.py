"""How the cost of an index and of a data set grows with its size.

    python benchmarks/bench_growth.py [SIZE ...] [--only PART ...] [--limit SECONDS] [--seed N] [--figures FILE]
    python benchmarks/bench_growth.py --documents [SIZE ...]
    python benchmarks/bench_growth.py --searches questions|pipelines|workers [SIZE ...] [--memory LIMIT]

The first counts chunks (1,000, 10,000 and 100,000 unless others are given): CPU seconds to build all that a retriever
searches, how many of them are its own and not for what hybrid search builds as well, and milliseconds of one query: the
median of 20, each the best of five, after a first one, which counts as building. The second counts documents (10 to
10,000) of about 40 chunks and two questions. Each figure comes from a process of its own, whose peak of memory includes
Python, the models and the corpus. A part that takes more than ``--limit`` CPU seconds is ended, and its figure says so.
All are printed and kept in docs/growth.json (see growth_figures.py).

``--searches`` measures whole searches, by ``ragsmith search --quiet`` in a folder of its own with nothing known: CPU
seconds of the command and its children, seconds of the clock, and the peaks of the parent and of the largest worker
(VmHWM). Questions are drawn about sentences of `law` (see watching.py), two thirds of them for the search: the default
search, and 60 random pipelines that all answer every question. Pipelines are of the default space and random, for
retrieval alone, on 12 search questions, in one process. Workers are those of the default search on `law` as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

from growing_corpus import SEED, growing_corpus, growing_documents, growing_examples
from growth_figures import ROOT, asked_for, keep
from large_corpus import general_weights, timed
from watching import MIB, make_questions, watched

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import load_dataset, make_dataset, write_dataset
from ragsmith.datasets.relevance import ChunkMap
from ragsmith.datasets.splits import count_leaks, make_folds, split
from ragsmith.index.entity_graph import build_graph
from ragsmith.index.index import Index
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.pre_embedding.cross_document import cross_document
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.techniques.pre_embedding.raptor import raptor
from ragsmith.techniques.retrieval.bm25 import bm25
from ragsmith.techniques.retrieval.complete_hybrid import complete_hybrid
from ragsmith.techniques.retrieval.graph import graph
from ragsmith.techniques.retrieval.graph_ppr import graph_ppr
from ragsmith.techniques.retrieval.hybrid import hybrid
from ragsmith.techniques.retrieval.listnet import listnet
from ragsmith.techniques.retrieval.nest import nest
from ragsmith.techniques.retrieval.vector import vector
from ragsmith.types import Chunks, Dataset, Rankings

Search = Callable[[tuple[str, ...]], Rankings]
Steps = Iterator[Search | None]
"""What a part builds: up to the first yield what it shares with hybrid search, up to the second what is its own."""

EMBEDDER = WordLlamaEmbedder()
SIZES = (1_000, 10_000, 100_000)
DOCUMENTS = (10, 100, 1_000, 10_000)
LIMIT = 300


def by_words(chunks: Chunks) -> Steps:
    yield None
    index = Index(none(chunks))
    yield lambda queries: bm25(index, queries)


def by_vectors(chunks: Chunks) -> Steps:
    yield None
    index = Index(none(chunks))
    vector(index, (), embedder=EMBEDDER)
    yield lambda queries: vector(index, queries, embedder=EMBEDDER)


def by_both(chunks: Chunks) -> Steps:
    index = _searched(chunks)
    yield None
    yield lambda queries: hybrid(index, queries, embedder=EMBEDDER)


def by_signals(chunks: Chunks) -> Steps:
    index = _searched(chunks)
    yield None
    yield partial(listnet, index, embedder=EMBEDDER, fitted=general_weights("retrieval.listnet"))


def by_scopes(chunks: Chunks) -> Steps:
    index = _searched(chunks)
    yield None
    yield lambda queries: nest(index, queries, embedder=EMBEDDER)


def by_chunk_graph(chunks: Chunks) -> Steps:
    index = _searched(chunks)
    yield None
    yield lambda queries: graph_ppr(index, queries, embedder=EMBEDDER)


def by_entities(chunks: Chunks) -> Steps:
    index = Index(none(chunks))
    yield None
    entities = build_graph(chunks, ExtractiveModel([chunk.text for chunk in chunks], EMBEDDER))
    yield lambda queries: graph(index, queries, entity_graph=entities)


def by_all(chunks: Chunks) -> Steps:
    index = _searched(chunks)
    yield None
    entities = build_graph(chunks, ExtractiveModel([chunk.text for chunk in chunks], EMBEDDER))
    yield lambda queries: complete_hybrid(index, queries, embedder=EMBEDDER, entity_graph=entities)


def with_trees(chunks: Chunks) -> Steps:
    model = ExtractiveModel([chunk.text for chunk in chunks], EMBEDDER)
    yield None
    index = Index(raptor(chunks, language_model=model, embedder=EMBEDDER))
    yield lambda queries: bm25(index, queries)


def with_tier(chunks: Chunks) -> Steps:
    model = ExtractiveModel([chunk.text for chunk in chunks], EMBEDDER)
    yield None
    index = Index(cross_document(chunks, language_model=model, embedder=EMBEDDER))
    yield lambda queries: bm25(index, queries)


PARTS = {
    "bm25": by_words,
    "vector": by_vectors,
    "hybrid": by_both,
    "listnet": by_signals,
    "nest": by_scopes,
    "graph_ppr": by_chunk_graph,
    "graph": by_entities,
    "complete_hybrid": by_all,
    "bm25 on raptor": with_trees,
    "bm25 on cross_document": with_tier,
}


def _searched(chunks: Chunks) -> Index:
    """An index that hybrid search has used."""
    index = Index(none(chunks))
    hybrid(index, ("a first question",), embedder=EMBEDDER)
    return index


def measured(part: str, size: int, limit: int, seed: int) -> dict[str, float]:
    """CPU seconds, milliseconds a query and MiB of one part."""
    chunks, questions = growing_corpus(size, seed)
    EMBEDDER.embed(["its files are read"])
    _limit(limit)
    steps = PARTS[part](chunks)
    started = time.process_time()
    next(steps)
    shared = time.process_time()
    search = next(steps)
    assert search is not None
    search(questions[:1])
    ended = time.process_time()
    found = {"seconds": ended - started, "own": ended - shared}
    _limit(limit)
    times = timed({part: search}, questions)[part]
    return found | {"ms": median(times), "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def documents_measured(count: int, limit: int, seed: int) -> dict[str, float]:
    """CPU seconds of what is done to a data set before a search."""
    documents = list(growing_documents(count, seed))
    dataset = make_dataset({"name": "growing"}, documents, growing_examples(documents, seed))
    found: dict[str, float] = {}

    def step(name: str, work: Callable[[], object]) -> None:
        _limit(limit)
        started = time.process_time()
        work()
        found[name] = time.process_time() - started

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "growing"
        step("write and check", lambda: write_dataset(dataset, place))
        step("load", lambda: load_dataset(place))
    step("cut into chunks", lambda: chunk_documents(dataset.documents))
    chunks = chunk_documents(dataset.documents)
    step("find the relevant chunks", lambda: _relevances(dataset, chunks))
    divided = split(dataset)
    step("split", lambda: split(dataset))
    step("count leaks", lambda: count_leaks(dataset, divided))
    step("make folds", lambda: make_folds(dataset, divided.search, 5))
    return found | {"chunks": len(chunks), "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _relevances(dataset: Dataset, chunks: Chunks) -> list[object]:
    where = ChunkMap(chunks)
    return [where.relevance(example.evidence) for example in dataset.examples]


def _limit(seconds: int) -> None:
    """End this process after so many more CPU seconds."""
    soft = int(time.process_time()) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def in_a_process(*arguments: object) -> dict[str, float]:
    """What this script measures when it is called with ``arguments``; nothing if it was ended."""
    command = [sys.executable, __file__, *map(str, arguments)]
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in {0, -24}:  # SIGXCPU
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")
    return json.loads(done.stdout) if done.returncode == 0 else {}


RANDOM = ("--strategy", "random", "--no-race")
SEARCHES = {"default search": (), "60 pipelines": (*RANDOM, "--max-evaluations", "60")}
ALONE = (*RANDOM, "--objective", "retrieval", "--no-probes", "--no-warm-start", "--no-simplify")
FEW = 18
"""Questions on which pipelines are tried: 12 of them for the search."""
SEARCHED = {"questions": (100, 300, 1_000, 3_000), "pipelines": (10, 100, 1_000, 10_000), "workers": (1, 2, 3, 4)}


def searched(data: str, search: tuple[str, ...], scratch: Path) -> dict[str, float]:
    """What a search of ``data`` takes."""
    folder = Path(tempfile.mkdtemp(dir=scratch)) / "search"
    env = {"RAGSMITH_LEDGER": str(folder / "looks.sqlite"), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    ran = watched(ROOT, ["search", "--dataset", data, "--quiet", *search], folder, env)
    if ran.code:
        sys.exit(ran.said)
    found = {"seconds": ran.cpu, "wall": ran.wall, "parent MiB": ran.parent["VmHWM"] / MIB}
    if ran.workers:
        found["worker MiB"] = max(sizes.get("VmHWM", 0) for sizes in ran.workers) / MIB
    proposed = re.search(r"in\s+addition\s+to\s+the\s+([\d,]+)\s+that\s+the\s+search\s+proposed", ran.said)
    return found | ({"proposed": int(proposed[1].replace(",", ""))} if proposed else {})


def grow_searches(of: str, sizes: list[int], memory: str, figures: Path) -> None:
    """Measure searches of more and more questions, pipelines or workers, and keep figures."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for size in sizes or SEARCHED[of]:
            if of == "questions":
                data = str(make_questions(scratch, size))
                for part, arguments in SEARCHES.items():
                    search = (*arguments, "--workers", "2", "--memory", memory)
                    keep(of, part, size, searched(data, search, scratch), figures)
            elif of == "pipelines":
                data = str(scratch / f"law{FEW}")
                if not Path(data).exists():
                    make_questions(scratch, FEW)
                search = (*ALONE, "--max-evaluations", str(size), "--workers", "1")
                keep(of, "retrieval alone", size, searched(data, search, scratch), figures)
            else:
                keep(of, "default search", size, searched("law", ("--workers", str(size)), scratch), figures)


def main() -> None:
    """Measure, and keep figures; or, in a process of its own, print those of one part as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="*", metavar="SIZE", help="chunks, or documents")
    parser.add_argument("--documents", action="store_true", help="grow documents")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help="these retrievers"
    )
    parser.add_argument("--limit", type=int, default=LIMIT, help="CPU seconds of each part")
    parser.add_argument("--seed", type=int, default=SEED, help="of the corpus")
    parser.add_argument("--searches", choices=SEARCHED, help="grow searches, by what")
    parser.add_argument("--memory", default="2G", help="limit of a search of many questions")
    asked_for(parser)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.searches:
        grow_searches(given.searches, given.sizes, given.memory, given.figures)
    elif given.part == "documents":
        print(json.dumps(documents_measured(given.sizes[0], given.limit, given.seed)))
    elif given.part:
        print(json.dumps(measured(given.part, given.sizes[0], given.limit, given.seed)))
    else:
        of = "documents" if given.documents else "chunks"
        sizes = given.sizes or (DOCUMENTS if given.documents else SIZES)
        for part, size in product([of] if given.documents else given.only, sizes):
            found = in_a_process("--part", part, "--limit", given.limit, "--seed", given.seed, size)
            keep(of, part, size, found or {"limit": given.limit}, given.figures)


if __name__ == "__main__":
    main()

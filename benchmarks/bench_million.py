"""A collection of a million chunks: what it costs to build what retrieval searches, and to search it, as Markdown.

    python benchmarks/bench_million.py [SIZE] [--needles N] [--questions N] [--workers N] [--folder DIR] [--seed N]
    python benchmarks/bench_million.py --search [SIZE] [--questions N] [--pipelines N] [--folder DIR] [ARGUMENTS ...]

SIZE chunks (1,000,000 unless another is given) are those of `growing_corpus.py`. Into N of them (100) a needle is
planted: a sentence about a name that occurs nowhere else, which a question asks for. Beside those, N questions (100)
are in words of other chunks. One process builds, in this order, the index, BM25, approximate search (vectors in DIR, or
in a temporary folder; it embeds all chunks), exact search (whose vectors are read from there), and what NEST searches;
hybrid search has nothing of its own. Seconds are of the clock and CPU seconds of all threads; milliseconds of the clock
for one question alone, embedding included. Memory is what the process has at that moment and the most that it had so
far, of which corpus, models and Python are a part. Then that many workers (4), copies of the process, search at once;
the last line but one has what all processes have together, shared pages counted once. Recall is that of approximate
search: of the ten best of exact search, those it finds.

``--search`` writes documents of about so many chunks and runs the command instead: N random pipelines (30) of a space
without what asks a language model about every chunk, and without graphs, which are refused beyond 300,000 chunks
(docs/indexes.md), answer all questions to search with the embedded models, and the best one the others. Seconds are of
the clock from the start of the command to its end; memory of all processes is sampled twice a second (see watching.py).
With --folder the data set is made there, and used again. Further arguments are those of `ragsmith search`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from bench_growth import EMBEDDER
from growing_corpus import SEED, SIZE, asked, growing_corpus, growing_documents, growing_examples
from growth_figures import ROOT
from large_corpus import general_weights, table
from watching import peaks_shown, watched

from ragsmith.datasets.dataset import make_dataset, write_dataset
from ragsmith.gateway.memory import release_free_memory
from ragsmith.index.index import Index
from ragsmith.index.stores import open_vector_store
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.techniques.retrieval.bm25 import bm25
from ragsmith.techniques.retrieval.hybrid import hybrid
from ragsmith.techniques.retrieval.listnet import listnet
from ragsmith.techniques.retrieval.nest import nest
from ragsmith.techniques.retrieval.vector import vector
from ragsmith.types import Chunk, Rankings

BEST = 10
Search = Callable[[tuple[str, ...]], Rankings]


def needle(number: int, rng: random.Random) -> tuple[str, str]:
    """A sentence that stands nowhere else, and the question that asks for it."""
    name = "".join(rng.choices("bcdfgklmnprstvz", k=1) + rng.choices(["aro", "eni", "uvo", "izu"], k=3)).capitalize()
    sentence = f"The lantern of {name} {number} was mended by the glazier in the winter of the third flood."
    return sentence, f"Who mended the lantern of {name} {number}, and when?"


def planted(size: int, needles: int, count: int, seed: int) -> tuple[tuple[Chunk, ...], dict[str, str]]:
    """Chunks, and questions, each with the id of the chunk that it was made of."""
    chunks = list(growing_corpus(size, seed)[0])
    rng = random.Random(seed + 1)
    places = rng.sample(range(size), needles + count)
    questions: dict[str, str] = {}
    for number, place in enumerate(places[:needles]):
        sentence, question = needle(number, rng)
        chunks[place] = replace(chunks[place], text=f"{chunks[place].text} {sentence}")
        questions[question] = chunks[place].id
    for place in places[needles:]:
        questions[asked(rng, chunks[place].text)] = chunks[place].id
    return tuple(chunks), questions


def of_all(name: str) -> float:
    """MiB that this process has: ``VmRSS`` or ``VmHWM``."""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(name))


def pss(process: int | str) -> float:
    """MiB of a process, pages that several share in equal parts."""
    with Path(f"/proc/{process}/smaps_rollup").open() as found:
        return next(int(line.split()[1]) / 1024 for line in found if line.startswith("Pss:"))


class Embedded:
    """The embedder, which has the ``vectors`` of all chunks from the files of approximate search."""

    id = EMBEDDER.id

    def __init__(self, vectors: Any) -> None:
        self._vectors = vectors

    def embed(self, texts: Any) -> Any:
        """See `Embedder.embed`."""
        known = self._vectors
        if known is None or len(texts) != len(known):
            return EMBEDDER.embed(texts)
        self._vectors = None  # nothing stays mapped
        return np.array(known)


class Table:
    """The rows of what was measured, printed as they come, too."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.found: dict[str, list[list[str]]] = {}

    @contextmanager
    def building(self, name: str) -> Iterator[None]:
        clock, busy = time.perf_counter(), time.process_time()
        yield
        clock, busy = time.perf_counter() - clock, time.process_time() - busy
        release_free_memory()
        row = [
            name,
            f"{clock:.1f}",
            f"{busy:.1f}",
            "",
            "",
            "",
            "",
            f"{of_all('VmRSS'):,.0f}",
            f"{of_all('VmHWM'):,.0f}",
        ]
        self.rows.append(row)
        print(row, file=sys.stderr)

    def searching(self, name: str, search: Search, questions: dict[str, str], needles: int) -> None:
        times: list[float] = []
        found: list[list[str]] = []
        for question in questions:
            begun = time.perf_counter()
            [hits] = search((question,))
            times.append((time.perf_counter() - begun) * 1000)
            found.append([hit.chunk.id for hit in hits[:BEST]])
        self.found[name] = found
        there = [gold in best for gold, best in zip(questions.values(), found, strict=True)]
        cells = [f"{np.percentile(times, 50):.1f}", f"{np.percentile(times, 99):.1f}"]
        cells += [f"{np.mean(there[:needles]):.2f}", f"{np.mean(there[needles:]):.2f}"]
        self.rows[-1][3:7] = cells
        print(name, cells, f"{of_all('VmRSS'):,.0f}", f"{of_all('VmHWM'):,.0f}", file=sys.stderr)


def with_workers(searches: dict[str, Search], questions: list[str], workers: int) -> float:
    """Most MiB that this process and its copies have together, while the copies search."""
    started = []
    for number in range(workers):
        process = os.fork()
        if not process:
            try:
                for search in searches.values():
                    for question in questions[number::workers]:
                        search((f"{question} ",))  # one that no index remembers
            finally:
                os._exit(0)
        started.append(process)
    most, running = 0.0, set(started)
    while running:
        total = pss("self")
        for process in tuple(running):
            if os.waitpid(process, os.WNOHANG)[0]:
                running.discard(process)
            else:
                try:
                    total += pss(process)
                except (OSError, StopIteration):  # it ends this moment
                    total += 0
        most = max(most, total)
        time.sleep(0.2)
    return most


CHUNKS_OF_A_DOCUMENT = 40
SPACE = {
    "name": "million",
    "families": {
        "pre_embedding": ["none"],
        "query_expansion": ["none", "multi_query", "hyde", "rag_fusion"],
        "retrieval": ["bm25", "vector", "hybrid", "nest"],
        "reranking": ["none", "cross_encoder", "hybrid"],
        "passage_filter": ["top_k", "similarity_threshold"],
        "passage_augment": ["none", "prev_next", "relevant_segments"],
        "passage_compress": ["none", "tree_summarize"],
        "prompt_maker": ["listing", "long_context_reorder"],
        "post_generation": ["none", "reflection_revising"],
    },
}
ARGUMENTS = (
    "--strategy",
    "random",
    "--no-race",
    "--no-probes",
    "--no-warm-start",
    "--no-simplify",
    "--workers",
    "2",
)


def make_documents(place: Path, chunks: int, questions: int) -> Path:
    """A data set of about so many chunks."""
    documents = list(growing_documents(chunks // CHUNKS_OF_A_DOCUMENT))
    asked = growing_examples(random.Random(SEED).sample(documents, questions // 2))
    write_dataset(make_dataset({"name": place.name}, documents, asked), place)
    return place


def search_all(given: argparse.Namespace, more: list[str]) -> int:
    """Make the collection, search it by the command, and print what that took; the exit code of the command."""
    with tempfile.TemporaryDirectory() as scratch:
        data = (given.folder or Path(scratch, "data")) / f"million{given.size}"
        if not data.exists():
            data.parent.mkdir(parents=True, exist_ok=True)
            began = time.perf_counter()
            make_documents(data, given.size, given.questions)
            print(f"made in {time.perf_counter() - began:,.0f} s", flush=True)
        space = Path(scratch, "space.yaml")
        space.write_text(yaml.safe_dump(SPACE), encoding="utf-8")
        wanted = ("--space", str(space), "--max-evaluations", str(given.pipelines), "--chunk-size", str(SIZE))
        ran = watched(ROOT, ["search", "--dataset", str(data), *wanted, *ARGUMENTS, *more], Path(scratch, "search"))
    print(f"exit {ran.code}, {ran.wall:,.0f} s, {ran.cpu:,.0f} CPU s")
    peaks_shown(ran)
    print(ran.said)
    return ran.code


def measure_retrievers(given: argparse.Namespace) -> None:
    """Build, search, and print a table."""
    shown, searches = Table(), dict[str, Search]()
    with tempfile.TemporaryDirectory() as name:
        with shown.building("corpus"):
            chunks, questions = planted(given.size, given.needles, given.questions, given.seed)
        measure = partial(shown.searching, questions=questions, needles=given.needles)
        with shown.building("index"):
            index = Index(none(chunks))
        with shown.building("bm25"):
            bm25(index, ("a first question",))
        searches["bm25"] = partial(bm25, index)
        measure("bm25", searches["bm25"])
        folder = given.folder or Path(name)
        with shown.building("approximate"):
            near = Index(index.entries, partial(open_vector_store, f"approximate:{folder}"))
            vector(near, ("a first question",), embedder=EMBEDDER)
        measure("approximate", partial(vector, near, embedder=EMBEDDER))
        embedder = Embedded(near.vector_store(EMBEDDER).vectors)  # type: ignore[attr-defined]
        del near
        release_free_memory()
        with shown.building("vector"):
            vector(index, ("a first question",), embedder=embedder)
        searches["vector"] = partial(vector, index, embedder=embedder)
        measure("vector", searches["vector"])
        with shown.building("hybrid"):
            hybrid(index, ("a first question",), embedder=embedder)
        searches["hybrid"] = partial(hybrid, index, embedder=embedder)
        measure("hybrid", searches["hybrid"])
        with shown.building("listnet"):
            searches["listnet"] = partial(
                listnet, index, embedder=embedder, fitted=general_weights("retrieval.listnet")
            )
            searches["listnet"](("a first question",))
        measure("listnet", searches["listnet"])
        with shown.building("nest"):
            nest(index, ("a first question",), embedder=embedder)
        searches["nest"] = partial(nest, index, embedder=embedder)
        measure("nest", searches["nest"])
        together = with_workers(searches, list(questions)[:: max(1, len(questions) // 40)], given.workers)
    head = ["", "build, s", "CPU s", "p50, ms", "p99, ms", "needles in 10", "others in 10", "MiB", "peak, MiB"]
    print(table(head, shown.rows))
    exact, others = shown.found["vector"], shown.found["approximate"]
    recall = np.mean([len({*one} & {*other}) / max(1, len(one)) for one, other in zip(exact, others, strict=True)])
    print(f"\nrecall@{BEST} of approximate search: {recall:.4f}")
    print(f"one process and {given.workers} workers together: {together:,.0f} MiB")
    print(json.dumps({"size": given.size, "peak_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


def main() -> None:
    """Measure retrievers in one process, or a whole search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", type=int, nargs="?", default=1_000_000, metavar="SIZE", help="chunks")
    parser.add_argument("--needles", type=int, default=100)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where approximate search keeps its vectors")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--search", action="store_true", help="run `ragsmith search` over documents of so many chunks")
    parser.add_argument("--pipelines", type=int, default=30, help="with --search: how many, drawn at random")
    given, more = parser.parse_known_args()
    if given.search:
        sys.exit(search_all(given, more))
    measure_retrievers(given)


if __name__ == "__main__":
    main()

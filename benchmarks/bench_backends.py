"""The same pipelines where their vectors lie elsewhere: how often the first five passages are those of exact search.

    python benchmarks/bench_backends.py [DOMAIN ...] [--chunks N] [--questions N] [--stores NAME ...]

Each domain (all bundled ones, unless named) is grown by N made-up chunks (8,000, so that approximate search has
something to leave out). All pipelines that search with vectors answer its questions up to their filter, by every
store that can be had here: approximate, Qdrant embedded in this process, the Qdrant server that QDRANT_URL names if it
does, and a PostgreSQL with pgvector, started for it on the loopback interface (pip install pgserver). What is counted
are questions with the same five passages in the same order, and those whose scores are the same as well. The command
ends with 1 where an exact store differs, or approximate search in more than one question of a hundred.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench_distractors import grown
from growing_corpus import growing_documents

from ragsmith.datasets.bundled import domains
from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.testbed import CHUNK_SIZE, Setup
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.genes import Candidate, read_configuration
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Document, Question

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from postgres_server import postgres, programs_with_vectors, vectors_missing

PIPELINES: Mapping[str, Mapping[str, str]] = {
    "vector": {"retrieval": "vector"},
    "hybrid": {"retrieval": "hybrid"},
    "nest": {"retrieval": "nest"},
    "graph_ppr": {"retrieval": "graph_ppr"},
    "complete_hybrid": {"retrieval": "complete_hybrid"},
    "headers, hybrid, cross_encoder": {
        "pre_embedding": "contextual_chunk_headers",
        "retrieval": "hybrid",
        "reranking": "cross_encoder",
    },
}
FIRST = 5
MISSING = 0.01
"""The share of questions for which approximate search may find another five."""

Found = list[tuple[tuple[str, float], ...]]
"""For each question, the first passages: their ids, and their scores."""


def pipeline(techniques: Mapping[str, str]) -> Candidate:
    """A pipeline with these techniques, and nothing, or what is usual, in the other families."""
    usual = {"passage_filter": "top_k", "prompt_maker": "listing"}
    return read_configuration(
        {family.name: {"technique": techniques.get(family.name, usual.get(family.name, "none"))} for family in FAMILIES}
    )


def stores(wanted: Sequence[str], scratch: Path, stack: ExitStack) -> Iterator[tuple[str, str]]:
    """Stores by name, with their addresses; those that cannot be had here are said to be missing."""
    known = {"exact": "exact", "approximate": f"approximate:{scratch / 'codes'}", "qdrant embedded": "qdrant::memory:"}
    if url := os.environ.get("QDRANT_URL"):
        known["qdrant server"] = f"qdrant:{url}"
    if why := vectors_missing():
        print(f"pgvector is left out: {why}")
    elif not wanted or "pgvector" in wanted:
        known["pgvector"] = stack.enter_context(postgres(programs_with_vectors(), locale=("--locale=C",))).database()
    return ((name, at) for name, at in known.items() if not wanted or name in wanted or name == "exact")


def first(setup: Setup, candidate: Candidate, questions: Sequence[str]) -> Found:
    """What ``candidate`` finds first for each of ``questions``."""
    engine = setup.engine()
    traces = (engine.rank(candidate, Question(question)) for question in questions)
    return [tuple((hit.chunk.id, hit.score) for hit in trace.hits[:FIRST]) for trace in traces]


def made_up(chunks: int) -> list[Document]:
    """Documents that have at least so many chunks."""
    found: list[Document] = []
    count = 0
    for document in growing_documents(chunks):
        if count >= chunks:
            break
        found.append(document)
        count += len(chunk_documents([document], size=CHUNK_SIZE))
    return found


def main() -> None:
    """Measure, and say whether the stores do what they claim."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domains", nargs="*", help="bundled data sets")
    parser.add_argument("--chunks", type=int, default=8_000, help="made-up chunks beside those of each domain")
    parser.add_argument("--questions", type=int, help="the first so many of each domain")
    parser.add_argument("--stores", nargs="*", default=[], help="only these stores")
    given = parser.parse_args()
    load_techniques()
    others = made_up(given.chunks)
    candidates = {name: pipeline(techniques) for name, techniques in PIPELINES.items()}
    asked = 0
    same: Counter[tuple[str, str]] = Counter()
    same_scores: Counter[tuple[str, str]] = Counter()
    seconds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        places = list(stores(given.stores, Path(scratch), stack))
        for domain in given.domains or domains():
            data = load_dataset(domain)
            whole = grown(data, others)
            questions = [example.question for example in data.examples][: given.questions]
            asked += len(questions)
            expected: dict[str, Found] = {}
            for store, address in places:
                setup = Setup(whole, ModelNames().overridden({}, None, address))
                started = time.process_time()
                for name, candidate in candidates.items():
                    found = first(setup, candidate, questions)
                    known = expected.setdefault(name, found)
                    pairs = list(zip(found, known, strict=True))
                    same[store, name] += sum([i for i, _ in a] == [i for i, _ in b] for a, b in pairs)
                    same_scores[store, name] += sum(a == b for a, b in pairs)
                seconds[store] += time.process_time() - started
    print(f"{asked:,} questions; the same first {FIRST}, and with the same scores\n")
    print("| pipeline |" + "".join(f" {store} |" for store, _ in places[1:]))
    print("| --- |" + " ---: |" * (len(places) - 1))
    for name in candidates:
        cells = (
            f" {same[store, name] / asked:.2%}, {same_scores[store, name] / asked:.2%} |" for store, _ in places[1:]
        )
        print(f"| {name} |" + "".join(cells))
    print("| CPU s of this process (exact: " + f"{seconds['exact']:.0f}) |", end="")
    print("".join(f" {seconds[store]:.0f} |" for store, _ in places[1:]))
    wrong = [
        (store, name)
        for store, _ in places[1:]
        for name in candidates
        if same[store, name] < asked * (1 - MISSING if store == "approximate" else 1)
    ]
    sys.exit(f"not what exact search finds: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()

"""A search over a collection of a million chunks, by the command that everybody uses: how long, and in how much memory.

    python benchmarks/bench_million_search.py [CHUNKS] [--questions N] [--pipelines N] [--folder DIR]
        [ARGUMENTS OF SEARCH ...]

The documents are those of `growing_corpus.py`; N questions (100) are in words of a chunk each. N random pipelines (30)
of a space without what asks a language model about every chunk, and without graphs, which are refused beyond 300,000
chunks (docs/indexes.md), answer all questions to search with the embedded models, and the best one the others. Seconds
are of the clock from the start of the command to its end, with reading, cutting and indexing; memory of all processes
is looked at twice a second: PEAK is the most of one, shared pages in full, and PSS has each shared page divided by
those who share it. With --folder the data set is made there, and used again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import yaml
from bench_memory import FIELDS, MIB, watched
from growing_corpus import SEED, SIZE, growing_documents, growing_examples
from growth_figures import ROOT

from ragsmith.datasets.dataset import make_dataset, write_dataset

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
SEARCH = ("--strategy", "random", "--no-race", "--no-probes", "--begin-with-nothing", "--no-simplify", "--workers", "2")


def made(place: Path, chunks: int, questions: int) -> Path:
    """A data set of about so many chunks."""
    documents = list(growing_documents(chunks // CHUNKS_OF_A_DOCUMENT))
    asked = growing_examples(random.Random(SEED).sample(documents, questions // 2))
    write_dataset(make_dataset({"name": place.name}, documents, asked), place)
    return place


def main() -> None:
    """Make the collection, and search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chunks", nargs="?", type=int, default=1_000_000, help="about how many")
    parser.add_argument("--questions", type=int, default=100, help="how many")
    parser.add_argument("--pipelines", type=int, default=30, help="how many, drawn at random")
    parser.add_argument("--folder", type=Path, help="where the data set lies, or is made")
    given, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as scratch:
        data = (given.folder or Path(scratch, "data")) / f"million{given.chunks}"
        if not data.exists():
            data.parent.mkdir(parents=True, exist_ok=True)
            began = time.perf_counter()
            made(data, given.chunks, given.questions)
            print(f"made in {time.perf_counter() - began:,.0f} s", flush=True)
        space = Path(scratch, "space.yaml")
        space.write_text(yaml.safe_dump(SPACE), encoding="utf-8")
        wanted = ("--space", str(space), "--max-evaluations", str(given.pipelines), "--chunk-size", str(SIZE))
        ran = watched(ROOT, ["search", "--dataset", str(data), *wanted, *SEARCH, *more], Path(scratch, "search"))
    print(f"exit {ran.code}, {ran.wall:,.0f} s, {ran.cpu:,.0f} CPU s")
    for name, found in (("parent", ran.parent), *(("worker", found) for found in ran.workers)):
        sizes = "  ".join(f"{FIELDS[field]} {value / MIB:7,.0f} MiB" for field, value in found.items())
        print(f"  {name:<8}{sizes}")
    print(ran.said)
    sys.exit(ran.code)


if __name__ == "__main__":
    main()

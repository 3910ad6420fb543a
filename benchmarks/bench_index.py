"""What it costs to bring an index up to date, against building it anew: CPU seconds, and their ratio.

    python benchmarks/bench_index.py [--documents N] [--added N] [--changed N] [--removed N] [--seed N]

The documents are made up (`growing_corpus`). Of a pipeline with each of some retrievers, three indexes are opened in
processes of their own: one that is built anew on the documents as they are after the change, one that takes over what
was kept before it, and that one again, which only reads. What all need (documents, chunks, models) is not counted.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from growing_corpus import SEED, growing_documents

from ragsmith.datasets.dataset import make_dataset
from ragsmith.evaluation.testbed import Setup
from ragsmith.index.shelf import Shelf
from ragsmith.pipelines.genes import read_configuration
from ragsmith.runs.indexed import open_with_index
from ragsmith.runs.pipeline import Pipeline
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Dataset, Document

RETRIEVERS = ("bm25", "vector", "hybrid", "nest", "graph_ppr", "complete_hybrid")
PLAIN = {
    "pre_embedding": "none",
    "query_expansion": "none",
    "reranking": "none",
    "passage_filter": "top_k",
    "passage_augment": "none",
    "passage_compress": "none",
    "prompt_maker": "listing",
    "post_generation": "none",
}


def collections(asked: argparse.Namespace) -> tuple[Dataset, Dataset]:
    """The documents before the change and after it."""
    documents = list(growing_documents(asked.documents + asked.added, asked.seed))
    draw = random.Random(asked.seed)
    before, new = documents[: asked.documents], documents[asked.documents :]
    touched = draw.sample(range(len(before)), asked.changed + asked.removed)
    changed, removed = set(touched[: asked.changed]), set(touched[asked.changed :])
    after = [_edited(one) if n in changed else one for n, one in enumerate(before) if n not in removed]
    return tuple(make_dataset({"name": "made up", "language": "en"}, each, []) for each in (before, [*after, *new]))


def _edited(document: Document) -> Document:
    return replace(document, text=f"{document.text}\n\nWhat is said here was looked through, and holds as it stands.\n")


def opened(asked: argparse.Namespace, folder: str, now: bool) -> float:
    """CPU seconds to open the index of a pipeline with ``asked.opened`` on a shelf in ``folder``."""
    load_techniques()
    chosen = {family: {"technique": name} for family, name in {**PLAIN, "retrieval": asked.opened}.items()}
    pipeline = Pipeline(read_configuration(chosen, "here"), Setup(collections(asked)[now]))
    pipeline.engine.models.embedder.embed(["a text, for which weights and tokeniser are loaded"])
    started = time.process_time()
    open_with_index(pipeline, Shelf(folder), complete=True)
    return time.process_time() - started


def measured(retriever: str, folder: Path, *states: str) -> list[float]:
    """CPU seconds of one process after the other on the same shelf."""
    command = [sys.executable, __file__, *sys.argv[1:], "--opened", retriever, "--folder", str(folder), "--state"]
    runs = [subprocess.run([*command, state], check=True, capture_output=True) for state in states]
    return [float(run.stdout) for run in runs]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--added", type=int, default=100)
    parser.add_argument("--changed", type=int, default=20)
    parser.add_argument("--removed", type=int, default=20)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", nargs="+", default=RETRIEVERS)
    parser.add_argument("--opened", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--state", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.opened:
        print(opened(asked, asked.folder, asked.state == "after"))
        return
    print(f"{asked.documents:,} documents; {asked.added} added, {asked.changed} changed, {asked.removed} removed\n")
    print("| retriever | built anew, CPU s | brought up to date | ratio | opened again | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for retriever in asked.only:
        with tempfile.TemporaryDirectory() as folder:
            (anew,) = measured(retriever, Path(folder, "anew"), "after")
            _, updated, again = measured(retriever, Path(folder, "kept"), "before", "after", "after")
        times = f"{anew:.2f} | {updated:.2f} | {updated / anew:.2f} | {again:.2f} | {again / anew:.2f}"
        print(f"| {retriever} | {times} |", flush=True)


if __name__ == "__main__":
    main()

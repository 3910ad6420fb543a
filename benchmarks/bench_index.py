"""What it costs to bring an index up to date, against building it anew: CPU seconds, and their ratio.

    python benchmarks/bench_index.py [--documents N] [--added N] [--changed N] [--removed N] [--seed N]
    python benchmarks/bench_index.py --sizes N [N ...]
    python benchmarks/bench_index.py --orders N [--documents N] [--each N]

The documents are made up (`growing_corpus`). Of a pipeline with each of some retrievers, three indexes are opened in
processes of their own: one that is built anew on the documents as they are after the change, one that takes over what
was kept before it, and that one again, which only reads. What all need (documents, chunks, models) is not counted.
With the share of the texts that were read for words, and of those that were embedded.

With --sizes, so many documents are added, for each size, to the same collection: what that costs beyond opening it.

With --orders, files of a quarter of a section are added, edited, moved, removed and copied in random orders, --each of
each kind, a few at a time; the index of the folder follows, file by file, folder by folder or as a whole, in processes
that are killed (SIGKILL) at random moments in half of the tries: `tests/support/changing.py` tells how. Documents,
answers and, array by array, all that is kept have to equal what is built anew; exit code 1 if they do not.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # processes are forked

import numpy as np
from growing_corpus import SEED, growing_documents
from numpy.typing import NDArray

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests/support")]

from changing import CHANGES, FOLDERS, Order, carried_out, drawn_changes, found_on  # noqa: E402

from ragsmith.datasets.dataset import make_dataset  # noqa: E402
from ragsmith.evaluation.experiment import Experiment  # noqa: E402
from ragsmith.exported.index import open_with_index  # noqa: E402
from ragsmith.exported.pipeline import Pipeline  # noqa: E402
from ragsmith.index import cached_index  # noqa: E402
from ragsmith.index.artifact_cache import ArtifactCache  # noqa: E402
from ragsmith.pipelines.genes import read_configuration  # noqa: E402
from ragsmith.techniques.registry import load_techniques  # noqa: E402
from ragsmith.types import Dataset, Document  # noqa: E402

RETRIEVERS = ("bm25", "vector", "hybrid", "nest", "graph_ppr", "complete_hybrid")
SHORT = 2_600
"""Characters of a document in random orders: about 8 chunks."""
SIZES = (1, 2, 5, 10)
"""How many changes are made at a time there."""
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


def opened(asked: argparse.Namespace, folder: str, now: bool) -> tuple[float, int, int]:
    """CPU seconds to open the index of a pipeline with ``asked.opened`` on a shelf in ``folder``.

    And how many texts of the collection were embedded for it, and how many read for words.
    """
    load_techniques()
    chosen = {family: {"technique": name} for family, name in {**PLAIN, "retrieval": asked.opened}.items()}
    pipeline = Pipeline(read_configuration(chosen, "here"), Experiment(collections(asked)[now]))
    pipeline.engine.models.embedder.embed(["a text, for which weights and tokeniser are loaded"])
    embedded, read = [0], [0]
    own = {chunk.text for chunk in pipeline.engine.corpus.chunks}
    embed, terms = pipeline.engine.models.embedder.embed, cached_index.terms

    def embedding(texts: Sequence[str]) -> NDArray[np.floating]:
        embedded[0] += sum(text in own for text in texts)  # not those of questions
        return embed(texts)

    def reading(text: str, *language: str) -> Sequence[str]:
        read[0] += 1
        return terms(text, *language)

    pipeline.engine.models.embedder.embed, cached_index.terms = embedding, reading  # type: ignore[method-assign,assignment]
    started = time.process_time()
    open_with_index(pipeline, ArtifactCache(folder), complete=True)
    return time.process_time() - started, embedded[0], read[0]


def measured(retriever: str, folder: Path, *states: str, more: Sequence[str] = ()) -> list[tuple[float, int, int]]:
    """What `opened` says in one process after the other on the same shelf."""
    command = [sys.executable, __file__, *sys.argv[1:], *more, "--opened", retriever, "--folder", str(folder)]
    runs = [subprocess.run([*command, "--state", state], check=True, capture_output=True) for state in states]
    return [(float(took), int(embedded), int(read)) for took, embedded, read in (run.stdout.split() for run in runs)]


def costs(asked: argparse.Namespace) -> None:
    """Print what a change costs, by retriever."""
    print(f"{asked.documents:,} documents; {asked.added} added, {asked.changed} changed, {asked.removed} removed\n")
    print(
        "| retriever | built anew, CPU s | brought up to date | ratio | texts read | embedded | opened again | ratio |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for retriever in asked.only:
        with tempfile.TemporaryDirectory() as folder:
            [(anew, *all_texts)] = measured(retriever, Path(folder, "anew"), "after")
            _, (updated, *texts), (again, *_) = measured(retriever, Path(folder, "kept"), "before", "after", "after")
        embedded, read = (f"{100 * n / of:.1f} %" if of else "-" for n, of in zip(texts, all_texts, strict=True))
        times = f"{anew:.2f} | {updated:.2f} | {updated / anew:.2f} | {read} | {embedded}"
        print(f"| {retriever} | {times} | {again:.2f} | {again / anew:.2f} |", flush=True)


def growth(asked: argparse.Namespace) -> None:
    """Print what it costs to add so many documents, beyond opening the index."""
    print(f"{asked.documents:,} documents and some more\n")
    print("| retriever | documents added | brought up to date, CPU s | opened again | difference | ms a document |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for retriever in asked.only:
        for size in asked.sizes:
            more = ["--added", str(size), "--changed", "0", "--removed", "0"]
            with tempfile.TemporaryDirectory() as folder:
                _, (updated, *_), (again, *_) = measured(retriever, Path(folder), "before", "after", "after", more=more)
            cost = f"{updated:.2f} | {again:.2f} | {updated - again:.2f} | {1000 * (updated - again) / size:.1f}"
            print(f"| {retriever} | {size:,} | {cost} |", flush=True)


def orders(asked: argparse.Namespace) -> int:
    """Print what came of random orders with kills; 1 if what is kept is not what is built anew."""
    print("| order | batches | kills that hit | of tries | documents replaced | volumes that equal | seconds |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    documents = list(growing_documents(asked.documents + 2 * asked.each, asked.seed))
    texts = [document.text[:SHORT] for document in documents]
    names = [f"{FOLDERS[number % len(FOLDERS)]}note-{number // len(FOLDERS)}" for number in range(asked.documents)]
    before = dict(zip(names, texts, strict=False))
    found: list[Order] = []
    for number in range(asked.orders):
        draw = random.Random(f"{asked.seed} {number}")
        kinds = draw.sample(CHANGES * asked.each, len(CHANGES) * asked.each)
        changes = drawn_changes(before, kinds, cycle(texts[asked.documents :]), draw)
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            winners = found_on(before, Path(folder))
            try:
                order = carried_out(winners, before, changes, draw, sizes=SIZES, kills=0.5)
            except RuntimeError as error:
                print(f"order {number}: {error}")
                return 1
        found.append(order)
        counts = f"{order.batches} | {order.kills} | {order.tries} | {order.late} | {order.volumes}"
        print(f"| {number} | {counts} | {time.perf_counter() - began:.1f} |", flush=True)
    changed = sum((order.changes for order in found), Counter[str]())
    kinds = sorted(set().union(*(order.kinds for order in found)))
    tries, kills, late, compared, volumes = (
        sum(getattr(order, name) for order in found) for name in ("tries", "kills", "late", "compared", "volumes")
    )
    print(
        f"\n{len(found)} orders of {', '.join(f'{count} x {kind}' for kind, count in changed.items())}\n"
        f"{kills} of {tries} kills hit a process at work: {kills - late} before documents were replaced, {late} after\n"
        f"{compared} comparisons: the same documents and answers, and {volumes:,} equal volumes: {', '.join(kinds)}"
    )
    return 0


def main() -> int:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--added", type=int, default=100)
    parser.add_argument("--changed", type=int, default=20)
    parser.add_argument("--removed", type=int, default=20)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", nargs="+", default=RETRIEVERS)
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--orders", type=int)
    parser.add_argument("--each", type=int, default=4, help="changes of each kind in an order")
    parser.add_argument("--opened", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--state", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.opened:
        print(*opened(asked, asked.folder, asked.state == "after"))
    elif asked.orders:
        return orders(asked)
    elif asked.sizes:
        growth(asked)
    else:
        costs(asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())

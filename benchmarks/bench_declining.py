"""How well the best sentence's relevance tells questions with an answer from those without one, by threshold.

Each question is asked twice: of all documents, and of what is left without those that hold its gold, where it has no
answer. Found by BM25; none of the bundled data is used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ragsmith.datasets.importers import import_dataset
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.testbed import Setup
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.pipelines.genes import make_gene
from ragsmith.techniques.generation import read_sentences
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.blocks import numbered
from ragsmith.types import Dataset, Example, Question

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
SETS = ("hotpotqa_100", "tatqa_dev", "ragsmith_finance_10")
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)
READ = 12
"""Hits that are looked at, of which the first five without gold's documents are kept."""


def best_relevances(dataset: Dataset, examples: Sequence[Example]) -> tuple[list[float], list[float]]:
    """The relevance of the best sentence shown, with the documents that hold the gold and without them."""
    setup = Setup(dataset)
    engine = setup.engine()
    model = ExtractiveModel([chunk.text for chunk in setup.corpus.chunks], WordLlamaEmbedder())
    wide = tuple(
        make_gene("passage_filter", "top_k", {"k": READ}) if gene.technique.family == "passage_filter" else gene
        for gene in baseline("bm25")
    )
    found: tuple[list[float], list[float]] = ([], [])
    for example in examples:
        hits = engine.rank(wide, Question(example.question)).hits
        gold = {span.doc for span in example.evidence}
        others = [hit.chunk.text for hit in hits if hit.chunk.doc not in gold]
        for best, texts in zip(found, ([hit.chunk.text for hit in hits], others), strict=True):
            sentences, _ = read_sentences(model, numbered(tuple(texts[:5])))
            best.append(float(model.relevance(example.question, sentences).max()) if sentences else 0.0)
    return found


def main() -> None:
    load_techniques()
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    for name in SETS:
        dataset = import_dataset(DATA / name).dataset
        examples = [example for example in dataset.examples if example.evidence][:most]
        with_gold, without = map(np.array, best_relevances(dataset, examples))
        medians = f"median {np.median(with_gold):.2f} with gold, {np.median(without):.2f} without"
        print(f"{name}: {len(examples)} questions; {medians}")
        for least in THRESHOLDS:
            refused, falsely = float((without < least).mean()), float((with_gold < least).mean())
            print(f"  least {least}: refusal {refused:.2f}, false refusal {falsely:.2f}")


if __name__ == "__main__":
    main()

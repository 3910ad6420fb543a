"""Gold of whole conversations: what a ranking is worth does not depend on how they are cut."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean

import pytest

from ragsmith.datasets.dataset import make_dataset
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import composite
from ragsmith.evaluation.scoring import scored_ranking
from ragsmith.measures.case import Case
from ragsmith.measures.registry import measures
from ragsmith.types import Dataset, Document, Example, Question, Span

CRAFTS = ("cooper", "glazier", "saddler", "weaver", "cutler", "dyer", "potter", "tanner")
TOWNS = ("Arnby", "Birkholm")
SAID = (
    "I went to the {craft} in {town} again, and the door was shut.",
    "They told me that the {craft} is at the fair until Friday.",
    "In {town} nobody else does such work, so I shall wait.",
    "Did you ask the {craft} what the repair will cost?",
    "The weather was dreadful on the road, and the horse was lame.",
    "My sister sends her regards, and so does the neighbour.",
    "I could not hear a word, the bells were ringing all the time.",
)


@pytest.fixture(scope="module")
def calls() -> Dataset:
    rng = Random(3)
    documents, examples = [], []
    for number, craft in enumerate(CRAFTS):
        for town in TOWNS:
            turns = [
                rng.choice(SAID).format(
                    craft=rng.choice((*[craft] * 10, *CRAFTS)), town=rng.choice((*[town] * 4, *TOWNS))
                )
                for _ in range(45 + 10 * number)
            ]
            text = "\n\n".join(f"{'AB'[place % 2]}: {turn}" for place, turn in enumerate(turns))
            name = f"{craft}-{town}"
            documents.append(Document(name, f"Call {number}", text))
            asked = f"What was said of the {craft} in {town}?"
            examples.append(Example(name, asked, "Much.", "calls", (Span(name, 0, len(text)),)))
    return make_dataset({"name": "calls"}, documents, examples)


def retrieval(dataset: Dataset, size: int) -> tuple[float, float]:
    """R of BM25 with chunks of one size, and what it would be if each chunk counted by itself."""
    setup = Experiment(dataset, chunk_size=size)
    engine = setup.engine()
    found, by_chunks = [], []
    for example in dataset.examples:
        trace = engine.rank(baseline("bm25"), Question(example.question))
        found.append(composite("retrieval", scored_ranking(engine, setup, trace, example)["measures"]))
        relevance = replace(setup.relevance[example.id], coarse={})
        case = Case(evidence=example.evidence, relevance=relevance, hits=trace.hits)
        by_chunks.append(fmean(measures()[name](case, {}) or 0.0 for name in ("recall", "map", "ndcg", "mrr")))
    assert None not in found
    return fmean(value for value in found if value is not None), fmean(by_chunks)


def test_the_score_is_the_same_for_all_sizes_of_chunks(calls: Dataset) -> None:
    scores = [retrieval(calls, size) for size in (300, 600, 900, 1500)]
    found, by_chunks = (list(column) for column in zip(*scores, strict=True))
    assert max(found) - min(found) <= 0.05
    assert max(by_chunks) - min(by_chunks) > 0.2
    assert 0.5 < min(found) < 1.0

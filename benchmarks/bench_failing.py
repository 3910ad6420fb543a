"""Why questions fail: the mark from which an answer is a good one, and the cause of every question of two data sets.

python benchmarks/bench_failing.py marks                       marks of right and wrong answers
python benchmarks/bench_failing.py causes law=winner.yaml      every question, in naive RAG and in the winner
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator

import numpy as np

from ragsmith.datasets.relevance import count_overlap
from ragsmith.diagnosis.causes import MIN_GOOD_AGREEMENT, Cause, good_score_threshold
from ragsmith.diagnosis.diagnosed import EvidenceTracer, make_diagnosis
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment, prepare_experiment, sort_examples
from ragsmith.evaluation.scoring import score_answer
from ragsmith.exported.pipeline import Pipeline
from ragsmith.measures.agreement import score_agreement
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.loading import ModelNames
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, out_of_fold
from ragsmith.techniques.generation import answer_offline
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.blocks import number_blocks
from ragsmith.types import Example, Question

READ = 5
"""Passages without gold that an answer is made of."""


def marks() -> None:
    """Marks of gold passages given for an answer, and of answers made without any of them, by the embedded judge."""
    right: list[float] = []
    wrong: list[float] = []
    for name in ("law", "workshop"):
        setup = prepare_experiment(name, ModelNames(), 900)
        engine, model = setup.engine(), setup.loaded_models.language_model
        assert isinstance(model, ExtractiveModel)
        for example in sort_examples([one for one in setup.split.search if one.evidence]):
            gold = " ".join(setup.corpus.text(span) for span in example.evidence)
            right.append(score_agreement(model, example.question, example.answer, gold))
            context = number_blocks(_without_gold(setup, engine, example))
            answer, _ = answer_offline(model, sample=0, question=example.question, context=context)
            wrong.append(score_agreement(model, example.question, example.answer, answer))
    print(f"{len(right)} search questions; share of marks from a level on:")
    for level in (0.05, 0.1, 0.15, 0.2, MIN_GOOD_AGREEMENT, 0.3, 0.4):
        shares = [100 * np.mean([mark >= level for mark in found]) for found in (right, wrong)]
        print(f"  {level:.2f}  gold passages {shares[0]:5.1f} %  answers without gold {shares[1]:5.1f} %")


def _without_gold(setup: Experiment, engine: Engine, example: Example) -> list[str]:
    """What BM25 finds first of chunks that have no character of the gold."""
    found = engine.rank(baseline("bm25"), Question(example.question)).outputs["query_expansion"].value
    apart = (
        hit.chunk.text for hit in found if not any(count_overlap(span, hit.chunk.span) for span in example.evidence)
    )
    return list(apart)[:READ]


def causes(name: str, path: str) -> None:
    """The cause of every question of a data set, those in no split among them, and how often each occurs."""
    pipeline = Pipeline.load(path)
    setup, engine = pipeline.setup, pipeline.engine
    found = {
        "naive": dict(_causes(setup, engine, baseline("naive"))),
        "winner": dict(_causes(setup, engine, pipeline.candidate)),
    }
    print(f"\n{name}: {len(setup.examples)} questions")
    for question in sorted(setup.examples):
        print(f"  {question:<10} {found['naive'][question].value:<22} {found['winner'][question].value}")
    counts = {of: Counter(found[of].values()) for of in found}
    print(f"\n  {'':<22} {'naive':>6} {'winner':>6}")
    for cause in Cause:
        if any(counts[of][cause] for of in counts):
            print(f"  {cause.value:<22} {counts['naive'][cause]:>6} {counts['winner'][cause]:>6}")


def _causes(setup: Experiment, engine: Engine, candidate: Candidate) -> Iterator[tuple[str, Cause]]:
    for example in sort_examples(setup.dataset.examples):
        able = out_of_fold(candidate, example.question)
        trace = engine.answer(able, Question(example.question))
        measures = score_answer(engine, setup, trace, example)["measures"]
        seen = EvidenceTracer()(engine, setup, able, trace, example)
        yield example.id, make_diagnosis(seen, example, measures, good_score_threshold(setup)).cause


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["marks", "causes"])
    parser.add_argument("winners", nargs="*", metavar="DATASET=FILE", help="causes: data sets and pipelines")
    given = parser.parse_args()
    load_techniques()
    if given.part == "marks":
        marks()
    for winner in given.winners:
        causes(*winner.split("="))

"""What a filter costs a question, and whether it lets anything through: five tenants, each with its own documents.

    python benchmarks/bench_filters.py [--documents N] [--questions N] [--stores NAME ...]

Every retriever, over every vector store that it searches, answers its share of the questions, each for a tenant in
turn: hits of others are counted, and so are questions with fewer hits than without the others. Exit code 1 if there is
a hit of another tenant.

Then the same questions are answered with and without a filter, by turns, in engines that share the index: milliseconds
of CPU for a question, medians, with the 95 % interval of the median of ratios (bootstrap); and what a filter costs that
was never used before.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from tenants import TENANTS, TYPES, filter_of, make_corpus, make_models, make_questions

from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.fitting import fit_gene
from ragsmith.evaluation.general_weights import load_shipped_weights
from ragsmith.gateway.gateway import Gateway
from ragsmith.index.filtering import Admission
from ragsmith.index.stores import open_vector_store
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, Fit, make_gene
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.filters import parse_filter
from ragsmith.types import Question

RETRIEVERS = ("bm25", "vector", "hybrid", "listnet", "nest", "graph", "complete_hybrid", "graph_ppr")
BY_VECTORS = ("vector", "hybrid", "listnet", "complete_hybrid", "graph_ppr")
"""Retrievers that search a vector store."""


def pipeline(retriever: str, **others: str) -> Candidate:
    """Naive RAG with this retriever, with general weights if it is learned."""
    chosen = {gene.technique.family: gene for gene in baseline("naive")} | {
        family: make_gene(family, name) for family, name in {"retrieval": retriever, **others}.items()
    }
    if retriever == "listnet":
        gene = chosen["retrieval"]
        fit = fit_gene(gene, {}, load_shipped_weights().for_technique(gene.technique))
        chosen["retrieval"] = replace(gene, fit=Fit(fit))
    return tuple(chosen.values())


def leaks(engine: Engine, retriever: str, questions: list[str], tenants: Any) -> tuple[int, int]:
    """Return the hits of other tenants, and the questions without any hit."""
    candidate, foreign, empty = pipeline(retriever), 0, 0
    for question, tenant in zip(questions, tenants, strict=False):
        hits = engine.rank(candidate, Question(question, filter_of(tenant))).outputs["query_expansion"].value
        foreign += sum(not hit.chunk.doc.startswith(f"{tenant.lower()}/") for hit in hits)
        empty += not hits
    return foreign, empty


def timed(engine: Engine, candidate: Candidate, question: Question) -> float:
    """Return the CPU milliseconds of an answer by an engine that has seen no question."""
    fresh = Engine(engine.corpus, engine.models, Gateway())
    fresh.share_collection(engine)
    fresh._admit(question.filter).restrict(fresh.index(candidate[0])).forget()
    started = time.process_time()
    fresh.answer(candidate, question)
    return 1000 * (time.process_time() - started)


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=20_000)
    parser.add_argument("--timed", type=int, default=150)
    parser.add_argument("--stores", nargs="*", default=["exact", "approximate", "qdrant"])
    given = parser.parse_args()
    load_techniques()
    corpus = make_corpus(given.documents)
    models = make_models(corpus)
    chosen = [(each, RETRIEVERS if each == "exact" else BY_VECTORS) for each in given.stores]
    runs = [(retriever, store) for store, retrievers in chosen for retriever in retrievers]
    engines: dict[str, Engine] = {}
    questions, failed, each = make_questions(given.questions), False, -(-given.questions // len(runs))
    print(f"{'retriever':18}{'store':14}{'questions':>10}{'foreign hits':>14}{'no hits':>9}{'seconds':>9}")
    with tempfile.TemporaryDirectory() as folder:
        locations = {"exact": "exact", "approximate": f"approximate:{folder}", "qdrant": "qdrant::memory:"}
        for number, (retriever, store) in enumerate(runs):
            if store not in engines:
                opened = partial(open_vector_store, locations[store])
                engines[store] = Engine(corpus, models, Gateway(), opened)
            own, started = questions[number * each : (number + 1) * each], time.perf_counter()
            foreign, empty = leaks(engines[store], retriever, own, itertools.cycle(TENANTS))
            failed |= foreign > 0
            seconds = time.perf_counter() - started
            print(f"{retriever:18}{store:14}{len(own):10,}{foreign:14,}{empty:9,}{seconds:9.1f}", flush=True)
        print(f"\n{'pipeline':34}{'store':14}{'without':>9}{'with':>9}{'ratio':>8}{'95 % interval':>18}")
        rng = np.random.default_rng(1)
        shapes = [("bm25", {}), ("vector", {}), ("hybrid", {}), ("hybrid", {"reranking": "cross_encoder"})]
        for (retriever, others), store in itertools.product(shapes, engines):
            if (retriever, store) not in runs:
                continue
            candidate, ratios, plain, filtered = pipeline(retriever, **others), [], [], []
            for question, tenant in zip(make_questions(given.timed, 3), itertools.cycle(TENANTS), strict=False):
                asked = [Question(question), Question(question, filter_of(tenant))] * 2
                # the first two answers fill the caches of texts
                *_, without, having = (timed(engines[store], candidate, one) for one in asked)
                plain.append(without)
                filtered.append(having)
            ratios = np.array(filtered[10:]) / np.array(plain[10:])  # the first ones build the masks
            draws = np.median(rng.choice(ratios, (2000, len(ratios))), axis=1)
            low, high = np.quantile(draws, [0.025, 0.975])
            name = "+".join([retriever, *others.values()])
            print(
                f"{name:34}{store:14}{statistics.median(plain):9.2f}{statistics.median(filtered):9.2f}"
                f"{np.median(ratios):8.3f}{low:9.3f} to {high:.3f}",
                flush=True,
            )
    index, new = next(iter(engines.values())).index(baseline("naive")[0]), []
    for year in range(2015, 2025):
        started = time.process_time()
        Admission(corpus, parse_filter(f"year<{year}", TYPES)).restrict(index)
        new.append(1000 * (time.process_time() - started))
    print(f"\na filter that was never used before: {statistics.median(new):.1f} ms")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

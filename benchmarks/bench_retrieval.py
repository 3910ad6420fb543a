"""What retrieval alone costs: CPU seconds per 1,000 question evaluations, beside a plain numpy loop.

    python benchmarks/bench_retrieval.py [--rounds N] [--workers N]

100 configurations (20 retrievals x 5 filters) on all questions of `law` with evidence, nobody races: (a) a loop over
numpy arrays and bm25s's scores, one configuration after the other, with Recall@5, and the same where nothing is worked
out twice; (b) ours up to the filter, in this process; (c) a whole search, `--objective retrieval`, with measures,
store and report. Of (a) and (b) models, vectors and indexes are there before the clock starts. Of (c) 10 of the
configurations are searched as well: what the other 90 take is the marginal cost, and what a search takes whatever it
searches drops out of it. Medians; all alternate.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import yaml
from commands import ragsmith
from numpy.typing import NDArray

from ragsmith.datasets.dataset import load_dataset, write_dataset
from ragsmith.evaluation.experiment import Experiment, prepare_experiment
from ragsmith.index.entity_graph import EntityGraph
from ragsmith.models.loading import ModelNames
from ragsmith.models.usage import Meter
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space_file import load_space
from ragsmith.text.words import terms
from ragsmith.types import Question

Found = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Positions of chunks, best first, and their scores."""

POOL, KEPT = 60, 20
WEIGHTS = [i / 10 for i in range(1, 10)]
RETRIEVALS: list[dict[str, dict[str, Any]]] = [
    {"bm25": {}},
    {"vector": {}},
    *({"hybrid": {"weight": weight}} for weight in WEIGHTS),
    {"hybrid": {"fusion": "rrf"}},
    {"hybrid": {"fusion": "rrf", "pool": 30}},
    *({"complete_hybrid": {"weight": w, "graph_weight": g}} for w, g in product((0.3, 0.5, 0.7), (0.1, 0.3))),
    {"complete_hybrid": {"fusion": "rrf"}},
]
FILTERS: list[dict[str, dict[str, Any]]] = [
    *({"top_k": {"k": k}} for k in (3, 5, 10)),
    *({"similarity_threshold": {"threshold": threshold}} for threshold in (0.4, 0.6)),
]
SOME = [RETRIEVALS[i] for i in (0, 1, 6, 11, 16)], FILTERS[1:4:2]
"""A tenth of the configurations that has all kinds."""


def space_file(folder: Path, name: str, retrievals: Sequence[object], filters: Sequence[object]) -> Path:
    """A space of some of the configurations."""
    single = {"pre_embedding": "none", "query_expansion": "none", "reranking": "none", "passage_augment": "none"}
    single |= {"passage_compress": "none", "prompt_maker": "listing", "post_generation": "none"}
    families = {family: [technique] for family, technique in single.items()}
    path = folder / f"{name}.yaml"
    space = {"name": name, "families": {**families, "retrieval": list(retrievals), "passage_filter": list(filters)}}
    path.write_text(yaml.safe_dump(space))
    return path


class Plain:
    """(a): scores of every question and chunk as three matrices, and a loop over configurations and questions.

    Recall@5 of all of them is what it returns. With ``shared`` it is the other yardstick: whatever configurations have
    in common is done once a question, as a loop does that was written for these configurations and no others.
    """

    def __init__(self, setup: Experiment, engine: Engine, graph: EntityGraph) -> None:
        chunks = sorted(setup.corpus.chunks, key=lambda chunk: chunk.id)
        self.place = {chunk.id: i for i, chunk in enumerate(chunks)}
        self.n = len(chunks)
        embedder = engine.gateway.embedder(engine.models.embedder, Meter())
        self.questions = [example.question for example in setup.dataset.examples]
        self.vectors = embedder.embed([chunk.text for chunk in chunks]).astype(np.float64)
        self.wanted = embedder.embed(self.questions).astype(np.float64)
        self.words = bm25s.BM25(k1=1.2, b=0.75, method="lucene", dtype="float64")
        self.words.index([list(terms(chunk.text)) for chunk in chunks], show_progress=False)
        self.graph = graph
        self.gold = [{self.place[c] for c in setup.relevance[e.id].relevant} for e in setup.dataset.examples]

    def scores(self) -> list[NDArray[np.float64]]:
        """Cosines, BM25 and evidence of the entity graph, each of the shape (questions, chunks)."""
        cosines = np.round(self.wanted @ self.vectors.T, 6)
        words = np.stack([np.round(self.words.get_scores(list(terms(question))), 6) for question in self.questions])
        graph = np.zeros(words.shape)
        for row, question in zip(graph, self.questions, strict=True):
            for hit in self.graph.search(question, POOL):
                row[self.place[hit.chunk.id]] = hit.score
        return [cosines, words, graph]

    def run(self, *, shared: bool = False) -> list[float]:
        """The mean Recall@5 of every configuration."""
        sides, recalls = self.scores(), []
        remember = cache if shared else lambda function: function
        top = remember(lambda side, question, pool: best(sides[side][question], pool, positive=side > 0))
        vote = remember(lambda side, question, share: self.vote(sides[side][question], top(side, question, POOL)))

        @remember
        def retrieved(number: int, question: int) -> Found:
            [(name, given)] = RETRIEVALS[number].items()
            if name in ("bm25", "vector"):
                found = top(int(name == "bm25"), question, KEPT)
                return found, sides[int(name == "bm25")][question][found]
            n = 2 if name == "hybrid" else 3
            fused, among = np.zeros(self.n), np.zeros(self.n, dtype=bool)
            for side, share in enumerate(shares(given, n)):
                found = top(side, question, given.get("pool", POOL))
                among[found] = True
                fused += rrf(found, self.n) if share is None else share * vote(side, question, share)
            positions = np.flatnonzero(among)
            positions = positions[np.argsort(-fused[positions], kind="stable")][:KEPT]
            return positions, fused[positions]

        for number, passage_filter in product(range(len(RETRIEVALS)), FILTERS):
            [(kind, setting)] = passage_filter.items()
            recall = 0.0
            for question, gold in enumerate(self.gold):
                order, scores = retrieved(number, question)
                if kind == "top_k":
                    kept = order[: setting["k"]]
                else:
                    fall = scores[0] - scores[-1] if len(scores) else 0.0
                    scaled = (scores - scores[-1]) / fall if fall else np.ones(len(scores))
                    kept = order[: min(10, max(1, np.count_nonzero(scaled >= setting["threshold"])))]
                recall += len(gold.intersection(kept[:5].tolist())) / len(gold)
            recalls.append(recall / len(self.gold))
        return recalls

    def vote(self, scores: NDArray[np.float64], found: NDArray[np.int64]) -> NDArray[np.float64]:
        """Min-max scaled scores of what was found, 0 elsewhere."""
        vote = np.zeros(self.n)
        if len(found):
            low, high = scores[found[-1]], scores[found[0]]
            vote[found] = (scores[found] - low) / (high - low) if high > low else 1.0
        return vote


def best(scores: NDArray[np.float64], k: int, *, positive: bool) -> NDArray[np.int64]:
    """Positions of the highest scores, best first."""
    order = np.argsort(-scores, kind="stable")[:k]
    return order[scores[order] > 0] if positive else order


def rrf(found: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """Reciprocal ranks of what was found, 0 elsewhere."""
    fused = np.zeros(n)
    fused[found] = 1 / (60 + np.arange(1, len(found) + 1))
    return fused


def shares(given: dict[str, Any], n: int) -> list[float | None]:
    """The weight of each side; None where ranks are fused."""
    if given.get("fusion") == "rrf":
        return [None] * n
    rest = 1 - given.get("graph_weight", 0)
    return [rest * given["weight"], rest * (1 - given["weight"]), 1 - rest][:n]


def fresh(setup: Experiment, candidates: Sequence[Candidate]) -> Engine:
    """An engine that has indexes and vectors, of the questions, too, and has searched nothing."""
    engine = setup.engine()
    for candidate in candidates:
        engine.prepare(candidate)
    engine.gateway.embedder(engine.models.embedder, Meter()).embed([e.question for e in setup.dataset.examples])
    return engine


def ranked(setup: Experiment, engine: Engine, candidates: Sequence[Candidate]) -> list[float]:
    """(b): the mean Recall@5 of every configuration, by our engine."""
    recalls = [0.0] * len(candidates)
    for example in setup.dataset.examples:
        question, gold = Question(example.question), setup.relevance[example.id].relevant
        for number, candidate in enumerate(candidates):
            hits = engine.rank(candidate, question).hits
            recalls[number] += len(gold.intersection([hit.chunk.id for hit in hits[:5]])) / len(gold)
    return [recall / len(setup.dataset.examples) for recall in recalls]


def searched(folder: Path, dataset: Path, space: Path, workers: int) -> float:
    """(c): CPU seconds of a whole search over ``space``."""
    flags = "--objective retrieval --strategy exhaustive --no-race --no-probes --no-warm-start --no-simplify"
    place = Path(tempfile.mkdtemp(dir=folder))
    named = ("--dataset", str(dataset), "--space", str(space), "--workers", str(workers))
    ran = ragsmith("search", *named, *flags.split(), "--max-evaluations", "1000", "--quiet", folder=place)
    assert ran.code == 0, ran.err
    return ran.cpu


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    data = load_dataset("law")
    asked = tuple(replace(example, split="search") for example in data.examples if example.evidence)
    data = replace(data, examples=asked)
    times: dict[str, list[float]] = {"plain": [], "shared": [], "ours": [], "10": [], "100": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_dataset(data, folder / "law")
        spaces = {"100": space_file(folder, "all", RETRIEVALS, FILTERS), "10": space_file(folder, "some", *SOME)}
        space = load_space(spaces["100"])
        setup = prepare_experiment(folder / "law", ModelNames(), 900)
        order = {(str(r), str(f)): i for i, (r, f) in enumerate(product(space.options[2], space.options[4]))}
        candidates = [space.candidate(genome) for genome in product(*map(range, space.sizes))]
        assert len(candidates) == len(order) == len(RETRIEVALS) * len(FILTERS)
        evaluations = len(candidates) * len(setup.dataset.examples)
        engine = fresh(setup, candidates)
        plain = Plain(setup, engine, engine.entity_graph())
        found = ranked(setup, engine, candidates)
        for expected in (plain.run(), plain.run(shared=True)):
            assert all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(expected, found, strict=True)), "recalls differ"
        for _ in range(given.rounds):
            ours = partial(ranked, setup, fresh(setup, candidates), candidates)
            runs = {"plain": plain.run, "shared": partial(plain.run, shared=True), "ours": ours}
            for kind, run in runs.items():
                gc.collect()
                started = time.process_time()
                run()
                times[kind].append(time.process_time() - started)
            for size in ("10", "100"):
                times[size].append(searched(folder, folder / "law", spaces[size], given.workers))
    middle = {kind: statistics.median(seconds) for kind, seconds in times.items()}
    marginal = (middle["100"] - middle["10"]) / (0.9 * evaluations)
    print(f"{len(plain.questions)} questions x {len(candidates)} configurations, {plain.n} chunks")
    print("CPU seconds per 1,000 question evaluations         ratio")
    unit = middle["plain"] / evaluations
    for label, seconds in (
        ("plain numpy loop", unit),
        ("the same, nothing twice", middle["shared"] / evaluations),
        ("ours up to the filter", middle["ours"] / evaluations),
        ("whole search, marginal", marginal),
        ("whole search, all of it", middle["100"] / evaluations),
    ):
        print(f"{label:<26}{1000 * seconds:8.3f}{seconds / unit:22.1f}")
    print(f"whole searches: {middle['10']:.2f} s of 10 configurations, {middle['100']:.2f} s of {len(candidates)}")


if __name__ == "__main__":
    main()

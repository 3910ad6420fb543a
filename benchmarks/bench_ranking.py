"""What learned rankings gain on data sets that taught them nothing, and what a data set's own questions add.

    python benchmarks/bench_ranking.py DATA CORPORA [--embedder NAME] [--shipped] [--none] [SET ...]
    python benchmarks/bench_ranking.py DATA CORPORA --adapt
    python benchmarks/bench_ranking.py DATA CORPORA --answers

DATA has the published data sets (see tools/effects.py) and CORPORA what other_corpora.py made. Weights are learned on
all data sets whose documents do not overlap with those of the one they are used on, of bundled ones on search questions
alone, with the embedder that is named; with ``--shipped`` they are those that ship for the class of that embedder. R
of each pipeline less that of the recommended one without a learned ranking (contextual chunk headers, hybrid search,
cross-encoder), on all questions, with 95 % intervals by question; with ``--none`` keys have no headers. With
``--adapt`` instead: half of a set's questions, by groups that share gold, give 10, 25, 50 and 100 search questions, and
the other half tests; both halves, R of fitted weights less that of general ones, of the retrieval, the reranking and
both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from effects import BUNDLED, DOMAINS, corpora, published, with_all_questions
from weights import learn_weights

from ragsmith.comparison.difference import cluster_interval
from ragsmith.comparison.questions import Clusters
from ragsmith.datasets.bundled import bundled_domains
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.splits import Split, make_folds
from ragsmith.diagnosis.estimates import pool_estimates
from ragsmith.effects.terms import PLAIN
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.genes import Candidate, label, make_gene
from ragsmith.pipelines.space_file import load_space
from ragsmith.runs.recommended import recommend_candidate
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Example

SIZES = (10, 25, 50, 100)
FITTED = {"weights": "fitted"}
BEFORE = {"retrieval": "hybrid", "reranking": "cross_encoder", "passage_augment": "relevant_segments"}
"""What was recommended behind contextual headers before rankings were learned; answers were revised but on `law`."""
WAYS = {
    "retrieval": ({"retrieval": "listnet"}, {}),
    "reranking": ({"retrieval": "hybrid"}, {"reranking": "listnet"}),
    "both": ({"retrieval": "listnet"}, {"reranking": "listnet"}),
}
"""Where rankings are learned: options of retrieval, and of reranking."""


def pipeline(header: str, *, learning: bool = False, **names: str) -> Candidate:
    """Naive RAG with ``header`` keys and the options ``names``; learned rankings fit if ``learning``."""
    chosen = {**dict(zip((family.name for family in FAMILIES), PLAIN, strict=True)), "pre_embedding": header, **names}
    return tuple(make_gene(f, name, FITTED if learning and name == "listnet" else {}) for f, name in chosen.items())


def groups(setups: Sequence[Experiment]) -> Iterator[tuple[str, list[str]]]:
    """The data sets by maker."""
    names = [setup.dataset.name for setup in setups]
    bundled = [name for name in names if name in (*BUNDLED, *DOMAINS)]
    of_others = [name for name in names if name.startswith(("ragsmith_", "hotpotqa", "tatqa", "cranfield"))]
    yield "bundled", bundled
    yield "published", of_others
    yield "other kinds", [name for name in names if name not in {*bundled, *of_others}]
    yield "all", names


def labelled(setup: Experiment) -> list[Example]:
    """The questions that have evidence."""
    return [one for one in setup.dataset.examples if one.evidence]


def retrieval(
    setup: Experiment, store: Store, pipelines: Sequence[Candidate], questions: Sequence[Example]
) -> np.ndarray:
    """R of each pipeline on each question."""
    with Evaluator(setup, store, 2) as evaluator:
        return np.array([found.values("retrieval") for found in evaluator.rank(pipelines, questions)])


def gains(setups: Sequence[Experiment], store: Store, header: str, wanted: Sequence[str]) -> None:
    """Print the table of general weights."""
    rivals = [pipeline(header, retrieval="hybrid", reranking="cross_encoder"), pipeline(header, retrieval="bm25")]
    ways = [pipeline(header, **first, **then) for first, then in WAYS.values()]
    print(
        "| set (questions) | recommended | BM25 on the same keys | " + " | ".join(WAYS) + " |",
        "| --- " * 6 + "|",
        sep="\n",
    )
    means = {}
    for setup in setups:
        if wanted and setup.dataset.name not in wanted:
            continue
        asked = labelled(setup)
        base, *others = retrieval(setup, store, [*rivals, *ways], asked)
        cells = [f"{base.mean():.3f}", f"{(others[0] - base).mean():+.3f}"]
        for found in others[1:]:
            away = found - base
            cells.append(f"{away.mean():+.3f} ± {1.96 * away.std(ddof=1) / len(away) ** 0.5:.3f}")
        means[setup.dataset.name] = [(found - base).mean() for found in others]
        print(f"| {setup.dataset.name} ({len(asked)}) | " + " | ".join(cells) + " |", flush=True)
    for name, its in groups(setups):
        if rows := [means[one] for one in its if one in means]:
            least = np.min(rows, axis=0)[1:]
            cells = [f"{mean:+.4f}" for mean in np.mean(rows, axis=0)]
            print(f"| **{name}** (mean of {len(rows)}) |  | " + " | ".join(cells) + f" | least {np.round(least, 3)}")


def adaptation(setups: Sequence[Experiment], store: Store, header: str, wanted: Sequence[str]) -> None:
    """Print the table of fitted weights."""
    able = {way: [pipeline(header, learning=own, **a, **b) for own in (False, True)] for way, (a, b) in WAYS.items()}
    found: dict[tuple[str, int], dict[str, float]] = {}
    for setup in setups:
        if wanted and setup.dataset.name not in wanted:
            continue
        asked = labelled(setup)
        halves = make_folds(setup.dataset, asked, 2)
        if len(halves) < 2:
            continue
        drawn = [sorted(half, key=lambda one: sha256(one.id.encode()).hexdigest()) for half in halves]
        for size in SIZES:
            if size > max(map(len, halves)):
                continue
            moved: dict[str, list[float]] = {way: [] for way in WAYS}
            for mine, others in (drawn, drawn[::-1]):
                divided = replace(setup, fixed_split=Split(tuple(mine[:size]), tuple(others), "halves"))
                for way, pair in able.items():
                    plain, fitted = retrieval(divided, store, pair, others)
                    moved[way] += (fitted - plain).tolist()
            for way, values in moved.items():
                found.setdefault((way, size), {})[setup.dataset.name] = float(np.mean(values))
            said = ", ".join(f"{way} {np.mean(values):+.4f}" for way, values in moved.items())
            print(f"{setup.dataset.name}: {size} search questions: {said}", flush=True)
    print(
        "| | " + " | ".join(f"{size} questions" for size in SIZES) + " |", "| --- " * (1 + len(SIZES)) + "|", sep="\n"
    )
    for way in WAYS:
        cells = []
        for size in SIZES:
            its = found.get((way, size), {})
            least = min(its, key=its.__getitem__, default="")
            cells.append(
                f"{np.mean(list(its.values())):+.4f} ({len(its)} sets; least {its[least]:+.3f}, {least})" if its else ""
            )
        print(f"| {way} | " + " | ".join(cells) + " |")


def answers(setups: Sequence[Experiment], store: Store) -> None:
    """Print what the recommended pipeline gains over the one that was recommended before."""
    means, errors = [], []
    for setup in setups:
        data = setup.dataset
        if data.name not in bundled_domains():
            continue
        now = recommend_candidate(setup, load_space("default"), Fitness())
        assert now is not None
        revised = "none" if data.name == "law" else "reflection_revising"
        before = pipeline("contextual_chunk_headers", **BEFORE, post_generation=revised)
        asked = [one for one in setup.split.test if one.evidence]
        with Evaluator(setup, store, 2) as evaluator:
            first, second = (found.values("fitness") for found in evaluator.evaluate([now, before], asked))
        gains = (np.array(first) - np.array(second)).tolist()
        low, high = cluster_interval(
            gains, Clusters.from_examples(data, asked).group_numbers(sorted(one.id for one in asked))
        )
        means.append(float(np.mean(gains)))
        errors.append((high - low) / (2 * 1.96))
        print(f"{data.name}: {label(now)}: {means[-1]:+.4f} [{low:+.4f}, {high:+.4f}]", flush=True)
    if its := pool_estimates(means, errors):
        print(f"pooled: {its.mean:+.4f} [{its.low:+.4f}, {its.high:+.4f}], {its.agree} of {its.datasets} with its sign")


def main() -> None:
    """Learn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--embedder")
    parser.add_argument("--shipped", action="store_true")
    parser.add_argument("--none", action="store_true")
    parser.add_argument("--adapt", action="store_true")
    parser.add_argument("--answers", action="store_true")
    given = parser.parse_intermixed_args()
    load_techniques()
    models = ModelNames().override({"embedder": given.embedder} if given.embedder else {})
    own = [Experiment(load_dataset(name), models) for name in (*BUNDLED, *DOMAINS)]
    others = [with_all_questions(data) for data in (*published(given.data), *corpora(given.corpora))]
    setups = [*own, *(replace(setup, models=models) for setup in others)]
    header = "none" if given.none else "contextual_chunk_headers"
    with TemporaryDirectory() as folder, Store.open(Path(folder) / "cache.sqlite") as store:
        if given.answers:
            answers(setups, store)
            return
        if not given.shipped:
            weights = learn_weights(setups, store)
            setups = [replace(setup, weights=weights) for setup in setups]
        (adaptation if given.adapt else gains)(setups, store, header, given.sets)


if __name__ == "__main__":
    main()

"""Which pipelines stay the best ones of `law` as distractors are added, and how well a sample of the corpus tells.

    python benchmarks/bench_distractors.py [--sizes 1 10 100] [--pipelines 40] [--keep docs/scale.json]

The corpus grows by made-up documents (`growing_corpus.py`) to so many times its chunks. Their sentences are those of
bundled sets with names and words exchanged; one that has half of the terms of a gold sentence, or of a reference
answer, gives way to another, so that what is relevant stays what it was. A fixed set of pipelines of the default space
is evaluated on every corpus as ``--objective retrieval`` does: R, on the search and on the test questions. It has naive
RAG, BM25, what is recommended for `law`, the winner in ``reports/examples``, each retriever alone, and others drawn at
random; left out are pre-embeddings that ask a language model about every chunk.

Of each corpus, against the largest: Kendall's tau-b of the two rankings, how many of the first five are the same, and
the regret of choosing on the smaller one: R on the largest of what is best there, less that of what is chosen. Choices
and regrets are by search questions; ``test`` is the same difference on the test questions. Samples of the largest
corpus have all documents with gold, and others until there are k chunks for each chunk that is gold: ``random`` ones,
with several seeds, or the ``nearest``, of which most chunks stand high among the 20 best for search questions by words
and by vectors. What resampled questions would change is printed beside it: 2,000 bootstrap samples of the search
questions, on the largest corpus.

All is kept in docs/scale.json, from which ``python tools/documentation.py`` makes docs/scale.svg and the tables of
docs/scale.md. Each corpus is evaluated in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.pool import AsyncResult
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import yaml
from growing_corpus import SEED, growing_documents
from scipy.stats import kendalltau

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import load_dataset, make_dataset
from ragsmith.evaluation.baselines import baseline, list_probes
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import CHUNK_SIZE, Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.index.index import Index
from ragsmith.models.usage import Meter
from ragsmith.pipelines.genes import Candidate, label, read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.runs.recommended import recommend_candidate
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES, FILTER_INDEX
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.text.words import sentences, terms
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset, Document

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "scale.json"
WINNER = ROOT / "reports" / "examples" / "law" / "winner.yaml"
SIZES = (1, 10, 100)
DISTRACTORS = (3, 10, 30, 100)
SEEDS = 4
DEAR = 30
"""Distractors from which on two seeds do, and beyond which the nearest are left out: it costs almost as much as all."""
PIPELINES = 40
SHARE = 0.5
"""Of the terms of a gold sentence or of a reference answer: a sentence that has so many of them may say the same."""
NEAR = 20
RRF = 60
RESAMPLES = 2_000
A_CHUNK = ("hype", "raptor", "cross_document")
"""Pre-embeddings that ask a language model about every chunk."""


# --- distractors ------------------------------------------------------------------------------------------------------


class Gold:
    """What distractors must not say: the sentences of the evidence, and the reference answers, as sets of terms."""

    def __init__(self, dataset: Dataset) -> None:
        texts = {document.id: document.text for document in dataset.documents}
        spans = [span for example in dataset.examples for span in example.evidence]
        said = [text for span in spans for text in _sentences(texts[span.doc][span.start : span.end])]
        said += [example.answer for example in dataset.examples]
        held = dict.fromkeys(frozenset(terms(text)) for text in said)
        self._sizes = [len(one) for one in held if one]
        self._with: dict[str, list[int]] = defaultdict(list)
        for number, one in enumerate(one for one in held if one):
            for term in one:
                self._with[term].append(number)

    def nearest(self, text: str) -> float:
        """The largest share of the terms of one of them that ``text`` has."""
        shared = Counter(number for term in set(terms(text)) for number in self._with.get(term, ()))
        return max((count / self._sizes[number] for number, count in shared.items()), default=0.0)


def _sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


def distractors(dataset: Dataset, chunks: int, seed: int) -> tuple[list[Document], dict[str, float]]:
    """Documents of at least so many chunks, none of which holds gold, and what was seen of that."""
    gold = Gold(dataset)
    asked = Counter[bool]()

    def allowed(text: str) -> bool:
        found = text.endswith((".", "?", "!")) and gold.nearest(text) < SHARE  # items of a list would join what follows
        asked[found] += 1
        return found

    documents: list[Document] = []
    count = 0
    for document in growing_documents(chunks, seed, allowed):
        paragraphs = [part for part in document.text.split("\n\n") if not part.startswith("#")]
        if max(gold.nearest(text) for part in paragraphs for text in _sentences(part)) >= SHARE:
            continue  # two sentences read as one
        documents.append(document)
        count += _size(document)
        if count >= chunks:
            break
    return documents, {"documents": len(documents), "chunks": count, "refused": asked[False] / asked.total()}


def _size(document: Document) -> int:
    return len(chunk_documents([document], size=CHUNK_SIZE))


def prefix(documents: Sequence[Document], chunks: int) -> list[Document]:
    """The first documents that have at least so many chunks together."""
    found: list[Document] = []
    count = 0
    for document in documents:
        if count >= chunks:
            break
        found.append(document)
        count += _size(document)
    return found


def near(law: Dataset, documents: Sequence[Document]) -> tuple[list[str], dict[str, float]]:
    """The ids of ``documents``, those first that compete most with those of ``law`` for the search questions.

    A document has the sum of 1 / (60 + rank) over its chunks among the first 20 by words, and by vectors. Beside them
    stands for what share of the questions the very first chunk is one of theirs.
    """
    setup, own = Experiment(grown(law, documents)), {document.id for document in law.documents}
    index = Index(none(setup.corpus.chunks))
    engine = setup.engine()
    embedder = engine.gateway.embedder(engine.models.embedder, Meter())
    questions = [example.question for example in setup.split.search]
    votes: dict[str, float] = dict.fromkeys((document.id for document in setup.dataset.documents), 0.0)
    first_is_other: dict[str, float] = {}
    found = {"words": index.by_words(questions, NEAR), "vectors": index.by_vector(questions, NEAR, embedder)}
    for by, rankings in found.items():
        first_is_other[by] = sum(hits[0].chunk.doc not in own for hits in rankings if hits) / len(questions)
        for hits in rankings:
            for rank, hit in enumerate(hits, 1):
                votes[hit.chunk.doc] += 1 / (RRF + rank)
    return sorted((one for one in votes if one not in own), key=lambda one: (-votes[one], one)), first_is_other


# --- pipelines --------------------------------------------------------------------------------------------------------


def pipelines(setup: Experiment, count: int, seed: int) -> dict[str, Candidate]:
    """Pipelines by name, all of them different up to the filter: named ones, and others drawn at random."""
    whole = load_space("default")
    space = whole.restricted_to_rankings().without(lambda gene: gene.technique.name in A_CHUNK)
    recommended = recommend_candidate(setup, whole, Fitness())
    winner = read_configuration(yaml.safe_load(WINNER.read_text(encoding="utf-8"))["pipeline"])
    assert recommended is not None
    named = {"naive RAG": baseline("naive"), "BM25": baseline("bm25"), "recommended": recommended, "winner": winner}
    found = {name: _ranking(candidate, space) for name, candidate in named.items()}
    for probe in list_probes(space):
        if probe.gene.technique.family == "retrieval":
            found.setdefault(label(probe.candidate), probe.candidate)
    unique = {candidate: name for name, candidate in reversed(found.items())}  # the first name of each
    found = {name: candidate for name, candidate in found.items() if unique[candidate] == name}
    draw = random.Random(seed)
    while len(found) < count:
        genome = tuple(draw.randrange(size) for size in space.sizes)
        candidate = space.candidate(genome)
        if space.allows(candidate) and candidate not in unique:
            unique[candidate] = label(candidate)
            found[label(candidate)] = candidate
    return dict(list(found.items())[:count])


def _ranking(candidate: Candidate, space: Space) -> Candidate:
    """A pipeline with nothing behind the filter, to be fitted anew."""
    rest = tuple(genes[0] for genes in space.options[FILTER_INDEX + 1 : len(FAMILIES)])
    return (*(replace(gene, fit=None) for gene in candidate[: FILTER_INDEX + 1]), *rest)


# --- measuring --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What came of a corpus: R of each pipeline (rows) on each question (columns), and what that took."""

    chunks: int
    search: Any
    test: Any
    seconds: float
    peak: float


def measure(law: Dataset, documents: Sequence[Document], candidates: Sequence[Candidate]) -> Measured:
    """Evaluate all pipelines on a corpus; CPU seconds with indexes and fits, and MiB of the process at most."""
    started = time.process_time()
    setup = Experiment(grown(law, documents))
    split = setup.split
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "cache.sqlite")
        with Evaluator(setup, store, 1, ranking_only=True) as evaluator:
            found = [evaluator.evaluate(candidates, part) for part in (split.search, split.test)]
    for one in (one for part in found for one in part if one.failures):
        raise RuntimeError(f"{label(one.candidate)}: {next(iter(one.failures.values()))['error']}")
    search, test = (np.array([one.values("retrieval") for one in part]) for part in found)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(len(setup.corpus.chunks), search, test, time.process_time() - started, peak)


def grown(law: Dataset, documents: Sequence[Document]) -> Dataset:
    """`law` with further documents, and its own questions and split."""
    return make_dataset({"name": "law", "language": "en"}, [*law.documents, *documents], law.examples)


def compared(found: Measured, whole: Measured) -> dict[str, float]:
    """What choosing on a corpus does, against choosing on the largest one."""
    here, there = found.search.mean(axis=1), whole.search.mean(axis=1)
    chosen, best = first(here), first(there)
    tested = whole.test.mean(axis=1)
    return {
        "chunks": found.chunks,
        "tau": float(kendalltau(here, there).statistic),
        "top5": len(set(order(here)[:5]) & set(order(there)[:5])) / 5,
        "regret": float(there[best] - there[chosen]),
        "test": float(tested[best] - tested[chosen]),
        "chosen": chosen,
        "seconds": found.seconds,
        "MiB": found.peak,
    }


def order(scores: Any) -> list[int]:
    """The rows, the best first; of equal ones the earlier."""
    return np.argsort(-np.round(scores, 12), kind="stable").tolist()


def first(scores: Any) -> int:
    return order(scores)[0]


def resampled(whole: Measured, seed: int) -> dict[str, float]:
    """Mean and 90 % quantile of the regret of choosing by other questions of the same kind, on the same corpus."""
    rng = np.random.default_rng(seed)
    scores = whole.search
    means = scores.mean(axis=1)
    drawn = rng.integers(scores.shape[1], size=(RESAMPLES, scores.shape[1]))
    chosen = [first(scores[:, questions].mean(axis=1)) for questions in drawn]
    regrets = means.max() - means[chosen]
    taus = [kendalltau(scores[:, questions].mean(axis=1), means).statistic for questions in drawn[:200]]
    return {
        "regret": float(regrets.mean()),
        "most": float(np.quantile(regrets, 0.9)),
        "tau": float(np.mean(taus)),
        "questions": scores.shape[1],
        "tested": whole.test.shape[1],
    }


def samples(
    documents: Sequence[Document], gold: int, ranked: Sequence[str], given: argparse.Namespace
) -> Iterator[tuple[str, int, int, list[Document]]]:
    """How documents were chosen, distractors for each chunk of gold, the seed, and the documents."""
    by_id = {document.id: document for document in documents}
    for k in given.distractors:
        if k <= DEAR:
            yield "nearest", k, 0, prefix([by_id[one] for one in ranked], k * gold)
        for seed in range(1, (given.seeds if k < DEAR else min(2, given.seeds)) + 1):
            drawn = random.Random(f"{given.seed} {k} {seed}").sample(documents, len(documents))
            yield "random", k, seed, prefix(drawn, k * gold)


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="times the chunks of law")
    parser.add_argument("--distractors", type=int, nargs="*", default=DISTRACTORS, metavar="K", help="of the samples")
    parser.add_argument("--pipelines", type=int, default=PIPELINES, metavar="N")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help="random samples of each size")
    parser.add_argument("--seed", type=int, default=SEED, help="of documents and pipelines")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time")
    parser.add_argument("--keep", type=Path, default=KEPT, metavar="FILE", help="where figures are kept")
    given = parser.parse_args()
    sizes = sorted(given.sizes)
    started = time.process_time()
    law = load_dataset("law")
    setup = Experiment(law)
    own = len(setup.corpus.chunks)
    gold = len({chunk for one in setup.relevance.values() for chunk in one.relevant})
    documents, seen = distractors(law, (sizes[-1] - 1) * own, given.seed)
    chosen = pipelines(setup, given.pipelines, given.seed)
    names = list(chosen)
    print(
        f"law: {own} chunks, {gold} of them gold; {seen['documents']:,} documents more, {seen['chunks']:,} chunks, for "
        f"which {seen['refused']:.0%} of the sentences were refused; {len(names)} pipelines"
    )

    candidates = list(chosen.values())
    with multiprocessing.get_context("fork").Pool(given.jobs, maxtasksperchild=1) as pool:

        def evaluated(more: Sequence[Document]) -> AsyncResult[Measured]:
            return pool.apply_async(measure, (law, more, candidates))

        running = {size: evaluated(prefix(documents, (size - 1) * own)) for size in reversed(sizes)}
        ranked, other_first = pool.apply(near, (law, documents))
        drawn = [(*about, evaluated(some)) for *about, some in samples(documents, gold, ranked, given)]
        at = {size: running[size].get() for size in sizes}
        whole = at[sizes[-1]]
        growth = [{"size": size, **compared(found, whole)} for size, found in at.items()]
        print("\n  times  chunks  CPU s    MiB    tau  top 5  regret   test  best on the search questions")
        for one in growth:
            print(f"{one['size']:>7} {_line(one)}  {names[one['chosen']]}")
        print(
            f"\nof the largest, the first chunk for a search question is a distractor for {other_first['words']:.0%} "
            f"by words and for {other_first['vectors']:.0%} by vectors"
        )
        other = resampled(whole, given.seed)
        print(
            f"resampled search questions, on the largest: regret {other['regret']:.4f} on average, {other['most']:.4f} "
            f"in the worst tenth; tau {other['tau']:.3f}"
        )
        kept = {
            "corpus": {"own": own, "gold": gold, **seen, "first is a distractor": other_first},
            "pipelines": [{"name": name, "label": label(candidate)} for name, candidate in chosen.items()],
            "growth": [
                {**one, "search": _means(at[one["size"]].search), "tests": _means(at[one["size"]].test)}
                for one in growth
            ],
            "samples": [],
            "resampled": other,
        }
        write_file(json.dumps(_rounded(kept), indent=1) + "\n", given.keep)
        print("\n    k          seed  chunks  CPU s    MiB    tau  top 5  regret   test  best on the search questions")
        for how, k, seed, waiting in drawn:
            result = waiting.get()
            one = {"how": how, "k": k, "seed": seed, **compared(result, whole), "search": _means(result.search)}
            kept["samples"].append(one)
            print(f"{k:>5} {how:<8} {seed:>5} {_line(one)}  {names[one['chosen']]}", flush=True)
            write_file(json.dumps(_rounded(kept), indent=1) + "\n", given.keep)
    spent = time.process_time() - started + sum(one["seconds"] for one in (*growth, *kept["samples"]))
    print(f"{spent:.0f} CPU s in all")


def _line(one: Mapping[str, float]) -> str:
    parts = f"{one['chunks']:>7,} {one['seconds']:>6.1f} {one['MiB']:>6,.0f}  {one['tau']:.3f}   {one['top5']:.1f}"
    return f"{parts}  {one['regret']:.4f} {one['test']:+.3f}"


def _means(scores: Any) -> list[float]:
    return scores.mean(axis=1).tolist()


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()

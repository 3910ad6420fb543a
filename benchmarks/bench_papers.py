"""Claims of the papers behind the techniques, measured on HotpotQA and TAT-QA with the embedded models.

python benchmarks/bench_papers.py [FILE]    prints a Markdown report, and writes it to FILE

All questions are scored, as nothing is chosen by them; what is fitted learns on the search split and answers each of
its questions with numbers learned without it. TAT-QA: the first 300 questions by their (random) id, on all pages.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from papers_rows import FLAT, NAIVE, ROWS, Options, Row

from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.importers.hotpotqa import import_hotpotqa
from ragsmith.datasets.importers.tatqa import import_tatqa
from ragsmith.datasets.splits import split
from ragsmith.errors import SpaceError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.statistics import Paired, holm, paired, verdict
from ragsmith.evaluation.testbed import Setup, ordered
from ragsmith.measures.recall import recall_at
from ragsmith.models.usage import Meter
from ragsmith.pipelines.differences import difference
from ragsmith.pipelines.genes import Candidate, label, make_gene
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques
from ragsmith.techniques.retrieval.nest import nest
from ragsmith.types import Dataset, Hits

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
QUESTIONS = 300
WORKERS = 2
TITLES = {
    "recall": "Recall@5",
    "ndcg": "nDCG@5",
    "ndcg_10": "nDCG@10",
    "mrr": "MRR",
    "recall_50": "pool",
    "exact_match": "EM",
    "token_f1": "F1",
    "retrieval": "R",
    "fitness": "F",
    "context_chars": "context",
    "calls": "calls",
}
COUNTS = ("context_chars",)
"""Metrics that are no shares."""


@dataclass(frozen=True)
class Compared:
    """A line of the second table."""

    topic: str
    change: str
    reference: str
    metric: str
    result: Paired
    claim: str = ""
    expects: int = 1


@dataclass(frozen=True)
class Measured:
    """What was found on one data set."""

    name: str
    heading: str
    pipelines: list[Evaluation]
    compared: list[Compared]
    notes: list[str]


def datasets() -> Iterator[Dataset]:
    yield import_hotpotqa(DATA / "hotpotqa_100").dataset
    whole = import_tatqa(DATA / "tatqa_dev").dataset
    about = {key: getattr(whole, key) for key in ("name", "title", "description", "licence", "language")}
    yield make_dataset(about, whole.documents, whole.examples[:QUESTIONS])  # examples are sorted by id


def candidate(options: Options) -> Candidate:
    """Raises SpaceError when a technique or parameter is not there."""
    chosen = {**dict.fromkeys((family.name for family in FAMILIES), "none"), **NAIVE, **options}
    genes = ((name, (value, {}) if isinstance(value, str) else value) for name, value in chosen.items())
    return tuple(make_gene(name, technique, parameters) for name, (technique, parameters) in genes)


def known(rows: Iterable[Row]) -> tuple[list[tuple[Row, Candidate, Candidate]], list[str]]:
    """The rows that can be measured, changed pipeline and reference; and why the others cannot."""
    pairs, notes = [], []
    for row in rows:
        try:
            pairs.append((row, candidate(row.reference | row.change), candidate(row.reference)))
        except SpaceError as error:
            notes.append(f"{row.topic}: left out, {error}")
    return pairs, notes


def measure(data: Dataset, folder: Path) -> Measured:
    setup = Setup(data)
    pairs, notes = known(ROWS)
    distinct = list(dict.fromkeys(c for _, *both in pairs for c in both))
    with Store.open(folder / f"{data.name}.sqlite") as store, Evaluator(setup, store, WORKERS) as evaluator:
        evaluations = dict(zip(distinct, evaluator.evaluate(distinct, data.examples), strict=True))
        compared, failed = compare(pairs, evaluations)
        compared += pools(setup, store)
    divided = split(data)
    heading = (
        f"{data.title}: {len(data.documents)} documents in {len(setup.corpus.chunks)} chunks, {len(data.examples)} "
        f"questions ({len(divided.search)} of them the search split, {divided.rule})"
    )
    complete = sorted((e for e in evaluations.values() if e.complete), key=lambda e: (-(e.mean("fitness") or 0), e.key))
    return Measured(data.title, heading, complete, compared, notes + failed)


def compare(
    pairs: Sequence[tuple[Row, Candidate, Candidate]], evaluations: dict[Candidate, Evaluation]
) -> tuple[list[Compared], list[str]]:
    compared, notes = [], []
    for row, changed, reference in pairs:
        said = difference(changed, reference)
        broken = next((e for e in (evaluations[changed], evaluations[reference]) if not e.complete), None)
        if broken:
            error = min(broken.failures.items())[1]["error"] if broken.failures else "not evaluated"
            notes.append(f"{row.topic}: {said}: {len(broken.failures)} questions failed, {error}")
            continue
        values = [evaluations[c].values(row.metric) for c in (changed, reference)]
        metric, result = TITLES[row.metric], paired(*values)
        compared.append(Compared(row.topic, said, label(reference), metric, result, row.claim, row.expects))
    return compared, notes


def pools(setup: Setup, store: Store) -> list[Compared]:
    """NEST's uncut pool against flat retrieval: its recall, and that of lists which are as long."""
    engine = setup.engine(store)
    flat = candidate(FLAT | {"retrieval": ("hybrid", {"weight": 0.6, "pool": 300, "k": 300})})
    index, _ = engine.prepare(flat)
    examples = ordered(setup.dataset.examples)
    queries = [example.question for example in examples]
    embedder = engine.gateway.embedder(setup.loaded_models.embedder, Meter())
    nested = nest(index, queries, embedder=embedder, k=len(index.entries))
    chunks, _ = engine.call(flat[2], (index, queries))

    def recalls(rankings: Iterable[Hits]) -> list[float]:
        relevant = (setup.relevance[example.id].relevant for example in examples)
        found = ([hit.chunk.id for hit in ranking] for ranking in rankings)
        return [recall_at(ids, wanted, max(1, len(ids))) for ids, wanted in zip(found, relevant, strict=True)]

    size = statistics.fmean(map(len, nested))
    line = partial(Compared, "NEST's pool")
    as_long = [hits[: len(held)] for hits, held in zip(chunks, nested, strict=True)]
    whole = f"the uncut pool, {size:.0f} chunks"
    return [
        line(whole, "20 chunks of flat hybrid", "Recall", paired(recalls(nested), recalls(h[:20] for h in chunks))),
        line(whole, "as many chunks of flat hybrid", "Recall", paired(recalls(nested), recalls(as_long))),
        *(
            line(
                f"the first {k} of the pool",
                f"{k} chunks of flat hybrid",
                f"Recall@{k}",
                paired(recalls(h[:k] for h in nested), recalls(h[:k] for h in chunks)),
            )
            for k in (20, 50)
        ),
    ]


def report(found: Sequence[Measured]) -> Iterator[str]:
    claims = [(measured.name, c) for measured in found for c in measured.compared if c.claim]
    yield "# What the papers' techniques do here"
    yield ""
    yield (
        "Written by `benchmarks/bench_papers.py` on the embedded models (static embeddings, late interaction in the "
        "cross-encoder's place, classical methods in the language model's): what a chat model would do may differ. "
        "All questions are scored. `pool` is the recall of the candidates before reranking and filter, 20 at most; "
        "`context` what the generator reads, in characters; `redundancy` the share of pairs of passages with a cosine "
        "above 0.85. A filter that only shortens a ranking cannot raise recall or nDCG; one that chooses within it "
        "can: read both beside F1, context and redundancy. Where `differ` is 0, a technique did nothing."
    )
    yield ""
    yield (
        "Differences are paired by question, with a bootstrap interval of 95 % and a sign-flip p. Verdicts are passed "
        f"on the {len(claims)} claims, with p adjusted by Holm over them; the other rows are for orientation, with raw "
        "p and no verdict. Which comparisons count as claims was settled after a first run of these tables had been "
        "seen, so the family is not one that was fixed beforehand. Questions on one page of TAT-QA are treated as "
        "independent, which they are not quite: its intervals are somewhat too narrow."
    )
    yield from ("", "## Do the claims hold here?", "")
    head = ["claim", "on", "change", "of", "by", "difference", "95 %", "differ", "adjusted p", "here"]
    families = zip(claims, holm([c.result.p for _, c in claims]), strict=True)
    yield from table(head, (answer(name, c, p, len(claims)) for (name, c), p in families))
    for measured in found:
        yield from ("", f"## {measured.heading}", "")
        yield from table(["pipeline", *TITLES.values(), "redundancy"], map(means, measured.pipelines))
        yield ""
        head = ["about", "change", "of", "by", "difference", "95 %", "differ", "p"]
        yield from table(head, map(line, measured.compared))
        if measured.notes:
            yield from ("", *(f"- {note}" for note in measured.notes))


def answer(name: str, c: Compared, adjusted: float, family: int) -> list[str]:
    """A claim, and what may be said of it: what was measured decides, whatever was expected."""
    result = c.result
    found = verdict(result, adjusted, family=family).value
    sign = {"better": 1, "worse": -1}.get(found)
    if result.nonzero == 0:
        said = "the change does nothing here"
    elif sign is None:
        said = "not contradicted" if c.expects == 0 else "not shown"
    elif c.expects == 0:
        said = "does not hold: " + ("there is a gain" if sign > 0 else "it is worse")
    else:
        said = "holds" if sign == c.expects else "does not hold: the opposite is shown"
    numbers = [f"{result.mean_difference:+.3f}", f"[{result.low:+.3f}, {result.high:+.3f}]"]
    return [
        f"{c.topic}: {c.claim}",
        name,
        c.change,
        c.reference,
        c.metric,
        *numbers,
        f"{result.nonzero} of {result.n}",
        f"{adjusted:.3f}",
        said,
    ]


def means(evaluation: Evaluation) -> list[str]:
    found = (f"{evaluation.mean(metric):,.{0 if metric in COUNTS else 3}f}" for metric in TITLES)
    return [label(evaluation.candidate), *found, redundancy(evaluation)]


def redundancy(evaluation: Evaluation) -> str:
    """Over the questions with at least two passages; the others have no pair."""
    ratios = [record["measures"]["redundancy_ratio"] for record in evaluation.records.values()]
    there = [ratio for ratio in ratios if ratio is not None]
    return f"{statistics.fmean(there):.3f}" if there else ""


def line(compared: Compared) -> list[str]:
    result = compared.result
    said = [compared.topic, compared.change, compared.reference, compared.metric]
    numbers = [f"{result.mean_difference:+.3f}", f"[{result.low:+.3f}, {result.high:+.3f}]"]
    tests = [f"{result.nonzero} of {result.n}", f"{result.p:.4f}" if result.p >= 0.0001 else "<0.0001"]
    return [*said, *numbers, *tests]


def table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    if not DATA.is_dir():
        sys.exit("the published data is not beside this checkout: nothing to measure")
    started = time.perf_counter()
    load_techniques()
    found = []
    with tempfile.TemporaryDirectory() as name:
        for data in datasets():
            found.append(measure(data, Path(name)))
            print(f"{data.name}: {time.perf_counter() - started:.0f} s so far", file=sys.stderr, flush=True)
    text = "\n".join(report(found)).rstrip() + "\n"
    print(text)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    print(f"{time.perf_counter() - started:.0f} s on {WORKERS} processes")


if __name__ == "__main__":
    main()

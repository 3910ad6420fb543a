"""Whether a filter lets anything through and what it costs, and what questions gain that propose one themselves.

    python benchmarks/bench_filters.py [access] [dated] [serve] [--documents N] [--questions N] [--stores NAME ...]

access  Five tenants, each with its own documents. Every retriever, over every vector store that it searches, answers
        its share of the questions, each for a tenant in turn: hits of others are counted, and so are questions without.
        Then the same questions are answered with and without a filter, by turns, in engines that share the index:
        milliseconds of CPU for a question, medians, with the 95 % interval of the median of ratios (bootstrap); and
        what a filter costs that was never used before.
dated   R of questions about monthly reports (`dated_reports`) with and without `self_query`, over three retrievers, and
        whether the proposed filters admit the evidence.
serve   `ragsmith serve` in a process of its own, asked by --clients at once with tokens of all tenants for --seconds:
        replies with anything of another tenant are counted.

Exit code 1 if there is a hit of another tenant.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from dated_reports import make_reports
from tenants import TENANTS, TYPES, filter_of, make_corpus, make_models, make_questions

from ragsmith.datasets.dataset import load_documents
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import composite
from ragsmith.evaluation.fitting import fit_gene
from ragsmith.evaluation.general_weights import load_shipped_weights
from ragsmith.evaluation.statistics import bootstrap_interval
from ragsmith.evaluation.threads import RANKING, evaluate_job
from ragsmith.gateway.gateway import Gateway
from ragsmith.index.fields import FieldSearch
from ragsmith.index.filtering import Admission
from ragsmith.index.index import Corpus
from ragsmith.index.stores import open_vector_store
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, Fit, configuration, make_gene
from ragsmith.techniques.query_expansion.self_query import propose_filter_offline
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.filters import parse_filter
from ragsmith.types import Example, Question

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


def run_access(given: argparse.Namespace) -> int:
    """Count hits of other tenants and time filters, in this process; return the hits."""
    corpus = make_corpus(given.documents)
    models = make_models(corpus)
    chosen = [(each, RETRIEVERS if each == "exact" else BY_VECTORS) for each in given.stores]
    runs = [(retriever, store) for store, retrievers in chosen for retriever in retrievers]
    engines: dict[str, Engine] = {}
    questions, leaked, each = make_questions(given.questions), 0, -(-given.questions // len(runs))
    print(f"{'retriever':18}{'store':14}{'questions':>10}{'foreign hits':>14}{'no hits':>9}{'seconds':>9}")
    with tempfile.TemporaryDirectory() as folder:
        locations = {"exact": "exact", "approximate": f"approximate:{folder}", "qdrant": "qdrant::memory:"}
        for number, (retriever, store) in enumerate(runs):
            if store not in engines:
                opened = partial(open_vector_store, locations[store])
                engines[store] = Engine(corpus, models, Gateway(), opened)
            own, started = questions[number * each : (number + 1) * each], time.perf_counter()
            foreign, empty = leaks(engines[store], retriever, own, itertools.cycle(TENANTS))
            leaked += foreign
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
    return leaked


PROPOSING = ("bm25", "vector", "hybrid")
WEIGHTS = (1.0, 0.5)
"""Shares of the filtered search in the score."""


def run_dated(_: argparse.Namespace) -> int:
    """Print R of questions with and without a filter that the embedded model proposes."""
    print(
        f"{'texts':15}{'retriever':11}{'questions':>16}{'R none':>9}{'weight':>8}{'R':>7}{'difference':>12}{'95 %':>18}"
    )
    for dated_text in (False, True):
        setup = Experiment(make_reports(dated_text=dated_text))
        engine, types = setup.engine(), np.array([example.type for example in setup.examples.values()])
        for retriever in PROPOSING:
            before, _, *after = pipeline(retriever)
            plain = score_all(engine, setup, (before, make_gene("query_expansion", "none"), *after))
            for weight in WEIGHTS:
                gene = make_gene("query_expansion", "self_query", {"weight": weight})
                proposing = score_all(engine, setup, (before, gene, *after))
                for kind in dict.fromkeys(types):
                    own, other = proposing[types == kind], plain[types == kind]
                    low, high = bootstrap_interval(own - other)
                    print(
                        f"{'with month' if dated_text else 'without month':15}{retriever:11}{f'{len(own)} {kind}':>16}"
                        f"{other.mean():9.3f}{weight:8}{own.mean():7.3f}{(own - other).mean():+12.3f}"
                        f"{low:+9.3f} to {high:+.3f}",
                        flush=True,
                    )
    admission, counts = Admission(setup.corpus, None), Counter()
    for example in setup.examples.values():
        counts[example.type, judge_proposal(admission, setup, example)] += 1
    print("\n" + "\n".join(f"{kind:12}{what:42}{count:5}" for (kind, what), count in sorted(counts.items())))
    return 0


def score_all(engine: Engine, setup: Experiment, candidate: Candidate) -> np.ndarray:
    """Return R of each question."""
    return np.array([score(engine, setup, candidate, question) for question in setup.examples])


def score(engine: Engine, setup: Experiment, candidate: Candidate, question: str) -> float:
    """Return R of a question."""
    done = evaluate_job(engine, setup, candidate, (0, question), RANKING)
    assert done.ok, done.value
    measured = composite("retrieval", done.value["measures"])
    assert measured is not None
    return measured


def judge_proposal(admission: Admission, setup: Experiment, example: Example) -> str:
    """Say whether the filter that the embedded model proposes for a question admits its evidence."""
    fields = FieldSearch(admission.fields, lambda _: lambda _: ((),)).describe(example.question)
    model = setup.loaded_models.technique_model
    proposed = propose_filter_offline(model, sample=0, question=example.question, fields=fields)
    if not proposed:
        return "no filter"
    filter_ = parse_filter(proposed, {"office": str, "issued": date})
    documents = {document.id: document for document in setup.dataset.documents}
    named = {condition.field for condition in filter_.conditions}
    admitted = {filter_.admits(documents[span.doc].fields) for span in example.evidence}
    share = "all" if admitted == {True} else "none" if admitted == {False} else "some"
    return f"by {' and '.join(sorted(named))}: admits {share} of the evidence"


TOKENS = {tenant: f"token-of-{tenant.lower()}-0123" for tenant in TENANTS}
PATHS = ("/retrieve", "/ask")


def run_serve(given: argparse.Namespace) -> int:
    """Ask `ragsmith serve` with tokens of all tenants at once; print and return what replies have of other tenants."""
    from bench_serve import started  # noqa: PLC0415  it puts other folders first, and needs all packages of a server

    print(f"{'pipeline':30}{'requests':>10}{'no hits':>9}{'foreign':>9}{'refused':>9}{'seconds':>9}")
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        data = write_deeds(Path(folder) / "deeds", make_corpus(given.documents))
        for number, expansion in enumerate(("none", "self_query")):
            genes = configuration(pipeline("hybrid", query_expansion=expansion))
            dataset = {"name": "deeds", "documents": str(data), "digest": load_documents(data).digest}
            winner = Path(folder) / f"{expansion}.yaml"
            winner.write_text(json.dumps({"dataset": dataset, "chunk_size": 900, "pipeline": genes}))
            tokens = Path(folder) / "tokens"
            tokens.write_text("".join(f"{token}: tenant={tenant}\n" for tenant, token in TOKENS.items()))
            with started(winner, "--token-file", str(tokens)) as (_, url):
                until = time.monotonic() + given.seconds / 2
                ask = partial(ask_until, url, until)
                seeds = range(given.clients * number, given.clients * (number + 1))
                with ThreadPoolExecutor(given.clients) as pool:
                    began = time.monotonic()
                    counts = sum(pool.map(ask, seeds), Counter())
            total += counts["foreign"]
            print(
                f"{f'hybrid, {expansion}':30}{counts['requests']:10,}{counts['no hits']:9,}{counts['foreign']:9,}"
                f"{counts['refused']:9,}{time.monotonic() - began:9.1f}",
                flush=True,
            )
    return total


def write_deeds(folder: Path, corpus: Corpus) -> Path:
    """Write the documents of ``corpus`` with their fields as front matter; return the folder."""
    folder.mkdir(parents=True)
    (folder / "dataset.yaml").write_text("name: deeds\nfields: {year: number, signed: date}\n")
    for document in corpus.documents.values():
        path = folder / "documents" / f"{document.id}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        front = "".join(f"{name}: {value}\n" for name, value in document.fields.items())
        path.write_text(f"---\n{front}---\n# {document.title}\n\n{document.text}\n")
    return folder


def ask_until(url: str, until: float, seed: int) -> Counter[str]:
    """Ask as one tenant after the other, with a filter of the request's own in every third request; count replies.

    A reply is foreign if a source or passage is of another tenant, or if its text names another one outside of a
    repetition of the question.
    """
    counts: Counter[str] = Counter(foreign=0)
    asked = zip(make_questions(100_000, 100 + seed), itertools.cycle(TENANTS), itertools.count(seed), strict=False)
    with httpx.Client(base_url=url, timeout=60) as client:
        for question, tenant, number in asked:
            if time.monotonic() > until:
                break
            others = [other for other in TENANTS if other != tenant]
            filters = (None, f"tenant={others[number % 4]}", None, f"year>={2015 + number % 10}", None, "")
            body = {"question": question, **({"filter": filters[number % 6]} if filters[number % 6] else {})}
            headers = {"authorization": f"Bearer {TOKENS[tenant]}"}
            reply = client.post(PATHS[number // 7 % 2], json=body, headers=headers)
            counts["requests"] += 1
            counts["refused"] += reply.status_code != 200
            if reply.status_code == 200:
                found = [each["doc"] for part in ("passages", "sources") for each in reply.json().get(part, ())]
                text = reply.text.replace(json.dumps(question, ensure_ascii=False)[1:-1], "").lower()
                has_other = any(other.lower() in text for other in others)
                counts["no hits"] += not found
                counts["foreign"] += has_other or any(not doc.startswith(f"{tenant.lower()}/") for doc in found)
    return counts


PARTS = {"access": run_access, "dated": run_dated, "serve": run_serve}


def main() -> int:
    """Run the given parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["access"], help=f"of {', '.join(PARTS)}")
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=20_000)
    parser.add_argument("--timed", type=int, default=150)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--stores", nargs="*", default=["exact", "approximate", "qdrant"])
    given = parser.parse_args()
    load_techniques()
    return int(sum(PARTS[part](given) for part in given.parts) > 0)


if __name__ == "__main__":
    sys.exit(main())

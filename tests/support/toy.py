"""A run small enough to check by hand: five pipelines, ten search and eight test questions, all scores chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragsmith.gateway.call_context import CallCounts
from ragsmith.pipelines.genes import Candidate, configuration, make_gene
from ragsmith.records.record import (
    DatasetRecord,
    Division,
    ProbeRecord,
    RunRecord,
    RunSettings,
    RunStatistics,
    SearchedSpace,
)
from ragsmith.store.store import EvaluationRow, ProposalRow, ResultRow, RunState, Store
from ragsmith.strategies import Generation
from ragsmith.techniques.families import FAMILIES

PLAIN = {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"}
SEARCH = [f"s{i}" for i in range(10)]
TEST = [f"t{i}" for i in range(8)]
TITLE = "Toys <script>alert(1)</script> | *all*"

RETRIEVALS = ["vector", "bm25", "hybrid"]
RERANKINGS = ["none", "cross_encoder"]


def candidate(**genes: str) -> Candidate:
    chosen = {**PLAIN, **genes}
    return tuple(make_gene(family.name, chosen.get(family.name, "none")) for family in FAMILIES)


def genome(**genes: str) -> list[int]:
    found = [0] * len(FAMILIES)
    names = [family.name for family in FAMILIES]
    found[names.index("retrieval")] = RETRIEVALS.index(genes.get("retrieval", "vector"))
    found[names.index("reranking")] = RERANKINGS.index(genes.get("reranking", "none"))
    return found


def result(
    retrieval: float, generation: float, *, said: str, stages: Mapping[str, str], calls: int = 1
) -> dict[str, Any]:
    measures: dict[str, float | None] = dict.fromkeys(("recall", "map", "ndcg", "mrr"), retrieval)
    measures |= dict.fromkeys(("judge", "similarity"), generation)
    measures |= {"recall_50": 0.9, "context_chars": 1000.0 * calls}
    repeats = 0.25 if int(said[-1]) % 2 == 0 else None  # only every other question was left two passages
    outputs = {family.name: "plain" for family in FAMILIES if family.tier == "question"}
    usage = {"calls": calls, "texts_embedded": 1, "pairs_scored": 0, "input_tokens": 10, "output_tokens": 2}
    return {
        "measures": {**measures, "redundancy_ratio": repeats, "faithfulness": None},
        "retrieved": [said],
        "answer": said,
        "cited": [],
        "stages": {**outputs, **stages},
        "usage": usage,
    }


def put_toy(
    store: Store,
    name: str = "toy",
    *,
    run: str = "run",
    state: RunState = "finished",
    test: bool = True,
    started: str = "2026-01-01T10:00:00+00:00",
    done: bool = True,
    max_failure_rate: float = 0.05,
) -> None:
    """Keep the run under ``run``; with ``done`` false only its description and what it proposed, as after a kill.

    One of the pipelines failed on one of ten questions.
    """
    digest = f"digest of {name}"
    types = {question: "even" if int(question[1:]) % 2 == 0 else "odd" for question in [*SEARCH, *TEST]}
    modalities = {question: "prose" if int(question[1:]) < 6 else "table" for question in types}
    about = DatasetRecord(TITLE, "Made up.", 2, 7, types, modalities)
    store.put_dataset(digest, name, about.to_dict())
    keys = {label: f"{name}: {label}" for label in ("naive", "bm25", "hybrid", "hybrid reranked", "reranked")}
    genes = {
        "naive": {},
        "bm25": {"retrieval": "bm25"},
        "hybrid": {"retrieval": "hybrid"},
        "hybrid reranked": {"retrieval": "hybrid", "reranking": "cross_encoder"},
        "reranked": {"reranking": "cross_encoder"},
    }
    for label, key in keys.items():
        store.put_evaluations([EvaluationRow(key, digest, {"pipeline": configuration(candidate(**genes[label]))})])
        store.put_results(_results(key, label, TEST if test else []))
    fitness = {"naive": 0.5, "bm25": 0.51, "hybrid": 0.7, "hybrid reranked": 0.7, "reranked": None}
    record = replace(describe_run(test), settings=RunSettings(max_failure_rate=max_failure_rate))
    store.put_run(run, digest, record.to_dict(), started=started)
    store.put_proposals(
        run,
        [
            ProposalRow(i, i // 2, genome(**genes[label]), keys[label], {"fitness": fitness[label]})
            for i, label in enumerate(keys)
        ],
    )
    if state != "running":
        record = _ended(record, keys, test) if done else record
        store.update_run(run, state, record.to_dict(), finished="2026-01-01T10:00:30+00:00")


def _results(key: str, label: str, test: Sequence[str]) -> list[ResultRow]:
    rows = []
    for place, question in enumerate([*SEARCH, *test]):
        said = f"{label.removesuffix(' reranked')} {question}"
        stages: dict[str, str] = {}
        if label == "naive":
            value = result(0.5, 0.5, said=said, stages=stages)
        elif label == "bm25":
            stages = {"query_expansion": "other"} if place % 2 else {}
            good = question in TEST[:5]
            value = result(0.8 if good else 0.62, 0.6 if good else 0.4, said=said, stages=stages)
        elif label == "reranked":
            value = result(0.5, 0.5, said=said, stages=stages, calls=3)
        else:
            value = result(0.8, 0.6, said=said, stages={"query_expansion": "other"}, calls=2)
        rows.append(ResultRow(key, question, "ok", value))
    if label == "reranked":
        error = {"stage": "reranking.cross_encoder", "error": "ModelError: no reply | <b>", "traceback": ""}
        rows[0] = ResultRow(key, SEARCH[0], "failed", error)
    return rows


def describe_run(test: bool) -> RunRecord:
    options = {family.name: (PLAIN.get(family.name, "none"),) for family in FAMILIES}
    options |= {"retrieval": tuple(RETRIEVALS), "reranking": tuple(RERANKINGS)}
    rule = "given" if test else "too small to split, nothing is claimed"
    return RunRecord(
        SearchedSpace("tiny", "d", 6, 6, options),
        RunSettings(),
        {
            "language_model": "openai:gpt@temperature=0",
            "judge": "extractive:0123456789abcdef0123456789abcdef",
            "embedder": "wordllama:l2_supercat_256@0.3.9",
            "cross_encoder": "late-interaction:abc",
        },
        {},
        900,
        Division(rule, tuple(SEARCH), tuple(TEST if test else ())),
        threshold=0.25,
    )


def _ended(begun: RunRecord, keys: Mapping[str, str], test: bool) -> RunRecord:
    probes = [
        ("retrieval", "bm25", "bm25"),
        ("retrieval", "hybrid", "hybrid"),
        ("reranking", "cross_encoder", "reranked"),
    ]
    finalists = {"winner": "hybrid", "naive": "naive", "bm25": "bm25", "random": "hybrid reranked"}
    return replace(
        begun,
        baselines={"bm25": keys["bm25"], "naive": keys["naive"]},
        history=(
            Generation(0, (), 0.51, None, 0.505, 1.0, None, 2, 0),
            Generation(1, (), 0.7, None, 0.7, 1.0, 0.08, 3, 0),
        ),
        winner=keys["hybrid"],
        random=(keys["naive"], keys["hybrid reranked"]),
        probes=tuple(ProbeRecord(family, option, keys[label], keys["naive"], "") for family, option, label in probes),
        account=RunStatistics(50, 40, 400, 100, {"language_model": CallCounts(9, 6, 2, 4)}),
        test={name: keys[label] for name, label in finalists.items()} if test else {},
    )

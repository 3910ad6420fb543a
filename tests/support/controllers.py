"""What the decisions of SRR and CRAG do on the search questions of a data set, by retrieval.

python tests/support/controllers.py DATASET ...    prints a table; seconds a row, about a minute a data set
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.genes import Candidate, read_configuration
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Gold, Question

OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "crag, fitted": ("crag", {"threshold": "fitted"}),
    "srr, given": ("srr", {}),
    "srr, fitted": ("srr", {"controller": "fitted"}),
    "srr, fitted, one reformulation": ("srr", {"controller": "fitted", "reformulations": 1}),
}
RETRIEVALS = ("vector", "bm25", "hybrid")


def build(retrieval: str, expansion: str = "none", parameters: dict[str, Any] | None = None) -> Candidate:
    """Naive RAG with another retrieval and query expansion."""
    load_techniques()
    chosen = {
        "retrieval": retrieval,
        "passage_filter": "top_k",
        "prompt_maker": "listing",
        "query_expansion": expansion,
    }
    plain = {family.name: {"technique": chosen.get(family.name, "none"), "parameters": {}} for family in FAMILIES}
    plain["query_expansion"]["parameters"] = parameters or {}
    return read_configuration(plain)


@dataclass(frozen=True)
class Judgements:
    """The inputs of the decisions: values with their labels, on the questions of a data set."""

    crag: list[tuple[float, bool]]
    """The score of the first hits, and whether one of them is relevant."""
    evidence: list[tuple[float, bool]]
    """SRR's confidence after the first search, and whether its passages have all that is relevant."""
    changes: list[tuple[float, bool]]
    """The statistic of SRR's stopping rule, and whether a later search found something relevant and new."""


def judge(setup: Experiment, retrieval: str) -> Judgements:
    """Observe both techniques on the search questions with gold."""
    engine = setup.engine()

    def observe(option: str) -> list[Any]:
        candidate = build(retrieval, *OPTIONS[option])
        return [
            engine.observe(candidate, "query_expansion", Question(one.question), Gold(setup.relevance[one.id].relevant))
            for one in setup.calibration
        ]

    crag, srr = observe("crag, fitted"), observe("srr, fitted")
    return Judgements(
        [(value, label) for value, label in filter(None, crag)],
        [(value, label) for value, label in (one["evidence"] for one in srr if one["evidence"])],
        [(value, label) for one in srr for value, label in one["changes"]],
    )


def auc(judgements: Sequence[tuple[float, bool]]) -> float:
    """The probability that a positive has a higher value than a negative (area under the ROC curve)."""
    positive, negative = ([value for value, label in judgements if label is wanted] for wanted in (True, False))
    wins = sum((p > n) + (p == n) / 2 for p in positive for n in negative)
    return wins / (len(positive) * len(negative))


@dataclass(frozen=True)
class Worth:
    """The change of R over no query expansion, half its 95 % interval, other rankings, and calls a question."""

    option: str
    change: float
    margin: float
    others: int
    calls: float


def measure_worth(setup: Experiment, retrieval: str, options: Sequence[str]) -> list[Worth]:
    """Evaluate ``options`` on the search questions with gold; what is fitted is cross-fitted."""
    candidates = [build(retrieval), *(build(retrieval, *OPTIONS[option]) for option in options)]
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "cache.sqlite") as store:
        with Evaluator(setup, store, 1, ranking_only=True) as evaluator:
            bare, *expanded = evaluator.evaluate(candidates, setup.calibration)
        found = []
        for option, evaluation in zip(options, expanded, strict=True):
            pairs = zip(evaluation.values("retrieval"), bare.values("retrieval"), strict=True)
            differences = [one - other for one, other in pairs]
            margin = 1.96 * stdev(differences) / len(differences) ** 0.5
            same = sum(evaluation.records[q]["retrieved"] == bare.records[q]["retrieved"] for q in bare.questions)
            calls = fmean(evaluation.values("calls"))
            found.append(Worth(option, fmean(differences), margin, len(differences) - same, calls))
    return found


def rows(dataset: str) -> Iterator[str]:
    """The lines of the table of one data set."""
    setup = Experiment(load_dataset(dataset))
    for retrieval in RETRIEVALS:
        seen = judge(setup, retrieval)
        fires = sum(value < 0.1 for value, _ in seen.changes)
        yield (
            f"{dataset} {retrieval}, {len(setup.calibration)} questions: AUC of crag {auc(seen.crag):.2f}, of srr's "
            f"evidence {auc(seen.evidence):.2f}, of its stopping rule {auc(seen.changes):.2f}, which fires {fires} "
            f"times in {len(seen.changes)}; later searches find more {sum(label for _, label in seen.changes)} times"
        )
        for one in measure_worth(setup, retrieval, tuple(OPTIONS)):
            yield (
                f"  {one.option}: {one.change:+.3f} ± {one.margin:.3f}, {one.others} other rankings, "
                f"{one.calls:.1f} calls"
            )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for row in rows(name):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()

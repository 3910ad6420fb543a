"""What is asked of a run, and what is kept of it besides results: plain data that the report reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ragsmith.datasets.splits import Split
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.scoring import Weights
from ragsmith.evaluation.testbed import Setup
from ragsmith.evaluation.threads import Work
from ragsmith.gateway.budget import Spent
from ragsmith.gateway.gateway import KINDS
from ragsmith.pipelines.space import Space
from ragsmith.strategies import GeneticSettings
from ragsmith.techniques.families import FAMILIES


@dataclass(frozen=True)
class RunSettings:
    """Everything that decides how a run goes, besides data, models and space."""

    strategy: str = "genetic"
    genetic: GeneticSettings = field(default_factory=GeneticSettings)
    max_evaluations: int | None = None
    time_limit: float | None = None
    weights: Weights = field(default_factory=Weights)
    compare: bool = True
    """Whether to evaluate, too, as many random candidates, and every option alone in naive RAG."""


def describe_run(setup: Setup, space: Space, settings: RunSettings, split: Split) -> dict[str, Any]:
    """Everything that a run was asked to do."""
    return {
        "space": {
            "name": space.name,
            "digest": space.digest,
            "size": space.size,
            "feasible": space.feasible_size,
            "options": {f.name: [str(g) for g in genes] for f, genes in zip(FAMILIES, space.options, strict=True)},
        },
        "settings": asdict(replace(settings, time_limit=None)),
        "models": setup.loaded_models.ids(),
        "model_names": setup.models.plain(),
        "chunk_size": setup.chunk_size,
        "split": {
            "rule": split.rule,
            "search": sorted(example.id for example in split.search),
            "test": sorted(example.id for example in split.test),
        },
    }


def describe_dataset(setup: Setup) -> dict[str, Any]:
    """What the report says of a data set."""
    data = setup.dataset
    return {
        "title": data.title,
        "description": data.description,
        "documents": len(data.documents),
        "chunks": len(setup.corpus.chunks),
        "questions": {example.id: example.type for example in data.examples},
        "modalities": {example.id: setup.modality(example) for example in data.examples},
    }


def describe_work(evaluator: Evaluator, work: Work | None, spent: Spent) -> dict[str, Any]:
    """What the last command of a run computed, and found in the store; what all its commands spent."""
    described: dict[str, Any] = {"computed": evaluator.computed, "reused": evaluator.reused}
    if spent != Spent():
        described["spent"] = asdict(spent)
    if work:
        described["stages"] = {"requested": work.stages_requested, "computed": work.stages_computed}
        described["calls"] = {kind: asdict(work.calls[kind]) for kind in KINDS}
    return described

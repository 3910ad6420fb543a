"""Genetic architecture search for Retrieval-Augmented Generation pipelines.

import ragsmith

found = ragsmith.search("law", space="quick", cache="cache.sqlite", reports="reports")
print(found.verdict)
found.winner.ask("When does the limitation period start?")
ragsmith.Pipeline.load("reports/law/winner.yaml").verify()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragsmith.api.ablating import ablate
    from ragsmith.api.anchoring import anchor, repair
    from ragsmith.api.asking import ask, verify
    from ragsmith.api.checking import audit, audits, check_models
    from ragsmith.api.comparing import compare, gate
    from ragsmith.api.dataset_checks import check_dataset
    from ragsmith.api.deploying import deploy
    from ragsmith.api.drafting import draft_questions
    from ragsmith.api.explaining import explain, intervene
    from ragsmith.api.indexing import add_to_index, build_index, index_status, remove_from_index
    from ragsmith.api.ingesting import init_dataset
    from ragsmith.api.recommending import recommend
    from ragsmith.api.reporting import export, report
    from ragsmith.api.result import Result
    from ragsmith.api.reviewing import review
    from ragsmith.api.scoring import evaluate
    from ragsmith.api.searching import plan, search
    from ragsmith.api.searching_each import Searched, search_each
    from ragsmith.api.serving import asgi_app, serve
    from ragsmith.api.transferring import transfer
    from ragsmith.datasets.dataset import load_dataset
    from ragsmith.evaluation.fitness import Fitness, Weights
    from ragsmith.exported.pipeline import Pipeline
    from ragsmith.gateway.budget import Limits, Prices
    from ragsmith.models.names import ModelName, ModelNames
    from ragsmith.pipelines.space_file import load_space
    from ragsmith.records.record import RunSettings
    from ragsmith.serving.limits import ServingLimits
    from ragsmith.strategies import GeneticSettings

__version__ = "0.1.0"
__all__ = [
    "Fitness",
    "GeneticSettings",
    "Limits",
    "ModelName",
    "ModelNames",
    "Pipeline",
    "Prices",
    "Result",
    "RunSettings",
    "Searched",
    "ServingLimits",
    "Weights",
    "__version__",
    "ablate",
    "add_to_index",
    "anchor",
    "asgi_app",
    "ask",
    "audit",
    "audits",
    "build_index",
    "check_dataset",
    "check_models",
    "compare",
    "deploy",
    "draft_questions",
    "evaluate",
    "explain",
    "export",
    "gate",
    "index_status",
    "init_dataset",
    "intervene",
    "load_dataset",
    "load_space",
    "plan",
    "recommend",
    "remove_from_index",
    "repair",
    "report",
    "review",
    "search",
    "search_each",
    "serve",
    "transfer",
    "verify",
]

_HOME = {
    "Fitness": "ragsmith.evaluation.fitness",
    "GeneticSettings": "ragsmith.strategies",
    "Limits": "ragsmith.gateway.budget",
    "Prices": "ragsmith.gateway.budget",
    "ModelName": "ragsmith.models.names",
    "ModelNames": "ragsmith.models.names",
    "Pipeline": "ragsmith.exported.pipeline",
    "Result": "ragsmith.api.result",
    "RunSettings": "ragsmith.records.record",
    "Searched": "ragsmith.api.searching_each",
    "ServingLimits": "ragsmith.serving.limits",
    "Weights": "ragsmith.evaluation.fitness",
    "load_dataset": "ragsmith.datasets.dataset",
    "load_space": "ragsmith.pipelines.space_file",
    "ablate": "ragsmith.api.ablating",
    "anchor": "ragsmith.api.anchoring",
    "repair": "ragsmith.api.anchoring",
    "ask": "ragsmith.api.asking",
    "audit": "ragsmith.api.checking",
    "audits": "ragsmith.api.checking",
    "check_dataset": "ragsmith.api.dataset_checks",
    "check_models": "ragsmith.api.checking",
    "compare": "ragsmith.api.comparing",
    "gate": "ragsmith.api.comparing",
    "deploy": "ragsmith.api.deploying",
    "draft_questions": "ragsmith.api.drafting",
    "evaluate": "ragsmith.api.scoring",
    "explain": "ragsmith.api.explaining",
    "init_dataset": "ragsmith.api.ingesting",
    "add_to_index": "ragsmith.api.indexing",
    "build_index": "ragsmith.api.indexing",
    "index_status": "ragsmith.api.indexing",
    "remove_from_index": "ragsmith.api.indexing",
    "intervene": "ragsmith.api.explaining",
    "export": "ragsmith.api.reporting",
    "verify": "ragsmith.api.asking",
    "plan": "ragsmith.api.searching",
    "recommend": "ragsmith.api.recommending",
    "report": "ragsmith.api.reporting",
    "review": "ragsmith.api.reviewing",
    "search": "ragsmith.api.searching",
    "search_each": "ragsmith.api.searching_each",
    "asgi_app": "ragsmith.api.serving",
    "serve": "ragsmith.api.serving",
    "transfer": "ragsmith.api.transferring",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and nothing before: ``import ragsmith`` costs milliseconds."""
    if name not in _HOME:
        raise AttributeError(f"module 'ragsmith' has no attribute {name!r}")
    import importlib  # noqa: PLC0415

    return getattr(importlib.import_module(_HOME[name]), name)

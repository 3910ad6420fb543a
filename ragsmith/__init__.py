"""Genetic architecture search for Retrieval-Augmented Generation pipelines.

import ragsmith

found = ragsmith.search("law", space="quick", cache="cache.sqlite", reports="reports")
print(found.verdict)
found.winner.ask("When does the limitation period start?")
ragsmith.Pipeline.load("reports/law/winner.yaml").verify()
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragsmith.api.agent import agent
    from ragsmith.api.asking import (
        add_to_index,
        asgi_app,
        ask,
        build_index,
        deploy,
        index_status,
        remove_from_index,
        serve,
        translate,
        verify,
    )
    from ragsmith.api.checking import audit, audits, check_models, recommend
    from ragsmith.api.comparing import compare, compare_all, evaluate, final_test, gate
    from ragsmith.api.datasets import anchor, check_dataset, draft_questions, init_dataset, repair, review
    from ragsmith.api.diagnosing import ablate, diagnose, explain, intervene, transfer
    from ragsmith.api.reporting import Searched, export, report, search_each
    from ragsmith.api.result import Result
    from ragsmith.api.searching import plan, search
    from ragsmith.datasets.dataset import load_dataset
    from ragsmith.evaluation.fitness import Fitness, Weights
    from ragsmith.exported.pipeline import Pipeline
    from ragsmith.gateway.budget import Limits, Prices
    from ragsmith.models.names import ModelName, ModelNames
    from ragsmith.pipelines.space_file import load_space
    from ragsmith.pipelines.telemetry import Traces
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
    "Traces",
    "Weights",
    "__version__",
    "ablate",
    "add_to_index",
    "agent",
    "anchor",
    "asgi_app",
    "ask",
    "audit",
    "audits",
    "build_index",
    "check_dataset",
    "check_models",
    "compare",
    "compare_all",
    "deploy",
    "diagnose",
    "draft_questions",
    "evaluate",
    "explain",
    "export",
    "final_test",
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
    "translate",
    "verify",
]

_MODULES = {
    "Fitness": "ragsmith.evaluation.fitness",
    "GeneticSettings": "ragsmith.strategies",
    "Limits": "ragsmith.gateway.budget",
    "Prices": "ragsmith.gateway.budget",
    "ModelName": "ragsmith.models.names",
    "ModelNames": "ragsmith.models.names",
    "Pipeline": "ragsmith.exported.pipeline",
    "Result": "ragsmith.api.result",
    "RunSettings": "ragsmith.records.record",
    "Searched": "ragsmith.api.reporting",
    "ServingLimits": "ragsmith.serving.limits",
    "Traces": "ragsmith.pipelines.telemetry",
    "Weights": "ragsmith.evaluation.fitness",
    "load_dataset": "ragsmith.datasets.dataset",
    "load_space": "ragsmith.pipelines.space_file",
    "ablate": "ragsmith.api.diagnosing",
    "anchor": "ragsmith.api.datasets",
    "repair": "ragsmith.api.datasets",
    "agent": "ragsmith.api.agent",
    "ask": "ragsmith.api.asking",
    "audit": "ragsmith.api.checking",
    "audits": "ragsmith.api.checking",
    "check_dataset": "ragsmith.api.datasets",
    "check_models": "ragsmith.api.checking",
    "compare": "ragsmith.api.comparing",
    "compare_all": "ragsmith.api.comparing",
    "final_test": "ragsmith.api.comparing",
    "gate": "ragsmith.api.comparing",
    "deploy": "ragsmith.api.asking",
    "draft_questions": "ragsmith.api.datasets",
    "evaluate": "ragsmith.api.comparing",
    "diagnose": "ragsmith.api.diagnosing",
    "explain": "ragsmith.api.diagnosing",
    "init_dataset": "ragsmith.api.datasets",
    "add_to_index": "ragsmith.api.asking",
    "build_index": "ragsmith.api.asking",
    "index_status": "ragsmith.api.asking",
    "remove_from_index": "ragsmith.api.asking",
    "intervene": "ragsmith.api.diagnosing",
    "export": "ragsmith.api.reporting",
    "verify": "ragsmith.api.asking",
    "plan": "ragsmith.api.searching",
    "recommend": "ragsmith.api.checking",
    "report": "ragsmith.api.reporting",
    "review": "ragsmith.api.datasets",
    "search": "ragsmith.api.searching",
    "search_each": "ragsmith.api.reporting",
    "asgi_app": "ragsmith.api.asking",
    "serve": "ragsmith.api.asking",
    "transfer": "ragsmith.api.diagnosing",
    "translate": "ragsmith.api.asking",
}


def __dir__() -> list[str]:
    """Return the public names, as an interpreter completes them."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import a public name on first access, so that ``import ragsmith`` takes milliseconds."""
    if name not in _MODULES:
        raise AttributeError(f"module 'ragsmith' has no attribute {name!r}")
    import importlib  # noqa: PLC0415

    return getattr(importlib.import_module(_MODULES[name]), name)

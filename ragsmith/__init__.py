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
    from ragsmith.api import (
        ask,
        audit,
        check_models,
        evaluate,
        export,
        learn_effects,
        plan,
        recommend,
        report,
        search,
        verify,
    )
    from ragsmith.datasets.dataset import load_dataset
    from ragsmith.evaluation.fitness import Fitness, Weights
    from ragsmith.gateway.budget import Limits, Prices
    from ragsmith.models.names import ModelName, ModelNames
    from ragsmith.pipelines.space_file import load_space
    from ragsmith.reporting.result import Result
    from ragsmith.runs.pipeline import Pipeline
    from ragsmith.runs.record import RunSettings
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
    "Weights",
    "__version__",
    "ask",
    "audit",
    "check_models",
    "evaluate",
    "export",
    "learn_effects",
    "load_dataset",
    "load_space",
    "plan",
    "recommend",
    "report",
    "search",
    "verify",
]

_HOME = {
    "Fitness": "ragsmith.evaluation.fitness",
    "GeneticSettings": "ragsmith.strategies",
    "Limits": "ragsmith.gateway.budget",
    "Prices": "ragsmith.gateway.budget",
    "ModelName": "ragsmith.models.names",
    "ModelNames": "ragsmith.models.names",
    "Pipeline": "ragsmith.runs.pipeline",
    "Result": "ragsmith.reporting.result",
    "RunSettings": "ragsmith.runs.record",
    "Weights": "ragsmith.evaluation.fitness",
    "load_dataset": "ragsmith.datasets.dataset",
    "load_space": "ragsmith.pipelines.space_file",
    "ask": "ragsmith.api",
    "audit": "ragsmith.api",
    "check_models": "ragsmith.api",
    "evaluate": "ragsmith.api",
    "export": "ragsmith.api",
    "verify": "ragsmith.api",
    "plan": "ragsmith.api",
    "recommend": "ragsmith.api",
    "learn_effects": "ragsmith.api",
    "report": "ragsmith.api",
    "search": "ragsmith.api",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and nothing before: ``import ragsmith`` costs milliseconds."""
    if name not in _HOME:
        raise AttributeError(f"module 'ragsmith' has no attribute {name!r}")
    import importlib  # noqa: PLC0415

    return getattr(importlib.import_module(_HOME[name]), name)

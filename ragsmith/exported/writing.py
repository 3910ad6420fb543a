"""Write a pipeline as YAML, with every parameter resolved, and with scores to verify it by."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from ragsmith.datasets.bundled import names
from ragsmith.datasets.groups import GAP
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import HEADLINE, Fitness
from ragsmith.evaluation.ranking import common
from ragsmith.exported.file import FORMAT
from ragsmith.exported.reference import Reference
from ragsmith.models.vector_address import AUTO, to_relative_address
from ragsmith.pipelines.genes import configuration
from ragsmith.pipelines.hyperparameters import GENES
from ragsmith.techniques.user_code import recorded
from ragsmith.types import Dataset


def export_yaml(
    evaluation: Evaluation,
    test: Evaluation | None,
    setup: Experiment,
    run: Mapping[str, Any],
    *,
    location: Mapping[str, str],
    folder: Path,
    fitness: Fitness,
    ids: Mapping[str, str] | None = None,
) -> str:
    """The YAML of a pipeline; except for latency, it does not depend on when and where the pipeline was found.

    Paths in it are relative to ``folder``. ``ids`` are those of its models by role; if given, no model is loaded and no
    key is needed.
    """
    techniques = [gene.technique.fn for gene in evaluation.candidate]
    names = [setup.models, *([setup.marked_by.models] if setup.marked_by else [])]
    models = [factory for its in names for factory in its.factories()]
    imports = recorded([*techniques, *(known.fn for known in setup.measures), *models], folder)
    vectors_at = setup.models.vectors_at
    reference = Reference.from_evaluation(setup, test, fitness, ids) if test else None
    content = {
        "format": FORMAT,
        "ragsmith": version("ragsmith"),
        "dataset": {"name": setup.dataset.name, **location, "digest": setup.dataset.digest},
        **_cut(setup),
        **({"gap": setup.gap} if setup.gap != GAP else {}),
        **({"imports": imports} if imports else {}),
        **({} if vectors_at == AUTO else {"vector_store": to_relative_address(folder, vectors_at)}),
        "models": {**setup.models.to_dict(), "ids": dict(ids or setup.model_ids)},
        **({"marked_by": {**_cut(by), "models": by.models.to_dict()}} if (by := setup.marked_by) else {}),
        "fitness": fitness.plain(folder),
        "pipeline": configuration(evaluation.candidate[:GENES]),
        "run": dict(run),
        "expected": expected_scores(evaluation, test, fitness),
        **({"reference": reference.to_dict()} if reference else {}),
    }
    how = "found" if evaluation.records else "recommended"
    head = f'# A pipeline {how} by ragsmith {version("ragsmith")}.  Ask it:  ragsmith ask THIS_FILE "your question"\n'
    if fitness.ranks:
        head += (
            "# Retrieval alone was tuned: what stands behind passage_filter was not searched, and no answer scored.\n"
        )
    return head + exported_yaml(content)


def exported_yaml(content: Mapping[str, Any]) -> str:
    """The content of an exported file as YAML, with text of several lines as literal blocks."""
    return yaml.dump(dict(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as literal blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _cut(setup: Experiment) -> dict[str, int]:
    """The chunking."""
    overlap = {"chunk_overlap": setup.chunk_overlap} if setup.chunk_overlap else {}
    return {"chunk_size": setup.chunk_size, **overlap}


def expected_scores(search: Evaluation | None, test: Evaluation | None, fitness: Fitness) -> dict[str, dict[str, Any]]:
    """The scores to verify a pipeline by: means over the search and test questions that it finished.

    ``questions`` is their number, and ``failed`` has the ids of the others, if any.
    """
    expected: dict[str, dict[str, Any]] = {}
    for part, whole in (("search", search), ("test", test)):
        if whole is None or not whole.records or not whole.attempted:
            continue
        evaluation = whole.on(common([whole]))
        names = (*HEADLINE, *evaluation.measures)
        means = {name: mean for name in names if (mean := evaluation.mean(name, fitness)) is not None}
        failed = {"failed": sorted(whole.failures)} if whole.failures else {}
        expected[part] = {"questions": len(evaluation.questions), **failed, **means}
    return expected


def dataset_location(dataset: Dataset, folder: Path) -> dict[str, str]:
    """Where a file in ``folder`` finds a data set: a bundled name or a relative path; {} for one made in Python."""
    if not dataset.source:
        return {}
    path = Path(dataset.source)
    if not path.is_dir() and dataset.source in names("datasets"):
        return {"bundled": dataset.source}
    return {"path": Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()}

"""General weights of signals, learned on other data sets.

For each data set, the file has a sample of the word n-grams of its documents and, for each technique, the gradient and
the Hessian of the mean loss at the weights that fit all data sets best. They determine the weights without any of the
data sets: one whose documents overlap with those of an experiment is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ragsmith.datasets.overlap import MIN_CONTAINMENT, estimate_containment, sample_shingles
from ragsmith.errors import UsageError
from ragsmith.models.names import ModelNames
from ragsmith.models.registry import providers
from ragsmith.techniques.listwise import RIDGE, Array, WeightPrior
from ragsmith.techniques.registry import Technique
from ragsmith.types import Document

STATIC, TRANSFORMER = "static", "transformer"
"""Classes of embedders: static word vectors, and all others, including served ones."""
SHIPPED_FILES = {
    STATIC: Path(__file__).with_suffix(".json"),
    TRANSFORMER: Path(__file__).with_name("general_weights_transformer.json"),
}
"""The shipped files by class: cosines of transformers are more informative than those of static vectors."""
SIGNIFICANT_DIGITS = 6
"""Number of significant digits in the file."""

TechniqueName = str
"""A technique as ``family.name``."""


@dataclass(frozen=True, eq=False)
class LossExpansion:
    """The ``gradient`` and ``hessian`` of the mean loss of a data set at the general weights."""

    gradient: Array
    hessian: Array


@dataclass(frozen=True, eq=False)
class DatasetContribution:
    """The contribution of one data set; ``questions`` counts the informative questions by technique."""

    name: str
    sample: tuple[int, ...]
    questions: Mapping[TechniqueName, int]
    slopes: Mapping[TechniqueName, LossExpansion]


@dataclass(frozen=True, eq=False)
class GeneralWeights:
    """General weights of the ``signals`` of techniques: the contributions of ``datasets``, expanded at ``weights``.

    ``code`` has the fingerprint of each technique at the time of learning.
    """

    signals: Mapping[TechniqueName, tuple[str, ...]]
    weights: Mapping[TechniqueName, Array]
    datasets: tuple[DatasetContribution, ...]
    code: Mapping[TechniqueName, str] = field(default_factory=dict)

    def has_weights_for(self, technique: Technique) -> bool:
        """Return whether any of the data sets has weights for a technique."""
        name = f"{technique.family}.{technique.name}"
        return self.signals.get(name) == technique.signals and any(name in one.slopes for one in self.datasets)

    def for_technique(self, technique: Technique) -> WeightPrior:
        """Return the general weights of a technique.

        Raises:
            UsageError: there are none, or they were learned for other signals.
        """
        name = f"{technique.family}.{technique.name}"
        if not self.has_weights_for(technique):
            known = self.signals.get(name, technique.signals)
            raise UsageError(
                f"{name}: no data set on other documents teaches its weights; learn them with `tools/effects.py`"
                if known == technique.signals
                else f"{name} orders by the signals {', '.join(technique.signals)}, and weights were learned for "
                f"{', '.join(known)}: learn them again with `tools/effects.py`"
            )
        return self.general(name)

    def overlapping(self, documents: tuple[Document, ...]) -> tuple[str, ...]:
        """Return the names of the data sets whose documents overlap with ``documents``."""
        sample = sample_shingles(documents)
        return tuple(one.name for one in self.datasets if estimate_containment(one.sample, sample) >= MIN_CONTAINMENT)

    def without(self, names: Sequence[str]) -> GeneralWeights:
        """Return the general weights without the data sets of these ``names``."""
        return replace(self, datasets=tuple(one for one in self.datasets if one.name not in names))

    def general(self, name: TechniqueName) -> WeightPrior:
        """Return the weights of a technique that fit all data sets best, to second order, and the curvature."""
        its = self.weights[name]
        used = [one for one in self.datasets if name in one.slopes]
        curvature, gradient = RIDGE * np.eye(len(its)), RIDGE * its
        for one in used:
            curvature = curvature + one.slopes[name].hessian / len(used)
            gradient = gradient + one.slopes[name].gradient / len(used)
        # Kish's effective sample size, as data sets have different numbers of questions
        questions = round(len(used) ** 2 / sum(1 / one.questions[name] for one in used)) if used else 1
        weights = its - np.linalg.solve(curvature, gradient)
        return WeightPrior(self.signals[name], _round_for_keys(weights), _round_for_keys(curvature), questions)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON; Hessians, which are symmetric, as lower triangles row by row."""
        return {
            "signals": {name: list(its) for name, its in self.signals.items()},
            "code": dict(self.code),
            "weights": {name: _round_for_file(its) for name, its in self.weights.items()},
            "datasets": [
                {
                    "name": one.name,
                    "sample": list(one.sample),
                    "questions": dict(one.questions),
                    "gradient": {name: _round_for_file(slope.gradient) for name, slope in one.slopes.items()},
                    "hessian": {
                        name: _round_for_file(slope.hessian[np.tril_indices(len(slope.gradient))])
                        for name, slope in one.slopes.items()
                    },
                }
                for one in self.datasets
            ],
        }

    def write(self, path: Path) -> None:
        """Write a JSON file with a line for each data set."""
        plain = self.to_dict()
        lines = ",\n".join(json.dumps(one) for one in plain.pop("datasets"))
        head = "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in plain.items())
        path.write_text(f'{{\n{head}"datasets": [\n{lines}\n]\n}}\n', encoding="utf-8")

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> GeneralWeights:
        """Return the general weights from their dictionary, the inverse of `to_dict`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: the dictionary has another form.
        """
        signals = {str(name): tuple(map(str, its)) for name, its in plain["signals"].items()}
        weights = {name: _parse_vector(plain["weights"][name], len(its)) for name, its in signals.items()}
        contributions = []
        for one in plain["datasets"]:
            slopes = {
                name: LossExpansion(
                    _parse_vector(one["gradient"][name], len(signals[name])),
                    _parse_symmetric(one["hessian"][name], len(signals[name])),
                )
                for name in one["questions"]
            }
            counts = {name: int(count) for name, count in one["questions"].items()}
            if min(counts.values(), default=1) < 1:
                raise ValueError("a data set that teaches has one question at least")
            contributions.append(DatasetContribution(str(one["name"]), tuple(map(int, one["sample"])), counts, slopes))
        return cls(signals, weights, tuple(contributions), {name: str(code) for name, code in plain["code"].items()})


@cache
def load_shipped_weights(embedder: str = STATIC) -> GeneralWeights:
    """Return the shipped weights for a class of embedders."""
    return GeneralWeights.from_dict(json.loads(SHIPPED_FILES[embedder].read_text(encoding="utf-8")))


def embedder_class(models: ModelNames) -> str:
    """Return the class of the embedder of ``models``."""
    declared = providers("embedder").get(models.for_role("embedder").kind)
    return TRANSFORMER if declared is None or declared.served or declared.heavy else STATIC


def _round_for_keys(values: Array) -> Array:
    """Round to nine significant digits: further ones depend on the machine, and values are part of keys."""
    return np.array([float(f"{value:.9g}") for value in values.flat]).reshape(values.shape)


def _round_for_file(values: Array) -> list[float]:
    return [float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in values.tolist()]


def _parse_vector(values: Sequence[Any], count: int) -> Array:
    found = np.array(values, dtype=np.float64)
    if found.shape != (count,) or not np.isfinite(found).all():
        raise ValueError(f"{count} numbers are needed")
    return found


def _parse_symmetric(values: Sequence[Any], size: int) -> Array:
    full = np.zeros((size, size))
    full[np.tril_indices(size)] = _parse_vector(values, size * (size + 1) // 2)
    return full + np.tril(full, -1).T

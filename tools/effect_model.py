"""Fit the effects of options to scores, and write them to the file that `ragsmith.effects.knowledge.read` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.effects.beliefs import Array, DatasetBlock, EffectVariances, StackedBlocks, design_matrix
from ragsmith.effects.knowledge import (
    FORMAT,
    MIN_DATASETS,
    Knowledge,
    ObservedDataset,
    dataset_blocks,
    qualified_options,
    technique_fingerprint,
)
from ragsmith.effects.terms import GROUPS, PARTS, Labels, ModelClasses, pipeline_terms, technique_name
from ragsmith.errors import UsageError

STEPS = 20
"""Steps to the likeliest variances: more change no effect by a thousandth."""

_GROUPS = np.ones(len(GROUPS))
START = EffectVariances(1e-3 * _GROUPS, 2e-4 * _GROUPS, 5e-4 * _GROUPS, 2e-4)
"""Where the search for variances begins; of scores between 0 and 1."""


def learned_from(
    observed: Sequence[ObservedDataset], *, steps: int = STEPS, start: Knowledge | None = None
) -> Knowledge:
    """What ``observed`` teaches; the search for variances goes ``steps`` steps from where ``start`` is.

    Raises:
        UsageError: there are fewer than two data sets.
    """
    variances = {}
    for part in PARTS:
        blocks, _, groups = dataset_blocks(observed, part)
        if len(blocks) < MIN_DATASETS:
            raise UsageError(
                f"effects on {part} are learned from {MIN_DATASETS} data sets or more, which tell how they differ, and "
                f"here are {len(blocks)}: name more"
            )
        variances[part] = fit(blocks, groups, start.variances[part] if start else START, steps)
    pipelines = (labels for one in observed for labels in one.pipelines)
    used = sorted({technique_name(option) for labels in pipelines for option in qualified_options(labels)})
    code = {name: found for name in used if (found := technique_fingerprint(name))}
    return Knowledge(tuple(observed), variances, code)


def fit(
    blocks: Sequence[DatasetBlock], groups: NDArray[np.int_], start: EffectVariances, steps: int = STEPS
) -> EffectVariances:
    """The variances under which ``blocks`` are likeliest, by the steps of Zhou, Hu, Zhou and Lange (2019).

    ``groups`` has the group of each column of the designs. The steps multiply, so that no variance becomes negative.
    """
    stacked = StackedBlocks(blocks, groups)
    found = start
    for _ in range(steps):
        inverse = np.asarray(np.linalg.inv(stacked.covariance(found)), dtype=np.float64)
        explained = inverse @ stacked.scores
        wanted = [_by_sets(stacked, np.outer(explained, explained) * kernel) for kernel in stacked.kernels]
        given = [_by_sets(stacked, inverse * kernel) for kernel in stacked.kernels]
        general, kind, own = (
            np.array([_step((w * alike).sum(), (g * alike).sum()) for w, g in zip(wanted, given, strict=True)])
            for alike in (np.ones_like(stacked.same_kind), stacked.same_kind, np.eye(len(blocks)))
        )
        rest = _step(explained @ explained, np.trace(inverse))
        found = EffectVariances(found.general * general, found.kind * kind, found.own * own, found.rest * rest)
    return found


def design_of(pipelines: Sequence[Labels], part: str, models: ModelClasses) -> tuple[Array, NDArray[np.int_]]:
    """The terms of pipelines by weight, a row each, and the group of each column."""
    rows = [pipeline_terms(labels, part, models) for labels in pipelines]
    groups = {term.name: term.group for terms in rows for term in terms}
    places = {name: place for place, name in enumerate(groups)}
    return design_matrix(rows, places), np.array(list(groups.values()), dtype=int)


def sampling_noise(design: Array, groups: NDArray[np.int_], n_groups: int, deviations: Array) -> Array:
    """What the questions that happen to be asked do to effects, as `DatasetBlock.noise`, by the method of moments.

    ``deviations`` has a row for each independent group of questions: by pipeline, how far its mean over all questions
    would move with the group, so that the sum over groups is 0.
    """
    count, pipelines = deviations.shape
    if count < 2:  # nothing is known of it: what data sets differ by has to hold it
        return np.zeros(n_groups + 1)
    centred = deviations - deviations.mean(axis=1, keepdims=True)
    observed = centred.T @ centred * count / (count - 1)
    centre = np.eye(pipelines) - 1 / pipelines
    kernels = [design[:, groups == group] @ design[:, groups == group].T for group in range(n_groups)]
    shapes = [centre @ kernel @ centre for kernel in (*kernels, np.eye(pipelines))]
    return _not_negative(
        np.array([[float((a * b).sum()) for a in shapes] for b in shapes]),
        np.array([float((observed * shape).sum()) for shape in shapes]),
    )


def write(knowledge: Knowledge, path: Path) -> None:
    """Write the file: a line for each data set, and the same bytes for the same knowledge."""
    pipelines = [
        *(one.pipeline for one in knowledge.checked),
        *(p for one in knowledge.observed for p in one.pipelines),
    ]
    options = sorted({option for labels in pipelines for option in qualified_options(labels)})
    at = {option: place for place, option in enumerate(options)}
    plain = {
        "format": FORMAT,
        "made": dict(knowledge.made),
        "options": options,
        "code": dict(sorted(knowledge.code.items())),
        "variances": {part: asdict(its) for part, its in knowledge.variances.items()},
        "datasets": [{**asdict(one), "pipelines": _numbered(one.pipelines, at)} for one in knowledge.observed],
        "checked": [{**asdict(one), "pipeline": _numbered([one.pipeline], at)[0]} for one in knowledge.checked],
    }
    if knowledge.ranking is not None:
        plain["ranking"] = knowledge.ranking.to_dict()
    parts = (f"{json.dumps(key)}: {_laid_out(_rounded(value))}" for key, value in plain.items())
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _by_sets(stacked: StackedBlocks, matrix: Array) -> Array:
    """The sums of a matrix of scores by scores over each pair of data sets."""
    starts = [rows.start for rows in stacked.rows]
    return np.asarray(np.add.reduceat(np.add.reduceat(matrix, starts, axis=0), starts, axis=1))


def _step(wanted: float, given: float) -> float:
    """By what to multiply a variance under which the scores vary as ``given``, where they vary as ``wanted``."""
    return float(np.sqrt(max(0.0, wanted) / given)) if given > 0 else 0.0


def _not_negative(matrix: Array, right: Array) -> Array:
    """The least-squares solution of ``matrix @ x = right`` with no negative number: what is negative is left out."""
    found = np.zeros(len(right))
    active = np.diag(matrix) > 0
    while active.any():
        solved = np.linalg.lstsq(matrix[np.ix_(active, active)], right[active], rcond=None)[0]
        if (solved >= 0).all():
            found[active] = solved
            break
        active[np.flatnonzero(active)[solved < 0]] = False
    return found


def _numbered(pipelines: Sequence[Labels], at: Mapping[str, int]) -> list[list[int]]:
    return [[at[option] for option in qualified_options(labels)] for labels in pipelines]


def _rounded(value: Any) -> Any:
    """Plain data with seven digits of each number, which is more than any of them holds."""
    match value:
        case float():
            return float(f"{value:.7g}")
        case np.ndarray():
            return _rounded(value.tolist())
        case dict():
            return {key: _rounded(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_rounded(inner) for inner in value]
    return value


def _laid_out(value: Any) -> str:
    """JSON, with each entry of a list of mappings on a line of its own."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)

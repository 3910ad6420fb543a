"""Fitting: a technique that learns does so on search questions, and never answers one with what it learned from it.

Search questions are answered with numbers learned on the other folds (cross-fitting), all others with numbers learned
on all search questions. So a fitted pipeline's score means the same as any other's. The numbers are kept in the store,
are part of the evaluation's key, and stand in report and exported file; a pipeline that has them needs no labels.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ragsmith.canonical import digest
from ragsmith.code import fingerprint
from ragsmith.errors import StageFailed
from ragsmith.families import FAMILIES
from ragsmith.genes import Candidate, Fit, Gene
from ragsmith.pipeline import failing_as
from ragsmith.runner import Job, Runner
from ragsmith.setup import Setup
from ragsmith.splits import folds
from ragsmith.store import Store

FOLDS = 5

Failure = dict[str, Any]
"""What is recorded for each question of a candidate that could not be fitted: ``stage`` and ``error``."""


def learn(gene: Gene, observations: Mapping[str, Any], held_out: Sequence[Sequence[str]], dataset: str) -> Fit:
    """Solve for a gene's numbers, on all ``observations`` (by question) and without each group that is held out.

    Raises:
        StageFailed: the technique cannot learn from them.
    """
    fitting = gene.technique.fitting
    assert fitting is not None
    named = inspect.signature(fitting.solve).parameters
    parameters = {name: value for name, value in gene.parameters.items() if name in named}

    def solve(questions: Sequence[str]) -> dict[str, Any]:
        with failing_as(gene.technique.family, gene.technique.name):
            return dict(fitting.solve([observations[question] for question in questions], **parameters))

    ordered = sorted(observations)
    parts = [(tuple(sorted(part)), solve([q for q in ordered if q not in part])) for part in held_out]
    return Fit(dataset, solve(ordered), tuple(parts))


class Fitter:
    """Fits what candidates need on one data set, through the store."""

    def __init__(self, setup: Setup, store: Store, runner: Callable[[], Runner]) -> None:
        self._setup = setup
        self._store = store
        self._runner = runner
        self._known: dict[str, Fit | Failure] = {}

    @cached_property
    def _folds(self) -> list[list[str]]:
        return [[example.id for example in part] for part in folds(self._setup.dataset, self._setup.calibration, FOLDS)]

    def fit(self, candidates: Sequence[Candidate]) -> list[tuple[Candidate, Failure | None]]:
        """The candidates, fitted; or as they were, and why they could not be."""
        found: list[tuple[Candidate, Failure | None]] = [(candidate, None) for candidate in candidates]
        for place in range(len(FAMILIES)):  # what comes later in the pipeline learns from what comes before
            wanted = {
                i: self._key(candidate, place)
                for i, (candidate, failure) in enumerate(found)
                if failure is None and candidate[place].unfitted
            }
            if not wanted:
                continue
            self._learn({key: found[i][0] for i, key in wanted.items()}, place)
            for i, key in wanted.items():
                candidate, learned = found[i][0], self._known[key]
                if isinstance(learned, Fit):
                    gene = replace(candidate[place], fit=learned)
                    found[i] = ((*candidate[:place], gene, *candidate[place + 1 :]), None)
                else:
                    found[i] = (candidate, learned)
        return found

    def _key(self, candidate: Candidate, place: int) -> str:
        """Identifies what a gene learns: itself, everything before it, and the questions."""
        before = tuple(
            gene
            for i, gene in enumerate(candidate)
            if i <= place or gene.technique.family in ("pre_embedding", "retrieval")
        )
        return digest("fit", self._setup.evaluation_key(before), self._folds, fingerprint(__name__))

    def _learn(self, wanted: Mapping[str, Candidate], place: int) -> None:
        """Have a fit, or a failure, for every key."""
        new = [key for key in wanted if key not in self._known]
        for key, value in self._store.fits(new).items():
            self._known[key] = Fit.read(value)
        new = [key for key in new if key not in self._known]
        if not new:
            return
        if len(self._folds) < 2:
            error = "it learns from search questions, and all of them hang together: add questions on other documents"
            self._known.update(dict.fromkeys(new, self._failure(wanted[new[0]][place], error)))
            return
        observations, failures = self._observe([wanted[key] for key in new], FAMILIES[place].name)
        for i, key in enumerate(new):
            gene = wanted[key][place]
            if i in failures:
                self._known[key] = failures[i]
                continue
            try:
                fit = learn(gene, observations[i], self._folds, self._setup.dataset.digest)
            except StageFailed as failed:
                self._known[key] = self._failure(gene, f"{type(failed.cause).__name__}: {failed.cause}")
            else:
                self._known[key] = Fit.read(self._store.put_fit(key, self._setup.dataset.digest, fit.plain()))

    def _observe(
        self, candidates: Sequence[Candidate], family: str
    ) -> tuple[dict[int, dict[str, Any]], dict[int, Failure]]:
        """What each candidate observes on each calibration question; or the first failure, by question, of each."""
        questions = sorted(question for part in self._folds for question in part)
        jobs: list[Job] = [(i, question) for i in range(len(candidates)) for question in questions]
        observations: dict[int, dict[str, Any]] = defaultdict(dict)
        failed: dict[int, dict[str, Failure]] = defaultdict(dict)
        for batch in self._runner().run(candidates, jobs, family):
            for finished in batch:
                position, question = finished.job
                (observations if finished.ok else failed)[position][question] = finished.value
        return observations, {position: self._first(by_question) for position, by_question in failed.items()}

    def _first(self, failed: Mapping[str, Failure]) -> Failure:
        question = min(failed)
        failure = failed[question]
        return {**failure, "error": f"cannot be fitted, as calibration question {question} failed: {failure['error']}"}

    def _failure(self, gene: Gene, error: str) -> Failure:
        return {"stage": f"{gene.technique.family}.{gene.technique.name}", "error": error, "traceback": ""}

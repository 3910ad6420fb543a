"""Fitting of techniques that learn from search questions, with cross-fitting.

A search question is answered with parameters fitted on the other folds, and all other questions with parameters fitted
on all search questions. If one fitted technique follows another, both are fitted without the same fold. So scores of
fitted pipelines are comparable with others. The parameters are cached in the store, are part of the key of an
evaluation, and are in the report and the exported file; a fitted pipeline needs no labels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ragsmith.digest import digest, fingerprint, not_fingerprinted
from ragsmith.errors import StageFailed
from ragsmith.evaluation.keys import pipeline_key
from ragsmith.pipelines.engine import stage_errors
from ragsmith.pipelines.genes import Candidate, Fit, Gene, question_digest
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.listwise import WeightPrior

if TYPE_CHECKING:  # the runner and the store do not change fits or their fingerprint
    from ragsmith.evaluation.experiment import Experiment
    from ragsmith.evaluation.threads import Job, Runner
    from ragsmith.store.store import Store

Failure = dict[str, Any]
"""The record of each question of a candidate that could not be fitted: ``stage`` and ``error``."""


TIERS = ("collection", "search", "question")
FITTING_ORDER = sorted(range(len(FAMILIES)), key=lambda place: TIERS.index(FAMILIES[place].tier))
"""Indices of the families in the order of fitting: techniques are fitted after those that run before them."""

Observations = Mapping[str, Any]
"""Observations by question."""


def fit_gene(gene: Gene, observations: Observations, general: WeightPrior | None = None) -> dict[str, Any]:
    """Fit a gene to ``observations``, starting from the ``general`` weights of its signals, if it has any.

    Raises:
        StageFailed: the technique cannot be fitted to the observations.
    """
    fitting = gene.technique.fitting
    assert fitting is not None
    named = inspect.signature(fitting.solve).parameters
    parameters: dict[str, Any] = {name: value for name, value in gene.parameters.items() if name in named}
    if general is not None:
        parameters["general"] = general
    with stage_errors(gene.technique.family, gene.technique.name):
        return dict(fitting.solve([observations[question] for question in sorted(observations)], **parameters))


def add_general_weights(setup: Experiment, candidate: Candidate) -> Candidate:
    """Return ``candidate`` with general weights for each gene that has signals and does not learn.

    Raises:
        UsageError: there are no general weights for a technique.
    """
    return tuple(
        replace(gene, fit=Fit(fit_gene(gene, {}, _general_weights(setup, gene))))
        if gene.unfitted and not gene.learns
        else gene
        for gene in candidate
    )


def drop_general_weights(candidate: Candidate) -> Candidate:
    """Return ``candidate`` without general weights, which depend on the documents that it is evaluated on.

    Otherwise the weights might have been learned from the data set of the evaluation. Fitted weights, which started
    from general ones, are kept.
    """
    return tuple(replace(gene, fit=None) if gene.technique.signals and not gene.learns else gene for gene in candidate)


def _general_weights(setup: Experiment, gene: Gene) -> WeightPrior | None:
    return setup.general_weights(gene) if gene.technique.signals else None


class Fitter:
    """Fits candidates on one data set, with fits cached in the store."""

    def __init__(self, setup: Experiment, store: Store, runner: Callable[[], Runner]) -> None:
        self._setup = setup
        self._store = store
        self._runner = runner
        self._known: dict[str, Fit | Failure] = {}
        self._with_general: dict[Gene, Gene] = {}

    def fit(self, candidates: Sequence[Candidate]) -> list[tuple[Candidate, Failure | None]]:
        """Return each candidate fitted, or unchanged with the failure of its fit."""
        found: list[tuple[Candidate, Failure | None]] = [(self._ready(candidate), None) for candidate in candidates]
        for place in FITTING_ORDER:
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

    def _ready(self, candidate: Candidate) -> Candidate:
        """Return ``candidate`` with general weights, which are computed once for each gene."""
        for gene in candidate:
            if gene.unfitted and not gene.learns and gene not in self._with_general:
                [self._with_general[gene]] = add_general_weights(self._setup, (gene,))
        return tuple(self._with_general.get(gene, gene) for gene in candidate)

    def _key(self, candidate: Candidate, place: int) -> str:
        """Return the key of a fit: of the gene, all earlier ones, the questions, and the general weights."""
        earlier = FITTING_ORDER[: FITTING_ORDER.index(place) + 1]
        before = tuple(gene for i, gene in enumerate(candidate) if i in earlier)
        key = pipeline_key(self._setup.for_candidate(candidate), before)
        general = _general_weights(self._setup, candidate[place])
        known = [] if general is None else general.plain()
        return digest("fit", key, self._setup.folds, fingerprint(__name__, "Fitter"), *known)

    @not_fingerprinted
    def forget_failures(self) -> None:
        """Let fits that failed be computed again."""
        self._known = {key: known for key, known in self._known.items() if isinstance(known, Fit)}

    def _learn(self, wanted: Mapping[str, Candidate], place: int) -> None:
        """Load or compute a fit, or a failure, for every key."""
        new = [key for key in wanted if key not in self._known]
        for key, value in self._store.fits(new).items():
            self._known[key] = Fit.from_dict(value)
        new = [key for key in new if key not in self._known]
        if not new:
            return
        if len(self._setup.folds) < 2:
            error = "it learns from search questions, and all of them are linked: add questions on other documents"
            self._known.update(dict.fromkeys(new, self._failure(wanted[new[0]][place], error)))
            return
        seen, failures = self._observe([wanted[key] for key in new], FAMILIES[place].name)
        for i, key in enumerate(new):
            gene = wanted[key][place]
            if i in failures:
                self._known[key] = failures[i]
                continue
            try:
                general = _general_weights(self._setup, gene)
                numbers = {fold: fit_gene(gene, seen[i, fold], general) for fold in self._parts}
            except StageFailed as failed:
                self._known[key] = self._failure(gene, f"{type(failed.cause).__name__}: {failed.cause}")
                continue
            marks = [
                sorted({question_digest(self._setup.examples[one].question) for one in part})
                for part in self._setup.folds
            ]
            held_out = tuple((tuple(questions), numbers[fold]) for fold, questions in enumerate(marks))
            fit = Fit(numbers[None], held_out).to_dict()
            self._known[key] = Fit.from_dict(self._store.put_fit(key, self._setup.dataset.digest, fit))

    @cached_property
    def _parts(self) -> dict[int | None, list[str]]:
        """The training questions when a fold is held out, by fold; all questions for None."""
        everyone = sorted(question for part in self._setup.folds for question in part)
        parts: dict[int | None, list[str]] = {None: everyone}
        for fold, part in enumerate(self._setup.folds):
            parts[fold] = [question for question in everyone if question not in part]
        return parts

    def _observe(
        self, candidates: Sequence[Candidate], family: str
    ) -> tuple[dict[tuple[int, int | None], Observations], dict[int, Failure]]:
        """Return the observations by candidate and held-out fold, and the first failure of each failing candidate.

        Earlier fitted genes use the parameters fitted without the same fold; otherwise held-out labels would leak
        through them.
        """
        faced = {
            (i, fold): tuple(gene.without(fold) for gene in candidate)
            for i, candidate in enumerate(candidates)
            for fold in self._parts
        }
        distinct = {variant: n for n, variant in enumerate(dict.fromkeys(faced.values()))}
        jobs = {(distinct[faced[i, fold]], q) for (i, fold) in faced for q in self._parts[fold]}
        found: dict[Job, Any] = {}
        failed: dict[Job, Failure] = {}
        for batch in self._runner().run(list(distinct), sorted(jobs), family):
            for finished in batch:
                (found if finished.ok else failed)[finished.job] = finished.value
        seen: dict[tuple[int, int | None], Observations] = {}
        failures: dict[int, Failure] = {}
        for (i, fold), variant in faced.items():
            of_part = {q: (distinct[variant], q) for q in self._parts[fold]}
            bad = {q: failed[job] for q, job in of_part.items() if job in failed}
            if bad:
                first = min(bad)
                error = f"cannot be fitted, as calibration question {first} failed: {bad[first]['error']}"
                failures.setdefault(i, {**bad[first], "error": error})
            else:
                seen[i, fold] = {q: found[job] for q, job in of_part.items()}
        return seen, failures

    def _failure(self, gene: Gene, error: str) -> Failure:
        return {"stage": f"{gene.technique.family}.{gene.technique.name}", "error": error, "traceback": ""}

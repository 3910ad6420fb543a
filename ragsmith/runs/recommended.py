"""Recommend pipelines for documents without questions, from effects learned on other data sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ragsmith.caches import bounded_cache
from ragsmith.datasets.overlap import sample_of
from ragsmith.digest import digest
from ragsmith.effects import (
    CorpusProfile,
    Knowledge,
    ModelClasses,
    Prior,
    Recommendation,
    corpus_of,
    prior_for,
    read,
    recommendations,
    recommended,
)
from ragsmith.effects.knowledge import FEWEST, SHIPPED
from ragsmith.errors import SpaceError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.fitting import with_general
from ragsmith.exported.writing import dataset_location, export_yaml
from ragsmith.models.names import NONE
from ragsmith.pipelines.genes import Candidate, label
from ragsmith.pipelines.space import Space


@dataclass(frozen=True)
class Recommended:
    """The pipeline recommended for the documents of ``setup`` in each class of costs; ``chosen`` is the requested one.

    ``learned_on`` names the data sets of the effects, ``left_out`` those whose documents overlap with these.
    """

    setup: Experiment
    corpus: CorpusProfile
    classes: tuple[Recommendation, ...]
    chosen: Recommendation
    learned_on: tuple[str, ...]
    left_out: tuple[str, ...]
    stale: tuple[str, ...]
    fitness: Fitness

    def yaml(self, folder: Path, documents: Path | None) -> str:
        """The chosen pipeline as a file in ``folder`` that names the folder ``documents``, or else its data set.

        It has no expected scores, as there are no questions to score it by.
        """
        found = self.chosen
        nothing = Evaluation("", found.candidate, (), {}, {})
        about: dict[str, Any] = {
            "recommended": {
                "gain": round(found.gain, 4),
                "sd": round(found.sd, 4),
                "calls": round(found.calls, 2),
                "learned_on": list(self.learned_on),
                **({"unlike": list(found.unlike)} if found.unlike else {}),
            }
        }
        location: Mapping[str, str] = dataset_location(self.setup.dataset, folder)
        if documents is not None:
            location = {"documents": Path(os.path.relpath(documents.resolve(), folder.resolve())).as_posix()}
        return export_yaml(nothing, None, self.setup, about, location=location, folder=folder, fitness=self.fitness)

    def plain(self) -> dict[str, Any]:
        """The profile of the documents, and each class of costs, for JSON."""
        return {
            "kind": self.corpus.kind,
            "language": self.corpus.language,
            "documents": self.corpus.documents,
            "learned_on": list(self.learned_on),
            "left_out": list(self.left_out),
            "unlike": list(self.chosen.unlike),
            "classes": [_plain(one) for one in self.classes],
            "chosen": _plain(self.chosen),
        }


def recommend(
    setup: Experiment, space: Space, knowledge: Knowledge, *, most_calls: int | None, fitness: Fitness | None = None
) -> Recommended:
    """Recommend pipelines of ``space`` for the documents of ``setup``: with at most 1, 2 and any number of calls.

    ``most_calls`` a question is the limit of the chosen one. No model is called, and no question is read. Effects
    learned on the same documents are left out. A user's fitness is assumed to correlate with the default one.

    Raises:
        SpaceError: the space has no pipeline of so few calls that needs no fitting.
    """
    data = setup.dataset
    own = sample_of(data.documents)
    others = knowledge.without(own)
    setup = replace(setup, weights=knowledge.ranking)
    corpus = corpus_of(data.documents)
    feasible = _feasible(space, setup)
    weights = fitness.weights if fitness else Weights()
    models = ModelClasses.of(setup.models)
    chosen = recommended(feasible, others, corpus, models, most_calls=most_calls, weights=weights)
    chosen = replace(chosen, candidate=with_general(setup, chosen.candidate))
    return Recommended(
        setup,
        corpus,
        recommendations(feasible, others, corpus, models, weights=weights),
        chosen,
        tuple(one.name for one in others.observed),
        tuple(one.name for one in knowledge.observed if one.overlaps(own)),
        knowledge.stale,
        fitness or Fitness(),
    )


def recommended_for(setup: Experiment, space: Space, fitness: Fitness) -> Candidate | None:
    """The pipeline that `recommend` names for any number of calls; None if too little is known, or none is feasible.

    Effects learned on data sets that overlap with that of ``setup`` are left out.
    """
    knowledge = _known_of_others(setup)
    if knowledge is None:
        return None
    models, corpus = ModelClasses.of(setup.models), corpus_of(setup.dataset.documents)
    try:
        feasible = _feasible(space, setup)
        found = recommended(feasible, knowledge, corpus, models, most_calls=None, weights=fitness.weights)
    except SpaceError:
        return None
    return space.settled(found.candidate)


def prior_for_search(setup: Experiment, space: Space, fitness: Fitness, *, learned: bool = True) -> Prior | None:
    """The prior over the pipelines of ``space`` on the data set of ``setup``; None for a user's fitness.

    The gains of options come from data sets that do not overlap with it, their variance from all, and the profile of
    its questions from the search questions. If not ``learned``, or if too little is known, all expected gains are 0.
    """
    if fitness.own:
        return None
    knowledge = (_known_of_others(setup) if learned else None) or replace(read(), observed=())
    corpus = corpus_of(setup.dataset.documents, setup.split.search)
    return prior_for(space, knowledge, corpus, ModelClasses.of(setup.models), fitness.weights)


def _known_of_others(setup: Experiment) -> Knowledge | None:
    """The effects learned on data sets that do not overlap with that of ``setup``; None if these are too few."""
    others = _without(sample_of(setup.dataset.documents))
    return others if len(others.observed) >= FEWEST else None


@bounded_cache(1, key="the corpora left out")
def _without(own: tuple[int, ...]) -> Knowledge:
    """The effects learned on data sets whose documents do not overlap with a sample."""
    return read().without(own)


@cache
def knowledge_digest() -> str:
    """Identifies the effects that ship with ragsmith."""
    return digest("known", SHIPPED.read_text(encoding="utf-8"))


def _feasible(space: Space, setup: Experiment) -> Space:
    """The space without options that need a model which the run lacks."""
    reranker = setup.models.for_role("cross_encoder").name != NONE
    feasible = space.without(lambda gene: setup.lacks(gene) and not gene.learns)
    return feasible.without(lambda gene: not reranker and "cross_encoder" in gene.technique.tools.values())


def _plain(one: Recommendation) -> dict[str, Any]:
    return {
        "most_calls": one.most_calls,
        "pipeline": label(one.candidate),
        "calls": one.calls,
        "gain": one.gain,
        "sd": one.sd,
        "low": one.low,
        "high": one.high,
        "reasons": [{"option": r.option, "gain": r.gain, "sd": r.sd, "datasets": r.datasets} for r in one.reasons],
    }

"""Recommend pipelines for documents without questions, from effects learned on other data sets."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ragsmith.caches import bounded_cache
from ragsmith.datasets.overlap import sample_shingles
from ragsmith.digest import digest
from ragsmith.display import short_repr
from ragsmith.effects import (
    CorpusProfile,
    Knowledge,
    ModelClasses,
    Prior,
    Recommendation,
    prior_for,
    profile_corpus,
    read_effects,
    recommend_pipeline,
    recommend_pipelines,
)
from ragsmith.effects.knowledge import MIN_DATASETS, SHIPPED
from ragsmith.errors import SpaceError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.fitting import add_general_weights
from ragsmith.exported.writing import dataset_location, export_yaml
from ragsmith.models.names import NONE
from ragsmith.pipelines.genes import Candidate, label
from ragsmith.pipelines.space import Space


@dataclass(frozen=True)
class RecommendationResult:
    """The recommended pipelines for the documents of ``setup`` by cost class; ``chosen`` is the requested one.

    ``learned_on`` names the data sets that the effects were learned on, and ``left_out`` those that were excluded
    because their documents overlap with those of ``setup``.
    """

    setup: Experiment
    corpus: CorpusProfile
    classes: tuple[Recommendation, ...]
    chosen: Recommendation
    learned_on: tuple[str, ...]
    left_out: tuple[str, ...]
    stale: tuple[str, ...]
    fitness: Fitness

    __repr__ = short_repr

    def yaml(self, folder: Path, documents: Path | None) -> str:
        """Return the YAML of the chosen pipeline for a file in ``folder``, with the path of ``documents`` or data set.

        It has no expected scores, as there are no questions to evaluate it on.
        """
        recommendation = self.chosen
        unevaluated = Evaluation("", recommendation.candidate, (), {}, {})
        header: dict[str, Any] = {
            "recommended": {
                "gain": round(recommendation.gain, 4),
                "sd": round(recommendation.sd, 4),
                "calls": round(recommendation.calls, 2),
                "learned_on": list(self.learned_on),
                **({"unlike": list(recommendation.unlike)} if recommendation.unlike else {}),
            }
        }
        location: Mapping[str, str] = dataset_location(self.setup.dataset, folder)
        if documents is not None:
            location = {"documents": Path(os.path.relpath(documents.resolve(), folder.resolve())).as_posix()}
        return export_yaml(
            unevaluated, None, self.setup, header, location=location, folder=folder, fitness=self.fitness
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the profile of the documents and the recommendation of each cost class, for JSON."""
        return {
            "kind": self.corpus.kind,
            "language": self.corpus.language,
            "documents": self.corpus.documents,
            "learned_on": list(self.learned_on),
            "left_out": list(self.left_out),
            "unlike": list(self.chosen.unlike),
            "classes": [_recommendation_to_dict(one) for one in self.classes],
            "chosen": _recommendation_to_dict(self.chosen),
        }


def recommend(
    setup: Experiment, space: Space, knowledge: Knowledge, *, most_calls: int | None, fitness: Fitness | None = None
) -> RecommendationResult:
    """Recommend pipelines of ``space`` for the documents of ``setup``: with at most 1, 2 and any number of calls.

    ``most_calls`` limits the calls per question of the chosen pipeline. No model is called, and no question is read.
    Effects learned on overlapping documents are excluded. A user's fitness is assumed to correlate with the default.

    Raises:
        SpaceError: the space has no pipeline within ``most_calls`` that needs no fitting.
    """
    data = setup.dataset
    sample = sample_shingles(data.documents)
    usable = knowledge.without(sample)
    setup = replace(setup, weights=knowledge.ranking)
    corpus = profile_corpus(data.documents)
    feasible = _restrict_space(space, setup)
    weights = fitness.weights if fitness else Weights()
    models = ModelClasses.from_names(setup.models)
    chosen = recommend_pipeline(feasible, usable, corpus, models, most_calls=most_calls, weights=weights)
    chosen = replace(chosen, candidate=add_general_weights(setup, chosen.candidate))
    return RecommendationResult(
        setup,
        corpus,
        recommend_pipelines(feasible, usable, corpus, models, weights=weights),
        chosen,
        tuple(one.name for one in usable.observed),
        tuple(one.name for one in knowledge.observed if one.overlaps(sample)),
        knowledge.stale,
        fitness or Fitness(),
    )


def recommend_candidate(setup: Experiment, space: Space, fitness: Fitness) -> Candidate | None:
    """Return the pipeline that `recommend` recommends without a limit of calls.

    Return None if effects of too few data sets are known, or no pipeline is feasible. Effects learned on data sets that
    overlap with that of ``setup`` are excluded.
    """
    knowledge = _select_knowledge(setup)
    if knowledge is None:
        return None
    models, corpus = ModelClasses.from_names(setup.models), profile_corpus(setup.dataset.documents)
    try:
        feasible = _restrict_space(space, setup)
        recommendation = recommend_pipeline(
            feasible, knowledge, corpus, models, most_calls=None, weights=fitness.weights
        )
    except SpaceError:
        return None
    return space.with_default_settings(recommendation.candidate)


def prior_for_search(setup: Experiment, space: Space, fitness: Fitness, *, learned: bool = True) -> Prior | None:
    """Return the prior over the pipelines of ``space`` on the data set of ``setup``; None for a user's fitness.

    The gains of options come from data sets that do not overlap with it, their variance from all, and the profile of
    its questions from the search questions. Expected gains are 0 if not ``learned``, or if too few data sets are known.
    """
    if fitness.is_custom:
        return None
    knowledge = (_select_knowledge(setup) if learned else None) or replace(read_effects(), observed=())
    corpus = profile_corpus(setup.dataset.documents, setup.split.search)
    return prior_for(space, knowledge, corpus, ModelClasses.from_names(setup.models), fitness.weights)


def _select_knowledge(setup: Experiment) -> Knowledge | None:
    """Return the effects learned on data sets that do not overlap with that of ``setup``; None if these are too few."""
    others = _drop_overlapping(sample_shingles(setup.dataset.documents))
    return others if len(others.observed) >= MIN_DATASETS else None


@bounded_cache(1, key="the corpora left out")
def _drop_overlapping(sample: tuple[int, ...]) -> Knowledge:
    """Return the effects learned on data sets whose documents do not overlap with ``sample``."""
    return read_effects().without(sample)


@cache
def knowledge_digest() -> str:
    """Return a digest of the effects bundled with ragsmith."""
    return digest("known", SHIPPED.read_text(encoding="utf-8"))


def _restrict_space(space: Space, setup: Experiment) -> Space:
    """Return the space without the options that need a model which the run lacks, or allow fewer chunks."""
    reranker = setup.models.for_role("cross_encoder").name != NONE
    feasible = space.without(lambda gene: setup.lacks_weights(gene) and not gene.learns)
    feasible = feasible.without(lambda gene: not reranker and "cross_encoder" in gene.technique.tools.values())
    characters = sum(len(document.text) + 1 for document in setup.dataset.documents)  # at least as many as chunks
    return feasible.without(
        lambda gene: (
            (most := gene.technique.most_chunks) is not None and most < characters and most < len(setup.corpus.chunks)
        )
    )


def _recommendation_to_dict(recommendation: Recommendation) -> dict[str, Any]:
    return {
        "most_calls": recommendation.most_calls,
        "pipeline": label(recommendation.candidate),
        "calls": recommendation.calls,
        "gain": recommendation.gain,
        "sd": recommendation.sd,
        "low": recommendation.low,
        "high": recommendation.high,
        "reasons": [
            {"option": r.option, "gain": r.gain, "sd": r.sd, "datasets": r.datasets} for r in recommendation.reasons
        ],
    }

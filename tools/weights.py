"""Learning the general weights of signals: what techniques observe on the search questions of data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ragsmith.datasets.overlap import sample_shingles
from ragsmith.effects.terms import PLAIN, USUAL_OPTIONS
from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitting import add_general_weights
from ragsmith.evaluation.general_weights import DatasetContribution, GeneralWeights, LossExpansion, TechniqueName
from ragsmith.models.names import NONE
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES, get_family
from ragsmith.techniques.listwise import RIDGE, Observation, RankingQuestions, is_informative, minimize_loss
from ragsmith.techniques.registry import Technique, load_techniques
from ragsmith.types import Gold, Question

KEYS = {"pre_embedding": "contextual_chunk_headers"}
"""The keys under which signals are learned. Weights for bare chunks differ from these by less than a standard error."""


def learn_weights(setups: Sequence[Experiment], store: Store) -> GeneralWeights:
    """Learn the weights of all techniques that have signals from the search questions of ``setups``.

    Rerankers learn behind hybrid search and behind each retrieval that has signals itself, with the weights that the
    other data sets teach, where any do. Test questions are not looked at. A technique that needs a model which a setup
    lacks learns nothing there.

    Raises:
        UsageError: two data sets have one name.
    """
    load_techniques()
    names = [setup.dataset.name for setup in setups]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"several data sets are called {', '.join(twice)}: give each a name of its own")
    known: GeneralWeights | None = None
    seen: dict[str, dict[TechniqueName, Sequence[Observation]]] = {setup.dataset.name: {} for setup in setups}
    signals: dict[TechniqueName, tuple[str, ...]] = {}
    for family in ("retrieval", "reranking"):
        for technique in with_signals(family):
            signals[technique.identity] = technique.signals
            for setup in setups:
                if "cross_encoder" in technique.tools.values() and setup.models.for_role("cross_encoder").name == NONE:
                    continue
                observed = observations(replace(setup, weights=known), technique, store)
                seen[setup.dataset.name][technique.identity] = observed
        samples = {setup.dataset.name: sample_shingles(setup.dataset.documents) for setup in setups}
        code = {one.identity: one.code for name in ("retrieval", "reranking") for one in with_signals(name)}
        known = learned_weights(signals, {name: (samples[name], its) for name, its in seen.items()}, code)
    assert known is not None
    return known


def learned_weights(
    signals: Mapping[TechniqueName, tuple[str, ...]],
    observed: Mapping[str, tuple[tuple[int, ...], Mapping[TechniqueName, Sequence[Observation]]]],
    code: Mapping[TechniqueName, str] | None = None,
) -> GeneralWeights:
    """What data sets teach, each by name, with the sample of its documents and what techniques observed on it.

    Each data set counts the same, however many questions it has, as the weights are for an unseen data set.
    """
    lists = {
        (data, name): RankingQuestions.from_observations(observations)
        for data, (_, techniques) in observed.items()
        for name, observations in techniques.items()
    }
    weights = {}
    for name, its in signals.items():
        used = [one for (_, technique), one in lists.items() if technique == name and len(one)]
        if not used:
            continue
        shares = np.concatenate([np.full(len(one), 1 / len(one)) for one in used])
        joint = RankingQuestions.concatenate(used)
        weights[name] = minimize_loss(joint, shares / shares.sum(), np.zeros(len(its)), RIDGE * np.eye(len(its)))
    taught = []
    for data, (sample, techniques) in observed.items():
        able = [name for name in techniques if len(lists[data, name])]
        counts = {name: len({one["question"] for one in techniques[name] if is_informative(one)}) for name in able}
        slopes = {name: LossExpansion(*lists[data, name].mean_derivatives(weights[name])) for name in able}
        taught.append(DatasetContribution(data, sample, counts, slopes))
    return GeneralWeights({name: signals[name] for name in weights}, weights, tuple(taught), dict(code or {}))


def with_signals(family: str) -> Iterator[Technique]:
    """The techniques of a family that order by a linear score of signals."""
    return (one for one in get_family(family, "").techniques.values() if one.signals)


def observations(setup: Experiment, technique: Technique, store: Store) -> list[Observation]:
    """What a technique observes on the search questions of a data set that have evidence, in the order of their ids."""
    engine = setup.engine(store)
    questions = sorted(setup.split.with_evidence().search, key=lambda example: example.id)
    asked = [(Question(one.question), Gold(setup.relevance[one.id].relevant)) for one in questions]
    return [
        engine.observe(candidate, technique.family, question, gold)
        for candidate in _pipelines(setup, technique)
        for question, gold in asked
    ]


def _pipelines(setup: Experiment, technique: Technique) -> list[Candidate]:
    """The pipelines that have ``technique``, and before it what it learns behind."""
    retrievals = [technique.name]
    if technique.family == "reranking":
        able = [one for one in with_signals("retrieval") if not setup.lacks_weights(make_gene("retrieval", one.name))]
        retrievals = [USUAL_OPTIONS["retrieval"], *(one.name for one in able)]
    plain = dict(zip((family.name for family in FAMILIES), PLAIN, strict=True))
    names = [{**plain, **KEYS, technique.family: technique.name, "retrieval": one} for one in retrievals]
    return [add_general_weights(setup, _learning(technique, one)) for one in names]


def _learning(technique: Technique, names: Mapping[str, str]) -> Candidate:
    """The pipeline of these options, where ``technique`` has the parameters with which it learns."""
    assert technique.fitting is not None
    learning = {name: values[0] for name, values in technique.fitting.when.items()}
    return tuple(make_gene(f, name, learning if f == technique.family else None) for f, name in names.items())

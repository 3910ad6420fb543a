"""Knowledge of a world that was made up: four data sets on which the effects of options are known."""

from __future__ import annotations

from random import Random

import pytest
from effect_model import learned_from
from learning import sample_of

from ragsmith.effects.corpus import CorpusProfile
from ragsmith.effects.knowledge import Knowledge, ObservedDataset
from ragsmith.effects.terms import GROUPS, Labels, ModelClasses, option_labels
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space

WORTH = {
    "bm25": 0.06,
    "complete_hybrid": 0.07,
    "cross_encoder": 0.04,
    "contextual_chunk_headers": 0.02,
    "hyde": 0.03,
    "nr": -0.05,
    "reflection_revising": 0.0004,
}
"""What options add to R and to G, each where it is; all others add nothing."""

SAMPLE = 130
"""Pipelines on each data set."""

COSTS = {"hyde": 1.0, "multi_query": 1.0, "reflection_revising": 1.3, "llm": 1.0, "iterative": 2.0}


def documents_of(name: str) -> tuple[int, ...]:
    """A sample of the runs of words in the documents of a data set."""
    return tuple(sorted(Random(f"documents of {name}").sample(range(1 << 25), 200)))


def made_up(name: str, seed: int, space: Space, corpus: CorpusProfile) -> ObservedDataset:
    draw = Random(seed)
    sample = tuple(option_labels(candidate) for candidate in sample_of(space, SAMPLE, name))
    level = draw.uniform(0.3, 0.6)
    own = {option: draw.gauss(0, 0.006) for option in WORTH}

    def mean(labels: Labels) -> float:
        return level + sum(WORTH[one] + own[one] for one in labels if one in WORTH) + draw.gauss(0, 0.001)

    return ObservedDataset(
        name,
        f"digest of {name}",
        documents_of(name),
        corpus,
        ModelClasses(),
        70,
        8,
        sample,
        {part: tuple(mean(labels) for labels in sample) for part in ("retrieval", "generation")},
        {part: (1e-6,) * (len(GROUPS) + 1) for part in ("retrieval", "generation")},
        tuple(1.0 + sum(COSTS.get(one, 0.0) for one in labels) for labels in sample),
    )


@pytest.fixture(scope="session")
def prose() -> CorpusProfile:
    return CorpusProfile(10, 100_000, 10_000.0, 1.0, 0.0, 0.0, 0.0, "en")


@pytest.fixture(scope="session")
def space() -> Space:
    return load_space("default")


@pytest.fixture(scope="session")
def knowledge(space: Space, prose: CorpusProfile) -> Knowledge:
    return learned_from([made_up(name, seed, space, prose) for seed, name in enumerate("abcd")], steps=10)

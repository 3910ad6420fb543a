"""What a search expects of pipelines, for many at once: the same as one by one."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from ragsmith.effects.beliefs import Beliefs
from ragsmith.effects.corpus import CorpusProfile
from ragsmith.effects.knowledge import Knowledge
from ragsmith.effects.prior import Prior
from ragsmith.effects.recommending import prior_for, recommend_pipeline
from ragsmith.effects.terms import PLAIN, ModelClasses, option_labels
from ragsmith.evaluation.baselines import baseline
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.pipelines.space import Space

BM25 = tuple("bm25" if label == "vector" else label for label in PLAIN)
CLASSES = [ModelClasses(), ModelClasses(generator="chat", controller="chat", judge="chat", embedder="transformer")]


@pytest.fixture
def drawn(space: Space) -> list[Candidate]:
    draw = Random(3)
    genomes = (tuple(draw.randrange(size) for size in space.sizes) for _ in range(200))
    return [baseline("bm25"), *(space.candidate(genome) for genome in genomes)]


@pytest.mark.parametrize("models", CLASSES)
def test_many_at_once_are_as_one_by_one(
    space: Space, knowledge: Knowledge, prose: CorpusProfile, drawn: list[Candidate], models: ModelClasses
) -> None:
    """What is known, and with chat models also what is not."""
    prior = prior_for(space, knowledge, prose, models)
    means, deviations = prior.predict_genomes(prior.genomes(drawn))
    beliefs = knowledge.beliefs(prose, models)
    one_by_one = [beliefs.gain(option_labels(candidate), BM25) for candidate in drawn]
    assert np.column_stack([means, deviations]) == pytest.approx(np.array(one_by_one), abs=1e-9)
    assert (means[0], deviations[0]) == (0, 0)


def test_the_covariance_is_that_of_differences(
    space: Space, knowledge: Knowledge, prose: CorpusProfile, drawn: list[Candidate]
) -> None:
    """With R alone, var(a - b) = var(a) + var(b) - 2 cov(a, b) can be asked of one pair of pipelines, too."""
    beliefs = knowledge.beliefs(prose, ModelClasses())
    alone = Beliefs((replace(beliefs.parts[0], share=1.0),))
    prior = Prior.from_beliefs(alone, [list(map(str, genes)) for genes in space.options], BM25)
    first, second = prior.genomes(drawn[1:20]), prior.genomes(drawn[20:30])
    (_, ours), (_, theirs) = prior.predict_genomes(first), prior.predict_genomes(second)
    joint = prior.covariance(first, second)
    for i, j in ((0, 0), (3, 7), (18, 9)):
        _, apart = alone.gain(option_labels(drawn[1 + i]), option_labels(drawn[20 + j]))
        assert apart**2 == pytest.approx(ours[i] ** 2 + theirs[j] ** 2 - 2 * joint[i, j])


def test_the_covariance_agrees_with_the_deviations_and_is_one(
    space: Space, knowledge: Knowledge, prose: CorpusProfile, drawn: list[Candidate]
) -> None:
    prior = prior_for(space, knowledge, prose, ModelClasses())
    genomes = prior.genomes(drawn)
    joint = prior.covariance(genomes, genomes)
    assert np.sqrt(np.diag(joint)) == pytest.approx(prior.predict_genomes(genomes)[1])
    assert joint == pytest.approx(joint.T)
    assert np.linalg.eigvalsh(joint).min() > -1e-9


def test_genomes_of_the_space_are_those_of_the_prior(space: Space, knowledge: Knowledge, prose: CorpusProfile) -> None:
    prior = prior_for(space, knowledge, prose, ModelClasses())
    named = recommend_pipeline(space, knowledge, prose, ModelClasses(), most_calls=None)
    (mean,), (deviation,) = prior.predict_genomes([space.genome(named.candidate)])
    assert (mean, deviation) == (pytest.approx(named.gain), pytest.approx(named.sd))


def test_baselines_are_known_where_the_space_lacks_them(
    space: Space, knowledge: Knowledge, prose: CorpusProfile
) -> None:
    narrow = space.without(lambda gene: gene.technique.name in ("bm25", "vector"))
    prior = prior_for(narrow, knowledge, prose, ModelClasses())
    genomes = prior.genomes([baseline("bm25"), baseline("naive")])
    assert prior.predict_genomes(genomes)[0] == pytest.approx([0, -0.06], abs=0.02)
    stranger = (*baseline("bm25")[:2], make_gene("retrieval", "hybrid", {"weight": 0.123}), *baseline("bm25")[3:])
    with pytest.raises(KeyError):
        prior.genomes([stranger])


def test_a_whole_space_is_no_more_than_its_parts(space: Space, knowledge: Knowledge, prose: CorpusProfile) -> None:
    prior = prior_for(space, knowledge, prose, ModelClasses())
    genomes = prior.genomes([space.candidate(genome) for genome, _ in zip(space.genomes(), range(9000), strict=False)])
    whole = prior.predict_genomes(genomes)
    parts = [prior.predict_genomes(half) for half in (genomes[:4000], genomes[4000:])]
    assert np.hstack(parts) == pytest.approx(np.vstack(whole))

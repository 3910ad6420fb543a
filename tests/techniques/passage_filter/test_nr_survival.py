from dataclasses import replace

import pytest

from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.passage_filter.nr_survival import mean_survival, nr_survival
from ragsmith.testing import hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Who discovered radium?")

# ranks at document, section and chunk scope: the worked example of the NEST paper
GENERAL = (("document", 3), ("section", 12))
RADIATION = (("document", 5), ("section", 7), ("chunk", 9))
RADIUM = (("document", 11), ("section", 4), ("chunk", 2))
IMAGING = (("document", 2),)


def surviving(chunks, *profiles):
    hits = hits_of(chunks, [1 - i / 10 for i in range(len(profiles))], Scale.SURVIVAL)
    return tuple(replace(hit, survival=profile) for hit, profile in zip(hits, profiles, strict=True))


def test_relevance_is_the_mean_over_all_scopes_as_a_share_of_the_best(chunks):
    means = (0.1389, 0.1513, 0.2803, 0.1667)
    found = mean_survival(surviving(chunks, GENERAL, RADIATION, RADIUM, IMAGING))
    assert found == pytest.approx([mean / 0.2803 for mean in means], abs=5e-4)


def test_scopes_are_counted_over_the_list(chunks):
    assert mean_survival(surviving(chunks, (("document", 2),), (("document", 1),))) == (0.5, 1.0)
    assert mean_survival(surviving(chunks, (("document", 1),), (("document", 1), ("chunk", 1)))) == (0.5, 1.0)


def test_a_chunk_that_came_from_elsewhere_has_not_survived(chunks):
    assert mean_survival(surviving(chunks, (), RADIUM)) == (0.0, 1.0)


def test_survival_decides_and_order_and_score_stay(chunks, embedder):
    hits = surviving(chunks, GENERAL, IMAGING, RADIATION, RADIUM)
    rescored = tuple(hit.rescored(i / 10, Scale.CROSS_ENCODER) for i, hit in enumerate(hits))
    kept = nr_survival(QUESTION, rescored, embedder=embedder, share=0.25)
    assert kept == (rescored[3],)
    wider = nr_survival(QUESTION, rescored, embedder=embedder, share=0.75)
    assert list(wider) == sorted(wider, key=lambda hit: -hit.score)
    assert len(wider) == 3


def test_a_copy_of_what_survived_best_goes(chunks, embedder):
    best, other = surviving(chunks, RADIUM, RADIATION)
    copy = replace(best, chunk=replace(chunks[0], id="harbour:9", index=9))
    kept = nr_survival(QUESTION, (best, copy, other), embedder=embedder, mode="greedy", share=0.6)
    assert kept == (best, other)
    assert len(nr_survival(QUESTION, (best, copy, other), embedder=embedder, mode="count", share=0.6)) == 2


def test_nothing_found_and_nothing_survived(chunks, embedder):
    assert nr_survival(QUESTION, (), embedder=embedder) == ()
    with pytest.raises(ValueError, match=r"no candidate has a survival profile; use it after retrieval\.nest"):
        nr_survival(QUESTION, hits_of(chunks, [0.5, 0.4]), embedder=embedder)


def test_says_what_it_comes_after():
    assert passage_filter["nr_survival"].after == {"retrieval": ("nest",)}

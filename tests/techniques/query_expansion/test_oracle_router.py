import pytest

from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.oracle_router import oracle_router
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Gold, Question, Scale

QUESTION = Question("Who?")


def model():
    return ScriptedModel({"imagine_passage": ["A passage."], "broader_question": ["The town?"]})


@pytest.fixture
def found(search, chunks):
    return search(
        {
            "Who?": hits_of(chunks[:3], [0.9, 0.8, 0.7]),
            "A passage.": hits_of((chunks[2], chunks[4]), [0.9, 0.8]),
            "The town?": hits_of((chunks[6], chunks[1]), [0.9, 0.8]),
        }
    )


def route(found, *relevant, **parameters):
    return oracle_router(QUESTION, found, language_model=model(), gold=Gold(frozenset(relevant)), **parameters)


def test_takes_the_strategy_that_scores_best(found, chunks):
    assert {hit.scale for hit in route(found, chunks[0].id)} == {Scale.COSINE}
    assert {hit.scale for hit in route(found, chunks[2].id)} == {Scale.RRF}
    assert {hit.scale for hit in route(found, chunks[6].id)} == {Scale.CONVEX}


def test_another_metric_may_choose_another_strategy(found, chunks):
    relevant = (chunks[0].id, chunks[6].id)
    assert {hit.scale for hit in route(found, *relevant, metric="recall")} == {Scale.CONVEX}
    assert {hit.scale for hit in route(found, *relevant, metric="success")} == {Scale.COSINE}
    for metric in ("ndcg", "average_precision", "reciprocal_rank"):
        assert route(found, *relevant, metric=metric)


def test_ties_go_where_they_are_told_to(found, chunks):
    for ties, scale in (("semantic", Scale.COSINE), ("dual_path", Scale.RRF), ("step_back", Scale.CONVEX)):
        assert {hit.scale for hit in route(found, "elsewhere", ties=ties)} == {scale}  # all find nothing
        assert {hit.scale for hit in route(found, ties=ties)} == {scale}  # nothing to find
    # two are best and the favourite is not: the cheaper of them
    assert {hit.scale for hit in route(found, chunks[2].id, metric="success", ties="dual_path")} == {Scale.RRF}
    assert {hit.scale for hit in route(found, chunks[4].id, metric="recall", ties="step_back")} == {Scale.RRF}
    assert {hit.scale for hit in route(found, chunks[2].id, metric="recall")} == {Scale.COSINE}


def test_is_for_analysis_only():
    assert query_expansion["oracle_router"].analysis_only

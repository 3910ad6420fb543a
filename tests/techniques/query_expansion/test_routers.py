"""Routers that search as labels say, or as predicted from features."""

import json

import numpy as np
import pytest

from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.compositional_router import (
    compositional_router,
    compute_lexical_features,
    observe,
    predict_best_strategy,
    solve,
)
from ragsmith.techniques.query_expansion.keyword_router import STRATEGIES
from ragsmith.techniques.query_expansion.oracle_router import oracle_router
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Fitted, Gold, Question, Scale

# --- compositional router --------------------------------------------------------------------------------------------


QUESTION = Question("Who rings the bell of Velmouth?")


def seen(number, draw):
    """An observation where long questions want dual_path, and all others the plain search."""
    long = bool(number % 2)
    features = [0.0] * 26
    features[18] = 20.0 + number if long else 5.0 + number % 3
    ndcg = [0.3, 0.9, 0.1] if long else [0.8, 0.2, 0.1]
    return {"lexical": features, "embedding": draw.normal(size=12).round(6).tolist(), "ndcg": ndcg}


def observations(n=40):
    draw = np.random.default_rng(3)
    return [seen(number, draw) for number in range(n)]


def test_lexical_features():
    found = compute_lexical_features("Which is older, the guild of Oswin Tarrel or Velmouth harbour?", [0.5, 0.3, 1.0])
    assert len(found) == 26
    assert [i for i, value in enumerate(found[:14]) if value] == [4]
    question_mark, breadth, hops, entities, length, clauses = found[14:20]
    assert (question_mark, breadth, hops, entities, length, clauses) == (1, 0, 0, 2, 11, 3)
    assert found[20:] == pytest.approx((0.3, 0.6, 0.7, np.std([0.5, 0.3, 1.0]), 0.2, 0.5))


def test_features_of_almost_nothing():
    assert compute_lexical_features("", ()) == (0.0,) * 19 + (1.0,) + (0.0,) * 6
    assert compute_lexical_features("Compare both", [0.4])[14:] == (0, 1, 1, 0, 2, 1, 0.4, 0.4, 0, 0, 0, 1)
    assert compute_lexical_features("x", [0.0, 0.0])[20:] == (0.0,) * 6
    assert all(type(value) is float for value in compute_lexical_features("Who?", [1, 2]))


def test_the_map_is_that_of_standardising_projecting_and_regressing():
    data = observations()
    draw = np.random.default_rng(5)
    for observation in data:
        observation["lexical"] = draw.normal(size=26).round(6).tolist()
        observation["ndcg"] = draw.random(3).tolist()
    models = solve(data, alpha=1.0)["models"]

    x = np.array([o["lexical"] for o in data])
    e = np.array([o["embedding"] for o in data])
    y = np.array([o["ndcg"] for o in data])
    _, vectors = np.linalg.eigh(np.cov(e.T))
    design = np.hstack([(x - x.mean(0)) / x.std(0), (e - e.mean(0)) @ vectors[:, -8:]])
    slopes = np.linalg.inv(design.T @ design + np.eye(34)) @ design.T @ (y - y.mean(0))
    wanted = design @ slopes + y.mean(0)
    for i, name in enumerate(STRATEGIES):
        predicted = models[name]["intercept"] + np.hstack([x, e]) @ np.array(models[name]["weights"])
        assert predicted == pytest.approx(wanted[:, i])


def test_learns_what_a_question_s_length_says():
    data = observations()
    numbers = solve(data, alpha=1.0)
    assert json.loads(json.dumps(numbers)) == numbers
    chosen = [predict_best_strategy(numbers, [*o["lexical"], *o["embedding"]]) for o in data]
    assert chosen == ["dual_path" if number % 2 else "semantic" for number in range(len(data))]
    assert numbers["order"] == ["semantic", "dual_path", "step_back"] == list(STRATEGIES)  # 0.55, 0.55, 0.1


def test_ties_go_to_the_best_on_average():
    flat = {name: {"intercept": 0.5, "weights": [0.0, 0.0]} for name in STRATEGIES}
    for best in STRATEGIES:
        order = [best, *(name for name in STRATEGIES if name != best)]
        assert predict_best_strategy({"models": flat, "order": order}, [3.0, 4.0]) == best
    data = [{**o, "ndcg": [0.1, 0.2, 0.6]} for o in observations(6)]
    numbers = solve(data, alpha=1.0)
    assert numbers["order"] == ["step_back", "dual_path", "semantic"]
    assert predict_best_strategy(numbers, [0.0] * 38) == "step_back"


def test_questions_without_gold_teach_nothing():
    data = observations(10)
    blank = {**data[0], "ndcg": []}
    assert solve([*data, blank], alpha=1.0) == solve(data, alpha=1.0)
    with pytest.raises(ValueError, match="no calibration question has gold"):
        solve([blank], alpha=1.0)


def test_another_embedder_is_noticed():
    with pytest.raises(ValueError, match="fitted on 38 features and a question has 282; fit it again"):
        predict_best_strategy(solve(observations(4), alpha=1.0), [0.0] * 282)


@pytest.fixture
def found(search, chunks):
    return search(
        {
            QUESTION.text: hits_of(chunks[:3], [0.9, 0.8, 0.7]),
            "A passage.": hits_of((chunks[2], chunks[4]), [0.9, 0.8]),
            "The town?": hits_of((chunks[6], chunks[1]), [0.9, 0.8]),
        }
    )


def model():
    return ScriptedModel({"imagine_passage": ["A passage."], "broader_question": ["The town?"]})


def test_observes_features_and_what_each_strategy_scores(found, chunks, embedder):
    def watch(*relevant):
        gold = Gold(frozenset(relevant))
        return observe(QUESTION, found, language_model=model(), embedder=embedder, gold=gold, depth=20)

    observation = watch(chunks[2].id)
    assert json.loads(json.dumps(observation)) == observation
    assert len(observation["lexical"]) == 26
    assert len(observation["embedding"]) == 256
    assert observation["ndcg"][:2] == [0.5, 1.0]  # third, and first in both paths
    assert watch()["ndcg"] == []


def test_searches_as_predicted(found, embedder, chunks):
    scales = dict(zip(STRATEGIES, (Scale.COSINE, Scale.RRF, Scale.CONVEX), strict=True))
    for wanted in STRATEGIES:
        models = {name: {"intercept": float(name == wanted), "weights": [0.0] * 282} for name in STRATEGIES}
        fitted, asked = Fitted({"models": models, "order": list(STRATEGIES)}), model()
        hits = compositional_router(QUESTION, found, language_model=asked, embedder=embedder, fitted=fitted, depth=2)
        assert len(hits) == 2
        assert {hit.scale for hit in hits} == {scales[wanted]}
        assert len(asked.calls) == (wanted != "semantic")


def test_nothing_found_is_no_error(search, embedder):
    gold = Gold(frozenset({"x"}))
    observation = observe(QUESTION, search(()), language_model=model(), embedder=embedder, gold=gold, depth=20)
    assert observation["ndcg"] == [0.0, 0.0, 0.0]
    fitted = Fitted(solve([observation], alpha=1.0))
    assert compositional_router(QUESTION, search(()), language_model=model(), embedder=embedder, fitted=fitted) == ()


# --- oracle router ---------------------------------------------------------------------------------------------------


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

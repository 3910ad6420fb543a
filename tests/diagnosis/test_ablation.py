"""What parts are worth: on evaluators that add up, where the answer is known, and where two parts were made to."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ragsmith.comparison.questions import Clusters
from ragsmith.diagnosis.ablation import (
    Ablation,
    compute_ablation,
    list_ablation_candidates,
    list_missing_candidates,
    load_ablation,
)
from ragsmith.diagnosis.changes import group_dependent_genes, list_removals, list_swaps
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import Terms
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.pipelines.space import Space
from ragsmith.reporting import plots, run_tables, wording
from ragsmith.reporting.report_files import INTERACTION_COLUMNS, PART_COLUMNS
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.table import to_csv

QUESTIONS = tuple(f"q{n:02}" for n in range(40))
ALONE = Clusters.singletons(QUESTIONS)
PLAIN = {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"}
OPTIONS = {
    "query_expansion": ("none", "hyde", "multi_query"),
    "retrieval": ("vector", "bm25", "nest"),
    "reranking": ("none", "cross_encoder"),
    "passage_filter": ("top_k", "nr_survival"),
    "prompt_maker": ("listing", "long_context_reorder"),
}
load_techniques()
SPACE = Space("small", "", tuple(tuple(make_gene(f.name, o) for o in OPTIONS.get(f.name, ("none",))) for f in FAMILIES))

Effects = Mapping[str, np.ndarray]
"""What each option adds on each question; a pair is written with a star."""


def pipeline(**changed: str) -> Candidate:
    return tuple(make_gene(f.name, changed.get(f.name, PLAIN.get(f.name, "none"))) for f in FAMILIES)


HYDE = pipeline(query_expansion="hyde")
WINNER = pipeline(query_expansion="hyde", retrieval="bm25", reranking="cross_encoder")


def evaluator(effects: Effects, calls: Mapping[str, float] | None = None) -> Callable[[Candidate], Evaluation]:
    """Scores that are sums of effects: R is twice as far from a half as G."""
    costs = calls or {}

    def evaluation(candidate: Candidate) -> Evaluation:
        names = [gene.technique.name for gene in candidate]
        pairs = [f"{one}*{other}" for one in names for other in names]
        gained = sum((effects[name] for name in (*names, *pairs) if name in effects), np.zeros(len(QUESTIONS)))
        spent = 1.0 + sum(costs.get(name, 0.0) for name in names)
        records = {}
        for question, gain in zip(QUESTIONS, gained.tolist(), strict=True):
            measures = dict.fromkeys(("recall", "map", "ndcg", "mrr"), 0.5 + 2 * gain)
            measures |= dict.fromkeys(("judge", "similarity"), 0.5 + gain)
            records[question] = {"measures": measures, "usage": {"calls": spent}, "answer": "", "retrieved": names}
        return Evaluation("+".join(names), candidate, QUESTIONS, records, {})

    return evaluation


def taken_apart(
    winner: Candidate, evaluate: Callable[[Candidate], Evaluation], *, pairs: bool = True, with_swaps: bool = True
) -> Ablation:
    first = evaluate(winner)
    others = [evaluate(one) for one in list_ablation_candidates(winner, SPACE, with_swaps=with_swaps, pairs=pairs)]
    return compute_ablation(
        first, others, SPACE, Terms.from_evaluations([first, *others], Fitness()), dataset="made up", clusters=ALONE
    )


effects_of_options = st.integers(0, 10_000).map(
    lambda seed: {
        name: np.random.default_rng([seed, place]).normal(0.02, 0.03, len(QUESTIONS))
        for place, name in enumerate(("hyde", "bm25", "cross_encoder", "nest", "multi_query", "long_context_reorder"))
    }
)


@hypothesis_settings(max_examples=25)
@given(effects_of_options)
def test_where_scores_add_up_each_part_is_worth_its_effect_and_nothing_interacts(effects: Effects) -> None:
    found = taken_apart(WINNER, evaluator(effects, {"hyde": 1.0, "cross_encoder": 0.25}))
    assert [one.option for one in found.outs] == ["hyde", "bm25", "cross_encoder"]
    for one in found.outs:
        mean = effects[one.option].mean()
        assert one.worth["retrieval"].mean == pytest.approx(2 * mean)
        assert one.worth["generation"].mean == pytest.approx(mean)
        assert one.worth["fitness"].mean == pytest.approx(1.5 * mean)
        assert one.worth["fitness"].low <= one.worth["fitness"].mean <= one.worth["fitness"].high
    assert [one.calls for one in found.outs] == pytest.approx([1.0, 0.0, 0.25])
    by_swap = {(one.option, one.instead): one.worth["fitness"].mean for one in found.swaps}
    assert by_swap["hyde", "multi_query"] == pytest.approx(1.5 * (effects["hyde"] - effects["multi_query"]).mean())
    assert by_swap["listing", "long_context_reorder"] == pytest.approx(-1.5 * effects["long_context_reorder"].mean())
    whole, *pairs = found.interactions
    assert len(whole.options) == 3
    assert {len(one.options) for one in pairs} == {2}
    assert len(pairs) == 3
    for one in found.interactions:
        assert (one.beyond.mean, one.beyond.low, one.beyond.high) == pytest.approx((0, 0, 0), abs=1e-12)
        assert one.expected.mean == pytest.approx(one.observed.mean)


@hypothesis_settings(max_examples=25)
@given(effects_of_options, st.floats(0.02, 0.2), st.sampled_from([-1, 1]))
def test_a_planted_interaction_is_found_where_it_was_planted_and_nowhere_else(
    effects: Effects, size: float, sign: int
) -> None:
    planted = np.random.default_rng(3).normal(sign * size, size / 4, len(QUESTIONS))
    found = taken_apart(WINNER, evaluator({**effects, "hyde*bm25": planted}))
    by_parts = {one.options: one for one in found.interactions}
    both = by_parts["query_expansion: hyde", "retrieval: bm25"]
    assert both.beyond.mean == pytest.approx(1.5 * planted.mean())
    assert both.beyond.excludes_zero
    assert found.interactions[0].beyond.mean == pytest.approx(1.5 * planted.mean())
    for options, one in by_parts.items():
        if "query_expansion: hyde" not in options or "retrieval: bm25" not in options:
            assert not one.beyond.excludes_zero
    # a part that gains by another's being there is worth more in the winner than alone
    worth = {one.option: one.worth["fitness"].mean for one in found.outs}
    assert worth["hyde"] == pytest.approx(1.5 * (effects["hyde"] + planted).mean())


def test_intervals_and_errors_are_by_group_of_questions() -> None:
    """Against the formulas, written anew: means of whole groups drawn again, and the cluster-robust error."""
    effect = np.random.default_rng(0).normal(0.01, 0.05, len(QUESTIONS)) + np.repeat([0.03, -0.02, 0.0, 0.01, 0.05], 8)
    clusters = Clusters(tuple(QUESTIONS[start : start + 4] for start in range(0, 40, 4)))
    evaluate = evaluator({"hyde": effect})
    first, *others = map(evaluate, [HYDE, *list_ablation_candidates(HYDE, SPACE)])
    terms = Terms.from_evaluations([first, *others], Fitness())
    found = compute_ablation(first, others, SPACE, terms, dataset="made up", clusters=clusters)
    estimate = found.outs[0].worth["fitness"]
    sums = (1.5 * (effect - effect.mean())).reshape(10, 4).sum(axis=1)
    assert estimate.error == pytest.approx(np.sqrt(10 / 9 * (sums**2).sum()) / 40)
    assert (estimate.n, estimate.groups) == (40, 10)
    drawn = np.random.default_rng(0).integers(0, 10, (10_000, 10))
    means = 1.5 * effect.reshape(10, 4).mean(axis=1)[drawn].mean(axis=1)
    reach = 2.2621572 * np.sqrt(10 / 9)  # of Student's t with nine degrees of freedom
    tail = NormalDist().cdf(-reach)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(np.quantile(means, [tail, 1 - tail])), abs=1e-3)
    assert found.interactions == ()  # one part adds up with nothing


@pytest.mark.parametrize(("groups", "known"), [(2, False), (7, False), (8, True)])
def test_of_too_few_groups_there_is_no_interval_anywhere(groups: int, known: bool) -> None:
    effects = {"hyde": np.linspace(0.1, 0.2, len(QUESTIONS)), "bm25": np.linspace(0.0, 0.1, len(QUESTIONS))}
    ends = np.linspace(0, len(QUESTIONS), groups + 1).astype(int)
    clusters = Clusters(tuple(QUESTIONS[a:b] for a, b in itertools.pairwise(ends)))
    winner = pipeline(query_expansion="hyde", retrieval="bm25")
    first, *others = map(evaluator(effects), [winner, *list_ablation_candidates(winner, SPACE)])
    terms = Terms.from_evaluations([first, *others], Fitness())
    found = compute_ablation(first, others, SPACE, terms, dataset="made up", clusters=clusters)
    worth = found.outs[0].worth["fitness"]
    assert (worth.mean > 0, worth.excludes_zero, worth.groups) == (True, known, groups)
    assert (worth.low is None) is (worth.high is None) is not known
    table = run_tables.parts_table(found)
    assert any("(too few groups)" in cell for row in table.cells for cell in row) is not known
    assert ("(too few groups)" in wording.describe_interaction(found.interactions[0])) is not known
    assert all(("(too few groups)" in row.said) is not known for row in plots.plot_parts(found).rows)
    row = next(csv.DictReader(to_csv(found.parts, PART_COLUMNS).splitlines()))
    assert (row["groups"], row["fitness_low"] == "") == (str(groups), not known)
    row = next(csv.DictReader(to_csv(found.interactions, INTERACTION_COLUMNS).splitlines()))
    assert (row["groups"], row["beyond_high"] == "") == (str(groups), not known)


def test_what_cannot_stand_without_a_part_goes_with_it() -> None:
    winner = pipeline(retrieval="nest", passage_filter="nr_survival", query_expansion="hyde")
    by_option = {str(winner[one.place]): one for one in list_removals(winner, SPACE)}
    nest = by_option["nest"]
    assert [str(nest.candidate[at]) for at in nest.places] == ["vector", "top_k"]
    assert [str(winner[at]) for at in by_option["nr_survival"].places] == ["nr_survival"]
    swapped = next(one for one in list_swaps(winner, SPACE) if str(one.candidate[one.place]) == "bm25")
    assert str(swapped.candidate[swapped.places[-1]]) == "top_k"
    assert [len(unit) for unit in group_dependent_genes(winner, SPACE)] == [1, 2]
    found = taken_apart(winner, evaluator({"nest": np.full(40, 0.1), "nr_survival": np.full(40, 0.05)}))
    [part] = [one for one in found.outs if one.option == "nest"]
    assert part.together == ("passage_filter: top_k",)
    assert part.worth["fitness"].mean == pytest.approx(1.5 * 0.15)
    assert found.interactions[0].options == ("query_expansion: hyde", "retrieval: nest + passage_filter: nr_survival")


def test_what_the_space_forbids_or_nobody_evaluated_is_named_and_not_scored() -> None:
    forbidding = Space(
        "small", "", SPACE.options, ({"retrieval": frozenset({"vector"}), "reranking": frozenset({"cross_encoder"})},)
    )
    first = evaluator({})(WINNER)
    found = compute_ablation(
        first, [], forbidding, Terms.from_evaluations([first], Fitness()), dataset="made up", clusters=ALONE
    )
    assert {one.option: one.why_not for one in found.outs} == {
        "hyde": "not evaluated: `ragsmith ablate` does it",
        "bm25": "the space forbids what would be left",
        "cross_encoder": "not evaluated: `ragsmith ablate` does it",
    }
    assert found.swaps == ()
    assert [one.worth for one in found.outs] == [{}, {}, {}]
    missing = list_missing_candidates(WINNER, forbidding, [first])
    assert len(missing) == 2
    assert list_missing_candidates(WINNER, forbidding, map(evaluator({}), missing)) == []


def test_a_pipeline_that_failed_too_often_is_not_compared() -> None:
    evaluate = evaluator({"hyde": np.full(40, 0.1)})
    first, *others = map(evaluate, [WINNER, *list_ablation_candidates(WINNER, SPACE)])
    without = others[0]
    error = {"stage": "retrieval", "error": "ModelError: no reply"}
    failed = dict.fromkeys(QUESTIONS[:5], error)
    records = {question: record for question, record in without.records.items() if question not in failed}
    others[0] = Evaluation(without.key, without.candidate, QUESTIONS, records, failed)
    found = compute_ablation(
        first, others, SPACE, Terms.from_evaluations([first, *others], Fitness()), dataset="made up", clusters=ALONE
    )
    assert found.outs[0].why_not == "failed on 5 of 40 questions"
    assert found.outs[1].why_not == ""


def test_what_left_a_race_is_said_to_have_left_it_and_completed_where_that_is_cheap() -> None:
    first, *others = map(evaluator({}), [WINNER, *list_ablation_candidates(WINNER, SPACE)])

    def left(one: Evaluation, answered: int) -> Evaluation:
        records = {question: one.records[question] for question in QUESTIONS[:answered]}
        return Evaluation(one.key, one.candidate, QUESTIONS, records, {})

    raced = [left(one, answered) for one, answered in zip(others[:3], (5, 30, 4), strict=True)]
    met = [first, *raced]
    found = compute_ablation(
        first, met, SPACE, Terms.from_evaluations(met, Fitness()), dataset="made up", clusters=ALONE
    )
    said = [f"answered {answered} of 40, left the race" for answered in (5, 30, 4)]
    assert [one.why_not for one in found.outs] == said
    assert all(not one.worth for one in found.outs)
    # 10 and 35 answers are as many as two pipelines have; the third would be beyond them
    assert list_missing_candidates(WINNER, SPACE, met) == [raced[1].candidate, raced[0].candidate]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "cache.sqlite") as opened:
        yield opened


def test_what_is_kept_is_read_back_and_what_was_known_before_stays(store: Store) -> None:
    evaluate = evaluator({"hyde": np.linspace(0, 0.1, 40), "hyde*bm25": np.full(40, 0.02)})
    whole = taken_apart(WINNER, evaluate)
    assert whole.save(store, "digest") == whole
    assert load_ablation(store, whole.key) == whole
    few = taken_apart(WINNER, evaluate, pairs=False, with_swaps=False)
    assert few.swaps == ()
    assert few.save(store, "digest") == whole  # a repeated search knows less than `ablate` did
    assert load_ablation(store, whole.key) == whole
    assert load_ablation(store, whole.key, "all") is None

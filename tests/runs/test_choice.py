"""The choice of the winner, and its simplification."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragsmith.comparison.questions import Clusters
from ragsmith.effects import CorpusProfile, ModelClasses, Prior, prior_for, read_effects
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.ranking import Terms
from ragsmith.pipelines.genes import Candidate, Gene, label, make_gene
from ragsmith.pipelines.space import Space
from ragsmith.records.record import AblationStep
from ragsmith.runs.choice import WinnerChoice, choose, simplify
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques

QUESTIONS = tuple(f"q{n:02}" for n in range(40))
FITNESS = Fitness(Weights(1, 0))

OPTIONS = {
    "query_expansion": ("none", "hyde"),
    "retrieval": ("vector", "bm25"),
    "reranking": ("none", "cross_encoder"),
    "passage_filter": ("top_k",),
    "passage_augment": ("none", "prev_next"),
    "prompt_maker": ("listing", "long_context_reorder"),
    "post_generation": ("none", "reflection_revising"),
}
load_techniques()
SPACE = Space("small", "", tuple(tuple(make_gene(f.name, o) for o in OPTIONS.get(f.name, ("none",))) for f in FAMILIES))


def pipeline(**changed: str) -> Candidate:
    plain = {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"}
    return tuple(make_gene(f.name, changed.get(f.name, plain.get(f.name, "none"))) for f in FAMILIES)


ALONE = Clusters.singletons(QUESTIONS)
EIGHT = Clusters(tuple(QUESTIONS[i::8] for i in range(8)), "document")  # noise has the same sign in all of a group


class World:
    """Gains and calls of options, equal for all questions; ``noise`` is added to single questions.

    Options that are ``inert`` change no answer; the others gain on the questions of ``where`` alone, if given.
    """

    def __init__(
        self,
        worth: dict[str, float],
        calls: dict[str, float],
        noise: float = 0.0,
        *,
        inert: Collection[str] = (),
        where: Collection[str] = QUESTIONS,
    ) -> None:
        self.worth, self.calls, self.noise, self.inert, self.where = worth, calls, noise, inert, where
        self.evaluated: list[str] = []

    def evaluate(self, candidates: Sequence[Candidate]) -> list[Evaluation]:
        self.evaluated += map(label, candidates)
        return [self.evaluation(candidate) for candidate in candidates]

    def evaluation(self, candidate: Candidate) -> Evaluation:
        names = [gene.technique.name for gene in candidate]
        calls = 1 + sum(self.calls.get(name, 0.0) for name in names)
        records = {}
        for place, question in enumerate(QUESTIONS):
            worth = 0.5 + sum(self.worth.get(name, 0.0) for name in names) * (question in self.where)
            moved = sum(self.noise * (-1) ** (place + i) for i, name in enumerate(names) if name in self.worth)
            measures = dict.fromkeys(("recall", "map", "ndcg", "mrr"), worth + moved)
            measures |= {"judge": 0.0, "similarity": 0.0}
            answer = " ".join(name for name in names if name not in {"none", *self.inert})
            records[question] = {"measures": measures, "usage": {"calls": calls}, "answer": answer, "retrieved": []}
        return Evaluation(label(candidate), candidate, QUESTIONS, records, {})


def left(
    world: World, leader: Candidate, max_loss: float = 0.002, clusters: Clusters = ALONE
) -> tuple[str, tuple[AblationStep, ...]]:
    whole = world.evaluation(leader)
    found, removals = simplify(
        whole,
        SPACE,
        world.evaluate,
        nothing_alike,
        lambda: Terms.from_evaluations([whole], FITNESS),
        clusters=clusters,
        max_loss=max_loss,
    )
    return label(found.candidate), removals


def nothing_alike(candidate: Candidate, other: Evaluation) -> None:
    """Return None: no two candidates have equal results."""


FULL = pipeline(query_expansion="hyde", reranking="cross_encoder", post_generation="reflection_revising")


def test_options_that_cost_calls_without_gain_are_removed() -> None:
    world = World(
        {"hyde": 0.1, "cross_encoder": 0.1, "reflection_revising": 0.0}, {"hyde": 1, "reflection_revising": 2}
    )
    found, removals = left(world, FULL)
    assert found == "hyde + vector + cross_encoder"
    gone = [removal for removal in removals if removal.left_out]
    assert [(removal.family, removal.calls) for removal in gone] == [("post_generation", pytest.approx(2.0))]
    assert gone[0].loss == pytest.approx(0.0)


def test_an_option_goes_if_the_upper_end_of_its_loss_is_small_enough() -> None:
    """Differences are worth ± 0.1 on 40 questions: an error of 0.0160, times 1.685, Student's quantile."""
    for worth, expected in ((0.002, "vector"), (0.004, "hyde + vector")):
        world = World({"hyde": worth}, {"hyde": 1}, noise=0.1)
        found, [step] = left(world, pipeline(query_expansion="hyde"), 0.03)
        assert found == expected
        assert step.loss == pytest.approx(worth)
        assert step.error == pytest.approx(0.01601, abs=1e-5)
        assert step.bound == pytest.approx(worth + 0.02698, abs=1e-5)


def test_the_level_is_divided_by_the_options_tried() -> None:
    world = World({"hyde": 0.0, "cross_encoder": 0.5, "reflection_revising": 0.5}, {"hyde": 1}, noise=0.1)
    assert left(world, pipeline(query_expansion="hyde"), 0.03)[0] == "vector"
    found, steps = left(world, FULL, 0.03)
    assert found == label(FULL)
    assert steps[0].bound == pytest.approx(0.01601 * 2.206, abs=1e-4)  # the quantile at 1 - 0.05 / 3


def test_questions_of_a_group_do_not_count_as_independent() -> None:
    world, leader = World({"hyde": 0.0}, {"hyde": 1}, noise=0.1), pipeline(query_expansion="hyde")
    assert left(world, leader, 0.05)[0] == "vector"
    found, [step] = left(world, leader, 0.05, EIGHT)
    assert found == "hyde + vector"
    assert step.error == pytest.approx(0.1 / 7**0.5)


@pytest.mark.parametrize(("inert", "expected"), [((), "hyde + vector"), (("hyde",), "vector")])
def test_with_few_groups_only_what_changes_no_answer_goes(inert: Collection[str], expected: str) -> None:
    seven = Clusters((*EIGHT.groups[:6], EIGHT.groups[6] + EIGHT.groups[7]), "document")
    world, leader = (
        World({"hyde": -0.1} if not inert else {}, {"hyde": 1}, inert=inert),
        pipeline(query_expansion="hyde"),
    )
    found, [step] = left(world, leader, 0.03, seven)
    assert (found, step.bound) == (expected, None)


def test_what_is_lost_on_questions_without_gold_counts() -> None:
    """The option helps on questions without gold alone, which are in no group."""
    apart = QUESTIONS[:4]
    clusters = Clusters(tuple((question,) for question in QUESTIONS[4:]), "question", 0, apart)
    for worth, expected in ((0.1, "hyde + vector"), (-0.1, "vector")):
        world = World({"hyde": worth}, {"hyde": 1}, where=apart)
        found, [step] = left(world, pipeline(query_expansion="hyde"), 0.03, clusters)
        assert (found, step.loss) == (expected, 0.0)


def test_options_without_calls_stay_if_they_gain_anything() -> None:
    for worth, expected in ((0.001, "vector + prev_next"), (0.0, "vector"), (-0.001, "vector")):
        world = World({"prev_next": worth}, {}, noise=0.1)
        assert left(world, pipeline(passage_augment="prev_next"), 0.05)[0] == expected


def test_nothing_goes_that_would_make_answers_dearer() -> None:
    for worth in (0.0, -0.1):
        world = World({"prev_next": worth}, {"prev_next": -0.5}, inert=() if worth else ("prev_next",))
        assert left(world, pipeline(passage_augment="prev_next"))[0] == "vector + prev_next"


def test_the_costliest_goes_first_and_losses_do_not_add_up() -> None:
    worth = {"hyde": 0.015, "reflection_revising": 0.015}
    world = World(worth, {"hyde": 1, "reflection_revising": 3})
    found, removals = left(world, pipeline(query_expansion="hyde", post_generation="reflection_revising"), 0.02)
    assert found == "hyde + vector"
    assert [(one.family, one.left_out, one.loss) for one in removals] == [
        ("post_generation", True, pytest.approx(0.015)),
        ("query_expansion", False, pytest.approx(0.03)),
    ]


def test_retrieval_stays_and_what_the_space_does_not_allow_is_not_tried() -> None:
    world = World({}, {})
    assert left(world, pipeline(retrieval="bm25")) == ("bm25", ())
    assert world.evaluated == []


DEPTHS = [
    make_gene("reranking", "cross_encoder", {"depth": depth, "first_stage_weight": w})
    for depth in (40, 20)
    for w in (0.5, 0.0)
]
FUSIONS = [make_gene("retrieval", "hybrid", {"fusion": fusion}) for fusion in ("rrf", "convex")]
PARAMETERS = replace(
    SPACE,
    options=tuple(
        {"reranking": tuple(DEPTHS), "retrieval": tuple(FUSIONS)}.get(family.name, options)
        for family, options in zip(FAMILIES, SPACE.options, strict=True)
    ),
)


def settled(leader: Candidate, matters: set[str], pairs: Callable[[Candidate], float] = lambda candidate: 0.0) -> Any:
    """What is left of ``leader`` where the parameters that ``matters`` names change what is answered."""

    def evaluation(candidate: Candidate) -> Evaluation:
        answer = str([(gene.technique.name, {k: gene.parameters.get(k) for k in matters}) for gene in candidate])
        usage = {"calls": 1.0, "pairs_scored": pairs(candidate)}
        measures = dict.fromkeys(("recall", "map", "ndcg", "mrr", "judge", "similarity"), 0.5 + len(answer) / 1e6)
        records = {q: {"measures": measures, "usage": usage, "answer": answer, "retrieved": []} for q in QUESTIONS}
        return Evaluation(label(candidate), candidate, QUESTIONS, records, {})

    def alike(candidate: Candidate, other: Evaluation) -> Evaluation | None:
        found = evaluation(candidate)
        return found if found.phenotype == other.phenotype else None

    whole = evaluation(leader)
    space = replace(PARAMETERS, forbidden=({"reranking": frozenset({"none"})},))
    found, removals = simplify(
        whole,
        space,
        lambda some: [evaluation(one) for one in some],
        alike,
        lambda: Terms.from_evaluations([whole], FITNESS),
        clusters=ALONE,
        max_loss=0.002,
    )
    return label(found.candidate), [(one.option, one.instead) for one in removals if one.left_out]


def test_parameters_that_change_nothing_go_back_to_their_defaults() -> None:
    deep = replace_gene(pipeline(), DEPTHS[1], FUSIONS[0])
    assert settled(deep, set()) == (
        "retrieval hybrid + cross_encoder",
        [
            ("hybrid(fusion=rrf)", "hybrid"),
            ("cross_encoder(depth=40, first_stage_weight=0.0)", "cross_encoder"),
        ],
    )
    assert settled(deep, {"fusion", "depth"}) == (
        "retrieval hybrid(fusion=rrf) + cross_encoder(depth=40)",
        [("cross_encoder(depth=40, first_stage_weight=0.0)", "cross_encoder(depth=40)")],
    )
    assert settled(deep, {"fusion", "depth", "first_stage_weight"})[1] == []


def test_a_parameter_stays_where_its_default_costs_more() -> None:
    shallow = replace_gene(pipeline(), DEPTHS[0], FUSIONS[1])
    found = settled(shallow, set(), lambda candidate: 100.0 - float(candidate[3].parameters["depth"]))
    assert found == ("retrieval hybrid + cross_encoder(depth=40)", [])


def replace_gene(candidate: Candidate, *genes: Gene) -> Candidate:
    return tuple(
        next((one for one in genes if one.technique.family == gene.technique.family), gene) for gene in candidate
    )


def expecting() -> Prior:
    """A prior without observed data sets."""
    return prior_for(
        SPACE, replace(read_effects(), observed=()), CorpusProfile(3, 9000, 3000, 1, 0, 0, 0, "en"), ModelClasses()
    )


def scored(candidate: Candidate, values: np.ndarray) -> Evaluation:
    records = {
        question: {
            "measures": dict.fromkeys(("recall", "map", "ndcg", "mrr"), float(value))
            | {"judge": 0.0, "similarity": 0.0},
            "usage": {"calls": 1.0},
            "answer": label(candidate),
            "retrieved": [],
        }
        for question, value in zip(QUESTIONS, values, strict=True)
    }
    return Evaluation(label(candidate), candidate, QUESTIONS, records, {})


def unlucky_field() -> tuple[list[Evaluation], Evaluation]:
    """Whatever has `bm25` is good; among the others one is a little above that, by a few questions alone."""
    draw = np.random.default_rng(1)
    extras = [{}, {"query_expansion": "hyde"}, {"reranking": "cross_encoder"}, {"passage_augment": "prev_next"}]
    good = [scored(pipeline(retrieval="bm25", **more), 0.5 + draw.normal(0, 0.002, 40)) for more in extras]
    poor = [scored(pipeline(**more), 0.4 + draw.normal(0, 0.002, 40)) for more in extras[1:]]
    lucky = scored(pipeline(), np.where(np.arange(40) < 5, 1.0, 0.45))
    return [*good, *poor, lucky], lucky


def test_a_lucky_pipeline_has_the_highest_mean_and_one_that_others_speak_for_the_highest_estimate() -> None:
    everybody, lucky = unlucky_field()
    terms = Terms.from_evaluations(everybody, FITNESS)
    by_mean, _ = choose(everybody, terms, expecting())
    assert by_mean is not None
    assert by_mean.chosen is by_mean.highest is lucky
    assert by_mean.estimated is not None
    assert label(by_mean.estimated.candidate).find("bm25") >= 0
    by_estimate, _ = choose(everybody, terms, expecting(), by="estimate")
    assert by_estimate is not None
    assert by_estimate.highest is lucky
    assert by_estimate.chosen is by_estimate.estimated is by_mean.estimated
    knowing_nothing, _ = choose(everybody, terms, by="estimate")
    assert knowing_nothing is not None
    assert knowing_nothing.chosen is lucky
    assert knowing_nothing.estimated is None


def test_a_failure_of_the_pipeline_with_the_highest_mean_does_not_prevent_a_winner() -> None:
    everybody, lucky = unlucky_field()
    partial = Evaluation(
        lucky.key,
        lucky.candidate,
        QUESTIONS,
        {question: record for question, record in lucky.records.items() if question != QUESTIONS[-1]},
        {QUESTIONS[-1]: {"stage": "answer", "kind": "Timeout", "error": "too slow"}},
    )
    field = [partial if one is lucky else one for one in everybody]
    found, why = choose(field, Terms.from_evaluations(field, FITNESS), expecting(), by="estimate")
    assert why == ""
    assert found is not None
    assert found.highest is partial
    assert found.chosen is not partial


def test_one_pipeline_or_one_question_is_chosen_by_its_mean() -> None:
    alone = scored(pipeline(), np.full(40, 0.5))
    found, why = choose([alone], Terms.from_evaluations([alone], FITNESS), expecting(), by="estimate")
    assert found is not None
    assert found.chosen is alone
    assert why == ""


def test_there_is_no_winner_while_trouble_of_a_provider_hides_whether_another_is_better() -> None:
    steady, ahead, behind = (
        scored(pipeline(**more), np.full(40, score))
        for more, score in (({}, 0.5), ({"retrieval": "bm25"}, 0.5001), ({"query_expansion": "hyde"}, 0.4))
    )

    def choose_without(kind: str, one: Evaluation) -> tuple[WinnerChoice | None, str]:
        failed = {
            question: {"stage": "retrieval.bm25", "kind": kind, "error": f"Error: {kind}"} for question in QUESTIONS[:8]
        }
        records = {question: record for question, record in one.records.items() if question not in failed}
        field = [steady, replace(one, records=records, failures=failed)]
        return choose(field, Terms.from_evaluations(field, FITNESS))

    found, why = choose_without("provider trouble", ahead)
    assert found is None
    assert "which failed on 8 of 40 questions, is better on the 32 that both finished" in why
    assert "run the same command when the provider has recovered" in why
    found, _ = choose_without("provider trouble", behind)
    assert found is not None
    assert found.chosen is steady

"""Races: who is dropped, who never is, and how often the tests are wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats

from ragsmith.errors import UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.racing import PartialScores, Races, RaceState, Racing, calls_models_to_rank, list_costly_tools
from ragsmith.evaluation.ranking import MAX_FAILURE_RATE
from ragsmith.models.roles import Models
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.techniques.families import FAMILIES
from ragsmith.types import Example

QUESTIONS = 70


def standing(exact: np.ndarray, sampled: np.ndarray, answered: int = QUESTIONS) -> PartialScores:
    known = np.full(QUESTIONS, np.nan)
    known[:answered] = sampled[:answered]
    return PartialScores(exact, known)


def unranked(exact: np.ndarray, sampled: np.ndarray, ranked: int, answered: int = 0) -> PartialScores:
    """Somebody whose rankings are known on the first questions alone."""
    found = standing(exact, sampled, answered)
    return PartialScores(np.where(np.arange(QUESTIONS) < ranked, exact, np.nan), found.sampled, ranked=False)


def field(rng: np.random.Generator, size: int, level: float = 0.3) -> list[PartialScores]:
    """Pipelines alike: R of a question is common to all, answers differ by chance."""
    common = rng.random(QUESTIONS) / 2
    return [standing(common.copy(), level * rng.random(QUESTIONS)) for _ in range(size)]


def begun(finished: list[PartialScores], racing: Racing | None = None) -> RaceState:
    track = RaceState(QUESTIONS, racing or Racing(front=5))
    for one in finished:
        track.add(one)
    return track


def test_looks_are_after_each_block_and_the_last_has_all_questions() -> None:
    assert Racing(block=10).looks(35) == (10, 20, 30, 35)
    assert Racing(block=10).looks(30) == (10, 20, 30)
    assert Racing(block=50).looks(30) == (30,)
    assert Racing().looks(0) == ()
    assert Racing(block=10, error=0.06).level(30) == pytest.approx(0.02)


@pytest.mark.parametrize(("block", "error", "front"), [(0, 0.05, 5), (10, 0.0, 5), (10, 1.0, 5), (10, 0.05, 0)])
def test_numbers_that_make_no_race_are_refused(block: int, error: float, front: int) -> None:
    with pytest.raises(UsageError, match="give"):
        Racing(block, error, front)


def test_whoever_is_far_behind_leaves_and_who_is_ahead_stays() -> None:
    rng = np.random.default_rng(1)
    finished = field(rng, 6)
    track = begun(finished)
    worse = standing(finished[0].exact, finished[0].sampled - 0.2, 10)
    better = standing(finished[0].exact, finished[0].sampled + 0.2, 10)
    assert track.find_behind(10, {1: worse, 2: better}) == [1]


def test_nobody_leaves_at_the_last_look_or_from_a_field_that_is_not_larger_than_the_front() -> None:
    rng = np.random.default_rng(2)
    finished = field(rng, 6)
    worse = standing(finished[0].exact, finished[0].sampled - 0.3)
    assert begun(finished).find_behind(QUESTIONS, {1: worse}) == []
    assert begun(finished[:4]).find_behind(10, {1: worse}) == []


def test_the_bar_of_rankings_is_a_prediction_interval() -> None:
    rng = np.random.default_rng(4)
    finished = field(rng, 9)
    track = begun(finished)
    means = [float(one.sampled.mean()) for one in finished]
    level = Racing(front=5).level(QUESTIONS)
    highest = np.mean(means) + stats.t.ppf(1 - level, 8) * np.std(means, ddof=1) * np.sqrt(1 + 1 / 9)
    bar = sorted((float((one.exact + one.sampled).mean()) for one in finished), reverse=True)[4]
    nothing = np.full(QUESTIONS, np.nan)
    for margin, expected in ((-1e-9, [1]), (1e-9, [])):
        exact = np.full(QUESTIONS, bar - highest + margin)
        assert track.find_futile({1: PartialScores(exact, nothing)}) == expected


def test_a_candidate_as_good_as_the_others_is_seldom_dropped() -> None:
    rng = np.random.default_rng(5)
    racing = Racing(error=0.05, front=5)
    able = wrong = 0
    for _ in range(400):
        finished = field(rng, 10)
        track = begun(finished, racing)
        candidate = 0.3 * rng.random(QUESTIONS)
        bar = sorted((one.value() for one in finished), reverse=True)[racing.front - 1]
        whole = standing(finished[0].exact, candidate)
        if whole.value() < bar:
            continue
        able += 1
        looks = racing.looks(QUESTIONS)[:-1]
        wrong += any(track.find_behind(met, {0: standing(finished[0].exact, candidate, met)}) for met in looks)
    assert able > 100
    assert wrong / able <= racing.error


def test_an_estimate_adds_what_the_questions_still_to_come_are_easier_by() -> None:
    exact = np.zeros(QUESTIONS)
    easy_later = np.concatenate((np.zeros(10), np.full(QUESTIONS - 10, 0.7)))
    track = begun([standing(exact, easy_later)])
    assert track.estimate_pruned(standing(exact, easy_later, 10), 10).estimate == pytest.approx(easy_later.mean())
    unanswered = PartialScores(exact + 0.1, np.full(QUESTIONS, np.nan))
    assert track.estimate_pruned(unanswered, 0).estimate == pytest.approx(0.1 + easy_later.mean())


def naive_with(**genes: str) -> Candidate:
    naive = zip(FAMILIES, baseline("naive"), strict=True)
    return tuple(make_gene(family.name, genes.get(family.name, gene.technique.name)) for family, gene in naive)


@pytest.mark.parametrize(
    ("genes", "asks"),
    [
        ({}, False),
        ({"query_expansion": "hyde"}, True),
        ({"reranking": "llm"}, True),
        ({"reranking": "cross_encoder"}, False),
        ({"pre_embedding": "hype", "retrieval": "graph"}, False),
        ({"passage_compress": "tree_summarize"}, False),
        ({"reranking": "llm", "passage_filter": "sscc"}, False),
    ],
)
def test_who_asks_a_chat_model_to_rank_each_question(genes: dict[str, str], asks: bool) -> None:
    candidate = naive_with(**genes)
    assert calls_models_to_rank(candidate, frozenset({"language_model"})) is asks
    assert not calls_models_to_rank(candidate, frozenset())


CHAT, SLOW, FREE = SimpleNamespace(complete=None), SimpleNamespace(slow=True), SimpleNamespace()


def models(**others: Any) -> Models:
    """Models that cost nothing, but for some ``others``."""
    return Models(**{**dict.fromkeys(("language_model", "embedder", "cross_encoder", "judge"), FREE), **others})


def test_chat_models_and_rerankers_that_are_served_or_slow_cost_something() -> None:
    served = SimpleNamespace(provider=None)
    assert list_costly_tools(models()) == list_costly_tools(models(judge=CHAT, embedder=SLOW)) == set()
    assert (
        list_costly_tools(models(language_model=CHAT))
        == list_costly_tools(models(controller=CHAT))
        == {"language_model"}
    )
    assert (
        list_costly_tools(models(cross_encoder=served))
        == list_costly_tools(models(cross_encoder=SLOW))
        == {"cross_encoder"}
    )


def test_whose_rankings_come_with_the_answers_is_compared_on_the_same_questions() -> None:
    rng = np.random.default_rng(7)
    finished = field(rng, 6)
    hard = finished[0].exact.copy()
    hard[:10] -= 0.3
    alike = [PartialScores(hard.copy(), one.sampled) for one in finished]
    track = begun(alike)
    same = unranked(hard, 0.3 * rng.random(QUESTIONS), 10, 10)
    worse_to_rank = unranked(hard - 0.2, alike[0].sampled, 10, 10)
    worse_to_answer = unranked(hard, alike[0].sampled - 0.2, 10, 10)
    better = unranked(hard + 0.2, alike[0].sampled, 10, 10)
    runners = {1: same, 2: worse_to_rank, 3: worse_to_answer, 4: better}
    assert track.find_behind(10, runners) == [2, 3]
    whole = PartialScores(hard - 0.2, alike[0].sampled).value()
    assert track.estimate_pruned(worse_to_rank, 10).estimate == pytest.approx(whole, abs=0.05)


def test_whoever_ranks_a_part_of_the_questions_far_worse_leaves_before_it_ranks_the_others() -> None:
    rng = np.random.default_rng(8)
    finished = field(rng, 30)
    track = begun(finished)
    nothing = np.full(QUESTIONS, np.nan)
    worse, alike = unranked(finished[0].exact - 0.3, nothing, 10), unranked(finished[0].exact, nothing, 10)
    unknown = unranked(finished[0].exact - 0.3, nothing, 1)
    assert track.find_futile({1: worse, 2: alike, 3: unknown}) == [1]
    left = track.estimate_pruned(worse, 0)
    assert left.questions == 0
    assert left.estimate == pytest.approx(np.mean([one.value() for one in finished]) - 0.3, abs=0.03)


def race(track: RaceState, racing: Racing, exact: np.ndarray, sampled: np.ndarray, *, answering: bool) -> bool:
    """Whether somebody leaves whose rankings come in blocks: with the answers, or before them."""
    looks = racing.looks(QUESTIONS)[:-1]
    if answering:
        return any(track.find_behind(met, {0: unranked(exact, sampled, met, met)}) for met in looks)
    nothing = np.full(QUESTIONS, np.nan)
    early = any(track.find_futile({0: unranked(exact, nothing, met)}) for met in looks)
    return early or bool(track.find_futile({0: PartialScores(exact, nothing)}))


@pytest.mark.parametrize("answering", [False, True])
def test_whoever_ranks_in_blocks_and_would_end_at_the_front_is_seldom_dropped(answering: bool) -> None:
    rng = np.random.default_rng(9)
    racing = Racing(error=0.05, front=5)
    able = wrong = 0
    for _ in range(300):
        common = rng.random(QUESTIONS)
        pipelines = []
        for _ in range(11):
            exact = np.where(rng.random(QUESTIONS) < 0.3, rng.random(QUESTIONS), common) / 2
            pipelines.append(PartialScores(exact, 0.3 * rng.random(QUESTIONS)))
        candidate, *finished = pipelines
        bar = sorted((float((one.exact + one.sampled).mean()) for one in finished), reverse=True)[racing.front - 1]
        if float((candidate.exact + candidate.sampled).mean()) < bar:
            continue
        able += 1
        wrong += race(begun(finished, racing), racing, candidate.exact, candidate.sampled, answering=answering)
    assert able > 80
    assert wrong / able <= racing.error


class Marked:
    """Takes an evaluator's place: R and G of each question as ``marks`` says of a candidate; ``met`` is what was asked.

    A ranking has no marks of answers, and what is marked None fails.
    """

    def __init__(self, marks: Callable[[Candidate], tuple[float | None, float]]) -> None:
        self._marks = marks
        self.met: dict[tuple[str, Candidate], int] = {}

    def evaluate(self, candidates: Sequence[Candidate], examples: Sequence[Example]) -> list[Evaluation]:
        return [self._met("answers", candidate, examples) for candidate in candidates]

    def rank(self, candidates: Sequence[Candidate], examples: Sequence[Example]) -> list[Evaluation]:
        return [self._met("rankings", candidate, examples) for candidate in candidates]

    def _met(self, what: str, candidate: Candidate, examples: Sequence[Example]) -> Evaluation:
        self.met[what, candidate] = len(examples)
        questions = tuple(example.id for example in examples)
        retrieval, generation = self._marks(candidate)
        if retrieval is None:
            return Evaluation(str(hash(candidate)), candidate, questions, {}, {question: {} for question in questions})
        measures: dict[str, float] = dict.fromkeys(("recall", "map", "ndcg", "mrr"), retrieval)
        if what == "answers":
            measures |= dict.fromkeys(("judge", "similarity"), generation)
        record: dict[str, Any] = {"measures": measures, "retrieved": [], "usage": {}}
        return Evaluation(str(hash(candidate)), candidate, questions, dict.fromkeys(questions, record), {})


def races(marks: Callable[[Candidate], tuple[float | None, float]]) -> tuple[Races, Marked]:
    """Races in which three have finished who rank well."""
    examples = [Example(f"q{i:02}", "?", "!", "", ()) for i in range(30)]
    marked = Marked(marks)
    found = Races(
        cast(Evaluator, marked),
        examples,
        Racing(),
        Fitness(),
        MAX_FAILURE_RATE,
        lambda candidate: models(language_model=CHAT),
    )
    rivals = [naive_with(retrieval=name) for name in ("vector", "bm25", "hybrid")]
    found.add_finished(marked.evaluate(rivals, examples))
    return found, marked


def dear() -> Candidate:
    return naive_with(reranking="llm")


def free() -> Candidate:
    return naive_with(passage_filter="nr")


def good() -> Candidate:
    return naive_with(query_expansion="hyde")


def bad(candidate: Candidate) -> tuple[float | None, float]:
    return (0.1 if candidate in (dear(), free()) else 0.8), 0.5


def test_who_is_hopeless_is_asked_to_rank_one_block_where_that_costs_something() -> None:
    found, marked = races(bad)
    ended = found.run([dear(), free(), good()])
    assert [one.dropped and one.dropped.questions for one in ended] == [0, 0, None]
    assert (marked.met["rankings", dear()], marked.met["rankings", free()]) == (10, 30)
    assert (marked.met["rankings", good()], marked.met["answers", good()]) == (30, 30)
    assert ended[0].behaviour != ended[1].behaviour, "they are alike on one block, and nothing is known of the others"


def test_who_answers_the_first_block_anyway_ranks_it_with_the_answers() -> None:
    found, marked = races(bad)
    ended = found.run([dear(), free(), good()], answering=True)
    assert [one.dropped and one.dropped.questions for one in ended] == [10, 10, None]
    assert ("rankings", dear()) not in marked.met
    assert marked.met["rankings", free()] == 30
    assert ended[2].evaluation.complete


@pytest.mark.parametrize("answering", [False, True])
def test_who_cannot_rank_is_dropped_as_the_lowest_there_is(answering: bool) -> None:
    found, _ = races(lambda candidate: (None if candidate == dear() else 0.8, 0.5))
    [one] = found.run([dear()], answering=answering)
    assert one.dropped
    assert one.dropped.estimate < 0.5
    assert not one.evaluation.records


class Mixed(Marked):
    """The same where every third question has no evidence, and every sixth of all no answer."""

    def _met(self, what: str, candidate: Candidate, examples: Sequence[Example]) -> Evaluation:
        found = super()._met(what, candidate, examples)
        _, generation = self._marks(candidate)
        records = dict(found.records)
        nothing = dict.fromkeys(("recall", "map", "ndcg", "mrr"))
        for number, question in enumerate(found.questions):
            if number % 3 == 0:
                answered = number % 6 != 0
                own = dict.fromkeys(("judge", "similarity"), generation if answered else None)
                more = {**own, "refusal": None if answered else generation} if what == "answers" else {}
                records[question] = {**records[question], "measures": {**nothing, **more}}
        return Evaluation(found.key, candidate, found.questions, records, {})


def mixed(marks: Callable[[Candidate], tuple[float | None, float]]) -> tuple[Races, Mixed]:
    marked = Mixed(marks)
    examples = [Example(f"q{i:02}", "?", "!", "", ()) for i in range(30)]
    found = Races(
        cast(Evaluator, marked),
        examples,
        Racing(),
        Fitness(),
        MAX_FAILURE_RATE,
        lambda candidate: models(language_model=CHAT),
    )
    found.add_finished(marked.evaluate([naive_with(retrieval=name) for name in ("vector", "bm25", "hybrid")], examples))
    return found, marked


def test_questions_that_have_no_retrieval_are_raced_by_their_answers() -> None:
    found, _ = mixed(bad)
    ended = found.run([dear(), free(), good()])
    assert [one.dropped and one.dropped.questions for one in ended] == [0, 0, None]
    evaluation = ended[2].evaluation
    assert evaluation.mean("retrieval") == pytest.approx(0.8)
    assert len(evaluation.values("retrieval")) == 20
    assert len(evaluation.values("generation")) == len(evaluation.values("fitness")) == 30
    assert evaluation.mean("fitness") == pytest.approx((20 * 0.65 + 10 * 0.5) / 30)


def test_what_is_estimated_of_who_leaves_is_the_fitness_of_all_its_questions() -> None:
    found, _ = mixed(bad)
    left = found.run([dear(), free(), good()])[1].dropped
    assert left is not None
    assert left.estimate == pytest.approx((20 * (0.1 + 0.5) / 2 + 10 * 0.5) / 30)

"""What a technique learns, it learns on search questions, and never answers one with what it learned from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ragsmith.errors import SpaceError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.index.index import Index
from ragsmith.pipelines.genes import (
    Candidate,
    Fit,
    Gene,
    configuration,
    out_of_fold,
    question_digest,
    read_configuration,
)
from ragsmith.store.store import Store
from ragsmith.techniques.families import passage_filter, query_expansion, retrieval
from ragsmith.techniques.registry import Fitting, Technique
from ragsmith.types import Fitted, Gold, Hits, Queries, Question, Rankings, Search

Register = Callable[..., Technique]

Build = Callable[..., Candidate]


class Learner:
    """A filter that learns which questions it has seen, and notes with what it was handed each."""

    def __init__(self) -> None:
        self.observed: list[str] = []
        self.solved: list[int] = []
        self.used: dict[str, tuple[str, ...]] = {}
        self.bad: set[str] = set()
        self.hopeless = False

    def fitting(self) -> Fitting:
        def observe(question: Question, hits: Hits, *, gold: Gold) -> list[Any]:
            if question.text in self.bad:
                raise LookupError("cannot look")
            self.observed.append(question.text)
            return [question.text, sum(hit.chunk.id in gold.relevant for hit in hits)]

        def solve(observations: Sequence[list[Any]], *, k: int) -> Mapping[str, Any]:
            if self.hopeless:
                raise ArithmeticError("nothing to learn")
            self.solved.append(len(observations))
            return {"seen": [text for text, _ in observations], "found": sum(n for _, n in observations), "k": k}

        return Fitting(observe, solve)

    def technique(self) -> Callable[..., Hits]:
        def learned(question: Question, hits: Hits, *, fitted: Fitted, k: int = 3) -> Hits:
            """Keep the first."""
            self.used[question.text] = tuple(fitted.numbers["seen"])
            return hits[: fitted.numbers["k"]]

        return learned


@pytest.fixture
def learner(registered: Register) -> Learner:
    made = Learner()
    registered(passage_filter, made.technique(), made.fitting())
    return made


def evaluated(setup: Experiment, store: Store, *candidates: Candidate) -> list[Evaluation]:
    with Evaluator(setup, store, 1) as evaluator:
        return evaluator.evaluate(candidates, setup.dataset.examples)


def test_no_search_question_is_answered_with_what_was_learned_from_it(
    tiny_setup: Experiment, store: Store, pipeline: Build, learner: Learner
) -> None:
    (evaluation,) = evaluated(tiny_setup, store, pipeline(passage_filter="learned"))
    assert evaluation.complete
    search = {example.question for example in tiny_setup.calibration}
    everyone = {example.question for example in tiny_setup.dataset.examples}
    assert 0 < len(search) < len(everyone)
    assert set(learner.used) == everyone
    for question, seen in learner.used.items():
        assert question not in seen
        assert set(seen) < search if question in search else set(seen) == search
    assert len({seen for question, seen in learner.used.items() if question in search}) >= 2


def test_no_test_question_is_ever_observed(
    tiny_setup: Experiment, store: Store, pipeline: Build, learner: Learner
) -> None:
    evaluated(tiny_setup, store, pipeline(passage_filter="learned"))
    assert sorted(learner.observed) == sorted(example.question for example in tiny_setup.calibration)


def test_questions_that_share_gold_are_held_out_together(tiny_setup: Experiment, store: Store, pipeline: Build) -> None:
    (evaluation,) = evaluated(tiny_setup, store, pipeline(passage_filter="sscc"))
    fit = evaluation.candidate[4].fit
    assert fit is not None
    held = [set(questions) for questions, _ in fit.held_out]
    gold = {question_digest(example.question): set(example.evidence) for example in tiny_setup.calibration}
    assert sorted(q for part in held for q in part) == sorted(gold)
    for one in held:
        for other in held:
            if one is not other:
                assert not set().union(*(gold[q] for q in one)) & set().union(*(gold[q] for q in other))


def test_what_stands_before_it_and_its_parameters_decide_what_is_learned(
    tiny_setup: Experiment, store: Store, pipeline: Build, learner: Learner
) -> None:
    one, other, answer = evaluated(
        tiny_setup,
        store,
        pipeline(passage_filter="learned"),
        pipeline(passage_filter=("learned", {"k": 2}), reranking="cross_encoder"),
        pipeline(passage_filter="learned", prompt_maker="long_context_reorder"),
    )
    times = len(learner.solved)
    assert times == 2 * (len(one.candidate[4].fit.held_out) + 1)  # the third learns what the first does
    assert one.candidate[4] == answer.candidate[4] != other.candidate[4]
    assert len({one.key, other.key, answer.key}) == 3


def test_a_calibration_question_that_fails_leaves_the_candidate_without_a_score(
    tiny_setup: Experiment, store: Store, pipeline: Build, learner: Learner
) -> None:
    first = min(tiny_setup.calibration, key=lambda example: example.id)
    learner.bad.add(first.question)
    plain, failed = evaluated(tiny_setup, store, pipeline(), pipeline(passage_filter="learned"))
    assert plain.complete
    assert failed.records == {}
    assert failed.mean("fitness") is None
    assert len(failed.failures) == len(failed.questions)
    failure = next(iter(failed.failures.values()))
    assert failure["stage"] == "passage_filter.learned"
    assert failure["error"] == (
        f"cannot be fitted, as calibration question {first.id} failed: LookupError: cannot look"
    )
    learner.bad.clear()  # the next command tries again
    assert evaluated(tiny_setup, store, pipeline(passage_filter="learned"))[0].complete


def test_a_technique_that_cannot_learn_fails_and_says_why(
    tiny_setup: Experiment, store: Store, pipeline: Build, learner: Learner
) -> None:
    learner.hopeless = True
    (failed,) = evaluated(tiny_setup, store, pipeline(passage_filter="learned"))
    assert {failure["error"] for failure in failed.failures.values()} == {"ArithmeticError: nothing to learn"}


def test_a_question_is_known_by_its_wording_in_whatever_data_set_it_stands() -> None:
    fit = Fit({"n": 0}, (((question_digest("Who?"),), {"n": 1}), ((question_digest("When is it?"),), {"n": 2})))
    gene = Gene(passage_filter["top_k"], {"k": 3}, fit)

    def numbers(question: str) -> Mapping[str, Any]:
        (faced,) = out_of_fold((gene,), question)
        assert faced.fit is not None
        return faced.fit.numbers

    assert numbers("Who?") == {"n": 1}
    assert numbers("when  is\nit?") == {"n": 2}
    assert numbers("Where?") == {"n": 0}


def test_labels_that_are_held_out_do_not_come_back_through_what_was_fitted_before(
    tiny_setup: Experiment, store: Store, pipeline: Build, registered: Register
) -> None:

    def seen(question: Question, *_: object, gold: Gold) -> str:
        return question.text

    def texts(observations: Sequence[str]) -> dict[str, Any]:
        return {"seen": list(observations)}

    handed: list[tuple[str, frozenset[str]]] = []

    def first(question: Question, search: Search, *, fitted: Fitted) -> Hits:
        """Search."""
        handed.append((question.text, frozenset(fitted.numbers["seen"])))
        return search((question.text,))[0]

    def second(question: Question, hits: Hits, *, fitted: Fitted) -> Hits:
        """Keep all."""
        return hits

    registered(query_expansion, first, Fitting(seen, texts))
    registered(passage_filter, second, Fitting(seen, texts))
    candidate = pipeline(query_expansion="first", passage_filter="second")
    with Evaluator(tiny_setup, store, 1) as evaluator:
        (evaluation,) = evaluator.evaluate([candidate], tiny_setup.calibration)
    one, two = evaluation.candidate[1].fit, evaluation.candidate[4].fit
    assert one is not None
    assert two is not None
    assert one.held_out == two.held_out
    everyone = {example.question for example in tiny_setup.calibration}
    parts = [everyone - set(numbers["seen"]) for _, numbers in one.held_out]
    # whenever the first ran, its numbers lacked a whole fold or none, and each fold was held out for all others
    assert {frozenset(everyone - known) for _, known in handed} == {frozenset(), *map(frozenset, parts)}
    for part in parts:
        assert everyone - part <= {question for question, known in handed if known == everyone - part}


@pytest.mark.parametrize("value", [None, 3, {}, {"numbers": {}}, {"numbers": {}, "held_out": [1]}])
def test_numbers_that_were_not_exported_by_us_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="'fitted' must have"):
        Fit.from_dict(value)


def test_a_technique_that_learns_with_some_parameters_only_needs_no_questions_with_others(
    tiny_setup: Experiment, store: Store, pipeline: Build, registered: Register
) -> None:
    handed: list[Mapping[str, Any]] = []

    def sometimes(question: Question, hits: Hits, *, fitted: Fitted, how: str = "given", k: int = 3) -> Hits:
        """Keep the first."""
        handed.append(fitted.numbers)
        return hits[: fitted.numbers.get("k", k)]

    def observe(question: Question, hits: Hits, *, gold: Gold) -> int:
        return len(hits)

    def solve(observations: Sequence[int]) -> Mapping[str, Any]:
        return {"k": 2}

    fitting = Fitting(observe, solve, when={"how": ("learned",)})
    registered(passage_filter, sometimes, fitting, how=("given", "learned"))
    given, learned = (pipeline(passage_filter=("sometimes", {"how": how})) for how in ("given", "learned"))
    assert [candidate[4].unfitted for candidate in (given, learned)] == [False, True]
    (first,) = evaluated(tiny_setup, store, given)
    assert first.complete
    assert first.candidate[4].fit is None
    assert set(map(len, handed)) == {0}
    handed.clear()
    (second,) = evaluated(tiny_setup, store, learned)
    assert second.candidate[4].fit is not None
    assert {numbers["k"] for numbers in handed} == {2}
    plain = configuration(second.candidate)
    plain["passage_filter"]["parameters"]["how"] = "given"
    with pytest.raises(SpaceError, match="has nothing to fit: drop 'fitted'"):
        read_configuration(plain)


def test_what_finds_learns_before_what_searches_and_without_the_question_it_answers(
    tiny_setup: Experiment, store: Store, pipeline: Build, registered: Register
) -> None:
    finder: dict[str, tuple[str, ...]] = {}
    seen_by_searcher: list[tuple[str, tuple[str, ...]]] = []

    def observe_finding(index: Index, queries: Queries, *, gold: Gold) -> list[Any]:
        return [*queries, len(gold.relevant)]

    def finding(index: Index, queries: Queries, *, fitted: Fitted, k: int = 5) -> Rankings:
        """Find by words, and note with what it learned."""
        for query in queries:
            finder[query] = tuple(fitted.numbers["seen"])
        return index.by_words(queries, k)

    def observe_searching(question: Question, search: Search, *, gold: Gold) -> str:
        search((question.text,))
        seen_by_searcher.append((question.text, finder[question.text]))
        return question.text

    def searching(question: Question, search: Search, *, fitted: Fitted) -> Hits:
        """Search plainly."""
        return search((question.text,))[0]

    learned = Fitting(observe_finding, lambda observations: {"seen": [text for text, _ in observations]})
    registered(retrieval, finding, learned)
    registered(query_expansion, searching, Fitting(observe_searching, lambda observations: {"seen": [*observations]}))
    candidate = pipeline(retrieval="finding", query_expansion="searching")
    (evaluation,) = evaluated(tiny_setup, store, candidate)
    assert evaluation.complete
    search = {example.question for example in tiny_setup.calibration}
    assert set(finder) == {example.question for example in tiny_setup.dataset.examples}
    for question, seen in finder.items():
        assert question not in seen
        assert set(seen) < search if question in search else set(seen) == search
    assert {question for question, _ in seen_by_searcher} == search
    assert evaluation.candidate[1].fit is not None
    assert evaluation.candidate[2].fit is not None

"""Candidates and questions to scores, through the store. A failure is a state, never a score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event
from time import sleep

import pytest

from ragsmith.digest import to_canonical_json
from ragsmith.errors import Notice, StoreError, UsageError, WrongOption
from ragsmith.evaluation.evaluation import Evaluation, load_evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.keys import evaluation_key
from ragsmith.evaluation.processes import LARGE_ENTRIES
from ragsmith.evaluation.ranking import Terms, rank_evaluations
from ragsmith.models.calls import Completion
from ragsmith.models.loading import ModelNames
from ragsmith.models.usage import Usage
from ragsmith.pipelines.genes import Candidate
from ragsmith.store.store import Store
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.registry import Technique
from ragsmith.types import Document, Hits, Question

Register = Callable[..., Technique]

Build = Callable[..., Candidate]


class Moody:
    """A filter that fails on the questions in ``bad``, as often as they stand there."""

    def __init__(self, setup: Experiment) -> None:
        self._setup = setup
        self.bad: list[str] = []
        self.runs = 0

    def technique(self) -> Callable[..., Hits]:
        def moody(question: Question, hits: Hits, *, k: int = 3) -> Hits:
            """Keep the first, or fail."""
            self.runs += 1
            for name in self.bad:
                if self._setup.examples[name].question == question.text:
                    self.bad.remove(name)
                    raise LookupError(f"not {name}")
            return hits[:k]

        return moody


@pytest.fixture
def moody(tiny_setup: Experiment, registered: Register) -> Moody:
    made = Moody(tiny_setup)
    registered(passage_filter, made.technique())
    return made


def evaluate(
    setup: Experiment, store: Store, candidates: Sequence[Candidate], workers: int = 1
) -> tuple[list[Evaluation], Evaluator]:
    with Evaluator(setup, store, workers) as evaluator:
        return evaluator.evaluate(candidates, setup.dataset.examples), evaluator


def test_a_second_evaluation_computes_nothing(tiny_setup: Experiment, store: Store, pipeline: Build) -> None:
    candidates = [pipeline(), pipeline(retrieval="bm25")]
    first, one = evaluate(tiny_setup, store, candidates)
    second, two = evaluate(tiny_setup, store, candidates)
    assert (one.computed, one.reused) == (48, 0)
    assert (two.computed, two.reused) == (0, 48)
    assert two.work() is None
    assert [e.records for e in first] == [e.records for e in second]
    assert [e.key for e in second] == [evaluation_key(tiny_setup, candidate) for candidate in candidates]


def test_evaluations_come_in_the_order_asked_also_with_repeats(
    tiny_setup: Experiment, store: Store, pipeline: Build
) -> None:
    one, two = pipeline(), pipeline(retrieval="bm25")
    evaluations, evaluator = evaluate(tiny_setup, store, [two, one, two])
    assert [e.candidate for e in evaluations] == [two, one, two]
    assert evaluator.computed == 48
    assert evaluations[0] == evaluations[2]


def test_only_the_questions_asked_for_are_evaluated(tiny_setup: Experiment, store: Store, pipeline: Build) -> None:
    examples = tiny_setup.dataset.examples
    with Evaluator(tiny_setup, store, 1) as evaluator:
        [few] = evaluator.evaluate([pipeline()], examples[:5])
        assert (few.questions, evaluator.computed) == (tuple(e.id for e in examples[:5]), 5)
        [more] = evaluator.evaluate([pipeline()], examples[::-1])
        assert (more.questions, evaluator.computed) == (tuple(e.id for e in examples), 24)
        assert {q: more.records[q] for q in few.questions} == few.records


@pytest.mark.parametrize("seconds", [0.5, 0.0])
def test_what_has_ended_is_stored_after_half_a_second_although_the_batch_goes_on(
    tiny_setup: Experiment, store: Store, pipeline: Build, seconds: float
) -> None:
    key, now, reported, stored = evaluation_key(tiny_setup, pipeline()), [0.0], [0], []

    def progress(done: int, total: int) -> None:
        stored.append(len(store.results(key)))
        reported.append(done)
        now[0] += seconds

    with Evaluator(tiny_setup, store, 1, progress, clock=lambda: now[0]) as evaluator:
        evaluator.evaluate([pipeline()], tiny_setup.dataset.examples)
    assert len(stored) > 1
    assert stored == [done if seconds else 0 for done in reported[:-1]]
    assert len(store.results(key)) == 24


def test_what_has_ended_is_stored_when_the_batch_is_broken_off(
    tiny_setup: Experiment, store: Store, pipeline: Build, registered: Register
) -> None:
    last = max(tiny_setup.examples)

    def refusing(question: Question, hits: Hits) -> Hits:
        """Refuse the last question."""
        if question.text == tiny_setup.examples[last].question:
            raise UsageError("not this one")
        return hits

    registered(passage_filter, refusing)
    candidate = pipeline(passage_filter="refusing")
    with (
        pytest.raises(UsageError, match="not this one"),
        Evaluator(tiny_setup, store, 1, clock=lambda: 0.0) as evaluator,
    ):
        evaluator.evaluate([candidate], tiny_setup.dataset.examples)
    assert store.results(evaluation_key(tiny_setup, candidate)).keys() == tiny_setup.examples.keys() - {last}


def test_a_change_in_what_matters_is_another_evaluation(tiny_setup: Experiment, pipeline: Build) -> None:
    key = evaluation_key(tiny_setup, pipeline())
    data = tiny_setup.dataset
    others = {
        "technique": evaluation_key(tiny_setup, pipeline(retrieval="bm25")),
        "parameter": evaluation_key(tiny_setup, pipeline(passage_filter=("top_k", {"k": 4}))),
        "chunks": evaluation_key(replace(tiny_setup, chunk_size=120), pipeline()),
        "data": evaluation_key(Experiment(replace(data, digest="other"), chunk_size=100), pipeline()),
        "judge": evaluation_key(
            Experiment(data, ModelNames(judge="openai:x", base_url="http://127.0.0.1:1"), 100), pipeline()
        ),
    }
    assert len({key, *others.values()}) == 1 + len(others)


def test_what_does_not_matter_is_in_no_key(tiny_setup: Experiment, pipeline: Build) -> None:
    names = [ModelNames("openai:x", base_url=url) for url in ("http://127.0.0.1:1", "http://127.0.0.1:2/v1")]
    data = tiny_setup.dataset
    setups = [Experiment(data, name, 100) for name in names]
    assert evaluation_key(setups[0], pipeline()) == evaluation_key(setups[1], pipeline())
    renamed = Experiment(replace(data, name="other", title="Other"), chunk_size=100)
    assert evaluation_key(renamed, pipeline()) == evaluation_key(tiny_setup, pipeline())


def test_a_controller_is_in_the_keys_of_pipelines_that_ask_it(tiny_setup: Experiment, pipeline: Build) -> None:
    names = [ModelNames(controller=f"openai:{name}", base_url="http://127.0.0.1:1") for name in ("one", "another")]
    setups = [Experiment(tiny_setup.dataset, name, 100) for name in names]
    for options, asked in (({}, 1), ({"query_expansion": "hyde"}, 2)):
        assert len({evaluation_key(setup, pipeline(**options)) for setup in setups}) == asked


def test_a_failed_question_is_a_state_and_never_a_zero(
    tiny_setup: Experiment, store: Store, pipeline: Build, moody: Moody
) -> None:
    moody.bad = ["ferry-2", "school-5"]
    [evaluation], _ = evaluate(tiny_setup, store, [pipeline(passage_filter="moody")])
    assert not evaluation.complete
    assert set(evaluation.failures) == {"ferry-2", "school-5"}
    assert evaluation.failures["ferry-2"]["stage"] == "passage_filter.moody"
    assert evaluation.failures["ferry-2"]["error"] == "LookupError: not ferry-2"
    assert len(evaluation.questions) == len(evaluation.records) + len(evaluation.failures) == 24
    for metric in ("fitness", "retrieval", "generation", "recall", "judge", "calls"):
        assert evaluation.mean(metric) is None
        assert len(evaluation.values(metric)) == 22
    states = {question: row.state for question, row in store.results(evaluation.key).items()}
    assert states == {q: "failed" if q in evaluation.failures else "ok" for q in evaluation.questions}


def test_a_failure_is_tried_again_by_the_next_run_and_not_by_this_one(
    tiny_setup: Experiment, store: Store, pipeline: Build, moody: Moody
) -> None:
    candidate = pipeline(passage_filter="moody")
    moody.bad = ["ferry-2", "ferry-2"]
    with Evaluator(tiny_setup, store, 1) as evaluator:
        assert not evaluator.evaluate([candidate], tiny_setup.dataset.examples)[0].complete
        runs = moody.runs
        assert not evaluator.evaluate([candidate], tiny_setup.dataset.examples)[0].complete
        assert moody.runs == runs
    [second], again = evaluate(tiny_setup, store, [candidate])
    assert not second.complete
    assert (again.computed, again.reused) == (1, 23)
    assert store.results(second.key)["ferry-2"].attempts == 2
    [third], last = evaluate(tiny_setup, store, [candidate])
    assert third.complete
    assert last.computed == 1
    assert third.mean("fitness") is not None
    assert store.results(third.key)["ferry-2"].state == "ok"
    assert store.results(third.key)["ferry-2"].attempts == 3


def test_means_are_over_all_questions(tiny_setup: Experiment, store: Store, pipeline: Build) -> None:
    [evaluation], _ = evaluate(tiny_setup, store, [pipeline()])
    records = [evaluation.records[q] for q in evaluation.questions]
    recall = [record["measures"]["recall"] for record in records]
    assert evaluation.values("recall") == recall
    assert evaluation.mean("recall") == math.fsum(recall) / 24
    assert evaluation.mean("calls") == sum(record["usage"]["calls"] for record in records) / 24
    halves = evaluation.mean("retrieval"), evaluation.mean("generation")
    assert halves[0] is not None
    assert halves[1] is not None
    assert evaluation.mean("fitness") == pytest.approx(sum(halves) / 2)  # type: ignore[arg-type]
    assert evaluation.mean("fitness", Fitness(Weights(1, 0))) == pytest.approx(halves[0])


def test_an_unknown_metric_is_an_error(tiny_setup: Experiment, store: Store, pipeline: Build) -> None:
    [evaluation], _ = evaluate(tiny_setup, store, [pipeline()])
    with pytest.raises(KeyError, match="fitnes"):
        evaluation.mean("fitnes")


def test_candidates_that_find_and_answer_the_same_have_one_phenotype(
    tiny_setup: Experiment, store: Store, pipeline: Build
) -> None:
    same = [pipeline(), pipeline(passage_filter=("top_k", {"k": 10})), pipeline(query_expansion=("none", {}))]
    other = pipeline(passage_filter=("top_k", {"k": 2}))
    evaluations, _ = evaluate(tiny_setup, store, [*same, other])
    assert len({e.phenotype for e in evaluations}) == 2


def test_of_candidates_with_one_phenotype_the_cheapest_and_plainest_stands_for_all(
    tiny_setup: Experiment, store: Store, pipeline: Build, registered: Register
) -> None:
    from ragsmith.techniques.families import reranking  # noqa: PLC0415

    def idle(question: Question, hits: Hits) -> Hits:
        """Do nothing."""
        return hits

    registered(reranking, idle)
    evaluations, _ = evaluate(tiny_setup, store, [pipeline(reranking="idle"), pipeline()])
    assert [e.candidate for e in rank_evaluations(evaluations, Terms.from_evaluations(evaluations, Fitness()))] == [
        pipeline()
    ]
    assert [
        e.candidate for e in rank_evaluations(evaluations[::-1], Terms.from_evaluations(evaluations, Fitness()))
    ] == [pipeline()]


def test_an_evaluation_can_be_read_back(tiny_setup: Experiment, store: Store, pipeline: Build, moody: Moody) -> None:
    moody.bad = ["market-6"]
    [made], _ = evaluate(tiny_setup, store, [pipeline(passage_filter=("moody", {"k": 2}))])
    read = load_evaluation(store, made.key, made.questions)
    assert read.candidate == made.candidate
    assert {q: to_canonical_json(r) for q, r in read.records.items()} == {
        q: to_canonical_json(r) for q, r in made.records.items()
    }
    assert set(read.failures) == {"market-6"}
    assert read.mean("fitness") is None


def test_an_evaluation_that_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(StoreError, match="no evaluation abc"):
        load_evaluation(store, "abc", ["q"])


class SlippingJudge:
    """A judge of the user that raises an error on two answers, on the later one first."""

    id = "slipping"

    def __init__(self) -> None:
        self._slipped = Event()

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        if "the third" in prompt:
            self._slipped.set()
            raise RuntimeError("out of luck")
        if "the second" in prompt:
            assert self._slipped.wait(60)
            sleep(0.1)  # the other error is recorded
            raise RuntimeError("out of time")
        return Completion("Score: 5", Usage(1, 0, 0, 40, 7))


def test_errors_of_a_judge_on_planted_answers_leave_its_other_verdicts_and_the_first_is_named(
    tiny_setup: Experiment, store: Store
) -> None:
    requests = [
        (0, {"question": "Who?", "reference": "Rell.", "answer": f"the {name}"})
        for name in ("first", "second", "third", "fourth")
    ]
    with (
        Evaluator(tiny_setup, store, 1) as evaluator,
        pytest.warns(Notice, match="the judge slipping failed on planted answers: .*out of time"),
    ):
        assert evaluator.score_answers(SlippingJudge(), requests) == [1.0, None, None, 1.0]


def test_a_limit_of_memory_without_room_for_the_index_is_refused_before_it_is_built(
    tiny_setup: Experiment, store: Store, pipeline: Build
) -> None:
    dataset = tiny_setup.dataset
    more = tuple(Document(f"more{n}", "", f"Lamp {n} burns.") for n in range(LARGE_ENTRIES))
    setup = replace(tiny_setup, dataset=replace(dataset, documents=(*dataset.documents, *more)))
    with (
        Evaluator(setup, store, 1, memory=200 << 20) as evaluator,
        pytest.raises(
            WrongOption, match=r"memory is 200 MiB, and the index of these documents takes about .* MiB: give"
        ),
    ):
        evaluator.evaluate([pipeline()], setup.split.search)
    assert (evaluator.computed, evaluator.work()) == (0, None)

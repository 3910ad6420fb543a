"""One run: from a space to a winner; the same command again, pauses, limits, and failures on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored import StepClock, go_on, recorded

from ragsmith.diagnosis.ablation import load_ablation
from ragsmith.errors import UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.keys import evaluation_key
from ragsmith.evaluation.ranking import Terms
from ragsmith.exported.writing import winner_yaml
from ragsmith.pipelines.genes import make_gene
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.runs.run import Run, RunOutcome
from ragsmith.runs.run_context import Callbacks, Step, run_key
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.registry import Technique
from ragsmith.types import Hits, Question

GENETIC = GeneticSettings(population=6, generations=3, elitism=2, mutation="random", mutation_rate=0.3)
SETTINGS = RunSettings(genetic=GENETIC, seed=7, control="random")

Finished = tuple[Store, RunOutcome, list[Step]]


def proposals(store: Store, outcome: RunOutcome) -> list[tuple[int, int, tuple[int, ...], str, Any]]:
    return [
        (row.position, row.step, tuple(row.genome), row.evaluation, row.value) for row in store.proposals(outcome.key)
    ]


def rows(store: Store, setup: Experiment) -> dict[tuple[str, str], Any]:
    keys = [evaluation.key for evaluation in store.evaluations(setup.dataset.digest)]
    return {(key, q): row.value for key, found in store.results_many(keys).items() for q, row in found.items()}


def answers(store: Store, setup: Experiment) -> dict[tuple[str, str], Any]:
    return {key: value for key, value in rows(store, setup).items() if value.get("part") != "ranking"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_setup: Experiment, space: Space) -> Iterator[Finished]:
    """A run to its end; tests only read what it left."""
    steps: list[Step] = []
    with Store.open(tmp_path_factory.mktemp("run") / "cache.sqlite") as opened:
        yield opened, Run(tiny_setup, space, opened, SETTINGS, callbacks=Callbacks(on_step=steps.append)).go(), steps


def test_a_run_ends_with_a_winner(finished: Finished, space: Space) -> None:
    store, outcome, _ = finished
    assert outcome.state == "finished"
    assert outcome.winner.complete
    run = store.run(outcome.key)
    assert run is not None
    assert run.state == "finished"
    assert recorded(store, outcome).winner == outcome.winner.key
    options = [set(map(str, genes)) for genes in space.options]
    assert all(str(gene) in known for gene, known in zip(outcome.winner.candidate, options, strict=True))


def test_the_winner_is_the_best_of_what_was_proposed(finished: Finished) -> None:
    store, outcome, _ = finished
    values = [value for *_, value in proposals(store, outcome)]
    scores = [value["fitness"] for value in values if value["dropped"] is None]
    assert outcome.winner.mean("fitness") >= max(scores) - 1e-12  # an option that was tried alone may win, too
    assert all(value["fitness"] is None for value in values if value["dropped"] is not None)
    assert len({genome for _, _, genome, _, _ in proposals(store, outcome)}) == len(values) > 6
    assert [position for position, *_ in proposals(store, outcome)] == list(range(len(values)))


def test_the_search_sees_the_search_questions_only(finished: Finished, tiny_setup: Experiment) -> None:
    store, outcome, _ = finished
    run = recorded(store, outcome)
    split = run.split
    assert set(split.search) | set(split.test) == set(tiny_setup.examples)
    assert not set(split.search) & set(split.test)
    assert outcome.winner.questions == tuple(split.search)
    finalists = set(run.test.values())
    assert set(run.test) - {"leader", "estimate", "single", "recommended"} == {"winner", "naive", "bm25", "random"}
    for (evaluation, question), _ in rows(store, tiny_setup).items():
        assert question in split.search or evaluation in finalists


def test_baselines_probes_and_random_candidates_are_recorded(finished: Finished, tiny_setup: Experiment) -> None:
    store, outcome, _ = finished
    run = recorded(store, outcome)
    baselines = {name: evaluation_key(tiny_setup, baseline(name)) for name in ("naive", "bm25")}
    assert run.baselines == baselines
    drawn = run.random
    assert len(drawn) == len(set(drawn)) > 6
    assert {(probe.family, probe.option) for probe in run.probes} == {
        ("query_expansion", "hyde"),
        ("retrieval", "bm25"),
        ("retrieval", "hybrid"),
        ("reranking", "cross_encoder"),
        ("passage_filter", "top_k(k=2)"),
        ("passage_filter", "top_k(k=4)"),
        ("passage_augment", "prev_next"),
    }


def test_the_statistics_add_up(finished: Finished, tiny_setup: Experiment) -> None:
    store, outcome, _ = finished
    account = recorded(store, outcome).account
    assert account.computed == outcome.computed == len(answers(store, tiny_setup))
    assert account.reused == outcome.reused
    for counts in account.calls.values():
        assert counts.made == counts.distinct <= counts.asked
    assert account.stages_computed < account.stages_requested


def test_steps_are_reported(finished: Finished) -> None:
    store, outcome, steps = finished
    searching = [step for step in steps if step.phase == "search"]
    assert [step.number for step in searching] == list(range(len(searching)))
    assert searching[-1].evaluated == len(proposals(store, outcome))
    assert searching[-1].best == pytest.approx(outcome.winner.mean("fitness"))
    bests = [step.best for step in searching]
    assert bests == sorted(bests)  # type: ignore[type-var]
    assert steps[0].phase == "warm start"
    assert steps[-1].phase == "test questions"


def test_the_winner_is_not_taken_apart_once_the_time_is_over(
    tiny_setup: Experiment, space: Space, tmp_path: Path
) -> None:
    computed = []
    for name, late in (("whole", 0.0), ("limited", 1e6)):
        clock = [0.0]

        def step(told: Step, clock: list[float] = clock, late: float = late) -> None:
            if told.phase == "test questions":
                clock[0] = late

        with Store.open(tmp_path / f"{name}.sqlite") as store:
            settings = replace(SETTINGS, control="none", probes=False, time_limit=1e3)
            now = lambda clock=clock: clock[0]  # noqa: E731
            outcome = Run(tiny_setup, space, store, settings, now=now, callbacks=Callbacks(on_step=step)).go()
            assert outcome.state == "finished"
            parts = load_ablation(store, outcome.winner.key).outs
        computed.append((outcome.computed, [part.why_not for part in parts if part.why_not]))
    (whole, known), (limited, unknown) = computed
    assert limited < whole
    assert known == []
    assert set(unknown) == {"not evaluated: `ragsmith ablate` does it"}


def test_the_same_run_again_computes_nothing_and_ends_alike(
    finished: Finished, tiny_setup: Experiment, space: Space
) -> None:
    store, outcome, _ = finished
    before = (proposals(store, outcome), rows(store, tiny_setup), store.run(outcome.key))
    text = winner_yaml(store, outcome.key, tiny_setup, Path())
    again = Run(tiny_setup, space, store, SETTINGS).go()
    assert (again.computed, again.work) == (0, None)
    assert again.reused > 0
    assert again.winner == outcome.winner
    assert again.key == outcome.key
    assert (proposals(store, again), rows(store, tiny_setup), store.run(again.key)) == before
    assert winner_yaml(store, again.key, tiny_setup, Path()) == text


def test_a_record_that_cannot_be_read_ends_a_search_before_it_computes(
    finished: Finished, tiny_setup: Experiment, space: Space, store: Store
) -> None:
    record = dict(finished[0].runs()[0].value)
    del record["excluded"]
    store.put_run("an earlier run", tiny_setup.dataset.digest, record, state="finished")
    run = Run(tiny_setup, space, store, SETTINGS)
    with pytest.raises(UsageError, match="the record of a search in this cache cannot be read"):
        run.go()
    assert not run.has_results


@pytest.mark.parametrize(
    "change",
    [
        {"strategy": "random"},
        {"seed": 8},
        {"max_evaluations": 5},
        {"fitness": Fitness(Weights(1, 0))},
    ],
)
def test_other_settings_are_another_run(tiny_setup: Experiment, space: Space, change: dict[str, Any]) -> None:
    assert run_key(tiny_setup, space, replace(SETTINGS, **change)) != run_key(tiny_setup, space, SETTINGS)


def test_a_time_limit_and_names_make_no_other_run(tiny_setup: Experiment, space: Space) -> None:
    key = run_key(tiny_setup, space, SETTINGS)
    assert run_key(tiny_setup, space, replace(SETTINGS, time_limit=3.0)) == key
    assert run_key(tiny_setup, space, replace(SETTINGS, noise=0)) == key
    assert run_key(tiny_setup, space, replace(SETTINGS, trust_judge=True)) == key
    assert run_key(tiny_setup, replace(space, name="other", description="x"), SETTINGS) == key
    assert run_key(replace(tiny_setup, dataset=replace(tiny_setup.dataset, name="other")), space, SETTINGS) == key


def test_another_run_on_one_cache_pays_only_for_what_is_new(
    finished: Finished, tiny_setup: Experiment, space: Space
) -> None:
    store, _, _ = finished
    other = Run(tiny_setup, space, store, replace(SETTINGS, strategy="exhaustive", racing=None, probes=False)).go()
    assert other.reused > 0
    assert len(proposals(store, other)) + len(recorded(store, other).told) == space.feasible_size == 48
    assert other.winner.mean("fitness") == max(value["fitness"] for *_, value in proposals(store, other))


@pytest.mark.parametrize("strategy", ["genetic", "random", "tpe", "greedy", "exhaustive"])
def test_a_limit_of_evaluations_is_kept(tiny_setup: Experiment, space: Space, store: Store, strategy: str) -> None:
    known = {"probes": False, "warm_start": False}
    settings = replace(SETTINGS, strategy=strategy, max_evaluations=5, racing=None, **known)
    outcome = Run(tiny_setup, space, store, settings).go()
    assert outcome.state == "finished"
    keys = {proposal[3] for proposal in proposals(store, outcome)}
    asked = recorded(store, outcome).split.search
    behaviours = {outcome.evaluations[key, asked].phenotype for key in keys}
    assert len(behaviours) <= 5 <= len(keys)  # one that turns out to do what another did does not count


def test_a_time_limit_pauses_after_an_answer_and_the_same_command_ends_as_if_there_was_none(
    finished: Finished, store: Store, tiny_setup: Experiment, space: Space
) -> None:
    """A second is the time of an answer."""
    whole_store, whole, _ = finished
    limit = whole.computed // 8
    computed: list[float] = []
    proposed: list[int] = []

    def start() -> RunOutcome:
        clock = StepClock()
        callbacks = Callbacks(on_progress=clock.tick)
        try:
            run = Run(tiny_setup, space, store, replace(SETTINGS, time_limit=limit), now=clock, callbacks=callbacks)
            return run.go()
        finally:
            computed.append(clock.seconds)
            stored = store.run(whole.key)
            assert stored is not None
            proposed.append(len(store.proposals(whole.key)))
            if clock.seconds >= limit:
                assert stored.state == "interrupted"
                assert not RunRecord.from_dict(stored.value).test

    resumed, starts = go_on(start)
    assert starts == len(computed) >= 8
    assert all(limit <= seconds <= limit + 1 for seconds in computed[:-1])
    assert proposed[0] == 0 < len(set(proposed)) - 1
    assert sum(computed) == whole.computed
    assert resumed.key == whole.key
    assert resumed.winner == whole.winner
    assert proposals(store, resumed) == proposals(whole_store, whole)


def test_a_pause_after_the_warm_start_has_a_winner(tiny_setup: Experiment, space: Space, store: Store) -> None:
    clock = StepClock()
    callbacks = Callbacks(on_step=clock.tick)
    paused = Run(tiny_setup, space, store, replace(SETTINGS, time_limit=1.0), now=clock, callbacks=callbacks).go()
    assert (paused.state, "time limit" in paused.why) == ("interrupted", True)
    assert paused.winner is not None
    assert not store.proposals(paused.key)


def test_an_interrupt_leaves_a_run_that_can_go_on(
    finished: Finished, store: Store, tiny_setup: Experiment, space: Space
) -> None:
    _, whole, _ = finished

    def interrupt(done: int, total: int) -> None:
        if len(answers(store, tiny_setup)) > 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Run(tiny_setup, space, store, SETTINGS, callbacks=Callbacks(on_progress=interrupt)).go()
    run = store.run(whole.key)
    assert run is not None
    assert run.state == "interrupted"
    kept = len(answers(store, tiny_setup))
    resumed = Run(tiny_setup, space, store, SETTINGS).go()
    assert resumed.winner == whole.winner
    assert resumed.computed == whole.computed - kept


@pytest.fixture
def flaky(tiny_setup: Experiment, registered: Callable[..., Technique]) -> set[str]:
    """Questions on which ``passage_filter.flaky`` fails; empty it, and it works."""
    bad: set[str] = set()

    def failing(question: Question, hits: Hits) -> Hits:
        """Keep four, or fail."""
        if any(tiny_setup.examples[name].question == question.text for name in bad):
            raise LookupError("no luck")
        return hits[:4]

    failing.__name__ = "flaky"
    registered(passage_filter, failing)
    return bad


def with_filters(space: Space, *names: str) -> Space:
    options = list(space.options)
    options[4] = tuple(make_gene("passage_filter", name) for name in names)
    return replace(space, options=tuple(options))


def test_a_candidate_that_fails_on_more_than_it_may_cannot_win(
    tiny_setup: Experiment, space: Space, store: Store, flaky: set[str]
) -> None:
    flaky.update(["ferry-1", "lighthouse-1", "market-1", "school-1"])
    outcome = Run(tiny_setup, with_filters(space, "flaky", "similarity_threshold"), store, SETTINGS).go()
    assert outcome.winner.candidate[4].technique.name == "similarity_threshold"
    failed = [value for _, _, genome, _, value in proposals(store, outcome) if genome[4] == 0]
    assert failed
    assert all(value["fitness"] is None for value in failed)


def test_when_everything_fails_the_run_says_why_and_the_same_command_tries_again(
    tiny_setup: Experiment, space: Space, store: Store, flaky: set[str]
) -> None:
    flaky.update(tiny_setup.examples)
    narrow = with_filters(space, "flaky")
    outcome = Run(tiny_setup, narrow, store, SETTINGS).go()
    assert outcome.winner is None
    assert "candidates failed on more than 10 % of 18 questions, the one that failed least on 18" in outcome.no_winner
    assert "failures are like this one: defect, passage_filter.flaky: LookupError: no luck; take" in outcome.no_winner
    assert outcome.no_winner.endswith("or allow more failures with --max-failure-rate")
    assert recorded(store, outcome).no_winner == outcome.no_winner
    assert recorded(store, outcome).test == {}
    with pytest.raises(UsageError, match="this run has no winner: each of the"):
        winner_yaml(store, outcome.key, tiny_setup, Path())
    flaky.clear()
    again = Run(tiny_setup, narrow, store, SETTINGS).go()
    assert again.winner is not None
    assert (again.no_winner, recorded(store, again).no_winner, recorded(store, again).failed) == ("", "", 0)


def test_a_run_ends_otherwise_where_another_run_made_good_what_had_failed(
    tiny_setup: Experiment, space: Space, store: Store, flaky: set[str]
) -> None:
    flaky.update(tiny_setup.examples)
    narrow = with_filters(space, "flaky")
    first = Run(tiny_setup, narrow, store, SETTINGS).go()
    assert recorded(store, first).no_winner
    flaky.clear()
    other = Run(tiny_setup, narrow, store, replace(SETTINGS, max_failure_rate=0.5)).go()
    again = Run(tiny_setup, narrow, store, SETTINGS).go()
    assert (again.key, again.computed, again.no_winner) == (first.key, 0, "")
    kept = recorded(store, again)
    assert again.winner is not None
    assert other.winner is not None
    assert kept.winner == again.winner.key == other.winner.key
    assert (kept.no_winner, kept.failed, kept.test) == ("", 0, recorded(store, other).test)
    assert proposals(store, again) == proposals(store, other)


def test_failures_do_not_change_where_a_run_goes_when_it_is_repeated(
    tiny_setup: Experiment, space: Space, store: Store, flaky: set[str], tmp_path: Path
) -> None:
    flaky.update(["ferry-1", "school-1"])
    filters = with_filters(space, "flaky", "similarity_threshold")
    settings = replace(SETTINGS, max_failure_rate=0.2, racing=None)
    first = Run(tiny_setup, filters, store, settings).go()
    rows = proposals(store, first)
    assert any(store.results(evaluation)["ferry-1"].state == "failed" for *_, evaluation, _ in rows)
    asked = recorded(store, first).split.search
    met = {key: one for (key, questions), one in first.evaluations.items() if questions == asked}
    terms = Terms.from_evaluations(list(met.values()), settings.fitness, settings.max_failure_rate)
    known = {key: terms.score(one) for key, one in met.items()}
    assert all(value["fitness"] == known[evaluation] for *_, evaluation, value in rows)
    again = Run(tiny_setup, filters, store, settings).go()
    assert proposals(store, again) == rows
    assert recorded(store, again).failed == recorded(store, first).failed > 0
    with Store.open(tmp_path / "other.sqlite") as other:
        assert proposals(other, Run(tiny_setup, filters, other, settings).go()) == rows


def with_depth(setup: Experiment, store: Store, depth: int) -> tuple[RunOutcome, RunRecord, Space]:
    """A run that meets one pipeline: a reranker of ``depth``, in a space that has the default, 20, as well."""
    reranking = tuple(make_gene("reranking", "cross_encoder", {"depth": n}) for n in (depth, 20))
    naive = baseline("naive")
    space = Space("depths", "", tuple((gene,) if i != 3 else reranking for i, gene in enumerate(naive)))
    settings = RunSettings(
        strategy="exhaustive", max_evaluations=1, probes=False, racing=None, warm_start=False, choose="mean"
    )
    outcome = Run(setup, space, store, settings).go()
    return outcome, recorded(store, outcome), space


def test_parameters_that_change_nothing_are_not_part_of_the_winner(tiny_setup: Experiment, store: Store) -> None:
    outcome, record, space = with_depth(tiny_setup, store, 2000)
    assert outcome.winner.candidate == space.candidate((0, 0, 0, 1, 0, 0, 0, 0, 0))
    assert [(one.option, one.instead, one.left_out, one.loss) for one in record.removals] == [
        ("cross_encoder(depth=2000)", "cross_encoder", True, 0.0)
    ]
    assert record.winner == record.removals[0].key != record.leader


def test_a_parameter_that_changes_something_costs_few_answers(tiny_setup: Experiment, store: Store) -> None:
    outcome, record, space = with_depth(tiny_setup, store, 3)
    assert outcome.winner.candidate == space.candidate((0,) * 9)
    assert record.removals == ()
    other = evaluation_key(tiny_setup, space.candidate((0, 0, 0, 1, 0, 0, 0, 0, 0)))
    assert 1 <= len(store.results(other)) <= 2

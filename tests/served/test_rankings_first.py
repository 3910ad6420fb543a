"""Where a chat model writes the answers, rankings are searched first and only what is worth its calls is answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer
from never_repeating import answer
from stored import recorded

from ragsmith.errors import BudgetExhausted, WrongOption
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.gateway.budget import Limits
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.reporting.building import load_report
from ragsmith.reporting.wording import describe_extra_evaluations
from ragsmith.runs.plan import plan
from ragsmith.runs.rankings import count_pipelines, resolve_rankings_first
from ragsmith.runs.run import Allowance, Execution, Run, RunOutcome
from ragsmith.runs.run_context import TIME_LIMIT_REACHED, Callbacks, Step
from ragsmith.store.store import Store

SPACE = """
families:
  pre_embedding: [none, contextual_chunk_headers, hype]
  query_expansion: [none, hyde, multi_query]
  retrieval: [vector, bm25, hybrid]
  reranking: [none]
  passage_filter:
    - top_k: {k: [3, 10]}
  passage_augment: [none, prev_next]
  passage_compress: [none, llm_refine]
  prompt_maker: [listing]
  post_generation: [none, reflection_revising]
"""
SETTINGS = RunSettings(max_evaluations=4, warm_start=False)


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        server.answer = answer
        yield server


@pytest.fixture(scope="module")
def setup(server: FaultServer, tiny_setup: Experiment) -> Experiment:
    names = ModelNames(language_model=ModelName("openai:tiny", base_url=server.url))
    return Experiment(tiny_setup.dataset, names, tiny_setup.chunk_size)


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Space:
    path = tmp_path_factory.mktemp("spaces") / "space.yaml"
    path.write_text(SPACE)
    return load_space(path)


@pytest.fixture(scope="module")
def searched(
    server: FaultServer, setup: Experiment, space: Space, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunOutcome, RunRecord, int, Store]]:
    """A search by default, with its record, the number of its requests, and its store."""
    server.log.clear()
    with Store.open(tmp_path_factory.mktemp("first") / "cache.sqlite") as store:
        outcome = Run(setup, space, store, SETTINGS, execution=Execution(workers=4)).go()
        yield outcome, recorded(store, outcome), len(server.log), store


def test_rankings_are_searched_first_and_a_fifth_as_many_pipelines_are_answered(
    searched: tuple[RunOutcome, RunRecord, int, Store],
) -> None:
    outcome, record, _, store = searched
    assert record.settings.rankings_first is True
    assert record.probes == ()
    assert record.rankings == 12, "two keys, three retrievers and two filters ask no model"
    assert len(store.proposals(outcome.key)) <= 4
    assert record.history[0].by == "rankings"
    assert outcome.winner is not None
    said = describe_extra_evaluations(load_report(store, store.datasets()[0].name))
    assert said.startswith("12 rankings were searched first, without an answer; ")


def test_it_sends_a_fraction_of_the_requests_of_a_search_of_whole_pipelines(
    server: FaultServer,
    setup: Experiment,
    space: Space,
    searched: tuple[RunOutcome, RunRecord, int, Store],
    store: Store,
) -> None:
    server.log.clear()
    Run(setup, space, store, replace(SETTINGS, rankings_first=False), execution=Execution(workers=4)).go()
    assert searched[2] < len(server.log) / 2


def test_a_plan_of_it_comes_near(
    setup: Experiment, space: Space, searched: tuple[RunOutcome, RunRecord, int, Store], store: Store
) -> None:
    found = plan(setup, space, store, SETTINGS, sample=1000)
    assert found.totals["calls"] == pytest.approx(searched[2], rel=0.25)
    assert found.proposed == 4


def test_the_same_command_again_asks_nothing(
    server: FaultServer, setup: Experiment, space: Space, searched: tuple[RunOutcome, RunRecord, int, Store]
) -> None:
    outcome, _, _, store = searched
    server.log.clear()
    again = Run(setup, space, store, SETTINGS, execution=Execution(workers=4)).go()
    assert server.log == []
    assert again.winner is not None
    assert again.winner.key == outcome.winner.key  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "changes",
    [
        {"racing": None},
        {"strategy": "random"},
        {"rankings_first": False},
        {"fitness": Fitness().with_objective("retrieval")},
    ],
)
def test_whole_pipelines_are_searched_where_something_else_is_asked_for(
    setup: Experiment, changes: dict[str, object]
) -> None:
    assert not resolve_rankings_first(replace(SETTINGS, **changes), setup).rankings_first  # type: ignore[arg-type]


def test_embedded_models_cost_nothing_so_whole_pipelines_are_searched(tiny_setup: Experiment) -> None:
    assert not resolve_rankings_first(SETTINGS, tiny_setup).rankings_first


def test_rankings_alone_cannot_be_searched_first() -> None:
    with pytest.raises(WrongOption, match="needs a fitness that weighs R and G, and no further objectives"):
        RunSettings(rankings_first=True, fitness=Fitness().with_objective("retrieval"))


def test_the_limit_is_that_of_the_pipelines_that_are_answered() -> None:
    assert count_pipelines(SETTINGS) == (20, 4)
    assert count_pipelines(RunSettings()) == (100, 20)


@pytest.mark.parametrize("says_the_same", [False, True])
def test_no_more_are_proposed_although_some_have_the_results_of_earlier_ones(
    tiny_setup: Experiment, tiny_space: Path, store: Store, says_the_same: bool
) -> None:
    """A server with one slot, in two parts: the first ends within a step."""

    def decline(path: str, body: Any) -> Any:
        reply = answer(path, body)
        if "Score" not in body["messages"][-1]["content"]:
            reply["choices"][0]["message"]["content"] = "The passages do not contain the answer."
        return reply

    settings = RunSettings(max_evaluations=4, probes=False, simplify=False)
    space = load_space(tiny_space)
    with FaultServer(slots=1, tells_slots=True) as server:
        server.answer, server.latency = decline if says_the_same else answer, 0.01
        models = ModelNames(ModelName("openai:tiny", base_url=server.url))
        with pytest.raises(BudgetExhausted):
            Run(replace(tiny_setup, models=models), space, store, settings, allowance=Allowance(Limits(calls=30))).go()
        run = Run(replace(tiny_setup, models=models), space, store, settings, execution=Execution(workers=4))
        run.go()
    rows = store.proposals(run.key)
    assert len({row.evaluation for row in rows}) == len(rows) == 4
    assert len({row.step for row in rows}) > 1


def test_where_every_option_of_a_family_asks_a_model_no_ranking_is_free_and_the_search_goes_on(
    setup: Experiment, tmp_path: Path, store: Store
) -> None:
    (tmp_path / "space.yaml").write_text(SPACE.replace("[none, hyde, multi_query]", "[hyde]"))
    outcome = Run(setup, load_space(tmp_path / "space.yaml"), store, SETTINGS, execution=Execution(workers=4)).go()
    record = recorded(store, outcome)
    assert (record.rankings, outcome.state) == (0, "finished")
    assert 1 <= len(store.proposals(outcome.key)) <= 4


def test_time_that_ends_while_rankings_are_searched_leaves_the_warm_start(
    setup: Experiment, space: Space, store: Store
) -> None:
    seconds = [0.0]

    def on_step(step: Step) -> None:
        seconds[0] = 100.0 if step.phase == "warm start" else seconds[0]

    settings = replace(SETTINGS, time_limit=50.0)
    run = Run(setup, space, store, settings, callbacks=Callbacks(on_step=on_step), now=lambda: seconds[0])
    outcome = run.go()
    assert (outcome.state, outcome.why) == ("interrupted", TIME_LIMIT_REACHED)
    assert outcome.winner is not None
    seconds[0] = 0.0
    assert Run(setup, space, store, SETTINGS).go().state == "finished"

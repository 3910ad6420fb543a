"""A plan says before a search what it takes, and what of it the cache has already."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_server import FaultServer

from ragsmith.evaluation.testbed import Setup
from ragsmith.gateway.budget import Price, Prices
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.pipelines.space import Space
from ragsmith.runs.plan import plan
from ragsmith.runs.record import RunSettings
from ragsmith.runs.run import Run
from ragsmith.store.store import Store

SETTINGS = RunSettings(max_evaluations=4, compare=False)


def asked(server: FaultServer, setup: Setup) -> Setup:
    names = ModelNames(language_model=ModelName("openai:tiny", base_url=server.url))
    return Setup(setup.dataset, names, setup.chunk_size)


def test_nothing_is_sent_to_work_out_a_plan(tiny_setup: Setup, space: Space, store: Store) -> None:
    with FaultServer() as server:
        found = plan(asked(server, tiny_setup), space, store, SETTINGS, sample=6)
        assert server.log == []
    assert found.totals["calls"]
    assert found.totals["cached"] == 0
    assert found.totals["cost"] is None
    assert {line.request for line in found.lines} >= {"answer", "judge"}
    assert found.sampled < found.questions == len(tiny_setup.dataset.examples)


def test_the_plan_of_all_questions_comes_near_what_the_search_then_asks(
    tiny_setup: Setup, space: Space, store: Store
) -> None:
    with FaultServer() as server:
        setup = asked(server, tiny_setup)
        found = plan(setup, space, store, SETTINGS, sample=1000)
        Run(setup, space, store, SETTINGS, workers=8).go()
        made = len(server.log)
    assert found.sampled == found.questions
    assert found.totals["calls"] == pytest.approx(made, rel=0.35)


def test_what_the_cache_has_is_not_asked_for_again(tiny_setup: Setup, space: Space, store: Store) -> None:
    with FaultServer() as server:
        setup = asked(server, tiny_setup)
        before = plan(setup, space, store, SETTINGS, sample=1000)
        Run(setup, space, store, SETTINGS, workers=8).go()
        after = plan(setup, space, store, SETTINGS, sample=1000)
    assert after.totals["cached"]
    assert after.totals["calls"] < before.totals["calls"] / 4  # type: ignore[operator]


def test_money_and_time_follow_from_calls_and_tokens(tiny_setup: Setup, space: Space, store: Store) -> None:
    prices = Prices({"openai:tiny": Price(input=2.0, output=8.0)})
    with FaultServer() as server:
        found = plan(
            asked(server, tiny_setup), space, store, SETTINGS, prices=prices, latency=0.5, in_flight=4, sample=6
        )
    for line in found.lines:
        assert line.cost == pytest.approx((2.0 * line.input_tokens + 8.0 * line.output_tokens) / 1e6)
        assert line.seconds == pytest.approx(line.calls * 0.5 / 4)
    assert found.totals["cost"] == pytest.approx(sum(line.cost or 0 for line in found.lines))


def test_embedded_models_need_no_plan(tiny_setup: Setup, space: Space, store: Store) -> None:
    found = plan(tiny_setup, space, store, SETTINGS, sample=3)
    assert found.lines == ()
    assert found.totals["cost"] == 0
    assert (found.genomes, found.sampled) == (None, 0), "nothing is rehearsed to say so"


def test_the_command_prints_it(ragsmith, tiny_folder: Path, tiny_space: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "prices.yaml").write_text("openai:tiny: {input: 1, output: 2}\n")
    with FaultServer() as server:
        command = (
            "plan",
            "--dataset",
            tiny_folder,
            "--space",
            tiny_space,
            "--llm",
            "openai:tiny",
            "--base-url",
            server.url,
        )
        shown = ragsmith(*command, "--prices", tmp_path / "prices.yaml", "--max-evaluations", 3, "--sample", 4)
        assert server.log == []
    assert shown.code == 0
    assert "openai:tiny" in shown.out
    assert shown.out.splitlines()[-1].startswith("seconds: at 1 s a request")
    wrong = ragsmith(*command, "--latency", 0)
    assert wrong.code == 2
    assert wrong.err == "error: --latency is 0.0: give a number above 0\n"

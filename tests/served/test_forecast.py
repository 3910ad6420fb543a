"""A server that writes more than a plan assumes is found out by the first hundred replies."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer
from never_repeating import answer_at_length

import ragsmith
from ragsmith.errors import BudgetExhausted
from ragsmith.gateway.budget import NOTHING_SPENT, Limits, Spent
from ragsmith.records.record import CROSSFIT, HELD_OUT
from ragsmith.reporting.wording import describe_forecast

SPACE = """
families:
  pre_embedding: [none]
  query_expansion: [none, hyde]
  retrieval: [vector, bm25]
  reranking: [none]
  passage_filter:
    - top_k: {k: [3, 5]}
  passage_augment: [none]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [none]
"""
PRICES = {"openai:tiny": {"input": 0.4, "output": 1.6}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with FaultServer() as running:
        running.answer = answer_at_length(3)
        yield running


@pytest.fixture
def arguments(server: FaultServer, tiny_folder: Path, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "space.yaml").write_text(SPACE)
    return {
        "dataset": tiny_folder,
        "space": tmp_path / "space.yaml",
        "models": {"language_model": "openai:tiny"},
        "base_url": server.url,
        "cache": tmp_path / "cache.sqlite",
        "prices": PRICES,
        "max_evaluations": 4,
        "warm_start": False,
    }


def test_three_times_as_long_replies_are_found_out_after_a_hundred(
    arguments: dict[str, Any], server: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ragsmith.building")
    before = ragsmith.plan(**arguments)
    found = ragsmith.search(**arguments, limits=Limits(cost=10.0), workers=4)
    record = found.run_report.about.record
    written = sum(usage["completion_tokens"] for usage in usages(server))
    per_request = found.spent.cost / found.spent.calls
    assert found.spent.calls == len(server.log) > 120
    assert before.totals["output_tokens"] / before.totals["calls"] < 0.6 * written / len(server.log)
    assert record.expected.cost / record.expected.calls == pytest.approx(per_request, rel=0.1)
    assert record.expected.calls == pytest.approx(found.spent.calls, rel=0.25)
    [logged] = [message for message in caplog.messages if "expected in total" in message]
    assert logged.endswith(f"{record.expected} are expected in total")
    assert describe_forecast(found.run_report) == "", "it was not off by a quarter"
    about = found.run_report.about
    wrong = replace(record, expected=Spent(1000, 20_000, 0.5))
    said = describe_forecast(replace(found.run_report, about=replace(about, record=wrong)))
    assert said == (
        f"The search took {found.spent}; while it ran, 1,000 requests, 20,000 tokens and 0.5 in money were expected."
    )


def test_a_crossfit_is_off_only_above_its_bound_and_money_that_was_not_expected_is_left_out(
    arguments: dict[str, Any],
) -> None:
    found = ragsmith.search(**arguments, workers=4)
    about = found.run_report.about
    spent = found.spent

    def said(expected: Spent, verdict: Any) -> str:
        settings = replace(about.record.settings, verdict=verdict)
        record = replace(about.record, settings=settings, expected=expected)
        return describe_forecast(replace(found.run_report, about=replace(about, record=record)))

    double, half = (Spent(round(n * spent.calls), round(n * spent.tokens)) for n in (2, 0.5))
    assert said(replace(spent, cost=0.0), HELD_OUT) == ""
    assert said(double, CROSSFIT) == ""
    took = f"The search took {spent.calls:,} requests and {spent.tokens:,} tokens; while it ran, "
    assert said(double, HELD_OUT) == f"{took}{double} were expected."
    assert said(half, CROSSFIT) == f"{took}at most {half} were expected."


def test_a_search_without_prices_and_limits_is_not_planned_again(arguments: dict[str, Any]) -> None:
    del arguments["prices"]
    found = ragsmith.search(**arguments, workers=4)
    assert found.spent.calls > 100
    assert found.run_report.about.record.expected == NOTHING_SPENT


def test_a_paused_search_says_nothing_of_a_forecast_that_does_not_hold_yet(arguments: dict[str, Any]) -> None:
    found = ragsmith.search(**arguments, limits=Limits(calls=120), workers=4)
    assert found.state == "interrupted"
    assert found.run_report.about.record.expected.calls > 120
    assert describe_forecast(found.run_report) == ""


def test_a_crossfit_has_an_upper_bound_until_it_is_paused(
    arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ragsmith.building")
    arguments |= {"verdict": CROSSFIT, "workers": 4}
    for calls in (110, 120):
        with pytest.raises(BudgetExhausted):
            ragsmith.search(**arguments, limits=Limits(calls=calls))
    [logged] = [message for message in caplog.messages if "expected in total" in message]
    assert re.fullmatch(
        r"after 1\d\d requests: at most .* are expected in total, and --max-calls 110 pauses .*", logged
    )


def usages(server: FaultServer) -> Iterator[dict[str, int]]:
    for request in server.log:
        yield server.answer(request.path, request.body)["usage"]  # type: ignore[misc]

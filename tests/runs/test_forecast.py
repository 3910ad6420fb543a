"""A search plans again once there are replies, and says what it expects to spend and where a limit will pause it."""

from __future__ import annotations

import logging
from collections import deque

import pytest

from ragsmith.errors import Notice, StoreError
from ragsmith.gateway.budget import NOTHING_SPENT, Limits, Spent
from ragsmith.runs.forecast import Forecast


def forecast(*rests: Spent, limits: Limits | None = None) -> tuple[Forecast, deque[Spent]]:
    queue = deque(rests)
    return Forecast(limits or Limits(), queue.popleft), queue


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "ragsmith.building")
    return caplog


def test_nothing_is_expected_before_a_hundred_requests(said: pytest.LogCaptureFixture) -> None:
    one, rests = forecast(Spent(900, 9000, 0.9))
    assert one.update(Spent(99, 990, 0.099)) == NOTHING_SPENT
    assert len(rests) == 1
    assert said.messages == []


def test_after_a_hundred_requests_what_is_left_is_planned_and_added_to_what_was_spent(
    said: pytest.LogCaptureFixture,
) -> None:
    one, _ = forecast(Spent(900, 9000, 0.9))
    assert one.update(Spent(100, 1000, 0.1)) == Spent(1000, 10_000, 1.0)
    assert said.messages == ["after 100 requests: 1,000 requests, 10,000 tokens and 1 in money are expected in total"]


def test_it_is_planned_again_after_ten_times_as_many_and_said_if_it_moved_by_a_quarter(
    said: pytest.LogCaptureFixture,
) -> None:
    one, rests = forecast(Spent(1900, 0), Spent(1200, 0), Spent(30_000, 0))
    one.update(Spent(100))
    assert one.update(Spent(999)) == Spent(2000)
    assert len(rests) == 2
    assert one.update(Spent(1000)) == Spent(2000), "2,200 are no news"
    assert one.update(Spent(10_000)) == Spent(40_000)
    assert [record.__dict__["fields"]["sent"] for record in said.records] == [100, 10_000]


@pytest.mark.parametrize(
    ("limits", "end"),
    [
        (Limits(cost=0.55), ", and --max-cost 0.55 pauses the search after about 550 requests"),
        (Limits(calls=400), ", and --max-calls 400 pauses the search after about 400 requests"),
        (Limits(tokens=6400), ", and --max-tokens 6400 pauses the search after about 640 requests"),
        (Limits(cost=1.5), " are expected in total"),
    ],
)
def test_it_says_where_a_limit_pauses_the_search(limits: Limits, end: str, said: pytest.LogCaptureFixture) -> None:
    one, _ = forecast(Spent(900, 9000, 0.9), limits=limits)
    one.update(Spent(100, 1000, 0.1))
    assert said.messages[0].endswith(end)


@pytest.mark.parametrize(
    ("limits", "spent", "rest", "end"),
    [
        (Limits(calls=300), Spent(500, 1000), Spent(0), " are expected in total"),
        (Limits(tokens=300), Spent(500, 1000), Spent(0), " are expected in total"),
        (
            Limits(calls=300),
            Spent(500, 1000),
            Spent(10, 20),
            ", and --max-calls 300 pauses the search after about 500 requests",
        ),
        (
            Limits(calls=500),
            Spent(500, 1000),
            Spent(10, 20),
            ", and --max-calls 500 pauses the search after about 500 requests",
        ),
    ],
)
def test_a_limit_that_is_reached_pauses_a_search_that_has_more_to_send(
    limits: Limits, spent: Spent, rest: Spent, end: str, said: pytest.LogCaptureFixture
) -> None:
    one, _ = forecast(rest, limits=limits)
    one.update(spent)
    assert said.messages[0].endswith(end)


def test_of_several_limits_the_one_that_is_reached_first_is_named(said: pytest.LogCaptureFixture) -> None:
    one, _ = forecast(Spent(900, 9000, 0.9), limits=Limits(calls=800, cost=0.55))
    one.update(Spent(100, 1000, 0.1))
    assert said.messages[0].endswith("--max-cost 0.55 pauses the search after about 550 requests")


def test_a_plan_that_fails_leaves_the_last_forecast_and_does_not_end_the_search() -> None:
    plans = deque([Spent(400), None, Spent(0)])

    def plan_rest() -> Spent:
        if (planned := plans.popleft()) is None:
            raise StoreError("the cache is locked")
        return planned

    one = Forecast(Limits(), plan_rest)
    one.update(Spent(100))
    with pytest.warns(Notice, match="the rest of this search could not be planned: the cache is locked"):
        assert one.update(Spent(1000)) == Spent(500)
    assert one.update(Spent(1001)) == Spent(500)
    assert len(plans) == 1


def test_money_is_left_out_where_a_price_is_not_known(said: pytest.LogCaptureFixture) -> None:
    one, _ = forecast(Spent(900, 9000))
    assert one.update(Spent(100, 1000, 0.1)) == Spent(1000, 10_000), "the money of the models with a price is no total"
    assert said.messages == ["after 100 requests: 1,000 requests and 10,000 tokens are expected in total"]


def test_an_upper_bound_is_called_one_and_is_not_replaced_by_a_plan_of_what_the_first_search_lacks(
    said: pytest.LogCaptureFixture,
) -> None:
    rests = deque([Spent(900, 9000), Spent(6, 60)])
    one = Forecast(Limits(calls=400), rests.popleft, is_bound=True)
    one.update(Spent(100, 1000))
    assert one.update(Spent(1100, 1000)) == Spent(1000, 10_000)
    assert said.messages == [
        "after 100 requests: at most 1,000 requests and 10,000 tokens are expected in total, and --max-calls 400 "
        "pauses the search after about 400 requests"
    ]


def test_a_run_without_a_plan_expects_nothing() -> None:
    assert Forecast(Limits(), None).update(Spent(5000)) == NOTHING_SPENT


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (Spent(100, 1000, 0.1), False),
        (Spent(120, 1000, 0.1), False),
        (Spent(140, 1000, 0.1), True),
        (Spent(100, 700, 0.1), True),
        (Spent(100, 1000, 0.0), True),
    ],
)
def test_amounts_differ_if_one_of_them_does_by_more_than_a_quarter(other: Spent, differs: bool) -> None:
    assert Spent(100, 1000, 0.1).differs_from(other) is differs

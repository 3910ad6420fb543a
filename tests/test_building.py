"""What takes long is told of every so often, and what is soon done is not."""

from __future__ import annotations

import logging

import pytest

from ragsmith.building import EVERY_SECONDS, Building, tell

LOGGER = "ragsmith.building"


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_told_every_so_often_how_far_something_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    clock = Clock()
    building = Building("embedding texts", 12_000, clock)
    for parts in range(0, 12_001, 1_000):
        clock.now = parts / 1_000  # seconds
        building.done(parts)
    assert EVERY_SECONDS == 5.0
    assert caplog.messages == ["embedding texts: 5,000 of 12,000", "embedding texts: 10,000 of 12,000"]
    told = [(vars(record)["what"], vars(record)["done"], vars(record)["total"]) for record in caplog.records]
    assert told == [("embedding texts", 5_000, 12_000), ("embedding texts", 10_000, 12_000)]


def test_what_has_no_parts_is_told_when_it_begins_and_one_of_unknown_size_by_what_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    clock = Clock()
    building = Building("reading documents", clock=clock)
    tell("cutting 25,000 documents")
    clock.now = 6.0
    building.done(1_200)
    assert caplog.messages == ["cutting 25,000 documents", "reading documents: 1,200"]


def test_nobody_hears_of_it_who_did_not_ask(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.NOTSET, LOGGER)  # as it is before a command of this process sets it
    tell("cutting 25,000 documents")
    assert caplog.messages == []

"""Progress of long tasks is logged every few seconds, and that of short ones is not."""

from __future__ import annotations

import logging

import pytest

from ragsmith.building import EVERY_SECONDS, TaskProgress, log_progress

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
    building = TaskProgress("embedding texts", 12_000, clock)
    for parts in range(0, 12_001, 1_000):
        clock.now = parts / 1_000  # seconds
        building.done(parts)
    assert EVERY_SECONDS == 5.0
    assert caplog.messages == ["embedding texts: 5,000 of 12,000", "embedding texts: 10,000 of 12,000"]
    assert [vars(record)["fields"] for record in caplog.records] == [
        {"what": "embedding texts", "done": done, "total": 12_000} for done in (5_000, 10_000)
    ]


def test_what_has_no_parts_is_told_when_it_begins_and_one_of_unknown_size_by_what_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    clock = Clock()
    building = TaskProgress("reading documents", clock=clock)
    log_progress("cutting 25,000 documents")
    clock.now = 6.0
    building.done(1_200)
    assert caplog.messages == ["cutting 25,000 documents", "reading documents: 1,200"]


def test_a_part_is_counted_behind_what_was_done_of_the_whole(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    clock = Clock()
    whole = TaskProgress("embedding texts", 40_000, clock)
    for start in (0, 20_000):
        with whole.around():
            part, other = TaskProgress("embedding texts", 20_000, clock), TaskProgress("reading", 5, clock)
            for parts in (10_000, 20_000):
                clock.now += 6.0
                part.done(parts)
        other.done(5)
        whole.done(start + 20_000)
    TaskProgress("embedding texts", 7, clock).done(7)
    assert [line for line in caplog.messages if line.startswith("embedding")] == [
        f"embedding texts: {done:,} of 40,000" for done in (10_000, 20_000, 30_000, 40_000)
    ]
    assert [line for line in caplog.messages if line.startswith("reading")] == ["reading: 5 of 5"] * 2


def test_progress_is_not_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.NOTSET, LOGGER)  # as it is before a command of this process sets it
    log_progress("cutting 25,000 documents")
    assert caplog.messages == []

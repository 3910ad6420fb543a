"""A server that is abused answers each with the right status, tells nothing, loses nothing, and is well afterwards."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import abuse
import pytest
from abuse import TOKEN, Row, Target
from malformed import KINDS

from ragsmith.pipelines.genes import Candidate

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="a process limits what another may write"),
]

EACH = 60
"""Malformed requests of a kind."""


@pytest.fixture(scope="module")
def target(winner: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """All that comes from outside happens to one server; its log is looked through in the end."""
    folder = tmp_path_factory.mktemp("abused")
    with Target(winner, folder, "--feedback", folder / "feedback.jsonl") as target:
        yield target
        target.stop(last := Row("the log"))
    assert last.wrong == []


@pytest.fixture
def asking(pipeline: Callable[..., Candidate], written: Callable[[Candidate], Path]) -> Path:
    """A pipeline that asks a language model once, whatever the question is: vectors always find something."""
    return written(pipeline(retrieval="vector"))


@pytest.mark.parametrize("kind", KINDS)
def test_malformed_requests_are_refused(target: Target, kind: str) -> None:
    row = abuse.malformed(target, kind, KINDS[kind], EACH, seed=14)
    assert (row.wrong, row.requests) == ([], EACH)


@pytest.mark.parametrize("abused", [abuse.path_tricks, abuse.header_injection, abuse.large])
def test_path_traversal_is_refused_and_large_bodies_are_not_buffered(
    target: Target, abused: Callable[[Target], Row]
) -> None:
    assert abused(target).wrong == []


def test_wrong_tokens_get_no_information(winner: Path, tmp_path: Path) -> None:
    with Target(winner, tmp_path, RAGSMITH_TOKEN=TOKEN) as target:
        row = abuse.wrong_tokens(target)
        target.stop(row)
    assert row.wrong == []


@pytest.mark.parametrize(
    "abused", [abuse.hanging, abuse.failing, abuse.no_room_for_feedback, abuse.no_room_for_replies]
)
def test_a_model_or_a_disk_that_fails_costs_nothing_but_its_requests(
    asking: Path, tmp_path: Path, abused: Callable[[Path, Path], Row]
) -> None:
    row = abused(asking, tmp_path)
    assert not row.wrong, "\n".join(row.wrong)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_what_was_confirmed_before_a_signal_is_there_after_it(
    asking: Path, tmp_path: Path, number: signal.Signals
) -> None:
    assert abuse.stopped_under_load(asking, tmp_path, number, clients=8, seconds=1.0).wrong == []

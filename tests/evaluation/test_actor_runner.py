"""What the process that leads a cluster does about its actors, which are scripted: no Ray is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fake_ray import LOST, Actor, FakeCluster, FakeRay

from ragsmith.errors import RagsmithError
from ragsmith.evaluation.actors import ATTEMPTS, ActorRunner
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.testbed import Setup
from ragsmith.evaluation.threads import Job


@contextmanager
def leading(setup: Setup, *actors: Actor) -> Iterator[ActorRunner]:
    """A runner with these actors."""
    with ActorRunner(setup, setup.engine(), FakeCluster(FakeRay(actors), len(actors))) as runner:
        yield runner


def jobs(setup: Setup, count: int = 3) -> list[Job]:
    """The first questions, of one candidate."""
    return [(0, question) for question in setup.order[:count]]


def ran(runner: ActorRunner, wanted: list[Job]) -> list[Job]:
    """The jobs that ended, in order."""
    return sorted(one.job for batch in runner.run([baseline("bm25")], wanted) for one in batch)


def test_every_job_ends_once_whoever_is_lost(tiny_setup: Setup) -> None:
    wanted = jobs(tiny_setup, 20)
    with leading(tiny_setup, Actor(evaluate=[LOST]), Actor(), Actor(evaluate=[LOST, LOST])) as runner:
        assert ran(runner, wanted) == sorted(wanted)


def test_jobs_that_are_lost_with_every_actor_that_has_them_end_the_search(tiny_setup: Setup) -> None:
    with (
        leading(tiny_setup, Actor(evaluate=[LOST] * ATTEMPTS)) as runner,
        pytest.raises(RagsmithError, match=rf"lost with the process that had them, {ATTEMPTS} times"),
    ):
        ran(runner, jobs(tiny_setup))


def test_losses_of_one_batch_are_not_held_against_the_next(tiny_setup: Setup) -> None:
    actor = Actor()
    wanted = jobs(tiny_setup)
    with leading(tiny_setup, actor) as runner:
        for _ in range(ATTEMPTS + 1):
            actor.script("evaluate", LOST)
            assert ran(runner, wanted) == sorted(wanted)
    assert sum(method == "evaluate" for method, _ in actor.calls) == 2 * (ATTEMPTS + 1)

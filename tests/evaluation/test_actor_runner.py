"""What the process that leads a cluster does about its actors, which are scripted: no Ray is needed."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fake_ray import LOST, PENDING, Actor, FakeCluster, FakeRay

from ragsmith.errors import Notice, RagsmithError, UsageError
from ragsmith.evaluation.actors import ATTEMPTS, ActorRunner
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.testbed import Setup
from ragsmith.evaluation.threads import Job


@contextmanager
def leading(setup: Setup, *actors: Actor) -> Iterator[ActorRunner]:
    """A runner with these actors, to which every look at the clock is ten seconds."""
    clock = itertools.count(0.0, 10.0)
    cluster = FakeCluster(FakeRay(actors), len(actors))
    with ActorRunner(setup, setup.engine(), cluster, clock=lambda: next(clock)) as runner:
        yield runner


def jobs(setup: Setup, count: int = 3) -> list[Job]:
    """The first questions, of one candidate, in order."""
    return sorted((0, question) for question in setup.order[:count])


def ran(runner: ActorRunner, wanted: list[Job]) -> list[Job]:
    """The jobs that ended, in order."""
    return sorted(one.job for batch in runner.run([baseline("bm25")], wanted) for one in batch)


def test_every_job_ends_once_whoever_is_lost(tiny_setup: Setup) -> None:
    wanted = jobs(tiny_setup, 20)
    with leading(tiny_setup, Actor(evaluate=[LOST]), Actor(), Actor(evaluate=[LOST, LOST])) as runner:
        assert ran(runner, wanted) == wanted


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
            assert ran(runner, wanted) == wanted
    assert sum(method == "evaluate" for method, _ in actor.calls) == 2 * (ATTEMPTS + 1)


# --- actors that are being started -----------------------------------------------------------------------------------


def test_an_actor_that_is_lost_whenever_it_gets_ready_ends_the_search(tiny_setup: Setup) -> None:
    dying = Actor(ready=[LOST] * ATTEMPTS)
    with (
        leading(tiny_setup, dying) as runner,
        pytest.raises(RagsmithError, match=rf"lost {ATTEMPTS} times while it got ready .* --workers"),
    ):
        ran(runner, jobs(tiny_setup))
    assert [method for method, _ in dying.calls] == ["there", "ready"] * ATTEMPTS


def test_an_actor_may_be_unavailable_for_as_long_as_it_is_being_started(tiny_setup: Setup) -> None:
    wanted = jobs(tiny_setup)
    with leading(tiny_setup, Actor(there=[LOST] * (ATTEMPTS + 1), ready=[LOST])) as runner, warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        assert ran(runner, wanted) == wanted


def test_losses_before_an_actor_was_ready_are_not_held_against_it_afterwards(tiny_setup: Setup) -> None:
    wanted = jobs(tiny_setup)
    ready = ["", *[LOST] * (ATTEMPTS - 1), "", LOST, ""]
    with leading(tiny_setup, Actor(ready=ready, evaluate=[LOST, LOST])) as runner:
        assert ran(runner, wanted) == wanted


def test_a_node_that_cannot_be_used_is_named(tiny_setup: Setup) -> None:
    with (
        leading(tiny_setup, Actor(ready=["the node 10.0.0.7 has another version"])) as runner,
        pytest.raises(UsageError, match=r"the node 10\.0\.0\.7 has another version"),
    ):
        ran(runner, jobs(tiny_setup))


def test_it_is_said_once_that_no_actor_has_room(tiny_setup: Setup) -> None:
    unavailable = Actor(there=[LOST, LOST, LOST, LOST])
    with leading(tiny_setup, unavailable) as runner, pytest.warns(Notice, match="to have room for an actor") as said:
        ran(runner, jobs(tiny_setup))
    assert len(said) == 1


def test_nobody_is_waited_for_where_an_actor_is_there_though_another_never_is(tiny_setup: Setup) -> None:
    wanted = jobs(tiny_setup, 20)
    with leading(tiny_setup, Actor(), Actor(there=[PENDING])) as runner:
        assert ran(runner, wanted) == wanted  # a notice would be an error


def test_it_settles_when_all_actors_are_ready(tiny_setup: Setup) -> None:
    actors = Actor(), Actor(there=[LOST])
    with leading(tiny_setup, *actors) as runner:
        runner.settle()
        assert [actor.calls[-1][0] for actor in actors] == ["ready", "ready"]
        settled = [len(actor.calls) for actor in actors]
        runner.settle()
    assert [len(actor.calls) for actor in actors] == settled


def test_an_actor_that_never_has_room_is_not_waited_for_for_ever(tiny_setup: Setup) -> None:
    with leading(tiny_setup, Actor(), Actor(there=[PENDING])) as runner:
        runner.settle()
        assert ran(runner, jobs(tiny_setup)) == jobs(tiny_setup)

"""What the process that leads a cluster does about its actors, which are scripted: no Ray is needed."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fake_ray import LOST, PENDING, Actor, FakeCluster, FakeRay, ObjectStoreFullError, RayError

from ragsmith.errors import Notice, RagsmithError, UsageError
from ragsmith.evaluation.actor_runner import ActorRunner
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.job_queues import MAX_LOSSES
from ragsmith.evaluation.threads import Job


@contextmanager
def leading(setup: Experiment, *actors: Actor) -> Iterator[ActorRunner]:
    """A runner with these actors, to which every look at the clock is ten seconds."""
    clock = itertools.count(0.0, 10.0)
    cluster = FakeCluster(FakeRay(actors), len(actors))
    with ActorRunner(setup, setup.engine(), cluster, clock=lambda: next(clock)) as runner:
        yield runner


def jobs(setup: Experiment, count: int = 3) -> list[Job]:
    """The first questions, of one candidate, in order."""
    return sorted((0, question) for question in setup.order[:count])


def ran(runner: ActorRunner, wanted: list[Job]) -> list[Job]:
    """The jobs that ended, in order."""
    return sorted(one.job for batch in runner.run([baseline("bm25")], wanted) for one in batch)


def test_every_job_ends_once_whoever_is_lost(tiny_setup: Experiment) -> None:
    wanted = jobs(tiny_setup, 20)
    with leading(tiny_setup, Actor(evaluate=[LOST]), Actor(), Actor(evaluate=[LOST, LOST])) as runner:
        assert ran(runner, wanted) == wanted


def test_jobs_that_are_lost_with_every_actor_that_has_them_end_the_search(tiny_setup: Experiment) -> None:
    with (
        leading(tiny_setup, Actor(evaluate=[LOST] * MAX_LOSSES)) as runner,
        pytest.raises(RagsmithError, match=rf"lost with their process {MAX_LOSSES} times"),
    ):
        ran(runner, jobs(tiny_setup))


def test_losses_of_one_batch_are_not_held_against_the_next(tiny_setup: Experiment) -> None:
    actor = Actor()
    wanted = jobs(tiny_setup)
    with leading(tiny_setup, actor) as runner:
        for _ in range(MAX_LOSSES + 1):
            actor.script("evaluate", LOST)
            assert ran(runner, wanted) == wanted
    assert sum(method == "evaluate" for method, _ in actor.calls) == 2 * (MAX_LOSSES + 1)


def test_an_actor_that_is_lost_whenever_it_gets_ready_ends_the_search(tiny_setup: Experiment) -> None:
    dying = Actor(ready=[LOST] * MAX_LOSSES)
    with (
        leading(tiny_setup, dying) as runner,
        pytest.raises(RagsmithError, match=rf"lost {MAX_LOSSES} times during its startup .* --workers"),
    ):
        ran(runner, jobs(tiny_setup))
    assert [method for method, _ in dying.calls] == ["ping", "ready"] * MAX_LOSSES


def test_an_actor_may_be_unavailable_for_as_long_as_it_is_being_started(tiny_setup: Experiment) -> None:
    wanted = jobs(tiny_setup)
    with leading(tiny_setup, Actor(ping=[LOST] * (MAX_LOSSES + 1), ready=[LOST])) as runner, warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        assert ran(runner, wanted) == wanted


def test_losses_before_an_actor_was_ready_are_not_held_against_it_afterwards(tiny_setup: Experiment) -> None:
    wanted = jobs(tiny_setup)
    ready = ["", *[LOST] * (MAX_LOSSES - 1), "", LOST, ""]
    with leading(tiny_setup, Actor(ready=ready, evaluate=[LOST, LOST])) as runner:
        assert ran(runner, wanted) == wanted


def test_a_node_that_cannot_be_used_is_named(tiny_setup: Experiment) -> None:
    with (
        leading(tiny_setup, Actor(ready=["the node 10.0.0.7 has another version"])) as runner,
        pytest.raises(UsageError, match=r"the node 10\.0\.0\.7 has another version"),
    ):
        ran(runner, jobs(tiny_setup))


def test_it_is_said_once_that_no_actor_has_room(tiny_setup: Experiment) -> None:
    unavailable = Actor(ping=[LOST, LOST, LOST, LOST])
    with leading(tiny_setup, unavailable) as runner, pytest.warns(Notice, match="to have room for an actor") as said:
        ran(runner, jobs(tiny_setup))
    assert len(said) == 1


def test_it_settles_when_all_actors_are_ready(tiny_setup: Experiment) -> None:
    actors = Actor(), Actor(ping=[LOST])
    with leading(tiny_setup, *actors) as runner:
        runner.settle()
        assert [actor.calls[-1][0] for actor in actors] == ["ready", "ready"]
        settled = [len(actor.calls) for actor in actors]
        runner.settle()
    assert [len(actor.calls) for actor in actors] == settled


def test_an_actor_that_never_has_room_is_not_waited_for_for_ever(tiny_setup: Experiment) -> None:
    with leading(tiny_setup, Actor(), Actor(ping=[PENDING])) as runner:
        runner.settle()
        assert ran(runner, jobs(tiny_setup)) == jobs(tiny_setup)


@pytest.mark.parametrize("put_before", range(4))
@pytest.mark.parametrize(
    ("error", "said"),
    [(ObjectStoreFullError(), "is full: start its nodes with a larger"), (RayError(), "cannot be used any more")],
)
def test_what_cannot_be_put_into_the_object_store_is_one_sentence(
    tiny_setup: Experiment, put_before: int, error: RayError, said: str
) -> None:
    cluster = FakeCluster(FakeRay([Actor()], put_fails={put_before: error}), 1)

    def run_twice() -> None:
        with ActorRunner(tiny_setup, tiny_setup.engine(), cluster) as runner:
            ran(runner, jobs(tiny_setup))
            ran(runner, jobs(tiny_setup))

    with pytest.raises(RagsmithError, match=rf"{said}.*run the same command again"):
        run_twice()


def test_what_is_built_for_the_collection_is_put_out_once_and_what_comes_to_it_alone(tiny_setup: Experiment) -> None:
    ray = FakeRay([Actor()])
    names = []
    with ActorRunner(tiny_setup, tiny_setup.engine(), FakeCluster(ray, 1)) as runner:
        for name in ("bm25", "naive", "naive", "bm25"):
            before = len(ray.objects)
            for _ in runner.run([baseline(name)], jobs(tiny_setup)):
                pass
            *built, batch = ray.objects[before:]
            names.append(([len(arrays) for _, arrays in built], [part for *_, part in batch.collections[0]]))
    embedder = tiny_setup.loaded_models.embedder.id
    everything = [("entries", ""), ("vectors", embedder), ("derived", f"vector store {embedder}")]
    assert [parts for _, parts in names] == [everything[:1], everything, everything, everything]
    assert [len(built) for built, _ in names] == [1, 2, 0, 0]

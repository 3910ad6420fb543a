"""A Ray cluster in this thread: what its actors do, and when, is scripted by whoever makes them.

ray = FakeRay([Actor(), Actor()])           # handed out in this order, as actors are made
ActorRunner(setup, engine, FakeCluster(ray))

An `Actor` is running and ready at once, and finishes all that it is given; `Actor(evaluate=[LOST, LOST])` is lost the
first two times that it evaluates. What is `PENDING` never ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from ragsmith.evaluation.threads import FinishedQuestion, Job


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class RayActorError(RayError):
    pass


class ActorUnavailableError(RayActorError):
    pass


class ObjectStoreFullError(RayError):
    pass


class OutOfDiskError(RayError):
    pass


LOST = ActorUnavailableError("the actor is being started again")
PENDING = object()


class Actor:
    """What an actor says, by method: the next of a script or, at its end, that all is well."""

    def __init__(self, **scripts: Iterable[Any]) -> None:
        self._scripts = {name: deque(script) for name, script in scripts.items()}
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def script(self, method: str, *more: Any) -> None:
        """Have the method say ``more``, too, before all is well."""
        self._scripts.setdefault(method, deque()).extend(more)

    def said(self, method: str, arguments: tuple[Any, ...]) -> Any:
        self.calls.append((method, arguments))
        script = self._scripts.get(method)
        return script.popleft() if script else getattr(self, method)(*arguments)

    def ping(self) -> None:
        return None

    def ready(self, packed: Any) -> str:
        return ""

    def evaluate(self, batch: Any, jobs: Sequence[Job]) -> tuple[list[FinishedQuestion], None]:
        return [FinishedQuestion(job, True, 1.0) for job in jobs], None


class FakeRay:
    """What of the module ``ray`` a runner uses; ``put_fails`` are errors by how many objects were put before."""

    exceptions = SimpleNamespace(
        RayError=RayError,
        RayTaskError=RayTaskError,
        RayActorError=RayActorError,
        ActorUnavailableError=ActorUnavailableError,
        ObjectStoreFullError=ObjectStoreFullError,
        OutOfDiskError=OutOfDiskError,
    )

    def __init__(self, actors: Iterable[Actor], put_fails: dict[int, RayError] | None = None) -> None:
        self._actors = deque(actors)
        self._put_fails = put_fails or {}
        self.objects: list[Any] = []
        self.killed: list[Any] = []

    def put(self, value: Any) -> Any:
        if error := self._put_fails.get(len(self.objects)):
            raise error
        self.objects.append(value)
        return Reference(value)

    def get(self, reference: Reference, timeout: float | None = None) -> Any:
        assert reference.outcome is not PENDING, "waits for ever"
        if isinstance(reference.outcome, BaseException):
            raise reference.outcome
        return reference.outcome

    def wait(
        self, references: Sequence[Reference], num_returns: int, timeout: float
    ) -> tuple[list[Reference], list[Reference]]:
        ended = [one for one in references if one.outcome is not PENDING][:num_returns]
        return ended, [one for one in references if one not in ended]

    def remote(self, **_: Any) -> Callable[[type], Any]:
        return lambda _: SimpleNamespace(remote=lambda *_: Handle(self._actors.popleft()))

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


class Reference:
    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome


class Handle:
    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: Reference(self._actor.said(method, arguments)))


class FakeCluster:
    """A cluster, connected to."""

    def __init__(self, ray: FakeRay, actors: int, address: str = "") -> None:
        self._ray = ray
        self.actors = actors
        self.address = address

    def connect(self) -> FakeRay:
        return self._ray

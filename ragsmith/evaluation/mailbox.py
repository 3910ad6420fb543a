"""The mailbox of an actor, from which the driver collects requests, as no process of a cluster can call the driver."""

import pickle
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from secrets import token_hex
from typing import Any

from ragsmith.evaluation.threads import to_picklable
from ragsmith.gateway.remote import STORE

POLL_SECONDS = 1.0
"""Timeout of a collection by the driver while no request is open."""
COLLECT_SECONDS = 0.03
"""Timeout of a collection while requests are open, and the interval between collections."""

Request = tuple[str, bytes]
"""The kind of a request, and the pickled request."""


class Mailbox:
    """Requests of the threads of an actor, and the answers of the driver. Thread-safe.

    A request remains open until it is answered, and is collected again if a collection was lost on its way.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: dict[str, tuple[Request, Future[bytes]]] = {}
        self._new: list[str] = []
        self._collections = 0

    def ask(self, request: Request) -> bytes:
        """Return the answer to a request."""
        number, answer = token_hex(16), Future[bytes]()
        with self._changed:
            self._open[number] = request, answer
            self._new.append(number)
            self._changed.notify_all()
        return answer.result()

    def exchange(self, answers: Mapping[str, bytes], *, again: bool = False) -> list[tuple[str, Request]]:
        """Deliver ``answers`` and return new requests with their numbers, or all open ones if ``again``.

        An earlier call that still waits for requests returns none, as its result may be lost.
        """
        with self._changed:
            for number in answers.keys() & self._open.keys():
                self._open.pop(number)[1].set_result(answers[number])
            self._collections += 1
            collection = self._collections
            self._changed.notify_all()
            if again:
                self._new = [*self._open]
            timeout = COLLECT_SECONDS if self._open else POLL_SECONDS
            self._changed.wait_for(lambda: self._new or self._collections != collection, timeout)
            if self._collections != collection:
                return []
            taken, self._new = self._new, []
            return [(number, self._open[number][0]) for number in taken]


class Answers:
    """The answers of the driver to the requests of actors, kept until they are delivered.

    An answer is pickled by ``dumps``, with whether it is one, or the error to raise. Requests to the store are answered
    in the calling thread, and others in ``pool``.
    """

    def __init__(self, answer: Callable[[Any], Any], pool: Executor, dumps: Callable[[Any], bytes]) -> None:
        self._answer, self._pool, self._dumps = answer, pool, dumps
        self._taken: set[str] = set()
        self._undelivered: dict[int, dict[str, bytes]] = defaultdict(dict)

    def undelivered(self, actor: int) -> dict[str, bytes]:
        """Return the answers to an actor, by the number of the request."""
        return dict(self._undelivered[actor])

    def delivered(self, actor: int, answers: Mapping[str, bytes], requests: Sequence[tuple[str, Request]]) -> None:
        """Drop ``answers``, and answer the ``requests`` that the actor returned, unless they are repetitions."""
        for number in answers:
            del self._undelivered[actor][number]
        self._taken.difference_update(answers)
        for number, (kind, packed) in requests:
            if number in self._taken:
                continue
            self._taken.add(number)
            if kind == STORE:
                self._reply(actor, number, packed)
            else:
                with suppress(RuntimeError):  # the pool is closed
                    self._pool.submit(self._reply, actor, number, packed)

    def _reply(self, actor: int, number: str, packed: bytes) -> None:
        try:
            reply = self._dumps((True, self._answer(pickle.loads(packed))))
        except (Exception, SystemExit) as error:  # noqa: BLE001  raised and recorded in the actor
            reply = pickle.dumps((False, to_picklable(error)))
        self._undelivered[actor][number] = reply

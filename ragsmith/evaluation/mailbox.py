"""The mailbox for requests of actors to the driver process, as no process of a cluster can call the driver."""

from asyncio import Future, Queue, get_running_loop, wait, wait_for

PATIENCE_SECONDS = 60.0
"""Timeout of one call of the mailbox, after which the request is sent again."""
POLL_SECONDS = 1.0
"""Timeout of one poll of the mailbox."""
MAX_REQUESTS = 10_000
"""Maximum number of requests in the mailbox."""


class Mailbox:
    """Queue of requests from actors to the driver, and of its answers, as no process of a cluster can call the driver.

    A request has a random number and remains until it is answered. A repeated request is delivered again, so that a
    lost request or answer blocks no caller for ever.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._new: Queue[tuple[str, bytes]] = Queue()
        self._open: dict[str, Future[bytes]] = {}
        self._patience = patience

    async def ask(self, number: str, request: bytes) -> bytes:
        """Wait for the answer to a request; return empty bytes after the timeout, and the caller asks again."""
        answer = self._open.setdefault(number, get_running_loop().create_future())
        if not answer.done():
            self._new.put_nowait((number, request))
        await wait([answer], timeout=self._patience)
        if not answer.done():
            return b""
        self._open.pop(number, None)
        return answer.result()

    async def take(self) -> list[tuple[str, bytes]]:
        """Return new and repeated requests with their numbers; none after `POLL_SECONDS` without one."""
        try:
            taken = [await wait_for(self._new.get(), POLL_SECONDS)]
        except TimeoutError:
            return []
        while not self._new.empty():
            taken.append(self._new.get_nowait())
        return taken

    async def reply(self, number: str, answer: bytes) -> None:
        """Deliver an answer if its request is still open."""
        waiting = self._open.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

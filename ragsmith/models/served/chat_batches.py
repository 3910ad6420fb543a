"""Chat requests in batches, at half the price, for what need not be quick: the batch API of OpenAI, and of many others.

Requests that wait at the same time are collected until nobody new has come for a moment, written to a file, and sent as
a batch, which is looked after until the server has done it. What went off is remembered before the batch is begun: the
same request of a later command, or of a process that takes over, is not sent again but waits for the batch that it is
in. Each reply is judged as if it had come alone; what a batch leaves unanswered is sent with the next one.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import warnings
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from ragsmith.digest import digest
from ragsmith.errors import ModelError, ModelUnavailable, Notice, RagsmithError, StoreError
from ragsmith.models.calls import BatchedRequest, BatchMemory
from ragsmith.models.served.json_endpoint import JsonEndpoint, parsed
from ragsmith.models.served.policy import Refused, Transient, Unusable
from ragsmith.models.served.provider import Provider
from ragsmith.text.files import shown
from ragsmith.text.redaction import redacted

T = TypeVar("T")

PATH = "/v1/chat/completions"
"""Where the requests of a batch go, whatever path the server itself is at."""
QUIET_SECONDS = 0.5
"""A batch is full when nobody new has come for so long,"""
MOST_REQUESTS, MOST_BYTES = 10_000, 50_000_000
"""or when it has so many requests or bytes. OpenAI takes 50,000 and 200 MB, Azure 100 MB, others less."""
FIRST_LOOK, SLOWER, LONGEST_LOOK = 0.5, 1.5, 60.0
"""Seconds before a batch is first looked after, how much longer each time, and the longest."""
FILE_SECONDS = 600.0
"""Total time in which a file goes up or comes down."""
LARGEST_FILE = 1 << 28
AT_ONCE = 1 << 20
"""Requests that wait for batches: more than there ever are."""
LISTED = 100
"""The last batches of a server among which one is looked for that was perhaps begun."""
NOT_FOUND = "HTTP 404"
_ID = re.compile(r"[\w.:=+-]{1,512}")
"""An id goes into a path: nothing else is one."""
ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass(eq=False)
class _Line:
    """A request that waits: ``reply`` gets status and body, and the limit on tokens that it was sent with."""

    key: str
    max_tokens: int
    text: bytes
    reply: asyncio.Future[tuple[int, Any, int]]
    context: Context = field(default_factory=copy_context)


class ChatBatches:
    """Sends the chat requests of one model in batches; safe to use from many threads.

    ``memory`` is where it is kept what went off; without one, a command that ends loses it. ``provider`` is what
    requests wait in: its policy says how often they are tried, and closing it lets them go.
    """

    def __init__(self, endpoint: JsonEndpoint) -> None:
        own = endpoint.provider
        patient = replace(own.policy, in_flight=AT_ONCE, deadline=math.inf)
        files = replace(own.policy, deadline=FILE_SECONDS, largest_response=LARGEST_FILE)
        self.memory: BatchMemory | None = None
        self.provider = Provider(own.name, patient, announces=False)
        self._files = endpoint.through(Provider(own.name, files))
        self._waiting: list[_Line] = []
        self._known: set[tuple[str, str]] = set()  # key and file of what was handed out, or will never be
        self._under_way: dict[str, str] = {}  # key to batch
        self._said: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_collecting = False

    def send(
        self, body: Mapping[str, Any], identity: Sequence[Any], max_tokens: int, read: Callable[[Any, int], T]
    ) -> T:
        """What ``read`` makes of the reply to ``body`` and of the limit on tokens that the reply obeyed.

        ``identity`` begins with the id of the model, and is all that determines a reply but for that limit: a request
        of the same identity that is under way, with whatever limit, is waited for. Raises as `Provider.send`.
        """
        key = digest("batched", self._files.base_url, *identity)
        line = {"custom_id": key, "method": "POST", "url": PATH, "body": body}
        attempt = partial(self._attempt, key, max_tokens, json.dumps(line).encode(), read)
        try:
            return self.provider.send(attempt, what=identity[0], probe=partial(self._get, "/batches?limit=1"))
        except (ModelUnavailable, KeyboardInterrupt):
            self._say_that_it_goes_on(key)
            raise

    def _say_that_it_goes_on(self, key: str) -> None:
        batch = self._under_way.get(key)
        if batch is None or batch in self._said or self.memory is None:
            return
        self._said.add(batch)
        count = sum(other == batch for other in tuple(self._under_way.values()))
        warnings.warn(
            f"the batch {redacted(batch)} goes on at {self.provider.name}, with {count:,} requests that are "
            "waited for: the same command fetches its replies",
            Notice,
            stacklevel=3,
        )

    # --- on the loop's thread ----------------------------------------------------------------------------------------

    async def _attempt(self, key: str, max_tokens: int, text: bytes, read: Callable[[Any, int], T]) -> T:
        """One attempt of one request: in a batch that it went off with, or in the next one."""
        line = _Line(key, max_tokens, text, asyncio.get_running_loop().create_future())
        self._waiting.append(line)
        if not self._is_collecting:
            self._is_collecting = True
            self._start(self._collect())
        status, body, limit = await line.reply
        if status != 200:
            from ragsmith.models.served.http.transport import failure_of  # noqa: PLC0415  HTTP takes 0.4 s to import

            raise failure_of(status, {}, json.dumps(body).encode())
        try:
            return read(body, limit)
        except Transient as trouble:
            problem, usage = trouble.problem, trouble.usage
        raise Unusable(problem, usage)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _collect(self) -> None:
        while self._waiting:
            before = len(self._waiting)
            await asyncio.sleep(QUIET_SECONDS)
            lines = _fitting(self._waiting)
            if len(self._waiting) > before and len(lines) == len(self._waiting):
                continue
            taken = set(lines)
            self._waiting = [line for line in self._waiting if line not in taken and not line.reply.done()]
            self._start(self._off(lines))
        self._is_collecting = False

    async def _off(self, lines: Sequence[_Line]) -> None:
        """Wait for the batches in which some of ``lines`` are, and begin one with the others."""
        found: dict[str, BatchedRequest] = {}
        with _failing(lines):
            found = await self._remembered(lines)
        batches: dict[tuple[str, str], list[_Line]] = {}
        for line in (line for line in lines if line.key in found):
            batches.setdefault((found[line.key].file, found[line.key].batch), []).append(line)
        for (file, batch), waiting in batches.items():
            self._start(self._through(file, batch, waiting, {line.key: found[line.key].max_tokens for line in waiting}))
        new = [line for line in lines if line.key not in found and self._announced(line)]
        with _failing(new):
            if new:
                text = b"\n".join(line.text for line in new) + b"\n"
                file = await self._files.provider.sent(partial(self._uploaded, text), self._what)
                await self._through(file, "", new, {line.key: line.max_tokens for line in new}, is_new=True)

    def _announced(self, line: _Line) -> bool:
        """Whether ``line`` may be sent, and somebody still waits for it: that is the moment to reserve its cost."""
        if not line.reply.done():
            with _failing([line]):
                line.context.run(self.provider.on_attempt)
        return not line.reply.done()

    async def _through(
        self, file: str, batch: str, lines: Sequence[_Line], limits: Mapping[str, int], *, is_new: bool = False
    ) -> None:
        """See a batch through, and hand out what it says to ``lines``."""
        with _failing(lines):
            if not batch:
                if is_new:
                    await self._remember([BatchedRequest(line.key, file, "", limits[line.key]) for line in lines])
                if all(line.reply.done() for line in lines):
                    return
                batch = await self._begun(file, is_new=is_new)
                with suppress(StoreError):  # it is found among the server's batches
                    await self._remember([BatchedRequest(line.key, file, batch, limits[line.key]) for line in lines])
            self._under_way.update((line.key, batch) for line in lines)
            state = await self._ended(batch, lines)
            if state is None:
                return
            replies = await self._replies(state)
            for line in lines:
                self._under_way.pop(line.key, None)
                self._known.add((line.key, file))
            if self.memory is not None:
                self.memory.forget([line.key for line in lines])
            for line in lines:
                if line.reply.done():
                    continue
                if line.key in replies:
                    line.reply.set_result((*replies[line.key], limits[line.key]))
                else:
                    line.reply.set_exception(Transient(_unanswered(batch, state), kind="a batch leaves requests out"))

    async def _begun(self, file: str, *, is_new: bool) -> str:
        """The batch of a file, which is begun unless it was: a reply that broke off does not say."""
        doubtful = not is_new

        async def begin() -> str:
            nonlocal doubtful
            if doubtful:
                listed = (await self._get(f"/batches?limit={LISTED}")).get("data")
                for known in listed if isinstance(listed, list) else ():
                    if isinstance(known, dict) and known.get("input_file_id") == file:
                        return _id(known)
            doubtful = True
            body = {"input_file_id": file, "endpoint": PATH, "completion_window": "24h"}
            return _id(await self._request("POST", "/batches", json=body))

        return await self._files.provider.sent(begin, self._what)

    async def _ended(self, batch: str, lines: Sequence[_Line]) -> dict[str, Any] | None:
        """What the server says of a batch that has ended; None when nobody waits for it any more."""
        pause = FIRST_LOOK

        async def look() -> dict[str, Any]:
            try:
                return await self._get(f"/batches/{batch}")
            except Refused as refusal:
                if not refusal.problem.startswith(NOT_FOUND):
                    raise
            return {"status": "cancelled", "errors": {"data": [{"message": "the server does not know it"}]}}

        while True:
            await asyncio.wait([line.reply for line in lines], timeout=pause)
            if all(line.reply.done() for line in lines):
                return None
            state = await self._files.provider.sent(look, self._what)
            if str(state.get("status")).lower() in ENDED:
                return state
            pause = min(LONGEST_LOOK, pause * SLOWER)

    async def _replies(self, state: Mapping[str, Any]) -> dict[str, tuple[int, Any]]:
        """Status and body by request."""
        found: dict[str, tuple[int, Any]] = {}
        for name in ("error_file_id", "output_file_id"):
            if isinstance(file := state.get(name), str) and file:
                content = await self._files.provider.sent(partial(self._content, file), self._what)
                found |= dict(filter(None, map(_reply, content.splitlines())))
        return found

    # --- what went off -----------------------------------------------------------------------------------------------

    async def _remembered(self, lines: Sequence[_Line]) -> dict[str, BatchedRequest]:
        if self.memory is None:
            return {}
        found = await asyncio.to_thread(self.memory.find, {line.key for line in lines})
        return {key: sent for key, sent in found.items() if (key, sent.file) not in self._known}

    async def _remember(self, requests: Collection[BatchedRequest]) -> None:
        if self.memory is not None:
            await asyncio.to_thread(self.memory.keep, requests)

    # --- the server --------------------------------------------------------------------------------------------------

    @property
    def _what(self) -> str:
        return f"batches at {self.provider.name}"

    async def _uploaded(self, text: bytes) -> str:
        """The id of a new file."""
        files = {"file": ("requests.jsonl", text, "application/jsonl")}
        try:
            return _id(await self._request("POST", "/files", files=files, data={"purpose": "batch"}))
        except Refused as refusal:
            if not refusal.problem.startswith(NOT_FOUND):
                raise
        raise Refused(f"{NOT_FOUND}: the server takes no batches: leave the option batch (--batch) out")

    async def _get(self, path: str) -> dict[str, Any]:
        return await self._request("GET", path)

    async def _request(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        said = parsed(await self._sent(method, path, **content))
        if not isinstance(said, dict):
            raise Unusable("the reply is no JSON object")
        return said

    async def _content(self, file: str) -> bytes:
        return await self._sent("GET", f"/files/{file}/content")

    async def _sent(self, method: str, path: str, **content: Any) -> bytes:
        endpoint = self._files
        response = await endpoint.provider.http.request(
            method, endpoint.base_url + path, headers=endpoint.headers, **content
        )
        return bytes(response.content)


def _fitting(waiting: Sequence[_Line]) -> list[_Line]:
    """The first of those who wait, as many as go into a batch, and none twice."""
    found: dict[str, _Line] = {}
    size = 0
    for line in waiting:
        if line.reply.done() or line.key in found:
            continue
        size += len(line.text) + 1
        if found and (size > MOST_BYTES or len(found) == MOST_REQUESTS):
            break
        found[line.key] = line
    return list(found.values())


@contextmanager
def _failing(lines: Sequence[_Line]) -> Iterator[None]:
    """Have all of ``lines`` fail with what is raised in the block; trouble with a batch is not about one request."""
    try:
        yield
    except RagsmithError as error:
        shared = ModelUnavailable(f"{error}: run the same command later") if isinstance(error, ModelError) else error
        for line in lines:
            if not line.reply.done():
                line.reply.set_exception(shared)


def _id(said: Mapping[str, Any]) -> str:
    """The id of a file or a batch."""
    found = said.get("id")
    if not isinstance(found, str) or not _ID.fullmatch(found):
        raise Unusable("the reply has no id")
    return found


def _reply(line: bytes) -> tuple[str, tuple[int, Any]] | None:
    """The request, status and body of a line of results; None where there is no reply in it."""
    try:
        said = parsed(line)
    except Transient:
        return None
    if not isinstance(said, dict) or not isinstance(key := said.get("custom_id"), str):
        return None
    response, error = said.get("response"), said.get("error")
    if isinstance(response, dict) and type(status := response.get("status_code")) is int:
        return key, (status, response.get("body"))
    given_up = not isinstance(error, dict) or str(error.get("code")).startswith("batch_")
    return None if given_up else (key, (500, {"error": error}))


def _unanswered(batch: str, state: Mapping[str, Any]) -> str:
    """What is wrong with a batch that has no reply to a request."""
    errors = state.get("errors")
    data = errors.get("data") if isinstance(errors, dict) else None
    said = data[0].get("message") if isinstance(data, list) and data and isinstance(data[0], dict) else None
    why = f" ({shown(said)})" if isinstance(said, str) else ""
    return f"the batch {batch}, {state['status']}{why}, has no reply to the request"

"""Chat requests in batches, at half the price, for what need not be quick: the batch API of OpenAI, and of many others.

Requests that wait at the same time are collected until nobody new has come for a moment, written to a file, and sent as
a batch, which is looked after until the server has done it. What went off is remembered before the batch is begun: the
same request of a later command, or of a process that takes over, is not sent again but waits for the batch that it is
in, of which good replies are taken. Each reply is judged as if it had come alone; what a batch leaves unanswered as its
time is up is sent with the next one. A batch that a server refuses as too large is sent in smaller ones.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from ragsmith.digest import digest
from ragsmith.errors import ModelError, ModelUnavailable, Notice, RagsmithError, StoreError
from ragsmith.models.calls import BatchedRequest, BatchMemory
from ragsmith.models.served.json_endpoint import JsonEndpoint, parsed
from ragsmith.models.served.policy import AttemptFailed, Refused, Rejected, Transient, Unusable
from ragsmith.models.served.provider import Provider
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
OUTAGE_SECONDS = 1800.0
"""How long a server that has a batch may be out of reach: it works on, and there is nothing to do but to wait."""
FILE_SECONDS = 600.0
"""Total time in which a file goes up or comes down."""
LARGEST_FILE = 1 << 28
AT_ONCE = 1 << 20
"""Requests that wait for batches: more than there ever are."""
LISTED, PAGES = 100, 20
"""The last batches of a server, in so many lists, among which one is looked for that was perhaps begun."""
LONGEST_QUOTE = 200
"""Characters of what a server says of a batch that go into a message."""
_ID = re.compile(r"[\w.:=+-]{1,512}")
"""An id goes into a path: nothing else is one."""
ENDED = ("completed", "failed", "expired", "cancelled")
_NO_SUCH_PATH = re.compile(r"HTTP 40[45]\b")
_GONE = re.compile(r"HTTP (?:400|404|410|413|422)\b")
"""What servers say of a batch or a file that they do not have any more, or never took."""
_TOO_MUCH = re.compile(r"HTTP 413\b|limit|quota|maximum|exceed|too (?:large|many|big|long)", re.IGNORECASE)
"""What servers say to a batch that is too large by itself, or with the others that wait there."""


@dataclass(eq=False)
class _Line:
    """A request that waits: ``reply`` gets status and body, and the limit on tokens that it was sent with."""

    key: str
    max_tokens: int
    text: bytes
    reply: asyncio.Future[tuple[int, Any, int]]
    context: Context = field(default_factory=copy_context)
    is_announced: bool = False


class ChatBatches:
    """Sends the chat requests of one model in batches; safe to use from many threads.

    ``memory`` is where it is kept what went off; without one, a command that ends loses it. ``on_left`` is called, in
    the thread that asked, for a request that nobody waits for any more: either it was in no batch, or it is counted
    when a later command fetches its reply.
    ``provider`` is what requests wait in: its policy says how often they are tried, and closing it lets them go.
    ``quiet`` and ``first_look`` are in seconds.
    """

    def __init__(self, endpoint: JsonEndpoint, *, quiet: float = QUIET_SECONDS, first_look: float = FIRST_LOOK) -> None:
        self._quiet, self._first_look = quiet, first_look
        own = endpoint.provider
        patient = replace(own.policy, in_flight=AT_ONCE, deadline=math.inf)
        files = replace(own.policy, deadline=FILE_SECONDS, largest_response=LARGEST_FILE)
        self.memory: BatchMemory | None = None
        self.on_left: Callable[[], None] = _nothing
        self.provider = Provider(own.name, patient, announces=False)
        self._files = endpoint.through(Provider(own.name, files))
        self._waiting: list[_Line] = []
        self._known: set[tuple[str, str]] = set()  # key and file of what was handed out, or will never be
        self._under_way: dict[str, str] = {}  # key to batch
        self._said: set[str] = set()
        self._tasks: dict[asyncio.Task[None], Sequence[_Line]] = {}
        self._is_collecting = False
        self._most = MOST_REQUESTS
        self._one_by_one = False

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
            return self.provider.send(
                attempt, what=identity[0], probe=partial(self._request, "GET", "/batches?limit=1")
            )
        except (ModelUnavailable, KeyboardInterrupt):
            if self.memory is not None:
                self.on_left()
                self._say_that_it_goes_on(self._under_way.get(key))
            raise

    def _say_that_it_goes_on(self, batch: str | None) -> None:
        if batch is None or batch in self._said:
            return
        self._said.add(batch)
        count = sum(other == batch for other in tuple(self._under_way.values()))
        warnings.warn(
            f"the batch {redacted(batch)} goes on at {self.provider.name}, with {count:,} requests that are "
            "waited for: the same command fetches its replies",
            Notice,
            stacklevel=3,
        )

    # --- on the loop's thread: from requests to batches --------------------------------------------------------------

    async def _attempt(self, key: str, max_tokens: int, text: bytes, read: Callable[[Any, int], T]) -> T:
        """One attempt of one request: in a batch that it went off with, or in the next one."""
        line = _Line(key, max_tokens, text, asyncio.get_running_loop().create_future())
        self._wait([line])
        status, body, limit = await line.reply
        if status != 200:
            from ragsmith.models.served.http.transport import failure_of  # noqa: PLC0415  HTTP takes 0.4 s to import

            raise failure_of(status, {}, json.dumps(body).encode())
        try:
            return read(body, limit)
        except Transient as trouble:
            problem, usage = trouble.problem, trouble.usage
        raise Unusable(problem, usage)

    def _wait(self, lines: Sequence[_Line]) -> None:
        """Have ``lines`` go off with the next batch."""
        self._waiting += lines
        if not self._is_collecting:
            self._is_collecting = True
            self._start(self._collect(), ())

    def _start(self, work: Coroutine[Any, Any, None], lines: Sequence[_Line]) -> None:
        """Begin ``work``; what it raises, ``lines`` fail with: trouble with a batch is not about one request."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = lines
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        lines = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        shared = ModelUnavailable(f"{error}: run the same command later") if isinstance(error, ModelError) else error
        for line in lines:
            if not line.reply.done():
                line.reply.set_exception(shared)

    @property
    def _busy(self) -> int:
        """How many tasks see to requests."""
        return sum(map(bool, self._tasks.values()))

    async def _collect(self) -> None:
        while self._waiting:
            before = len(self._waiting)
            await asyncio.sleep(self._quiet)
            self._waiting = [line for line in self._waiting if not line.reply.done()]
            lines = self._fitting()
            is_growing = len(self._waiting) > before and len(lines) == len(self._waiting)
            if not lines or is_growing or (self._one_by_one and self._busy):
                continue
            taken = set(lines)
            self._waiting = [line for line in self._waiting if line not in taken]
            self._start(self._off(lines), lines)
        self._is_collecting = False

    def _fitting(self) -> list[_Line]:
        """The first of those who wait, as many as go into a batch, and none twice."""
        found: dict[str, _Line] = {}
        size = 0
        for line in self._waiting:
            if line.key in found:
                continue
            size += len(line.text) + 1
            if found and (size > MOST_BYTES or len(found) == self._most):
                break
            found[line.key] = line
        return list(found.values())

    async def _off(self, lines: Sequence[_Line]) -> None:
        """Wait for the batches in which some of ``lines`` are, and send the others in a new one."""
        found = await self._remembered(lines)
        batches: dict[tuple[str, str], list[_Line]] = {}
        for line in (line for line in lines if line.key in found):
            batches.setdefault((found[line.key].file, found[line.key].batch), []).append(line)
        for (file, batch), waiting in batches.items():
            limits = {line.key: found[line.key].max_tokens for line in waiting}
            self._start(self._fetched(file, batch, waiting, limits), waiting)
        if new := [line for line in lines if line.key not in found and self._announced(line)]:
            self._start(self._sent_off(new), new)

    def _announced(self, line: _Line) -> bool:
        """Whether ``line`` may be sent, and somebody still waits for it: that is the moment to reserve its cost."""
        if not line.reply.done() and not line.is_announced:
            try:
                line.context.run(self.provider.on_attempt)
                line.is_announced = True
            except RagsmithError as error:
                line.reply.set_exception(error)
        return not line.reply.done()

    # --- a batch -----------------------------------------------------------------------------------------------------

    async def _sent_off(self, lines: Sequence[_Line]) -> None:
        """Send ``lines`` in a new batch, and hand out what it says."""
        limits = {line.key: line.max_tokens for line in lines}
        text = b"\n".join(line.text for line in lines) + b"\n"
        file = ""
        try:
            file = await self._asked(partial(self._uploaded, text)) or ""
            await self._remember(file, "", limits)
            if all(line.reply.done() for line in lines):
                return
            batch = await self._begun(file, limits) or ""
        except ModelError as error:
            if not error.hopeless or not self._may_fit(len(lines), str(error)):
                raise
            self._forget(lines, file)
            self._wait(lines)
            return
        state = await self._ended(batch, lines)
        if state is None:
            return
        replies = await self._replies(state)
        status, why = str(state["status"]).lower(), _why(state)
        problem = f"the batch {batch}, {status}{f' ({why})' if why else ''}, has no reply to"
        if status == "completed" and replies.keys().isdisjoint(limits):
            raise ModelUnavailable(f"{self._what}: {problem} any of its requests")  # it stays known, and is asked again
        self._forget(lines, file)
        left = self._handed_out(lines, replies, limits)
        if left and status in ("failed", "cancelled"):
            if status == "cancelled" or not self._may_fit(len(lines), why):
                raise ModelUnavailable(f"{self._what}: {problem} {len(left):,} requests: run the same command later")
            self._wait(left)
            return
        for line in left:
            said = f"{problem} the request"
            kind = "a batch leaves requests out"
            line.reply.set_exception(Unusable(said) if status == "completed" else Transient(said, kind=kind))

    async def _fetched(self, file: str, batch: str, lines: Sequence[_Line], limits: Mapping[str, int]) -> None:
        """Hand out what is good in a batch of an earlier command, which may know less of the server; send the rest."""
        batch = batch or await self._begun(file, limits, is_old=True) or ""
        state = await self._ended(batch, lines, is_old=True) if batch else {}
        if state is None:
            return
        replies = await self._replies(state, is_old=True)
        self._forget(lines, file)
        good = {key: reply for key, reply in replies.items() if reply[0] == 200}
        self._wait(self._handed_out(lines, good, limits))

    def _may_fit(self, n: int, problem: str) -> bool:
        """Whether a batch of ``n`` requests that was refused may be taken alone, or in halves, which is then tried."""
        has_others = self._busy > 1
        if not _TOO_MUCH.search(problem) or (n == 1 and not has_others):
            return False
        if not self._one_by_one:
            self._one_by_one = True
            said = (
                f"{n:,} requests are too many at once ({problem}): they go off in smaller batches, one after the other"
            )
            warnings.warn(f"{said}.", Notice, stacklevel=2)
        if not has_others:
            self._most = min(self._most, n // 2)
        return True

    def _handed_out(
        self, lines: Sequence[_Line], replies: Mapping[str, tuple[int, Any]], limits: Mapping[str, int]
    ) -> list[_Line]:
        """Those of ``lines`` that are still waited for when all replies are handed out."""
        for line in lines:
            if line.key in replies and not line.reply.done():
                line.reply.set_result((*replies[line.key], limits[line.key]))
        return [line for line in lines if not line.reply.done()]

    async def _begun(self, file: str, limits: Mapping[str, int], *, is_old: bool = False) -> str | None:
        """The batch of a file, which is begun unless it was: a reply that broke off does not say. See `_asked`."""
        doubtful = is_old

        async def begin() -> str:
            nonlocal doubtful
            if doubtful and (known := await self._listed(file)):
                return known
            doubtful = True
            body = {"input_file_id": file, "endpoint": PATH, "completion_window": "24h"}
            return _id(await self._posted("/batches", json=body))

        batch = await self._asked(begin, is_old=is_old)
        if batch:
            with suppress(StoreError):  # it is found among the server's batches
                await self._remember(file, batch, limits)
        return batch

    async def _listed(self, file: str) -> str:
        """The batch of a file among the last of the server's, or ""."""
        after = ""
        for _ in range(PAGES):
            page = await self._request("GET", f"/batches?limit={LISTED}{after}")
            data = page.get("data")
            listed = [batch for batch in data if isinstance(batch, dict)] if isinstance(data, list) else []
            for batch in listed:
                if batch.get("input_file_id") == file:
                    return _id(batch)
            if not listed or page.get("has_more") is not True:
                break
            after = f"&after={_id(listed[-1])}"
        return ""

    async def _ended(self, batch: str, lines: Sequence[_Line], *, is_old: bool = False) -> dict[str, Any] | None:
        """What the server says of a batch that has ended; None when nobody waits for it any more.

        Of one that an earlier command began (``is_old``) nothing, if the server does not have it any more.
        """
        pause, answered = self._first_look, -math.inf if is_old else time.monotonic()

        async def look() -> dict[str, Any]:
            nonlocal answered
            try:
                state = await self._request("GET", f"/batches/{batch}")
            except AttemptFailed as trouble:  # one that was just begun may not be found at once
                may_pass = isinstance(trouble, Transient) or _GONE.match(trouble.problem)
                if not may_pass or time.monotonic() - answered > OUTAGE_SECONDS:
                    raise
                return {}
            answered = time.monotonic()
            return state

        self._under_way.update((line.key, batch) for line in lines)
        while True:
            await asyncio.wait([line.reply for line in lines], timeout=pause)
            if all(line.reply.done() for line in lines):
                return None
            state = await self._asked(look, is_old=is_old)
            if state is None or str(state.get("status")).lower() in ENDED:
                break
            pause = min(LONGEST_LOOK, pause * SLOWER)
        for line in lines:
            self._under_way.pop(line.key, None)
        return state or {}

    async def _replies(self, state: Mapping[str, Any], *, is_old: bool = False) -> dict[str, tuple[int, Any]]:
        """Status and body by request."""
        found: dict[str, tuple[int, Any]] = {}
        for name in ("error_file_id", "output_file_id"):
            if isinstance(file := state.get(name), str) and _ID.fullmatch(file):
                content = await self._asked(partial(self._sent, "GET", f"/files/{file}/content"), is_old=is_old)
                found |= dict(filter(None, map(_reply, (content or b"").splitlines())))
        return found

    # --- what went off -----------------------------------------------------------------------------------------------

    async def _remembered(self, lines: Sequence[_Line]) -> dict[str, BatchedRequest]:
        if self.memory is None:
            return {}
        found = await asyncio.to_thread(self.memory.find, {line.key for line in lines})
        return {key: sent for key, sent in found.items() if (key, sent.file) not in self._known}

    async def _remember(self, file: str, batch: str, limits: Mapping[str, int]) -> None:
        if self.memory is not None:
            requests = [BatchedRequest(key, file, batch, limit) for key, limit in limits.items()]
            await asyncio.to_thread(self.memory.keep, requests)

    def _forget(self, lines: Sequence[_Line], file: str) -> None:
        """Have nobody wait for what ``lines`` are told by the batch of a file."""
        self._known.update((line.key, file) for line in lines)
        if self.memory is not None:
            self.memory.forget([line.key for line in lines])

    # --- the server --------------------------------------------------------------------------------------------------

    @property
    def _what(self) -> str:
        return f"batches at {self.provider.name}"

    async def _asked(self, attempt: Callable[[], Awaitable[T]], *, is_old: bool = False) -> T | None:
        """What ``attempt`` gives; None where the server does not have any more what an earlier command left there."""

        async def ask() -> T | None:
            try:
                return await attempt()
            except (Refused, Rejected) as refusal:
                if not is_old or not _GONE.match(refusal.problem):
                    raise
            return None

        return await self._files.provider.sent(ask, self._what)

    async def _uploaded(self, text: bytes) -> str:
        """The id of a new file."""
        files = {"file": ("requests.jsonl", text, "application/jsonl")}
        return _id(await self._posted("/files", files=files, data={"purpose": "batch"}))

    async def _posted(self, path: str, **content: Any) -> dict[str, Any]:
        try:
            return await self._request("POST", path, **content)
        except (Refused, Rejected) as refusal:
            found = _NO_SUCH_PATH.match(refusal.problem)
            if not found:
                raise
        raise Refused(f"{found[0]}: the server takes no batches: leave the option batch (--batch) out")

    async def _request(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        said = parsed(await self._sent(method, path, **content))
        if not isinstance(said, dict):
            raise Unusable("the reply is no JSON object")
        return said

    async def _sent(self, method: str, path: str, **content: Any) -> bytes:
        endpoint = self._files
        response = await endpoint.provider.http.request(
            method, endpoint.base_url + path, headers=endpoint.headers, **content
        )
        return bytes(response.content)


def _nothing() -> None:
    return


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


def _why(state: Mapping[str, Any]) -> str:
    """What the server says is wrong with a batch; "" where it says nothing."""
    errors = state.get("errors")
    data = errors.get("data") if isinstance(errors, dict) else None
    first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
    said = " ".join(str(first[name]) for name in ("message", "code") if first.get(name))
    return redacted(" ".join(said.split()))[:LONGEST_QUOTE]

"""Ask another system the questions of a data set: an HTTP endpoint, or a Python function.

An endpoint takes ``{"question": ...}`` and replies with a row (`ragsmith.systems.answers`); one whose address ends with
``/v1`` or ``/chat/completions`` is asked as an OpenAI-compatible chat model, whose reply may have ``contexts``, or
``citations`` as those of `ragsmith serve`.
"""

import os
import re
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import islice
from pathlib import Path
from time import perf_counter
from traceback import extract_tb
from typing import Any, cast

import httpx2

from ragsmith.digest import digest
from ragsmith.errors import ModelError, ModelUnavailable, UsageError
from ragsmith.grouping import group_values
from ragsmith.systems.answers import GivenAnswer, SystemFunction, match_rows, parse_answer, read_rows
from ragsmith.text.files import TextError, shorten
from ragsmith.text.jsonl import json_lines, parse_record
from ragsmith.text.redaction import redacted
from ragsmith.text.writing import make_folder, replace_file
from ragsmith.types import Dataset

TOKEN_VARIABLE = "RAGSMITH_SYSTEM_TOKEN"
"""The environment variable with the bearer token of an endpoint."""
REPLY_SECONDS = 300.0
"""Seconds that an endpoint has for a reply."""
MAX_FAILURES = 3
"""Failures in a row after which a system counts as down: without any reply, or if it has answered nothing yet."""
CHAT_PATH = "/chat/completions"
ADVICE: Mapping[int, str] = {
    **dict.fromkeys((401, 403), f" (a token is read from {TOKEN_VARIABLE})"),
    **dict.fromkeys((301, 302, 303, 307, 308), " (give the address that it redirects to)"),
}
"""What to do about a status, in brackets."""
_appending = threading.Lock()


class NoReply(ModelError):
    """An endpoint did not reply at all."""


class Endpoint:
    """The system behind an HTTP address; thread-safe.

    Raises:
        UsageError: the address is none, or the token cannot be sent.
    """

    def __init__(self, url: str) -> None:
        try:
            self._url = httpx2.URL(url)
            token = os.environ.get(TOKEN_VARIABLE, "")
            headers = httpx2.Headers({"authorization": f"Bearer {token}"} if token else {})
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise UsageError(
                f"{url!r} or {TOKEN_VARIABLE} cannot be used: {redacted(str(error))}; correct it"
            ) from None
        if not self._url.host or not token.isprintable():
            raise UsageError(f"{url!r} has no host, or {TOKEN_VARIABLE} a line break: correct it")
        path = self._url.path.rstrip("/")
        self._chat = path.removesuffix(CHAT_PATH) if path.endswith(("/v1", CHAT_PATH)) else None
        self._client = httpx2.Client(timeout=httpx2.Timeout(REPLY_SECONDS, connect=10.0), headers=headers)
        self._lock = threading.Lock()
        self._model = ""

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def __call__(self, question: str) -> Mapping[str, object]:
        """Return the reply to ``question`` as a row.

        Raises:
            NoReply: there is no connection, or no reply in time.
            ModelError: the reply has another status than 200, or is not of the form of a row or of a chat model.
        """
        if self._chat is None:
            return self._send("POST", self._url, {"question": question})
        with self._lock:
            self._model = self._model or self._first_model(self._chat)
        body = {"model": self._model, "messages": [{"role": "user", "content": question}]}
        reply = self._send("POST", self._url.copy_with(path=self._chat + CHAT_PATH), body)
        try:
            message = cast(Any, reply)["choices"][0]["message"]
            answer = message["content"]
        except (KeyError, IndexError, TypeError):
            raise ModelError(f"the reply has no choices with a message: {shorten(str(reply))}") from None
        sources = (holder.get(name) for name in ("contexts", "citations") for holder in (reply, message))
        return {"answer": answer, "contexts": next((one for one in sources if one is not None), [])}

    def _first_model(self, base: str) -> str:
        listed = self._send("GET", self._url.copy_with(path=f"{base}/models"), None).get("data")
        first = listed[0] if isinstance(listed, list) and listed else None
        if not isinstance(first, dict) or not isinstance(first.get("id"), str):
            raise ModelError(f"{base}/models names no model: give the address of a server that lists its model")
        return str(first["id"])

    def _send(self, method: str, url: httpx2.URL, body: Mapping[str, Any] | None) -> Mapping[str, object]:
        try:
            response = self._client.request(method, url, json=body)
        except httpx2.HTTPError as error:
            raise NoReply(f"no reply: {redacted(f'{type(error).__name__}: {error}')}") from error
        if response.status_code != httpx2.codes.OK:
            what = ADVICE.get(response.status_code, "")
            to = response.headers.get("location", "")
            raise ModelError(
                f"HTTP {response.status_code}{what}{to and f' to {to}'}: {redacted(shorten(response.text))}"
            )
        try:
            return parse_record(response.text)
        except TextError as error:
            raise ModelError(f"the reply cannot be read: {error.reason}") from None


def collect_answers(
    ask: SystemFunction, dataset: Dataset, *, name: str, keep: Path | None = None, workers: int = 1
) -> dict[str, GivenAnswer]:
    """Return the answers of a system, called ``name`` in messages, to all questions of a data set, by their id.

    Each answer is appended to the file ``keep`` as soon as it arrives, and those that are in it already are not asked
    for again; failures are. Questions with the same text are asked once. An exception of the system is the failure of
    the question.

    Raises:
        ModelUnavailable: the system is down, see `MAX_FAILURES`.
        UsageError: the file cannot be used.
    """
    found = read_kept(keep, dataset)
    if keep is not None:
        make_folder(keep.parent)
    asked = group_values((example.question, example.id) for example in dataset.examples if example.id not in found)
    failures = silent = 0
    pool = ThreadPoolExecutor(max(1, workers), thread_name_prefix="ragsmith-system")
    waiting = iter(asked.items())
    pending: dict[Future[tuple[GivenAnswer, bool]], list[str]] = {}
    try:
        while True:  # no more are asked than are known to be worth it
            for question, ids in islice(waiting, max(1, workers) - len(pending)):
                pending[pool.submit(ask_one, ask, question, keep)] = ids
            if not pending:
                break
            future = next(as_completed(pending))
            given, had_reply = future.result()
            found |= dict.fromkeys(pending.pop(future), given)
            failures, silent = (failures + 1, 0 if had_reply else silent + 1) if given.error else (0, 0)
            answered = sum(not one.error for one in found.values())
            if silent >= MAX_FAILURES or (failures >= min(MAX_FAILURES, len(asked)) and not answered):
                kept = (
                    f", kept in {keep}: the same command asks for the others" if keep is not None and answered else ""
                )
                counted = f"it answered {answered:,} of {len(dataset.examples):,} questions{kept}"
                raise ModelUnavailable(f"{name} does not answer: {given.error}; {counted}")
    finally:
        pool.shutdown(wait=True, cancel_futures=True)  # answers in flight may have been paid for
    return found


def ask_one(ask: SystemFunction, question: str, keep: Path | None) -> tuple[GivenAnswer, bool]:
    """Return an answer, which is appended to ``keep``, and whether the system replied."""
    began = perf_counter()
    try:
        given = parse_answer(as_row(ask(question)))
    except TextError as error:
        return GivenAnswer("", error=error.reason), True
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  other people's code: the question fails
        place = "" if isinstance(error, ModelError) else _last_line(error)
        why = " ".join(f"{type(error).__name__}: {error}{place}".split())
        return GivenAnswer("", error=redacted(why)), not isinstance(error, NoReply)
    given = given if given.seconds is not None else replace(given, seconds=perf_counter() - began)
    if keep is not None and not given.error:
        with _appending, keep.open("ab") as file:  # one write, so that two commands do not mix their lines
            file.write(json_lines([given.to_row(question)]).encode())
    return given, True


def _last_line(error: BaseException) -> str:
    """Return the place in a program where ``error`` was raised."""
    frames = extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def as_row(value: object) -> Mapping[str, object]:
    """Return what a function returned as a row: an answer alone, a pair of answer and contexts, or a row."""
    if isinstance(value, Mapping):
        return value
    answer, contexts = value if isinstance(value, tuple) and len(value) == 2 else (value, [])
    several = isinstance(contexts, Iterable) and not isinstance(contexts, str | Mapping)
    return {"answer": answer, "contexts": list(contexts) if several else contexts}


def read_kept(keep: Path | None, dataset: Dataset) -> dict[str, GivenAnswer]:
    """Return the kept answers to questions of ``dataset``, the first of each; an incomplete last line is removed."""
    if keep is None or not keep.exists():
        return {}
    data = keep.read_bytes()
    if not data.endswith(b"\n"):
        replace_file(data[: data.rfind(b"\n") + 1], keep)
    asked = {example.question for example in dataset.examples}
    rows = {row[1]["question"]: row for row in reversed(read_rows(keep)) if row[1].get("question") in asked}
    return match_rows(rows.values(), dataset)


def file_name(source: str, dataset: Dataset, version: str) -> str:
    """Return the name of the file with the answers of ``source``: its last word, the data set, and a digest of all."""
    words = re.findall(r"[\w.]+", re.split(r"[?(]", source)[0].rpartition("@")[2])
    return f"{'-'.join(words[-2:])[-80:]}-{dataset.name}-{digest(source, dataset.digest, version)[:8]}.jsonl"

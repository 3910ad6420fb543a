"""Ask another system the questions of a data set: an HTTP endpoint, or a Python function.

An endpoint takes ``{"question": ...}`` and replies with a row (`ragsmith.systems.answers`); one whose address ends with
``/v1`` or ``/chat/completions`` is asked as an OpenAI-compatible chat model, whose reply may have ``contexts``, or
``citations`` as those of `ragsmith serve`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import httpx2

from ragsmith.errors import ModelError, ModelUnavailable, UsageError
from ragsmith.systems.answers import GivenAnswer, match_rows, parse_answer, read_rows
from ragsmith.text.files import TextError, shorten
from ragsmith.text.jsonl import json_lines, parse_record
from ragsmith.text.redaction import redacted
from ragsmith.text.writing import make_folder
from ragsmith.types import Dataset, Example

SystemFunction = Callable[[str], object]
"""A system in Python: maps the text of a question to its answer, to the pair of answer and contexts, or to a row."""

TOKEN_VARIABLE = "RAGSMITH_SYSTEM_TOKEN"
"""The environment variable with the bearer token of an endpoint."""
REPLY_SECONDS = 300.0
"""Seconds that an endpoint has for a reply."""
MAX_FAILURES = 3
"""Requests without any reply after which an endpoint counts as down."""
CHAT_PATH = "/chat/completions"
_appending = threading.Lock()


class NoReply(ModelError):
    """An endpoint did not reply at all."""


class Endpoint:
    """The system behind an HTTP address; thread-safe."""

    def __init__(self, url: str) -> None:
        self.url = url
        path = httpx2.URL(url).path.rstrip("/")
        self._base = url.rstrip("/").removesuffix(CHAT_PATH) if path.endswith(("/v1", CHAT_PATH)) else ""
        token = os.environ.get(TOKEN_VARIABLE, "")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._client = httpx2.Client(timeout=httpx2.Timeout(REPLY_SECONDS, connect=10.0), headers=headers)
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
        if not self._base:
            return self._send("POST", self.url, {"question": question})
        self._model = self._model or self._first_model()
        messages = [{"role": "user", "content": question}]
        reply = self._send("POST", self._base + CHAT_PATH, {"model": self._model, "messages": messages})
        try:
            message = cast(Any, reply)["choices"][0]["message"]
            answer = message["content"]
        except (KeyError, IndexError, TypeError):
            raise ModelError(f"the reply of {self.url} has no choices with a message: {shorten(str(reply))}") from None
        sources = (holder.get(name) for name in ("contexts", "citations") for holder in (reply, message))
        return {"answer": answer, "contexts": next((one for one in sources if one is not None), [])}

    def _first_model(self) -> str:
        listed = self._send("GET", self._base + "/models", None).get("data")
        first = listed[0] if isinstance(listed, list) and listed else None
        if not isinstance(first, dict) or not isinstance(first.get("id"), str):
            raise UsageError(f"{self._base}/models names no model: give the address of a server that lists its model")
        return str(first["id"])

    def _send(self, method: str, url: str, body: Mapping[str, Any] | None) -> Mapping[str, object]:
        try:
            response = self._client.request(method, url, json=body)
        except httpx2.HTTPError as error:
            raise NoReply(f"{url} did not reply: {redacted(f'{type(error).__name__}: {error}')}") from error
        if response.status_code != httpx2.codes.OK:
            raise ModelError(f"{url} replied HTTP {response.status_code}: {redacted(shorten(response.text))}")
        try:
            return parse_record(response.text)
        except TextError as error:
            raise ModelError(f"the reply of {url} cannot be read: {error.reason}") from None


def collect_answers(
    ask: SystemFunction, dataset: Dataset, *, name: str, keep: Path | None = None, workers: int = 1
) -> dict[str, GivenAnswer]:
    """Return the answers of a system, called ``name`` in messages, to all questions of a data set, by their id.

    Each answer is appended to the file ``keep`` as soon as it arrives, and those that are in it already are not asked
    for again; failures are. An exception of the system is the failure of the question, unless none was answered.

    Raises:
        ModelUnavailable: `MAX_FAILURES` requests in a row had no reply, or every question failed.
        UsageError: the file cannot be used.
    """
    known = _read_kept(keep, dataset)
    missing = [example for example in dataset.examples if example.id not in known]
    if keep is not None:
        make_folder(keep.parent)
    silent, found = 0, dict(known)
    pool = ThreadPoolExecutor(max(1, workers), thread_name_prefix="ragsmith-system")
    try:
        pending = {pool.submit(_ask_one, ask, example, keep): example for example in missing}
        for future in as_completed(pending):
            given, had_reply = future.result()
            found[pending[future].id] = given
            silent = 0 if had_reply else silent + 1
            if silent >= MAX_FAILURES:
                raise ModelUnavailable(f"{name} is down: {given.error}; {_describe_kept(found, dataset, keep)}")
    finally:
        pool.shutdown(wait=True, cancel_futures=True)  # answers in flight may have been paid for
    if missing and all(found[example.id].error for example in missing):
        raise ModelUnavailable(
            f"{name} failed on every question: {found[missing[0].id].error}; {_describe_kept(found, dataset, keep)}"
        )
    return found


def _ask_one(ask: SystemFunction, example: Example, keep: Path | None) -> tuple[GivenAnswer, bool]:
    """Return an answer, which is appended to ``keep``, and whether the system replied."""
    began = perf_counter()
    try:
        given = parse_answer(as_row(ask(example.question)))
    except TextError as error:
        return GivenAnswer("", error=error.reason), True
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001  a system is other people's code: its failure is that of the question
        return GivenAnswer("", error=redacted(f"{type(error).__name__}: {error}")), not isinstance(error, NoReply)
    given = given if given.seconds is not None else replace(given, seconds=perf_counter() - began)
    if keep is not None and not given.error:
        with _appending, keep.open("a", encoding="utf-8") as file:
            file.write(json_lines([given.to_row(example.question)]))
    return given, True


def as_row(value: object) -> Mapping[str, object]:
    """Return what a function returned as a row: an answer alone, a pair of answer and contexts, or a row."""
    if isinstance(value, Mapping):
        return value
    answer, contexts = value if isinstance(value, tuple) and len(value) == 2 else (value, [])
    return {"answer": answer, "contexts": list(contexts) if isinstance(contexts, Sequence) else contexts}


def _read_kept(keep: Path | None, dataset: Dataset) -> dict[str, GivenAnswer]:
    """Return the kept answers to questions of ``dataset``; those to other questions are ignored."""
    if keep is None or not keep.exists():
        return {}
    asked = {example.question for example in dataset.examples}
    return match_rows([row for row in read_rows(keep) if row[1].get("question") in asked], dataset)


def _describe_kept(found: Mapping[str, GivenAnswer], dataset: Dataset, keep: Path | None) -> str:
    n = sum(not one.error for one in found.values())
    kept = f", kept in {keep}: the same command asks for the others" if keep is not None else ""
    return f"it answered {n:,} of {len(dataset.examples):,} questions{kept}"


def file_name(*parts: str) -> str:
    """Return the name of a file of rows, made of the words of ``parts``: a system, a data set, and so on."""
    return "-".join(re.findall(r"[\w.]+", " ".join(parts))) + ".jsonl"

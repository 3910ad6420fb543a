"""An endpoint that takes and gives JSON, asked through a provider: one policy for all that it is asked."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from ragsmith.models.served.policy import Policy, TransientFailure, UnusableReply
from ragsmith.models.served.provider import Provider
from ragsmith.text.redaction import remember_secret

T = TypeVar("T")
Post: TypeAlias = Callable[[dict[str, Any]], Awaitable[bytes]]
"""Sends the body of a request once, and returns that of a successful response; raises `AttemptFailed` otherwise."""

WORD = "ready"
SMALL: dict[str, Any] = {
    "messages": [{"role": "user", "content": f"Reply with the word {WORD}."}],
    "max_tokens": 16,
    "max_completion_tokens": 16,
    "input": [WORD],
    "query": WORD,
    "documents": [WORD],
    "texts": [WORD],
    "top_n": 1,
}
"""The fields of a request that only asks whether a server answers at all: it costs a few tokens."""


class JsonEndpoint:
    """A base URL with its ``key``, if any, as bearer, asked through ``provider`` or one of its own."""

    def __init__(
        self,
        base_url: str,
        *,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        provider: Provider | None = None,
        policy: Policy | None = None,
    ) -> None:
        remember_secret(key)
        self.base_url = base_url.rstrip("/")
        self.headers = {**(headers or {}), **({"authorization": f"Bearer {key}"} if key else {})}
        self.provider = provider or Provider(self.base_url, policy)

    def send(
        self,
        where: str | Post,
        bodies: Sequence[dict[str, Any]],
        read: Callable[[dict[str, Any], Any, float], T],
        *,
        what: str,
    ) -> list[T]:
        """What ``read`` makes of each request, its reply and the seconds it took; see `Provider.send_all`.

        ``read`` raises `TransientFailure` or `Rejected` for a reply that cannot be used. ``where`` is a path below the
        base URL, a whole URL, or the call of a package that sends a body.
        """
        post = partial(self._post, where) if isinstance(where, str) else where
        attempts = [partial(_attempt, post, body, read) for body in bodies]
        return self.provider.send_all(attempts, what=what, probe=partial(_probe, post, bodies[0] if bodies else {}))

    async def _post(self, where: str, body: dict[str, Any]) -> bytes:
        url = where if where.startswith(("http://", "https://")) else self.base_url + where
        response = await self.provider.http.post(url, json=body, headers=self.headers)
        return bytes(response.content)


async def _attempt(post: Post, body: dict[str, Any], read: Callable[[dict[str, Any], Any, float], T]) -> T:
    started = time.perf_counter()
    reply = await post(body)
    try:
        return read(body, parsed(reply), time.perf_counter() - started)
    except TransientFailure as trouble:
        problem, usage = trouble.problem, trouble.usage
    raise UnusableReply(problem, usage)


async def _probe(post: Post, body: dict[str, Any]) -> None:
    """Ask for next to nothing in the way in which ``body`` asks; what is replied does not matter."""
    await post({name: SMALL.get(name, value) for name, value in body.items()})


class EndpointModel:
    """What all models behind an endpoint share."""

    def __init__(self, model: str, endpoint: JsonEndpoint) -> None:
        self._model = model
        self._endpoint = endpoint

    @property
    def provider(self) -> Provider:
        """What sends the requests."""
        return self._endpoint.provider


def batches(texts: Sequence[str], most: int, characters: float = math.inf) -> list[Sequence[str]]:
    """Cut ``texts`` into runs of at most ``most`` texts and ``characters`` in sum; a longer text goes alone."""
    found, start, size = [], 0, 0
    for i, text in enumerate(texts):
        if i > start and (i - start == most or size + len(text) > characters):
            found.append(texts[start:i])
            start, size = i, 0
        size += len(text)
    return [*found, texts[start:]] if texts else []


def by_index(rows: Any, name: str, n: int, what: str) -> list[Any]:
    """The values called ``name`` of a list of objects, in the order of the texts that each names by ``index``.

    Raises `TransientFailure`: a text of the ``n`` is missing, named twice or unknown; ``what`` says what the values
    are.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TransientFailure(f"the reply has no {what}")
    if len(rows) != n:
        raise TransientFailure(f"the reply has {len(rows)} {what} for {n} texts")
    found = {row.get("index"): row.get(name) for row in rows if type(row.get("index")) is int}
    if found.keys() != set(range(n)):
        raise TransientFailure(f"the indices of the {what} are not those of the texts, each once")
    return [found[i] for i in range(n)]


def parsed(body: bytes) -> Any:
    """What a response holds. Raises `TransientFailure`: it is no JSON in UTF-8, or not whole."""
    try:
        return json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):  # Unicode and JSON errors are ValueErrors
        pass
    raise TransientFailure("the reply is not valid JSON")

"""Endpoints with JSON requests and replies, and the base classes of their models.

The packages ``openai`` and ``cohere`` are imported with the first request and only build requests. Our HTTP client
sends them and raises every failure before a package sees it, so that no package retries or raises an exception that
contains a key. Keys are added to requests, not to the clients. Replies are parsed from the raw body.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from ragsmith.models.served.http.background import BACKGROUND_LOOP
from ragsmith.models.served.policy import Policy, TransientFailure
from ragsmith.models.served.provider import Provider
from ragsmith.models.usage import MIN_CHARACTERS_PER_TOKEN, NO_USAGE
from ragsmith.text.redaction import redact_logs, remember_secret

if TYPE_CHECKING:
    from cohere import AsyncClientV2
    from openai import AsyncOpenAI


T = TypeVar("T")
Post: TypeAlias = Callable[[dict[str, Any]], Awaitable[bytes]]
"""Sends the body of a request once and returns that of a successful response, or raises `AttemptFailed`."""

PROBE_WORD = "ready"
PROBE_FIELDS: dict[str, Any] = {
    "messages": [{"role": "user", "content": f"Reply with the word {PROBE_WORD}."}],
    "max_tokens": 16,
    "max_completion_tokens": 16,
    "input": [PROBE_WORD],
    "query": PROBE_WORD,
    "documents": [PROBE_WORD],
    "texts": [PROBE_WORD],
    "top_n": 1,
}
"""The fields of a request of a few tokens, which checks whether a server responds."""


class JsonEndpoint:
    """A base URL with its ``key``, if any, as bearer token; requests are sent through ``provider``."""

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
        target: str | Post,
        bodies: Sequence[dict[str, Any]],
        parse: Callable[[dict[str, Any], Any, float], T],
        *,
        what: str,
    ) -> list[T]:
        """Send ``bodies`` and return ``parse(body, reply, seconds)`` for each; see `Provider.send_all`.

        ``parse`` raises `TransientFailure` for a reply that breaks the protocol, as a server does that is failing or
        another one in its place, `UnusableReply` for one that the model wrote badly, or `RequestRejected`. A probe is
        a minimal request with the fields of the first body, whose reply is parsed as well. ``target`` is a path
        relative to the base URL, an absolute URL, or a function that sends a body. ``what`` begins error messages.
        """
        post = partial(self._post, target) if isinstance(target, str) else target
        attempts = [partial(_attempt, post, body, parse) for body in bodies]
        minimal = {name: PROBE_FIELDS.get(name, value) for name, value in (bodies[0] if bodies else {}).items()}
        return self.provider.send_all(attempts, what=what, probe=partial(_attempt, post, minimal, parse))

    async def _post(self, target: str, body: dict[str, Any]) -> bytes:
        url = target if target.startswith(("http://", "https://")) else self.base_url + target
        response = await self.provider.http.post(url, json=body, headers=self.headers)
        return bytes(response.content)


async def _attempt(post: Post, body: dict[str, Any], parse: Callable[[dict[str, Any], Any, float], T]) -> T:
    started = time.perf_counter()
    reply = await post(body)
    try:
        return parse(body, parse_json(reply), time.perf_counter() - started)
    except TransientFailure as failure:
        failure.usage = failure.usage or NO_USAGE  # a response of status 200 may be billed
        raise


class EndpointModel:
    """Base of the models at an endpoint."""

    def __init__(self, model: str, endpoint: JsonEndpoint) -> None:
        self._model = model
        self._endpoint = endpoint

    @property
    def provider(self) -> Provider:
        """The provider that sends the requests."""
        return self._endpoint.provider

    def find_outage(self) -> str:
        """Return why the server cannot answer now, or ""; its list of models is requested, which costs nothing."""
        endpoint = self._endpoint
        get_models = partial(self.provider.http.get, f"{endpoint.base_url}/models", headers=endpoint.headers)
        return BACKGROUND_LOOP.submit(self.provider.find_outage(get_models)).result()


class TextWindow:
    """Truncates texts to ``tokens``, estimated by characters, and counts them in ``truncated``; None is no limit."""

    def __init__(self, tokens: int | None) -> None:
        self.tokens = tokens
        self.truncated = 0
        self._lock = threading.Lock()

    def fit(self, texts: Sequence[str]) -> list[str]:
        """Return ``texts``, each no longer than the window."""
        if self.tokens is None:
            return list(texts)
        limit = self.tokens * MIN_CHARACTERS_PER_TOKEN
        with self._lock:
            self.truncated += sum(len(text) > limit for text in texts)
        return [text[:limit] for text in texts]


def batches(texts: Sequence[str], max_texts: int, max_characters: float = math.inf) -> list[Sequence[str]]:
    """Split ``texts`` into batches of at most ``max_texts`` texts and ``max_characters``; a longer text is a batch."""
    parts, start, size = [], 0, 0
    for i, text in enumerate(texts):
        if i > start and (i - start == max_texts or size + len(text) > max_characters):
            parts.append(texts[start:i])
            start, size = i, 0
        size += len(text)
    return [*parts, texts[start:]] if texts else []


def values_by_index(rows: Any, name: str, n: int, what: str) -> list[Any]:
    """Return the values called ``name`` of JSON objects, in the order of their ``index``.

    Raises:
        TransientFailure: one of the ``n`` indices is missing, repeated or unknown; ``what`` describes the values.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TransientFailure(f"the reply has no {what}")
    if len(rows) != n:
        raise TransientFailure(f"the reply has {len(rows)} {what} for {n} texts")
    values = {row.get("index"): row.get(name) for row in rows if type(row.get("index")) is int}
    if values.keys() != set(range(n)):
        raise TransientFailure(f"the indices of the {what} are not those of the texts, each once")
    return [values[i] for i in range(n)]


def read_scores(rows: Any, name: str, n: int) -> list[float]:
    """Return the scores of ``n`` texts, in their order, from rows with an ``index`` and a score called ``name``.

    Raises:
        TransientFailure: a text is missing, repeated or unknown, or a score is not a finite number.
    """
    scores = values_by_index(rows, name, n, "scores")
    if not all(type(score) in (int, float) and math.isfinite(score) for score in scores):
        raise TransientFailure("a score is missing or not finite")
    return [round(float(score), 6) for score in scores]


def parse_json(body: bytes) -> Any:
    """Parse the body of a response. Raises `TransientFailure` if it is not complete JSON in UTF-8."""
    try:
        return json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):  # Unicode and JSON errors are ValueErrors
        pass
    raise TransientFailure("the reply is not valid JSON")


PLACEHOLDER_KEY = "none"
"""The key passed to the packages, which is replaced by that of the endpoint, if any."""


class OpenAIModel(EndpointModel):
    """A model called through the package ``openai``."""

    @cached_property
    def client(self) -> AsyncOpenAI:
        """The package's client, which has no key, and sends through the provider."""
        from openai import AsyncOpenAI  # noqa: PLC0415  1 s of processor time

        client = AsyncOpenAI(
            api_key=PLACEHOLDER_KEY, base_url=self._endpoint.base_url, max_retries=0, http_client=self.provider.http
        )
        client.organization = client.project = None  # these headers are among those of the endpoint
        return client

    def post_to(self, path: str) -> Post:
        """Return a function that sends a body to ``path``; the client's typed methods would copy it first."""
        from httpx2 import Response  # noqa: PLC0415
        from openai import Omit  # noqa: PLC0415

        headers: dict[str, Any] = {"authorization": Omit(), **self._endpoint.headers}

        async def post(body: dict[str, Any]) -> bytes:
            sent = await self.client.post(path, cast_to=Response, body=body, options={"headers": headers})
            return bytes(sent.content)

        return post


class CohereModel(EndpointModel):
    """A model called through the package ``cohere``."""

    @cached_property
    def client(self) -> AsyncClientV2:
        """The package's client, which has no key, and sends through the provider."""
        from cohere import AsyncClientV2  # noqa: PLC0415  0.8 s of processor time

        redact_logs("cohere")
        return AsyncClientV2(
            PLACEHOLDER_KEY,
            base_url=self._endpoint.base_url.removesuffix("/v2").removesuffix("/v1"),  # the client appends the version
            httpx_client=cast(Any, _CohereHttp(self._endpoint)),
            max_retries=0,
            log_warning_experimental_features=False,
        )

    def post_with(self, create: Any) -> Post:
        """Return a function that sends a body by ``create``, a method of the client with raw responses."""

        async def post(body: dict[str, Any]) -> bytes:
            return bytes((await create(**body)).response.content)

        return post


class _CohereHttp:
    """The part of an ``httpx`` client that the package ``cohere`` uses; it adds the endpoint's key."""

    def __init__(self, endpoint: JsonEndpoint) -> None:
        self._endpoint = endpoint

    async def request(self, *, method: str, url: str, headers: dict[str, str], json: Any, **_: Any) -> SimpleNamespace:
        others = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        merged = {**others, **self._endpoint.headers}
        response = await self._endpoint.provider.http.request(method, url, json=json, headers=merged)
        # the package gets no JSON to parse, as its parsing takes 0.6 s for 96 vectors and may raise TypeError
        raw = {"status_code": response.status_code, "headers": response.headers, "content": response.content}
        return SimpleNamespace(**raw, json=dict)

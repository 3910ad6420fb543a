"""Models called through the packages ``openai`` and ``cohere``, each imported with the first request.

The packages only build requests. Our HTTP client sends them and raises every failure before a package sees it, so that
no package retries or raises an exception that contains a key. Keys are added to requests, not to the clients. Replies
are parsed from the raw body.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ragsmith.models.served.json_endpoint import EndpointModel, Post
from ragsmith.text.redaction import redact_logs

if TYPE_CHECKING:
    from cohere import AsyncClientV2
    from openai import AsyncOpenAI

KEYLESS = "none"
"""The key passed to the packages, which is replaced by that of the endpoint, if any."""


class OpenAIModel(EndpointModel):
    """A model called through the package ``openai``."""

    @cached_property
    def client(self) -> AsyncOpenAI:
        """The package's client, which has no key, and sends through the provider."""
        from openai import AsyncOpenAI  # noqa: PLC0415  1 s of processor time

        client = AsyncOpenAI(
            api_key=KEYLESS, base_url=self._endpoint.base_url, max_retries=0, http_client=self.provider.http
        )
        client.organization = client.project = None  # headers of the endpoint
        return client

    def posting(self, create: Any) -> Post:
        """What sends a body by ``create``, a method of the client with raw responses."""
        from openai import Omit  # noqa: PLC0415

        headers: dict[str, Any] = {"authorization": Omit(), **self._endpoint.headers}

        async def post(body: dict[str, Any]) -> bytes:
            return bytes((await create(**body, extra_headers=headers)).content)

        return post


class CohereModel(EndpointModel):
    """A model called through the package ``cohere``."""

    @cached_property
    def client(self) -> AsyncClientV2:
        """The package's client, which has no key, and sends through the provider."""
        from cohere import AsyncClientV2  # noqa: PLC0415  0.8 s of processor time

        redact_logs("cohere")
        return AsyncClientV2(
            KEYLESS,
            base_url=self._endpoint.base_url.removesuffix("/v2").removesuffix("/v1"),  # both with and without it
            httpx_client=cast(Any, _CohereHttp(self)),
            max_retries=0,
            log_warning_experimental_features=False,
        )

    def posting(self, create: Any) -> Post:
        """What sends a body by ``create``, a method of the client with raw responses."""

        async def post(body: dict[str, Any]) -> bytes:
            return bytes((await create(**body)).response.content)

        return post

    async def request(self, method: str, url: str, headers: dict[str, str], body: Any) -> Any:
        """Send a request of the package with the endpoint's key."""
        others = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        return await self.provider.http.request(method, url, json=body, headers={**others, **self._endpoint.headers})


class _CohereHttp:
    """The part of an ``httpx`` client that the package ``cohere`` uses."""

    def __init__(self, model: CohereModel) -> None:
        self._model = model

    async def request(self, *, method: str, url: str, headers: dict[str, str], json: Any, **_: Any) -> _RawReply:
        response = await self._model.request(method, url, headers, json)
        return _RawReply(response.status_code, response.headers, response.content)


class _RawReply:
    """A response that the package does not parse, which takes 0.6 s for 96 vectors and may raise `TypeError`."""

    def __init__(self, status_code: int, headers: Any, content: bytes) -> None:
        self.status_code, self.headers, self.content = status_code, headers, content

    def json(self) -> dict[str, Any]:
        return {}

"""The clients of the packages ``openai`` and ``cohere``, each imported with the first request of such a model.

They write the requests. Our HTTP client sends them, refuses redirects, bounds what is read and raises every failure
before a package sees it; so no package tries again, and none raises an error of its own that repeats a key. The key is
put into each request and into no client. What a server replies is read from the raw body.
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
"""What the packages are told is the key; the request has that of the endpoint in its place, or none."""


class OpenAIModel(EndpointModel):
    """A model that the package ``openai`` asks."""

    @cached_property
    def client(self) -> AsyncOpenAI:
        """The package's client, which has no key, and sends through the provider."""
        from openai import AsyncOpenAI  # noqa: PLC0415  1 s of processor time

        client = AsyncOpenAI(
            api_key=KEYLESS, base_url=self._endpoint.base_url, max_retries=0, http_client=self.provider.http
        )
        client.organization = client.project = None  # they are headers of the endpoint, where the service has them
        return client

    def posting(self, create: Any) -> Post:
        """What sends a body by ``create``, a method of the client with raw responses."""
        from openai import Omit  # noqa: PLC0415

        headers: dict[str, Any] = {"authorization": Omit(), **self._endpoint.headers}

        async def post(body: dict[str, Any]) -> bytes:
            return bytes((await create(**body, extra_headers=headers)).content)

        return post


class CohereModel(EndpointModel):
    """A model that the package ``cohere`` asks."""

    @cached_property
    def client(self) -> AsyncClientV2:
        """The package's client, which has no key, and sends through the provider."""
        from cohere import AsyncClientV2  # noqa: PLC0415  0.8 s of processor time

        redact_logs("cohere")
        return AsyncClientV2(
            KEYLESS,
            base_url=self._endpoint.base_url.removesuffix("/v2").removesuffix("/v1"),  # both with and without it
            httpx_client=cast(Any, _HttpOfCohere(self)),
            max_retries=0,
            log_warning_experimental_features=False,
        )

    def posting(self, create: Any) -> Post:
        """What sends a body by ``create``, a method of the client with raw responses."""

        async def post(body: dict[str, Any]) -> bytes:
            return bytes((await create(**body)).response.content)

        return post

    async def request(self, method: str, url: str, headers: dict[str, str], body: Any) -> Any:
        """Send what the package wrote, with the key of the endpoint in place of what the package takes for one."""
        said = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        return await self.provider.http.request(method, url, json=body, headers={**said, **self._endpoint.headers})


class _HttpOfCohere:
    """As much of a client of ``httpx`` as the package ``cohere`` asks."""

    def __init__(self, model: CohereModel) -> None:
        self._model = model

    async def request(self, *, method: str, url: str, headers: dict[str, str], json: Any, **_: Any) -> _RawReply:
        response = await self._model.request(method, url, headers, json)
        return _RawReply(response.status_code, response.headers, response.content)


class _RawReply:
    """A response whose content is not parsed by the package.

    Of each number in it that would make an object, which takes 0.6 s of the event loop for 96 vectors, and a reply of
    another shape is a `TypeError` there.
    """

    def __init__(self, status_code: int, headers: Any, content: bytes) -> None:
        self.status_code, self.headers, self.content = status_code, headers, content

    def json(self) -> dict[str, Any]:
        return {}

"""An OpenAI-compatible endpoint: where the address and the key come from, and how it is asked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ragsmith.errors import UsageError
from ragsmith.models.served.policy import Policy
from ragsmith.models.served.provider import Provider
from ragsmith.text.redaction import remember_secret

T = TypeVar("T")

KEY_VARIABLE = "OPENAI_API_KEY"
NO_KEY = "none"
"""Sent to a server that needs no key: the client insists on one."""


class OpenAIEndpoint:
    """Asks one server, through a provider of its own unless one is handed in, which is then not closed here."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key_env: str = KEY_VARIABLE,
        provider: Provider | None = None,
        policy: Policy | None = None,
    ) -> None:
        self._variable = api_key_env
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        if self._base_url is not None and not self._base_url.startswith(("http://", "https://")):
            raise UsageError("the base URL must begin with http:// or https://, such as http://localhost:11434/v1")
        if self._base_url is None and api_key_env not in os.environ:
            raise UsageError(f"{api_key_env} is not set: export it, or give --base-url of a server that needs no key")
        remember_secret(self._key)
        self._own = provider is None
        self.provider = provider or Provider(urlsplit(self._base_url or "").hostname or "api.openai.com", policy)

    @property
    def _key(self) -> str:
        return (os.environ.get(self._variable) or "").strip() or NO_KEY

    @cached_property
    def _client(self) -> Any:
        import openai  # noqa: PLC0415  0.4 s

        return openai.AsyncOpenAI(
            api_key=self._key, base_url=self._base_url, max_retries=0, http_client=self.provider.http
        )

    def send(
        self,
        resource: str,
        bodies: Sequence[dict[str, Any]],
        read: Callable[[dict[str, Any], dict[str, Any], float], T],
        *,
        what: str,
    ) -> list[T]:
        """What ``read`` makes of each request, its reply and the seconds it took; see `Provider.send_all`.

        ``resource`` is a path of the client, such as ``chat.completions``. ``read`` raises `Transient` or `Rejected`
        for a reply that cannot be used.
        """
        return self.provider.send_all([partial(self._attempt, resource, body, read) for body in bodies], what=what)

    def close(self) -> None:
        """Close the connections, if they are this endpoint's own."""
        if self._own:
            self.provider.close()

    async def _attempt(
        self, resource: str, body: dict[str, Any], read: Callable[[dict[str, Any], dict[str, Any], float], T]
    ) -> T:
        import openai  # noqa: PLC0415

        from ragsmith.models.served.policy import AttemptFailed, Transient  # noqa: PLC0415
        from ragsmith.models.served.transport import read_json  # noqa: PLC0415  imports openai

        target = self._client
        for name in resource.split("."):
            target = getattr(target, name)
        started = time.perf_counter()
        try:
            response = await target.with_raw_response.create(**body)  # raw: the client would let anything through
        except openai.OpenAIError as error:  # older clients wrap what the HTTP client raises
            cause = error.__cause__
            failure = cause if isinstance(cause, AttemptFailed) else Transient(f"no answer ({type(error).__name__})")
        else:
            return read(body, read_json(response.content), time.perf_counter() - started)
        raise failure

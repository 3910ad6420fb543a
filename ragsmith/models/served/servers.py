"""Servers of models: where each is, with which key it is asked, and what the models at one server share.

Keys come from the environment and are nowhere else: not in a name, an identifier, a message or a record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ragsmith.errors import UsageError
from ragsmith.models.kinds import COHERE, JINA, OPENAI, SPOKEN
from ragsmith.models.names import ModelName
from ragsmith.models.options import problem_with
from ragsmith.models.served.policy import Policy
from ragsmith.models.served.provider import Provider, Providers
from ragsmith.text.redaction import remember_secret

PLACES: Mapping[str, str] = {
    OPENAI: "https://api.openai.com/v1",
    COHERE: "https://api.cohere.com",
    JINA: "https://api.jina.ai/v1",
}
"""Where the servers of a company are; others must be told."""
KEYS: Mapping[str, tuple[str, ...]] = {
    OPENAI: ("OPENAI_API_KEY",),
    COHERE: ("CO_API_KEY", "COHERE_API_KEY"),
    JINA: ("JINA_API_KEY",),
}
"""Where a key is looked for when no variable is named; the first that is set is taken."""
LIMITS = ("in_flight", "attempts", "deadline")
"""The options that are a server's, and so the same for all models there."""


@dataclass(frozen=True, slots=True)
class Server:
    """An address, without a slash at its end, and the key to use there; "" is none."""

    base_url: str
    key: str = field(default="", repr=False)


def server_of(chosen: ModelName, role: str) -> Server:
    """Where ``chosen`` is asked, for ``role``.

    Raises:
        UsageError: its address or its key is missing, or the key cannot be one.
    """
    given = chosen.base_url
    if given is None and chosen.kind == OPENAI:
        given = os.environ.get("OPENAI_BASE_URL") or None
    if given is not None and (problem := problem_with("base_url", given)):
        raise UsageError(f"OPENAI_BASE_URL: {problem}")
    place = given or PLACES.get(chosen.kind)
    if place is None:
        raise UsageError(
            f"the {SPOKEN[role]} {chosen.name} has no address: give its base_url in a file of models (--models), or "
            "--base-url"
        )
    return Server(place.rstrip("/"), _key(chosen, role, needed=given is None))


def _key(chosen: ModelName, role: str, *, needed: bool) -> str:
    names = (chosen.api_key_env,) if chosen.api_key_env else KEYS.get(chosen.kind, ())
    variable = next((name for name in names if os.environ.get(name)), None)
    if variable is None:
        if chosen.api_key_env:
            raise UsageError(f"{names[0]} is not set, the key of the {SPOKEN[role]} {chosen.name}: export it")
        if needed:
            instead = ", or give --base-url of a server that needs no key" if chosen.kind == OPENAI else ""
            raise UsageError(f"{' or '.join(names)} is not set: export it{instead}")
        return ""
    key = os.environ[variable].strip()
    remember_secret(key)
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"the value of {variable} cannot be a key: it is blank, or not all letters, digits and signs")
    return key


class Servers:
    """The servers of a run's models: those at one address with one key share a limit, pauses and connections."""

    def __init__(self, models: Mapping[str, ModelName], **limits: Any) -> None:
        """Take up ``models`` by role; ``limits`` go before theirs.

        Raises:
            UsageError: two models at one server have different limits.
        """
        self._known: dict[Server, Provider] = {}
        asked: dict[Server, dict[str, tuple[Any, str]]] = {}
        for role, chosen in models.items():
            if chosen.served:
                own = asked.setdefault(server_of(chosen, role), {})
                for limit in LIMITS:
                    _agree(own, limit, getattr(chosen, limit), role)
        policies = {
            server: replace(Policy(), **({limit: value for limit, (value, _) in own.items()} | limits))
            for server, own in asked.items()
        }
        providers = {policy: Providers(policy) for policy in policies.values()}
        for server, policy in policies.items():
            self._known[server] = providers[policy].at(server.base_url, server.key)

    def provider(self, server: Server) -> Provider:
        """What sends requests to ``server``."""
        return self._known[server]

    def close(self) -> None:
        """Close all connections."""
        for provider in self._known.values():
            provider.close()


def _agree(own: dict[str, tuple[Any, str]], limit: str, value: Any, role: str) -> None:
    if value is None:
        return
    known, first = own.setdefault(limit, (value, role))
    if known != value:
        raise UsageError(
            f"{limit} is {known:g} for the {SPOKEN[first]} and {value:g} for the {SPOKEN[role]}, which are asked at "
            "one server with one key: give one number, or a key of its own to each"
        )

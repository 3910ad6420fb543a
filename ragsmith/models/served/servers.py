"""Servers of models: where each is, with which key it is asked, and what the models at one server share.

Keys come from the environment and are nowhere else: not in a name, an identifier, a message or a record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragsmith.errors import UsageError
from ragsmith.models.names import ModelName
from ragsmith.models.options import OF_SERVED
from ragsmith.models.registry import SPOKEN, Service, providers
from ragsmith.models.served.policy import Policy
from ragsmith.models.served.provider import Provider
from ragsmith.text.redaction import remember_secret

LIMITS = ("in_flight", "attempts", "deadline")
"""The options that are a server's, and so the same for all models there."""


@dataclass(frozen=True, slots=True)
class Server:
    """An address, without a slash at its end, the key to use there ("" is none), and headers that go with it."""

    base_url: str
    key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = ()


def server_of(chosen: ModelName, role: str) -> Server:
    """Where ``chosen`` is asked, for ``role``.

    Raises:
        UsageError: its address or its key is missing, or the key cannot be one.
    """
    service = providers(role)[chosen.kind].service
    given = chosen.options.get("base_url")
    if given is None and service.url_variable:
        given = os.environ.get(service.url_variable) or None
        if given is not None and (problem := OF_SERVED["base_url"].problem("base_url", given)):
            raise UsageError(f"{service.url_variable}: {problem}")
    base_url = given or service.base_url
    if base_url is None:
        raise UsageError(
            f"the {SPOKEN[role]} {chosen.name} has no address: give its base_url in a file of models (--models), or "
            "--base-url"
        )
    headers = tuple((name, os.environ[variable]) for name, variable in service.headers if os.environ.get(variable))
    return Server(base_url.rstrip("/"), _key(chosen, role, service, needed=given is None), headers)


def _key(chosen: ModelName, role: str, service: Service, *, needed: bool) -> str:
    named = chosen.options.get("api_key_env")
    names = (named,) if named else service.keys
    variable = next((name for name in names if os.environ.get(name)), None)
    if variable is None:
        if named:
            raise UsageError(f"{named} is not set, the key of the {SPOKEN[role]} {chosen.name}: export it")
        if needed and names:
            instead = ", or give --base-url of a server that needs no key" if service.self_hosted else ""
            raise UsageError(f"{' or '.join(names)} is not set: export it{instead}")
        return ""
    key = os.environ[variable].strip()
    remember_secret(key)
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"the value of {variable} cannot be a key: it is blank, or not all letters, digits and signs")
    return key


Providers = dict[tuple[Any, ...], Provider]
"""What sends requests, by server and limits."""


class Servers:
    """The servers of a run's models: those at one address with one key share a limit, pauses and connections."""

    def __init__(self, models: Mapping[str, ModelName], shared: Providers | None = None, **limits: Any) -> None:
        """Take up ``models`` by role; ``limits`` go before theirs. Others may be asked through what is ``shared``.

        Raises:
            UsageError: two models at one server have different limits.
        """
        asked: dict[Server, dict[str, tuple[Any, str]]] = {}
        for role, chosen in models.items():
            declared = providers(role).get(chosen.kind)
            if declared is not None and declared.served:
                own = asked.setdefault(server_of(chosen, role), {})
                for limit in LIMITS:
                    _agree(own, limit, chosen.options.get(limit), role)
        shared = {} if shared is None else shared
        self._known: dict[Server, Provider] = {}
        for server, own in asked.items():
            policy = {name: value for name, (value, _) in own.items()} | limits
            known = server, *sorted(policy.items())
            if known not in shared:
                shared[known] = Provider(server.base_url, Policy(**policy))
            self._known[server] = shared[known]

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

"""Servers of models: their addresses and keys, and the providers that models at one server share.

Keys are read from environment variables, and appear in no name, identifier, message or record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragsmith.errors import UsageError
from ragsmith.models.names import ModelName
from ragsmith.models.options import SERVED_OPTIONS
from ragsmith.models.registry import ROLE_LABELS, Service, providers
from ragsmith.models.served.policy import Policy
from ragsmith.models.served.provider import Provider
from ragsmith.text.redaction import remember_secret

LIMITS = ("in_flight", "attempts", "deadline")
"""The options of a server, which all its models share."""


@dataclass(frozen=True, slots=True)
class Server:
    """An address without a final slash, its key ("" for none), and headers."""

    base_url: str
    key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = ()


def server_for(chosen: ModelName, role: str) -> Server:
    """Return the server of the model ``chosen`` for ``role``.

    Raises:
        UsageError: the address or the key is missing, or the key is malformed.
    """
    service = providers(role)[chosen.kind].service
    given = chosen.options.get("base_url")
    if given is None and service.url_variable:
        given = os.environ.get(service.url_variable) or None
        if given is not None and (problem := SERVED_OPTIONS["base_url"].problem("base_url", given)):
            raise UsageError(f"{service.url_variable}: {problem}")
    base_url = given or service.base_url
    if base_url is None:
        raise UsageError(
            f"the {ROLE_LABELS[role]} {chosen.name} has no address: give its base_url in a file of models (--models), "
            "or --base-url"
        )
    headers = tuple((name, os.environ[variable]) for name, variable in service.headers if os.environ.get(variable))
    return Server(base_url.rstrip("/"), _key(chosen, role, service, needed=given is None), headers)


def _key(chosen: ModelName, role: str, service: Service, *, needed: bool) -> str:
    named = chosen.options.get("api_key_env")
    names = (named,) if named else service.keys
    variable = next((name for name in names if os.environ.get(name)), None)
    if variable is None:
        if named:
            raise UsageError(f"{named} is not set, the key of the {ROLE_LABELS[role]} {chosen.name}: export it")
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
"""Providers by server and limits."""


def find_providers(
    models: Mapping[str, ModelName], shared: Providers | None = None, **limits: Any
) -> dict[Server, Provider]:
    """Find or create the providers of ``models`` by role, with ``limits`` that override theirs; see `Shared`.

    Models at one address with one key share limits, pauses and connections.

    Raises:
        UsageError: two models at one server have different limits.
    """
    found: dict[Server, dict[str, tuple[Any, str]]] = {}
    for role, chosen in models.items():
        declared = providers(role).get(chosen.kind)
        if declared is not None and declared.served:
            _add_limits(found.setdefault(server_for(chosen, role), {}), chosen, role)
    known = {} if shared is None else shared
    by_server = {}
    for server, own in found.items():
        policy = {name: value for name, (value, _) in own.items()} | limits
        key = server, *sorted(policy.items())
        if key not in known:
            known[key] = Provider(server.base_url, Policy(**policy))
        by_server[server] = known[key]
    return by_server


def _add_limits(known: dict[str, tuple[Any, str]], chosen: ModelName, role: str) -> None:
    for limit in LIMITS:
        if (value := chosen.options.get(limit)) is None:
            continue
        other, first = known.setdefault(limit, (value, role))
        if other != value:
            raise UsageError(
                f"{limit} is {other:g} for the {ROLE_LABELS[first]} and {value:g} for the {ROLE_LABELS[role]}, which "
                "are at one server with one key: give one number, or a key of its own to each"
            )

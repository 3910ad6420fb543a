"""Load models by name: their servers and keys, and the providers that models at one server share.

Keys are read from environment variables, and appear in no name, identifier, message or record.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragsmith.digest import fingerprint
from ragsmith.errors import UsageError
from ragsmith.models.local.weights import installed_version
from ragsmith.models.names import WORDLLAMA, ModelName, ModelNames, check_objects
from ragsmith.models.options import SERVED_OPTIONS
from ragsmith.models.registry import OBJECT_KIND, ROLE_LABELS, ROLES, Service, providers
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.policy import Policy
from ragsmith.models.served.provider import Provider
from ragsmith.models.vector_stores import find_store
from ragsmith.plugins import file_of
from ragsmith.text.redaction import remember_secret

if TYPE_CHECKING:
    from ragsmith.models.roles import Models


LIMIT_OPTIONS = ("in_flight", "attempts", "deadline")
"""Options that all models of a server share."""


_are_keys_needed: ContextVar[bool] = ContextVar("are_keys_needed", default=True)


@contextmanager
def without_requests() -> Iterator[None]:
    """Load models within this context without their keys, as no request is sent."""
    token = _are_keys_needed.set(False)
    try:
        yield
    finally:
        _are_keys_needed.reset(token)


@dataclass(frozen=True, slots=True)
class Server:
    """An address without a final slash, its key ("" for none), and headers."""

    base_url: str
    key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = ()


def server_for(model: ModelName, role: str) -> Server:
    """Return the server of ``model`` in ``role``.

    Raises:
        UsageError: the address or the key is missing, or the key is malformed.
    """
    service = providers(role)[model.kind].service
    address = model.options.get("base_url")
    if address is None and service.url_variable:
        address = os.environ.get(service.url_variable) or None
        if address is not None and (problem := SERVED_OPTIONS["base_url"].problem("base_url", address)):
            raise UsageError(f"{service.url_variable}: {problem}")
    base_url = address or service.base_url
    if base_url is None:
        raise UsageError(
            f"the {ROLE_LABELS[role]} {model.name} has no address: give its base_url in a file of models (--models), "
            "or --base-url"
        )
    headers = tuple((name, os.environ[variable]) for name, variable in service.headers if os.environ.get(variable))
    return Server(base_url.rstrip("/"), _key(model, role, service, required=address is None), headers)


def _key(model: ModelName, role: str, service: Service, *, required: bool) -> str:
    key_variable = model.options.get("api_key_env")
    variables = (key_variable,) if key_variable else service.keys
    variable = next((name for name in variables if os.environ.get(name)), None)
    if variable is None:
        if not _are_keys_needed.get():
            return ""
        if key_variable:
            raise UsageError(f"{key_variable}, the key of the {ROLE_LABELS[role]} {model.name}, is not set: export it")
        if required and variables:
            alternative = ", or give --base-url of a server that needs no key" if service.self_hosted else ""
            raise UsageError(f"{' or '.join(variables)} is not set: export it{alternative}")
        return ""
    key = os.environ[variable].strip()
    remember_secret(key)
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"the value of {variable} is not a valid key: it is blank, or contains spaces or characters that are not "
            "printable ASCII"
        )
    return key


Providers = dict[tuple[Any, ...], Provider]
"""Providers by server and limits."""


ServerLimits = dict[Server, dict[str, tuple[Any, str]]]
"""Limits of servers by name: the value, and a role of a model that has it."""


def find_providers(models: Mapping[str, ModelName], shared: SharedModels, **limits: Any) -> dict[Server, Provider]:
    """Find or create the providers of ``models`` by role, with ``limits`` that override theirs.

    Models at one address with one key share limits, pauses and connections.

    Raises:
        UsageError: two models at one server have different limits.
    """
    by_server = {}
    for server, own_limits in collect_limits(models.items()).items():
        policy = {name: value for name, (value, _) in (shared.limits.get(server, {}) | own_limits).items()} | limits
        key = server, *sorted(policy.items())
        if key not in shared.providers:
            shared.providers[key] = Provider(server.base_url, Policy(**policy))
        by_server[server] = shared.providers[key]
    return by_server


def collect_limits(models: Iterable[tuple[str, ModelName]]) -> ServerLimits:
    """Return the limits of the servers of ``models``, pairs of role and model.

    Raises:
        UsageError: two models at one server have different limits.
    """
    found: ServerLimits = {}
    for role, name in models:
        model_provider = providers(role).get(name.kind)
        if model_provider is not None and model_provider.served:
            _add_limits(found.setdefault(server_for(name, role), {}), name, role)
    return found


def _add_limits(limits: dict[str, tuple[Any, str]], name: ModelName, role: str) -> None:
    for limit in LIMIT_OPTIONS:
        if (value := name.options.get(limit)) is None:
            continue
        earlier, earlier_role = limits.setdefault(limit, (value, role))
        if earlier != value:
            raise UsageError(
                f"{limit} is {earlier:g} for the {ROLE_LABELS[earlier_role]} and {value:g} for "
                f"{'another' if role == earlier_role else f'the {ROLE_LABELS[role]}'}, which share a server and a key: "
                "give both the same value, or each its own key"
            )


__all__ = ["Loader", "ModelName", "ModelNames", "SharedModels", "load_models"]


LoadedModels = dict[tuple[str, ModelName], Any]
"""Models by the role of their provider, and by name."""


@dataclass(frozen=True, slots=True)
class SharedModels:
    """Models that do not depend on a corpus, and providers, shared between corpora or sets of models.

    ``limits`` are those of all sets of models, if they are known, so that these share the provider of a server.
    """

    models: LoadedModels = field(default_factory=dict)
    providers: Providers = field(default_factory=dict)
    limits: ServerLimits = field(default_factory=dict)


def load_models(
    names: ModelNames,
    texts: Sequence[str],
    objects: Mapping[str, Any] | None = None,
    shared: SharedModels | None = None,
    *,
    languages: Sequence[str] = (),
) -> Models:
    """Load the models of ``names`` for a corpus of ``texts``, from which the embedded ones take word statistics.

    ``objects`` are model objects by role; ``languages`` are those of the texts if they are not all English. Models and
    providers that can be shared are taken from ``shared`` or added to it. No request is sent and no weights are read
    before a model is used.

    Raises:
        UsageError: a name is unknown, a model lacks its key or address, or an object was not passed.
        MissingExtra: a package is not installed.
    """
    from ragsmith.models.roles import Models  # noqa: PLC0415  the pipeline imports the protocols of this package

    names.check()
    store = find_store(names.vector_store_address)
    if store and store.package:
        store.package.check()
    loader = Loader(
        {role: names.for_role(role) for role in names.named_roles}, texts, objects, shared=shared, languages=languages
    )
    return Models(
        language_model=loader.model("language_model"),
        embedder=loader.model("embedder"),
        cross_encoder=loader.model("cross_encoder"),
        judge=loader.model("judge" if names.judge else "language_model"),
        controller=loader.model("controller") if names.controller else None,
        vector_store_address=names.vector_store_address,
        test_judge=loader.model("test_judge") if names.test_judge else None,
    )


_EMBEDDED = "ragsmith.models.embedded."
_EMBEDDED_MODELS: LoadedModels = {}
"""Embedded models that depend only on their files, loaded once per process."""


class UserCodeModel:
    """A model of user code; its ``id`` includes the fingerprint of the file's code."""

    def __init__(self, model: Any, code: str) -> None:
        self._arguments = model, code
        self.id = f"{model.id}@code={code}"

    def __getattr__(self, name: str) -> Any:
        if name == "_arguments":  # during unpickling
            raise AttributeError(name)
        return getattr(self._arguments[0], name)

    def __reduce__(self) -> tuple[type[UserCodeModel], tuple[Any, str]]:
        return UserCodeModel, self._arguments


class Loader:
    """Creates models by role from checked names; roles with equal names share one model."""

    def __init__(
        self,
        chosen: Mapping[str, ModelName],
        texts: Sequence[str],
        objects: Mapping[str, Any] | None = None,
        *,
        shared: SharedModels | None = None,
        languages: Sequence[str] = (),
        **limits: Any,
    ) -> None:
        """See `load_models`; ``limits`` (``in_flight``, ``attempts``, ``deadline``) override those of the names."""
        self._objects: Mapping[str, Any] = objects or {}
        check_objects(chosen, self._objects)
        self._chosen = chosen
        self._texts, self._languages = texts, languages
        self._loaded: LoadedModels = {}
        self._shared = shared or SharedModels()
        self.providers = find_providers(chosen, self._shared, **limits)

    def close(self, *, patience: float = 0.0) -> None:
        """Close the connections to all servers; requests in flight have ``patience`` seconds to end."""
        for provider in self.providers.values():
            provider.close(patience=patience)

    def model(self, role: str) -> Any:
        """Return the model of ``role``.

        Raises:
            UsageError: its address or its key is missing.
            MissingExtra: a package that it needs is not installed.
        """
        chosen = self._chosen[role]
        return self._objects[role] if chosen.kind == OBJECT_KIND else self._model(role, chosen)

    def _model(self, role: str, chosen: ModelName) -> Any:
        key = ROLES[role], chosen
        model_provider = providers(role)[chosen.kind]
        models = self._loaded if "texts" in model_provider.injected else self._shared.models
        if not model_provider.injected and model_provider.factory.__module__.startswith(_EMBEDDED):
            models = _EMBEDDED_MODELS
        if key not in models:
            if model_provider.extra:
                installed_version(model_provider.package, model_provider.extra)
            arguments: dict[str, Callable[[], Any]] = {
                "model": lambda: chosen.model,
                "kind": lambda: chosen.kind,
                "endpoint": lambda: self._endpoint(role, chosen),
                "texts": lambda: self._texts,
                "languages": lambda: self._languages,
                "word_vectors": lambda: self._model("embedder", ModelName(WORDLLAMA)),
            }
            module = model_provider.factory.__module__
            options = {option: value for option, value in chosen.option_items if option in model_provider.own_options}
            model = model_provider.factory(**{name: arguments[name]() for name in model_provider.injected}, **options)
            models[key] = UserCodeModel(model, fingerprint(module)) if file_of(module) else model
        return models[key]

    def _endpoint(self, role: str, chosen: ModelName) -> JsonEndpoint:
        server = server_for(chosen, role)
        provider = self.providers[server]
        return JsonEndpoint(server.base_url, key=server.key, headers=dict(server.headers), provider=provider)

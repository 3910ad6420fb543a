"""Load models by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragsmith.digest import fingerprint
from ragsmith.models.local.weights import installed_version
from ragsmith.models.model_objects import check_objects
from ragsmith.models.names import WORDLLAMA, ModelName, ModelNames
from ragsmith.models.registry import GIVEN, ROLES, providers
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.servers import Providers, find_providers, server_for
from ragsmith.models.vector_stores import store_named
from ragsmith.plugins import file_of

if TYPE_CHECKING:
    from ragsmith.models.roles import Models

__all__ = ["Loader", "ModelName", "ModelNames", "Shared", "load_models"]


LoadedModels = dict[tuple[str, ModelName], Any]
"""Models by the role of their provider, and by name."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Models that do not depend on a corpus, and providers, shared between corpora or sets of models."""

    models: LoadedModels = field(default_factory=dict)
    providers: Providers = field(default_factory=dict)


def load_models(
    names: ModelNames,
    texts: Sequence[str],
    given: Mapping[str, Any] | None = None,
    shared: Shared | None = None,
    *,
    languages: Sequence[str] = (),
) -> Models:
    """Load the models of ``names`` for a corpus of ``texts``, from which the embedded ones take word statistics.

    ``given`` has model objects by role, ``languages`` those of the texts if they are not all English. Models and
    providers that can be shared are taken from ``shared`` or added to it. No request is sent and no weights are read
    before a model is used.

    Raises:
        UsageError: a name is unknown, a model lacks its key or address, or an object was not passed.
        MissingExtra: a package is not installed.
    """
    from ragsmith.models.roles import Models  # noqa: PLC0415  the pipeline imports the protocols of this package

    names.check()
    store = store_named(names.vectors_at)
    if store and store.package:
        store.package.check()
    loader = Loader(
        {role: names.for_role(role) for role in names.named}, texts, given, shared=shared, languages=languages
    )
    return Models(
        language_model=loader.model("language_model"),
        embedder=loader.model("embedder"),
        cross_encoder=loader.model("cross_encoder"),
        judge=loader.model("judge" if names.judge else "language_model"),
        controller=loader.model("controller") if names.controller else None,
        vectors_at=names.vectors_at,
    )


_EMBEDDED = "ragsmith.models.embedded."
_LOADED_ONCE: LoadedModels = {}
"""Embedded models that depend on nothing but their files, loaded once a process."""


class OwnModel:
    """A model from a user's own file; its ``id`` includes the fingerprint of the file's code."""

    def __init__(self, model: Any, code: str) -> None:
        self._arguments = model, code
        self.id = f"{model.id}@code={code}"

    def __getattr__(self, name: str) -> Any:
        if name == "_arguments":  # during unpickling
            raise AttributeError(name)
        return getattr(self._arguments[0], name)

    def __reduce__(self) -> tuple[type[OwnModel], tuple[Any, str]]:
        return OwnModel, self._arguments


class Loader:
    """Creates models by role from checked names; roles with equal names share one model."""

    def __init__(
        self,
        chosen: Mapping[str, ModelName],
        texts: Sequence[str],
        given: Mapping[str, Any] | None = None,
        *,
        shared: Shared | None = None,
        languages: Sequence[str] = (),
        **limits: Any,
    ) -> None:
        """See `load_models`; ``limits`` (``in_flight``, ``attempts``, ``deadline``) override those of the names."""
        self._given: Mapping[str, Any] = given or {}
        check_objects(chosen, self._given)
        self._chosen = chosen
        self._texts, self._languages = texts, languages
        self._loaded: LoadedModels = {}
        self._shared = shared or Shared()
        self.providers = find_providers(chosen, self._shared.providers, **limits)

    def close(self) -> None:
        """Close the connections to all servers."""
        for provider in self.providers.values():
            provider.close()

    def model(self, role: str) -> Any:
        """Return the model of ``role``.

        Raises:
            UsageError: its address or its key is missing.
            MissingExtra: a package that it needs is not installed.
        """
        chosen = self._chosen[role]
        return self._given[role] if chosen.kind == GIVEN else self._model(role, chosen)

    def _model(self, role: str, chosen: ModelName) -> Any:
        key = ROLES[role], chosen
        declared = providers(role)[chosen.kind]
        models = self._loaded if "texts" in declared.injected else self._shared.models
        if not declared.injected and declared.factory.__module__.startswith(_EMBEDDED):
            models = _LOADED_ONCE
        if key not in models:
            if declared.extra:
                installed_version(declared.extra, declared.extra)
            available: dict[str, Callable[[], Any]] = {
                "model": lambda: chosen.model,
                "kind": lambda: chosen.kind,
                "endpoint": lambda: self._endpoint(role, chosen),
                "texts": lambda: self._texts,
                "languages": lambda: self._languages,
                "word_vectors": lambda: self._model("embedder", ModelName(WORDLLAMA)),
            }
            module = declared.factory.__module__
            options = {option: value for option, value in chosen.given if option in declared.own_options}
            model = declared.factory(**{name: available[name]() for name in declared.injected}, **options)
            models[key] = OwnModel(model, fingerprint(module)) if file_of(module) else model
        return models[key]

    def _endpoint(self, role: str, chosen: ModelName) -> JsonEndpoint:
        server = server_for(chosen, role)
        provider = self.providers[server]
        return JsonEndpoint(server.base_url, key=server.key, headers=dict(server.headers), provider=provider)

"""From names to models: what ``--llm``, ``--controller``, ``--judge``, ``--embedder`` and ``--reranker`` stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragsmith.digest import fingerprint
from ragsmith.models.local.weights import installed_version
from ragsmith.models.model_objects import refuse_absent
from ragsmith.models.names import WORDLLAMA, ModelName, ModelNames
from ragsmith.models.registry import GIVEN, ROLES, providers
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.servers import Providers, Servers, server_of
from ragsmith.models.vector_stores import store_named
from ragsmith.plugins import file_of

if TYPE_CHECKING:
    from ragsmith.models.roles import Models

__all__ = ["Loader", "ModelName", "ModelNames", "Shared", "load_models"]


Made = dict[tuple[str, ModelName], Any]
"""Models by the role that their provider is registered for, and by name."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What several corpora, or choices of models, have in common: models that take nothing from texts, and servers."""

    models: Made = field(default_factory=dict)
    providers: Providers = field(default_factory=dict)


def load_models(
    names: ModelNames,
    texts: Sequence[str],
    given: Mapping[str, Any] | None = None,
    shared: Shared | None = None,
    *,
    languages: Sequence[str] = (),
) -> Models:
    """Models for a corpus of ``texts``; the embedded ones take word statistics from it, objects are ``given`` by role.

    ``languages`` are those of the texts if they are not all English.

    What is ``shared`` already is taken from there, and the rest that can be shared put there.

    Nothing is sent and no weights are read before a model is used. Those asked at one server with one key have one
    ``provider``.

    Raises:
        UsageError: a name is unknown, a model lacks its key or address, or an object is not given; the message says
            what there is.
        MissingExtra: a package is not installed.
    """
    from ragsmith.models.roles import Models  # noqa: PLC0415  the pipeline imports the protocols of this package

    names.check()
    store = store_named(names.vectors_at)
    if store and store.package:
        store.package.check()
    loader = Loader({role: names.of(role) for role in names.named}, texts, given, shared=shared, languages=languages)
    return Models(
        language_model=loader.model("language_model"),
        embedder=loader.model("embedder"),
        cross_encoder=loader.model("cross_encoder"),
        judge=loader.model("judge" if names.judge else "language_model"),
        controller=loader.model("controller") if names.controller else None,
        vectors_at=names.vectors_at,
    )


_EMBEDDED = "ragsmith.models.embedded."
_OF_THIS_PROCESS: Made = {}
"""Embedded models made of nothing but their files, which are read once a process, however many corpora it has."""


class OwnModel:
    """A model that a file of one's own makes: its ``id`` names the code of the file, too."""

    def __init__(self, model: Any, code: str) -> None:
        self._made = model, code
        self.id = f"{model.id}@code={code}"

    def __getattr__(self, name: str) -> Any:
        if name == "_made":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._made[0], name)

    def __reduce__(self) -> tuple[type[OwnModel], tuple[Any, str]]:
        return OwnModel, self._made


class Loader:
    """Makes the models of each role from checked names; roles with equal models have one."""

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
        """Models that take nothing from ``texts``, which are in ``languages``, and servers, are ``shared``.

        ``limits`` (``in_flight``, ``attempts``, ``deadline``) go before those of the names.
        """
        self._given: Mapping[str, Any] = given or {}
        refuse_absent(chosen, self._given)
        self._chosen = chosen
        self._texts, self._languages = texts, languages
        self._made: Made = {}
        self._shared = shared or Shared()
        self.servers = Servers(chosen, self._shared.providers, **limits)

    def model(self, role: str) -> Any:
        """The model of ``role``, with the protocol of the role.

        Raises:
            UsageError: its address or its key is missing.
            MissingExtra: the package that it needs is not installed.
        """
        chosen = self._chosen[role]
        return self._given[role] if chosen.kind == GIVEN else self._model(role, chosen)

    def _model(self, role: str, chosen: ModelName) -> Any:
        known = ROLES[role], chosen
        declared = providers(role)[chosen.kind]
        models = self._made if "texts" in declared.handed_over else self._shared.models
        if not declared.handed_over and declared.factory.__module__.startswith(_EMBEDDED):
            models = _OF_THIS_PROCESS
        if known not in models:
            if declared.extra:
                installed_version(declared.extra, declared.extra)
            handed_over: dict[str, Callable[[], Any]] = {
                "model": lambda: chosen.model,
                "kind": lambda: chosen.kind,
                "endpoint": lambda: self._endpoint(role, chosen),
                "texts": lambda: self._texts,
                "languages": lambda: self._languages,
                "word_vectors": lambda: self._model("embedder", ModelName(WORDLLAMA)),
            }
            module = declared.factory.__module__
            options = {option: value for option, value in chosen.given if option in declared.own_options}
            made = declared.factory(**{name: handed_over[name]() for name in declared.handed_over}, **options)
            models[known] = OwnModel(made, fingerprint(module)) if file_of(module) else made
        return models[known]

    def _endpoint(self, role: str, chosen: ModelName) -> JsonEndpoint:
        server = server_of(chosen, role)
        return JsonEndpoint(
            server.base_url, key=server.key, headers=dict(server.headers), provider=self.servers.provider(server)
        )

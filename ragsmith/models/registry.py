"""Registry of model providers: classes or functions that create models.

```python
@provider("cross_encoder", "mine", service=Service("https://api.example.com", keys=("MINE_API_KEY",)))
class MyReranker:
    def __init__(self, model: str, *, endpoint: JsonEndpoint, batch_size: BatchSize = 32) -> None: ...
```

This makes ``mine:MODEL`` a reranker on the command line, in model files and in Python.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import entry_points
from typing import Any, TypeVar, get_type_hints

from ragsmith.models.options import EMBEDDER_OPTIONS, SERVED_OPTIONS, Option, option_from_hint
from ragsmith.text.files import shorten
from ragsmith.text.redaction import redacted
from ragsmith.text.suggest import did_you_mean, find_nearest_name

F = TypeVar("F", bound=Callable[..., Any])

OBJECT_KIND = "given"
"""The provider in the name of a model that was passed as an object: see `ragsmith.models.names`."""
ROLES: Mapping[str, str] = {
    "language_model": "language_model",
    "embedder": "embedder",
    "cross_encoder": "cross_encoder",
    "judge": "language_model",
    "controller": "language_model",
    "test_judge": "language_model",
}
"""The roles in a run, and for which of them a provider is registered: judges and controller are language models."""
ROLE_LABELS = {role: role.replace("_", " ") for role in ROLES} | {"cross_encoder": "reranker"}
FLAG_ROLES = {"llm": "language_model", "reranker": "cross_encoder"}
"""Roles by the names of their flags, where these differ."""

INJECTED = ("model", "kind", "endpoint", "texts", "languages", "word_vectors")
"""Arguments that are not options: the name after the colon and before it, the `JsonEndpoint` of the server, the texts
of the corpus and their languages, and the embedded embedder (`WordLlamaEmbedder`)."""
_PROVIDER_PACKAGES = ("ragsmith.models.embedded", "ragsmith.models.local", "ragsmith.models.served")


@dataclass(frozen=True)
class Service:
    """The default address, key and headers of served models.

    ``base_url`` None requires an address from the user. The key is the value of the first of the environment
    variables ``keys`` that is set; it is required only at ``base_url``. The variable ``url_variable`` overrides
    ``base_url``. ``headers`` are pairs of a header and the variable with its value. ``self_hosted`` servers are run
    by users, so ``--base-url`` applies to models without an address; if ``openai_compatible``, it overrides
    an address as well.
    """

    base_url: str | None = None
    keys: tuple[str, ...] = ()
    url_variable: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    self_hosted: bool = False
    openai_compatible: bool = False


@dataclass(frozen=True)
class ModelProvider:
    """A registered class or function that creates models; its options are read from its signature.

    ``extra`` is the optional dependency of ragsmith, and ``package`` the distribution that it installs.
    """

    role: str
    name: str
    factory: Callable[..., Any]
    service: Service = Service()
    extra: str = ""
    package: str = ""

    @cached_property
    def injected(self) -> tuple[str, ...]:
        """The arguments in `INJECTED`."""
        return tuple(name for name in inspect.signature(self.factory).parameters if name in INJECTED)

    @cached_property
    def own_options(self) -> Mapping[str, Option]:
        """The options in the signature."""
        function = self.factory.__init__ if inspect.isclass(self.factory) else self.factory
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(self.factory).parameters.values()
        names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in INJECTED]
        return {name: option_from_hint(hints[name]) for name in names}

    @cached_property
    def options(self) -> Mapping[str, Option]:
        """All options of the models."""
        shared = EMBEDDER_OPTIONS if self.role == "embedder" else {}
        return {**(SERVED_OPTIONS if self.served else {}), **shared, **self.own_options}

    @property
    def is_family(self) -> bool:
        """Whether a model's name follows after a colon."""
        return "model" in self.injected

    @property
    def served(self) -> bool:
        """Whether the models are called at an endpoint."""
        return "endpoint" in self.injected

    @property
    def heavy(self) -> bool:
        """Whether the models need so much memory and computation that threads should share them."""
        return bool(getattr(self.factory, "slow", False))

    @property
    def form(self) -> str:
        """The form of the models' names."""
        return f"{self.name}:MODEL" if self.is_family else self.name


REGISTRY: dict[tuple[str, str], ModelProvider] = {}
"""Every provider by role and name, in order of registration."""


def provider(
    role: str, name: str, *, service: Service | None = None, extra: str = "", package: str = ""
) -> Callable[[F], F]:
    """Register the decorated class or function, which creates the models ``name`` or ``name:MODEL`` of ``role``.

    Its arguments are any of `INJECTED`, and its options, keyword-only. A model implements the protocol of its role
    (`ragsmith.models.protocols`), and its ``id`` contains every option that affects results (`model_id`). The class
    attribute ``slow = True`` caches results on disk and has threads share one instance. ``package`` is the distribution
    that ``extra`` installs, by default of the same name.
    """
    if role not in set(ROLES.values()):
        raise ValueError(f"no provider can be registered for {role!r}: {did_you_mean(role, set(ROLES.values()))}")

    def register(factory: F) -> F:
        if (role, name) in REGISTRY or name == OBJECT_KIND:
            raise ValueError(f"the {ROLE_LABELS[role]} {name!r} is registered twice")
        REGISTRY[role, name] = ModelProvider(role, name, factory, service or Service(), extra, package or extra)
        return factory

    return register


def providers(role: str) -> dict[str, ModelProvider]:
    """Return the providers of ``role`` by name."""
    _import_providers()
    return {name: model_provider for (kind, name), model_provider in REGISTRY.items() if kind == ROLES[role]}


@cache
def _import_providers() -> None:
    """Import every module with providers, and the entry points of installed packages."""
    for package in _PROVIDER_PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            if not module.ispkg:
                importlib.import_module(module.name)
    for entry in entry_points(group="ragsmith.providers"):
        entry.load()


def model_id(kind: str, model: str, **options: object) -> str:
    """Return the identifier of a model with the options that affect results, if set: ``KIND:MODEL@option=value``."""
    return "@".join(
        [f"{kind}:{model}", *(f"{name}={value!r}" for name, value in options.items() if value or value is False)]
    )


def option_names(*, affecting_results: bool = False) -> tuple[str, ...]:
    """Return the names of the options of all providers, or only of those that affect results."""
    return tuple(
        dict.fromkeys(name for name, option in _all_options() if option.affects_results or not affecting_results)
    )


def find_option(name: str, kind: str) -> Option | None:
    """Return the option ``name`` of models of ``kind``, or else of the first provider with an option of that name."""
    _import_providers()
    options_of_kind = [
        model_provider.options for (_, provider_name), model_provider in REGISTRY.items() if provider_name == kind
    ]
    option = next((options[name] for options in options_of_kind if name in options), None)
    return option or dict(reversed(tuple(_all_options()))).get(name)


def _all_options() -> Iterable[tuple[str, Option]]:
    _import_providers()
    return [item for model_provider in REGISTRY.values() for item in model_provider.options.items()]


def problem_with_name(role: str, name: str) -> str | None:
    """Return an error message if the model ``name`` cannot have ``role``, or None."""
    candidates = providers(role)
    kind, colon, model = name.partition(":")
    if kind in candidates and bool(model.strip()) == candidates[kind].is_family == bool(colon):
        return None
    if kind == OBJECT_KIND and model.strip():
        return None
    closest = find_nearest_name(kind, candidates) if kind not in candidates else kind
    suggestion = candidates[closest].form.replace("MODEL", model or "MODEL") if closest else None
    if name.strip() and not (closest or colon) and "openai" in candidates:
        suggestion = f"openai:{name}"
    forms = did_you_mean("", (model_provider.form for model_provider in candidates.values()))
    return redacted(
        f"unknown {ROLE_LABELS[role]} {shorten(name)}; "
        + (f"did you mean {suggestion!r}? " if suggestion else "")
        + forms
    )


def problem_with_option(role: str, name: str, option: str, value: object) -> str | None:
    """Return an error message if the model ``name`` cannot have ``option`` with ``value``, or None."""
    model_provider = providers(role).get(name.partition(":")[0])
    options = model_provider.options if model_provider else {}
    if option in options:
        return options[option].problem(option, value)
    valid = f"it has {', '.join(sorted(options))}" if options else "it has no options"
    return f"the {ROLE_LABELS[role]} {name} has no option {option!r}: {valid}"

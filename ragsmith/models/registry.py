"""How a class or a function becomes a provider of models. Everything known about one is read from its own file.

```python
@provider("cross_encoder", "mine", service=Service("https://api.example.com", keys=("MINE_API_KEY",)))
class MyReranker:
    def __init__(self, model: str, *, endpoint: JsonEndpoint, batch_size: BatchSize = 32) -> None: ...
```

From then on ``mine:MODEL`` is a reranker, on the command line, in a file of models and in Python.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import entry_points
from typing import Any, TypeVar, get_type_hints

from ragsmith.models.options import OF_EMBEDDERS, OF_SERVED, Option, option_of
from ragsmith.text.files import shown
from ragsmith.text.redaction import redacted
from ragsmith.text.suggest import did_you_mean, nearest

F = TypeVar("F", bound=Callable[..., Any])

GIVEN = "given"
"""What stands before the colon where a model was handed over as an object: see `ragsmith.models.model_objects`."""
ROLES: Mapping[str, str] = {
    "language_model": "language_model",
    "embedder": "embedder",
    "cross_encoder": "cross_encoder",
    "judge": "language_model",
    "controller": "language_model",
}
"""Role in a run to the role that providers are registered for: judge and controller are language models."""
SPOKEN = {role: role.replace("_", " ") for role in ROLES} | {"cross_encoder": "reranker"}

HANDED_OVER = ("model", "kind", "endpoint", "texts", "languages", "word_vectors")
"""Arguments that are no options: what stands after the colon and before it, the `JsonEndpoint` of the server, the texts
of the corpus and their languages, and the embedded embedder (`WordLlamaEmbedder`)."""
_FOLDERS = ("ragsmith.models.embedded", "ragsmith.models.local", "ragsmith.models.served")


@dataclass(frozen=True)
class Service:
    """Where a served model is asked unless its options say otherwise, and where its key is looked for.

    ``base_url`` None: the user must say where. Of the variables ``keys`` the first that is set has the key; a key is
    needed at ``base_url`` alone. ``url_variable`` may hold another address. ``headers`` are sent with what their
    variables hold. ``self_hosted``: people run such servers themselves, so ``--base-url`` says where models without an
    address of their own are; where ``openai_compatible`` it goes before an address of their own as well.
    """

    base_url: str | None = None
    keys: tuple[str, ...] = ()
    url_variable: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    self_hosted: bool = False
    openai_compatible: bool = False


@dataclass(frozen=True)
class ModelProvider:
    """A registered class or function that makes models, and what its signature says about it.

    ``extra`` is the optional dependency of ragsmith, and the package, that it needs.
    """

    role: str
    name: str
    factory: Callable[..., Any]
    service: Service = Service()
    extra: str = ""

    @cached_property
    def handed_over(self) -> tuple[str, ...]:
        """The arguments among `HANDED_OVER` that it takes."""
        return tuple(name for name in inspect.signature(self.factory).parameters if name in HANDED_OVER)

    @cached_property
    def own_options(self) -> Mapping[str, Option]:
        """The options that its signature states."""
        stated = self.factory.__init__ if inspect.isclass(self.factory) else self.factory
        hints = get_type_hints(stated, include_extras=True)
        parameters = inspect.signature(self.factory).parameters.values()
        own = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in HANDED_OVER]
        return {name: option_of(hints[name]) for name in own}

    @cached_property
    def options(self) -> Mapping[str, Option]:
        """All options that its models have."""
        shared = OF_EMBEDDERS if self.role == "embedder" else {}
        return {**(OF_SERVED if self.served else {}), **shared, **self.own_options}

    @property
    def is_family(self) -> bool:
        """Whether a model's name follows after a colon."""
        return "model" in self.handed_over

    @property
    def served(self) -> bool:
        """Whether its models are asked at an endpoint."""
        return "endpoint" in self.handed_over

    @property
    def heavy(self) -> bool:
        """Whether its models take memory and cores of their own, so that one process with threads suits them."""
        return bool(getattr(self.factory, "slow", False))

    @property
    def form(self) -> str:
        """How its models are named."""
        return f"{self.name}:MODEL" if self.is_family else self.name


REGISTERED: dict[tuple[str, str], ModelProvider] = {}
"""Every provider, by role and name, in the order in which their files were read."""


def provider(role: str, name: str, *, service: Service | None = None, extra: str = "") -> Callable[[F], F]:
    """Register the decorated class or function as what makes the models ``name`` or ``name:MODEL`` for ``role``.

    Its arguments are those of `HANDED_OVER` that it wants, and its options, keyword-only. What it makes has the
    protocol of the role (`ragsmith.models.protocols`), and an ``id`` that names every option that shapes results
    (`model_id`); with the class attribute ``slow = True`` results are kept on disk and threads share one instance.
    """
    if role not in set(ROLES.values()):
        raise ValueError(f"no provider can be registered for {role!r}: {did_you_mean(role, set(ROLES.values()))}")

    def register(factory: F) -> F:
        if (role, name) in REGISTERED or name == GIVEN:
            raise ValueError(f"the {SPOKEN[role]} {name!r} is registered twice")
        REGISTERED[role, name] = ModelProvider(role, name, factory, service or Service(), extra)
        return factory

    return register


def providers(role: str) -> dict[str, ModelProvider]:
    """The providers of models for ``role``, by name."""
    _load()
    return {name: declared for (its, name), declared in REGISTERED.items() if its == ROLES[role]}


@cache
def _load() -> None:
    """Import every file that may hold a provider, and every installed package that offers some."""
    for folder in _FOLDERS:
        for module in pkgutil.iter_modules(importlib.import_module(folder).__path__, f"{folder}."):
            if not module.ispkg:
                importlib.import_module(module.name)
    for entry in entry_points(group="ragsmith.providers"):
        entry.load()


def model_id(kind: str, model: str, **shaping: object) -> str:
    """What identifies a model, with the options that shape its results and are set: ``KIND:MODEL@option=value``."""
    return "@".join([f"{kind}:{model}", *(f"{name}={value!r}" for name, value in shaping.items() if value)])


def option_names(*, shaping: bool = False) -> tuple[str, ...]:
    """The names of all options that any provider has, or of those alone that shape results."""
    return tuple(dict.fromkeys(name for name, option in _all_options() if option.shapes or not shaping))


def option_named(name: str, kind: str) -> Option | None:
    """The option ``name`` of models of ``kind``, or else of whichever provider has one of that name."""
    _load()
    own = [declared.options for (_, its), declared in REGISTERED.items() if its == kind]
    found = next((options[name] for options in own if name in options), None)
    return found or dict(reversed(tuple(_all_options()))).get(name)


def _all_options() -> Iterable[tuple[str, Option]]:
    _load()
    return [item for declared in REGISTERED.values() for item in declared.options.items()]


def problem_with_name(role: str, name: str) -> str | None:
    """Why ``role`` cannot be given the model ``name``, in a sentence; None if it can."""
    known = providers(role)
    kind, colon, model = name.partition(":")
    if kind in known and bool(model.strip()) == known[kind].is_family == bool(colon):
        return None
    if kind == GIVEN and model.strip():
        return None
    near = nearest(kind, known) if kind not in known else kind
    meant = known[near].form.replace("MODEL", model or "MODEL") if near else None
    listed = did_you_mean("", (declared.form for declared in known.values()))
    return redacted(f"unknown {SPOKEN[role]} {shown(name)}; " + (f"did you mean {meant!r}? " if meant else "") + listed)


def problem_with_option(role: str, name: str, option: str, value: object) -> str | None:
    """Why the model ``name`` in ``role`` cannot have ``option`` with ``value``, in a sentence; None if it can."""
    declared = providers(role).get(name.partition(":")[0])
    has = declared.options if declared else {}
    if option in has:
        return has[option].problem(option, value)
    known = f"it has {', '.join(sorted(has))}" if has else "it has no options"
    return f"the {SPOKEN[role]} {name} has no option {option!r}: {known}"

"""Names of models, with their options, and models passed from Python as objects.

Options that affect results (dimensions, prefixes, revision, number format, window) are recorded and exported with the
name. Addresses, limits and other options of how a model is called are in no cache key, record or exported file. Of a
model object, records have only the identifier (``given:ID``); it must be passed again to resume. An object implements
`ragsmith.models.protocols`, or is a model of LlamaIndex, which is wrapped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragsmith.errors import UsageError
from ragsmith.models.options import EMBEDDER_OPTIONS, SERVED_OPTIONS
from ragsmith.models.registry import (
    FLAG_ROLES,
    OBJECT_KIND,
    ROLE_LABELS,
    ROLES,
    ModelProvider,
    find_option,
    problem_with_name,
    problem_with_option,
    providers,
)
from ragsmith.models.vector_stores import AUTO, find_store
from ragsmith.text.suggest import did_you_mean

EXTRACTIVE, WORDLLAMA, LATE_INTERACTION = "extractive", "wordllama", "late_interaction"
"""The embedded models, which are the defaults."""
NONE = "none"
"""The name for no model."""
QUESTIONS_PER_REQUEST = 2
"""Concurrent questions for each request that may be in flight, as some questions compute or wait."""
QUESTIONS_IN_FLIGHT = 64
"""Minimum of the default number of concurrent questions: that for the 32 requests of a learned ``in_flight``."""
LANGUAGE_MODEL_ROLES = ("judge", "controller")
"""Roles for which the language model is the default."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ModelName:
    """The name of a model, and its options by keyword; None is the model's default.

    ``ragsmith models list`` shows the options of each provider. Served models have ``base_url``, ``api_key_env`` (the
    name of an environment variable, never a key), ``in_flight``, ``attempts`` and ``deadline`` (seconds per attempt);
    embedders have ``vector_store`` (`open_vectors`).

    Raises:
        UsageError: an option has an invalid value.
    """

    name: str
    option_items: tuple[tuple[str, Any], ...]

    def __init__(self, name: str, **options: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "option_items", tuple(sorted((o, v) for o, v in options.items() if v is not None)))
        for option, value in self.option_items:
            declared_option = find_option(option, self.kind)
            if declared_option is not None and (problem := declared_option.problem(option, value)):
                raise UsageError(problem)

    def __repr__(self) -> str:
        arguments = [repr(self.name), *(f"{option}={value!r}" for option, value in self.option_items)]
        return f"ModelName({', '.join(arguments)})"

    def with_options(self, **options: Any) -> ModelName:
        """Return the same model with changed options; None removes one."""
        return ModelName(self.name, **self.options | options)

    @property
    def kind(self) -> str:
        """The part before the colon, or the whole name of an embedded model."""
        return self.name.partition(":")[0]

    @property
    def model(self) -> str:
        """The model's name at its server or library; "" for an embedded one."""
        return self.name.partition(":")[2]

    @property
    def options(self) -> dict[str, Any]:
        """The options that are set."""
        return dict(self.option_items)

    @property
    def result_options(self) -> dict[str, Any]:
        """The options that are set and affect results."""
        declared_options = {option: find_option(option, self.kind) for option, _ in self.option_items}
        return {
            option: value
            for option, value in self.option_items
            if (declared_option := declared_options[option]) is None or declared_option.affects_results
        }

    def to_record(self) -> str | dict[str, Any]:
        """Return the name for records and exported files, with the options that affect results, if any."""
        return {"model": self.name, **self.result_options} if self.result_options else self.name


@dataclass(frozen=True, slots=True)
class ModelNames:
    """The models of a run: by role, a name or a `ModelName`.

    The ``controller`` performs the tasks of techniques and the ``judge`` scores answers; the default of both is the
    language model. The ``test_judge``, if there is one, scores answers to test questions. ``base_url`` is the address
    of self-hosted servers (``openai:``, ``rerank:``) without an address; ``vector_store`` overrides the option of the
    embedder. Neither is part of a cache key.
    """

    language_model: str | ModelName = EXTRACTIVE
    embedder: str | ModelName = WORDLLAMA
    cross_encoder: str | ModelName = LATE_INTERACTION
    judge: str | ModelName | None = None
    base_url: str | None = None
    controller: str | ModelName | None = None
    vector_store: str | None = None
    test_judge: str | ModelName | None = None

    def __post_init__(self) -> None:
        for role in ROLES:  # so that equal models compare equal
            chosen = getattr(self, role)
            if isinstance(chosen, ModelName) and not chosen.options:
                object.__setattr__(self, role, chosen.name)
        for option, value in (("base_url", self.base_url), ("vector_store", self.vector_store)):
            if value is not None and (problem := {**SERVED_OPTIONS, **EMBEDDER_OPTIONS}[option].problem(option, value)):
                raise UsageError(problem)

    def for_role(self, role: str) -> ModelName:
        """Return the model of ``role``, with its address."""
        chosen = getattr(self, role)
        if chosen is None and role in LANGUAGE_MODEL_ROLES:
            chosen = self.language_model
        name = chosen if isinstance(chosen, ModelName) else ModelName(chosen)
        if self.base_url is not None and "base_url" not in name.options:
            provider = providers(role).get(name.kind)
            if provider is not None and provider.service.self_hosted:
                name = name.with_options(base_url=self.base_url)
        return name

    def factories(self) -> list[Callable[..., Any]]:
        """Return the classes or functions that create the models and open the vector store."""
        factories = [
            provider.factory for role in self.named_roles if (provider := self._provider_for(role)) is not None
        ]
        return [*factories, *([store.fn] if (store := find_store(self.vector_store_address)) else [])]

    def _provider_for(self, role: str) -> ModelProvider | None:
        """Return the provider of a role's model; None for a model object."""
        return providers(role).get(self.for_role(role).kind)

    @property
    def self_hosted(self) -> bool:
        """Whether ``base_url`` applies to any model."""
        return any(
            provider.service.self_hosted
            for role in self.named_roles
            if (provider := self._provider_for(role)) is not None
        )

    @property
    def vector_store_address(self) -> str:
        """The address of the embedder's vector store; see `open_vectors`."""
        return self.vector_store or self.for_role("embedder").options.get("vector_store") or AUTO

    @property
    def named_roles(self) -> tuple[str, ...]:
        """The roles for which a model is named."""
        return tuple(role for role in ROLES if getattr(self, role) is not None)

    @property
    def embedded(self) -> bool:
        """Whether every model is a named one that runs in this process."""
        provider = [self._provider_for(role) for role in self.named_roles]
        return not any(model is None or model.served for model in provider)

    @property
    def heavy(self) -> bool:
        """Whether a model needs so much memory and computation that threads should share it."""
        return any(model.heavy for model in map(self._provider_for, self.named_roles) if model is not None)

    @property
    def prefers_threads(self) -> bool:
        """Whether to use threads rather than processes: for remote models, and heavy ones, which are shared."""
        return self.heavy or not self.embedded

    def workers(self) -> int:
        """Return the default number of workers: a process for each core, or of questions in flight."""
        if not self.prefers_threads:
            return os.cpu_count() or 1
        requests: int = max(self.for_role(role).options.get("in_flight", 0) for role in self.named_roles)
        return max(QUESTIONS_IN_FLIGHT, QUESTIONS_PER_REQUEST * requests)

    def check(self) -> None:
        """Check the names and options of all models.

        Raises:
            UsageError: a name or an option is unknown; the message lists the valid ones.
        """
        for role in self.named_roles:
            chosen = self.for_role(role)
            problem = problem_with_name(role, chosen.name)
            problems = (problem_with_option(role, chosen.name, option, value) for option, value in chosen.option_items)
            if problem := problem or next(filter(None, problems), None):
                raise UsageError(problem)

    def override(
        self,
        models: Mapping[str, str | ModelName],
        base_url: str | None = None,
        vector_store: str | None = None,
    ) -> ModelNames:
        """Return these names with other ``models``, ``base_url`` for all OpenAI-compatible ones, and ``vector_store``.

        A model of the same name keeps the options that are not overridden; a different model inherits none.
        """
        changes: dict[str, Any] = {role: _merge(getattr(self, role), chosen) for role, chosen in models.items()}
        if vector_store is not None:
            changes["vector_store"] = vector_store
        changed = replace(self, **changes)
        if base_url is None:
            return changed
        without_address: dict[str, Any] = {}
        for role in changed.named_roles:
            provider, name = changed._provider_for(role), getattr(changed, role)
            if provider is not None and provider.service.openai_compatible and isinstance(name, ModelName):
                without_address[role] = name.with_options(base_url=None)
        return replace(changed, base_url=base_url, **without_address)

    def to_dict(self) -> dict[str, str | dict[str, Any]]:
        """Return the names by role for records and exported files."""
        return {role: self.for_role(role).to_record() for role in self.named_roles}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ModelNames:
        """Inverse of `to_dict`."""
        named = {role: record[role] for role in ROLES if record.get(role) is not None}
        return cls().override({role: model_name_from(value) for role, value in named.items()})


def model_name_from(record: str | Mapping[str, Any]) -> str | ModelName:
    """Inverse of `ModelName.to_record`."""
    if isinstance(record, str):
        return record
    return ModelName(record["model"], **{option: value for option, value in record.items() if option != "model"})


def _merge(old: str | ModelName | None, new: str | ModelName) -> str | ModelName:
    before, after = (ModelName(m) if isinstance(m, str) else m for m in (old, new))
    if before is None or after is None or before.name != after.name:
        return new
    return before.with_options(**after.options)


_REQUIRED_METHODS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "language_model": (("complete",), ("run", "run_all")),
    "embedder": (("embed",),),
    "cross_encoder": (("score",),),
}
"""The methods that a model of each role must have; any one of the alternatives suffices."""


def partition_models(models: Mapping[str, Any]) -> tuple[dict[str, str | ModelName], dict[str, Any]]:
    """Separate ``models`` into names by role, ``given:ID`` for objects, and the objects by role.

    Raises:
        UsageError: a role is unknown, or an object does not implement its protocol.
    """
    names: dict[str, str | ModelName] = {}
    objects: dict[str, Any] = {}
    wrapped: dict[int, Any] = {}
    for role, model in models.items():
        if role not in ROLES:
            raise UsageError(
                f"there is no role {role!r} for a model; {did_you_mean(FLAG_ROLES.get(role, role), ROLES)}"
            )
        if isinstance(model, str | ModelName):
            names[role] = model
            continue
        _check_protocol(role, wrapped.setdefault(id(model), _wrap(model)))
        objects[role] = wrapped[id(model)]
        names[role] = f"{OBJECT_KIND}:{objects[role].id}"
    return names, objects


def check_objects(chosen: Mapping[str, ModelName], objects: Mapping[str, Any]) -> None:
    """Check that every object that is named was passed.

    Raises:
        UsageError: one was not; the message says how to pass it.
    """
    for role, model in chosen.items():
        if model.kind == OBJECT_KIND and role not in objects:
            raise UsageError(
                f"the {ROLE_LABELS[role]} {model.model} was a Python object, which cannot be stored in a file: pass it "
                f"again, with models={{{role!r}: ...}}, or name another model"
            )


def _wrap(model: Any) -> Any:
    """Wrap a LlamaIndex model; return anything else unchanged."""
    if not any(base.__module__.partition(".")[0] == "llama_index" for base in type(model).__mro__):
        return model
    from ragsmith.models.llama_index import LlamaIndexChat, LlamaIndexEmbedder  # noqa: PLC0415  rarely needed

    if hasattr(model, "get_text_embedding_batch"):
        return LlamaIndexEmbedder(model)
    return LlamaIndexChat(model) if hasattr(model, "complete") else model


def _check_protocol(role: str, model: Any) -> None:
    alternatives = _REQUIRED_METHODS[ROLES[role]]
    if not any(all(callable(getattr(model, name, None)) for name in names) for names in alternatives):
        required = " or ".join(" and ".join(f"{name}()" for name in names) for names in alternatives)
        raise UsageError(
            f"the {ROLE_LABELS[role]} is a {type(model).__name__}, which lacks {required}: give one with "
            "these (ragsmith.models.protocols), or a name, or leave the role out"
        )
    model_id = getattr(model, "id", None)
    if not isinstance(model_id, str) or not model_id.strip() or not model_id.isprintable():
        raise UsageError(
            f"the {ROLE_LABELS[role]} is a {type(model).__name__} without an 'id': give it one line of text that "
            "identifies everything its results depend on, because results are cached under it"
        )

"""Models by name: which model a role is given, and where and how it is asked.

What shapes results (dimensions, prefixes, revision, number format, window) goes wherever the name goes. Where a model
is and how it is asked stays with the user: it is in no key, no record and no exported file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragsmith.errors import UsageError
from ragsmith.models.options import OF_EMBEDDERS, OF_SERVED
from ragsmith.models.registry import (
    ROLES,
    ModelProvider,
    option_named,
    problem_with_name,
    problem_with_option,
    providers,
)
from ragsmith.models.vector_address import AUTO
from ragsmith.models.vector_stores import store_named

EXTRACTIVE, WORDLLAMA, LATE_INTERACTION = "extractive", "wordllama", "late_interaction"
"""The embedded models, which are used where no other is named."""
NONE = "none"
"""The name of a model that a run does without."""
QUESTIONS_IN_FLIGHT = 64
"""More than a provider is asked at once: some questions compute, or wait for what another asks."""
FOLLOWING = ("judge", "controller")
"""Roles that the language model plays where no other is named."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ModelName:
    """A model by name, and its options by keyword; None leaves one to the model.

    Which options a model has, its provider says (``ragsmith models list``). Every served one has ``base_url``,
    ``api_key_env`` (the name of an environment variable: no key is ever here), ``in_flight``, ``attempts`` and
    ``deadline`` (seconds, for one attempt); every embedder ``vector_store``, where its vectors lie (`open_vectors`).

    Raises:
        UsageError: an option has a value that it cannot have.
    """

    name: str
    given: tuple[tuple[str, Any], ...]

    def __init__(self, name: str, **options: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "given", tuple(sorted((o, v) for o, v in options.items() if v is not None)))
        for option, value in self.given:
            known = option_named(option, self.kind)
            if known is not None and (problem := known.problem(option, value)):
                raise UsageError(problem)

    def __repr__(self) -> str:
        return f"ModelName({', '.join([repr(self.name), *(f'{option}={value!r}' for option, value in self.given)])})"

    def changed(self, **options: Any) -> ModelName:
        """The same model with other options; None takes one away."""
        return ModelName(self.name, **self.options | options)

    @property
    def kind(self) -> str:
        """What stands before the colon, or the whole name of an embedded model."""
        return self.name.partition(":")[0]

    @property
    def model(self) -> str:
        """What the server or the library calls the model; "" for an embedded one."""
        return self.name.partition(":")[2]

    @property
    def options(self) -> dict[str, Any]:
        """The options that are given."""
        return dict(self.given)

    @property
    def shaping(self) -> dict[str, Any]:
        """The options that are given and determine results."""
        known = {option: option_named(option, self.kind) for option, _ in self.given}
        return {option: value for option, value in self.given if (its := known[option]) is None or its.shapes}

    def plain(self) -> str | dict[str, Any]:
        """What a record or an exported file says: the name, with the options that determine results."""
        return {"model": self.name, **self.shaping} if self.shaping else self.name


@dataclass(frozen=True, slots=True)
class ModelNames:
    """Which models a run uses: by role, a name or a `ModelName`.

    The ``controller`` performs what techniques ask and the ``judge`` scores answers; both are the language model, which
    writes them, unless named. ``base_url`` is where servers of one's own answer (``openai:``, ``rerank:``) that have no
    address of their own, and ``vector_store`` where vectors lie, and goes before the embedder's own option; neither
    is part of a key.
    """

    language_model: str | ModelName = EXTRACTIVE
    embedder: str | ModelName = WORDLLAMA
    cross_encoder: str | ModelName = LATE_INTERACTION
    judge: str | ModelName | None = None
    base_url: str | None = None
    controller: str | ModelName | None = None
    vector_store: str | None = None

    def __post_init__(self) -> None:
        for role in ROLES:  # equal models are equal, however they are written
            chosen = getattr(self, role)
            if isinstance(chosen, ModelName) and not chosen.options:
                object.__setattr__(self, role, chosen.name)
        for option, value in (("base_url", self.base_url), ("vector_store", self.vector_store)):
            if value is not None and (problem := {**OF_SERVED, **OF_EMBEDDERS}[option].problem(option, value)):
                raise UsageError(problem)

    def of(self, role: str) -> ModelName:
        """The model of a role, with the address it is asked at."""
        chosen = getattr(self, role)
        if chosen is None and role in FOLLOWING:
            chosen = self.language_model
        found = chosen if isinstance(chosen, ModelName) else ModelName(chosen)
        if self.base_url is not None and "base_url" not in found.options:
            declared = providers(role).get(found.kind)
            if declared is not None and declared.service.self_hosted:
                found = found.changed(base_url=self.base_url)
        return found

    def factories(self) -> list[Callable[..., Any]]:
        """What makes the models of a run, and opens its vectors."""
        made = [declared.factory for role in self.named if (declared := self._declared(role)) is not None]
        return [*made, *([store.fn] if (store := store_named(self.vectors_at)) else [])]

    def _declared(self, role: str) -> ModelProvider | None:
        """Who makes the model of a role; nobody knows of an object that was handed over."""
        return providers(role).get(self.of(role).kind)

    @property
    def self_hosted(self) -> bool:
        """Whether any model can be asked at a server of one's own, which ``base_url`` says."""
        return any(found.service.self_hosted for role in self.named if (found := self._declared(role)) is not None)

    @property
    def vectors_at(self) -> str:
        """Where the vectors of the embedder lie; see `open_vectors`."""
        return self.vector_store or self.of("embedder").options.get("vector_store") or AUTO

    @property
    def named(self) -> tuple[str, ...]:
        """The roles with a model of their own."""
        return tuple(role for role in ROLES if getattr(self, role) is not None)

    @property
    def embedded(self) -> bool:
        """Whether every model runs in this process; of objects that were handed over nobody knows."""
        declared = [self._declared(role) for role in self.named]
        return not any(its is None or its.served for its in declared)

    @property
    def heavy(self) -> bool:
        """Whether a model takes memory and cores of its own, so that one process with threads suits it."""
        return any(its.heavy for its in map(self._declared, self.named) if its is not None)

    @property
    def waits(self) -> bool:
        """Whether threads save time rather than processes: models elsewhere are waited for, heavy ones shared."""
        return self.heavy or not self.embedded

    def workers(self) -> int:
        """How many workers suit these models: a process for each core, or a number of questions in flight."""
        return QUESTIONS_IN_FLIGHT if self.waits else os.cpu_count() or 1

    def check(self) -> None:
        """Find out that every role can be given its model.

        Raises:
            UsageError: a name is unknown, or has an option that its model has not; the message lists what there is.
        """
        for role in self.named:
            chosen = self.of(role)
            problem = problem_with_name(role, chosen.name)
            problems = (problem_with_option(role, chosen.name, option, value) for option, value in chosen.given)
            if problem := problem or next(filter(None, problems), None):
                raise UsageError(problem)

    def overridden(
        self,
        models: Mapping[str, str | ModelName],
        base_url: str | None = None,
        vector_store: str | None = None,
    ) -> ModelNames:
        """These with ``models`` in their roles, ``base_url`` for every OpenAI-compatible one, and ``vector_store``.

        A model named again keeps the options it had where no other is given; another model takes none over.
        """
        over: dict[str, Any] = {role: _over(getattr(self, role), chosen) for role, chosen in models.items()}
        if vector_store is not None:
            over["vector_store"] = vector_store
        changed = replace(self, **over)
        if base_url is None:
            return changed
        moved: dict[str, Any] = {}
        for role in changed.named:
            declared, own = changed._declared(role), getattr(changed, role)
            if declared is not None and declared.service.openai_compatible and isinstance(own, ModelName):
                moved[role] = own.changed(base_url=None)
        return replace(changed, base_url=base_url, **moved)

    def plain(self) -> dict[str, str | dict[str, Any]]:
        """Role to name and to what determines results, as records and exported files have it."""
        return {role: self.of(role).plain() for role in self.named}

    @classmethod
    def recorded(cls, plain: Mapping[str, Any]) -> ModelNames:
        """The models of a record; see `plain`."""
        given = {role: plain[role] for role in ROLES if plain.get(role) is not None}
        return cls().overridden({role: read_name(value) for role, value in given.items()})


def read_name(plain: str | Mapping[str, Any]) -> str | ModelName:
    """The model that `ModelName.plain` says."""
    if isinstance(plain, str):
        return plain
    return ModelName(plain["model"], **{option: value for option, value in plain.items() if option != "model"})


def _over(old: str | ModelName | None, new: str | ModelName) -> str | ModelName:
    before, after = (ModelName(m) if isinstance(m, str) else m for m in (old, new))
    if before is None or after is None or before.name != after.name:
        return new
    return before.changed(**after.options)

"""Models by name: which model a role is given, and where and how it is asked.

What shapes results (dimensions, prefixes, revision, number format, window) goes wherever the name goes. Where a model
is and how it is asked stays with the user: it is in no key, no record and no exported file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ragsmith.errors import UsageError
from ragsmith.models.kinds import (
    EXTRACTIVE,
    GIVEN,
    LATE_INTERACTION,
    LOCAL,
    OPENAI,
    RERANK,
    ROLES,
    SERVED,
    WORDLLAMA,
    problem_with_name,
    problem_with_option,
)
from ragsmith.models.options import problem_with
from ragsmith.models.vector_address import AUTO

QUESTIONS_IN_FLIGHT = 64
"""More than a provider is asked at once: some questions compute, or wait for what another asks."""
SHAPING = ("dimensions", "query_prefix", "document_prefix", "dtype", "revision", "context_window")
"""The options that determine results."""
FOLLOWING = ("judge", "controller")
"""Roles that the language model plays where no other is named."""


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model by name, and its options; None leaves one to the model.

    ``deadline`` is in seconds, for one attempt; ``context_window`` in tokens; ``api_key_env`` names an environment
    variable, and no key is ever here. ``vector_store`` is where an embedder's vectors lie (`open_vectors`).

    Raises:
        UsageError: an option has a value that it cannot have.
    """

    name: str
    base_url: str | None = None
    api_key_env: str | None = None
    in_flight: int | None = None
    attempts: int | None = None
    deadline: float | None = None
    dimensions: int | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    device: str | None = None
    dtype: str | None = None
    batch_size: int | None = None
    revision: str | None = None
    context_window: int | None = None
    vector_store: str | None = None

    def __post_init__(self) -> None:
        for option, value in self.options.items():
            if problem := problem_with(option, value):
                raise UsageError(problem)

    @property
    def kind(self) -> str:
        """What stands before the colon, or the whole name of an embedded model."""
        return self.name.partition(":")[0]

    @property
    def model(self) -> str:
        """What the server or the library calls the model; "" for an embedded one."""
        return self.name.partition(":")[2]

    @property
    def served(self) -> bool:
        """Whether it is asked over a network."""
        return self.kind in SERVED

    @property
    def options(self) -> dict[str, Any]:
        """The options that are given."""
        values = {option: getattr(self, option) for option in OPTIONS}
        return {option: value for option, value in values.items() if value is not None}

    @property
    def shaping(self) -> dict[str, Any]:
        """The options that are given and determine results."""
        return {option: value for option, value in self.options.items() if option in SHAPING}

    def plain(self) -> str | dict[str, Any]:
        """What a record or an exported file says: the name, with the options that determine results."""
        return {"model": self.name, **self.shaping} if self.shaping else self.name


OPTIONS = tuple(field.name for field in fields(ModelName) if field.name != "name")


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
        for option in ("base_url", "vector_store"):
            value = getattr(self, option)
            if value is not None and (problem := problem_with(option, value)):
                raise UsageError(problem)

    def of(self, role: str) -> ModelName:
        """The model of a role, with the address it is asked at."""
        chosen = getattr(self, role)
        if chosen is None and role in FOLLOWING:
            chosen = self.language_model
        found = chosen if isinstance(chosen, ModelName) else ModelName(chosen)
        if self.base_url is not None and found.base_url is None and found.kind in (OPENAI, RERANK):
            found = replace(found, base_url=self.base_url)
        return found

    @property
    def vectors_at(self) -> str:
        """Where the vectors of the embedder lie; see `open_vectors`."""
        return self.vector_store or self.of("embedder").vector_store or AUTO

    @property
    def named(self) -> tuple[str, ...]:
        """The roles with a model of their own."""
        return tuple(role for role in ROLES if getattr(self, role) is not None)

    @property
    def embedded(self) -> bool:
        """Whether every model runs in this process; of objects that were handed over nobody knows."""
        return not any(self.of(role).served or self.of(role).kind == GIVEN for role in self.named)

    @property
    def heavy(self) -> bool:
        """Whether a model takes memory and cores of its own, so that one process with threads suits it."""
        return any(self.of(role).kind == LOCAL for role in self.named)

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
            problems = (problem_with_option(role, chosen.name, option) for option in chosen.options)
            if problem := problem or next(filter(None, problems), None):
                raise UsageError(problem)

    def overridden(
        self,
        models: Mapping[str, str | ModelName],
        base_url: str | None = None,
        vector_store: str | None = None,
    ) -> ModelNames:
        """These with ``models`` in their roles, ``base_url`` for every ``openai:`` model, and ``vector_store``.

        A model named again keeps the options it had where no other is given; another model takes none over.
        """
        over: dict[str, Any] = {role: _over(getattr(self, role), chosen) for role, chosen in models.items()}
        if vector_store is not None:
            over["vector_store"] = vector_store
        changed = replace(self, **over)
        if base_url is None:
            return changed
        own = {role: getattr(changed, role) for role in ROLES}
        openai = [(role, m) for role, m in own.items() if isinstance(m, ModelName) and m.kind == OPENAI]
        moved: dict[str, Any] = {role: replace(model, base_url=None) for role, model in openai}
        return replace(changed, base_url=base_url, **moved)

    def plain(self) -> dict[str, str | dict[str, Any]]:
        """Role to name and to what determines results, as records and exported files have it."""
        return {role: self.of(role).plain() for role in self.named}

    @classmethod
    def recorded(cls, plain: Mapping[str, Any]) -> ModelNames:
        """The models of a record; see `plain`."""
        given = {role: plain[role] for role in ROLES if plain.get(role) is not None}
        return cls().overridden({role: _read(value) for role, value in given.items()})


def _read(plain: str | Mapping[str, Any]) -> str | ModelName:
    if isinstance(plain, str):
        return plain
    return ModelName(plain["model"], **{option: plain[option] for option in OPTIONS if option in plain})


def _over(old: str | ModelName | None, new: str | ModelName) -> str | ModelName:
    before, after = (ModelName(m) if isinstance(m, str) else m for m in (old, new))
    if before is None or after is None or before.name != after.name:
        return new
    return replace(before, **after.options)

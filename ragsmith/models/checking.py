"""Do the models answer? One tiny call to each, before a run depends on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ragsmith.errors import RagsmithError
from ragsmith.models.loading import Loader
from ragsmith.models.names import NONE, ModelName, ModelNames
from ragsmith.text.redaction import redacted

WORD = "ready"
PROMPT = f"Reply with the word {WORD}."
MOST_TOKENS = 256
"""Enough for a model that thinks before it says a word."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of asking the model of a role; ``problem`` is "" where it answered, ``seconds`` None where it did not.

    ``dimensions`` are those of an embedder's vectors.
    """

    role: str
    name: str
    id: str
    problem: str = ""
    seconds: float | None = None
    dimensions: int | None = None

    @property
    def ok(self) -> bool:
        """Whether it answered."""
        return not self.problem


def check_models(names: ModelNames, *, clock: Callable[[], float] = time.perf_counter) -> list[Checked]:
    """Ask every model once, and say what happened; a model that two roles share is asked for each.

    Raises:
        UsageError: a name is unknown, or has an option that its model has not.
    """
    names.check()
    return [_checked(role, names.of(role), clock) for role in names.named]


def _checked(role: str, chosen: ModelName, clock: Callable[[], float]) -> Checked:
    if chosen.name == NONE:
        return Checked(role, chosen.name, NONE)
    name, loader = "", None
    try:
        loader = Loader({role: chosen}, (), attempts=1)
        model: Any = loader.model(role)
        name = redacted(model.id)
        started = clock()
        dimensions = _ask(role, model)
        return Checked(role, chosen.name, name, seconds=clock() - started, dimensions=dimensions)
    except RagsmithError as error:
        return Checked(role, chosen.name, name, redacted(" ".join(str(error).split())))
    finally:
        if loader is not None:
            loader.servers.close()


def _ask(role: str, model: Any) -> int | None:
    """Ask once; the length of the vectors, of an embedder."""
    texts: Sequence[str] = (WORD, "never")
    if role == "embedder":
        return int(model.embed(texts).shape[1])
    if role == "cross_encoder":
        model.score(WORD, texts)
    elif hasattr(model, "complete"):
        model.complete(PROMPT, max_tokens=MOST_TOKENS, sample=0)
    return None

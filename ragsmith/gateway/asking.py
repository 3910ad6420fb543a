"""Prompts, the reading of replies, and the stored form of vectors: all of the gateway that can change a value.

Each function here counts in the key of every evaluation (`ragsmith.evaluation.keys`). Waiting, memory and payment do
not, and are in the other modules.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ragsmith.errors import ModelError
from ragsmith.models.calls import Completion
from ragsmith.models.protocols import Embedder, Vectors
from ragsmith.models.tasks import Input, Task
from ragsmith.models.unit_vectors import normalize_rows, warn_normalized
from ragsmith.models.usage import MIN_CHARACTERS_PER_TOKEN, Usage

T = TypeVar("T")

ATTEMPTS = 2
"""Requests for a reply that can be read."""


def render_prompt(task: Task[Any], inputs: Mapping[str, Input], window: int | None) -> tuple[str, bool]:
    """The prompt of a task, and whether inputs were cut to leave room for it and the reply in ``window`` tokens.

    Tokens are estimated; None is no limit.

    Raises:
        ModelError: cutting the inputs does not make it fit.
    """
    given = dict(inputs)
    if window is None:
        return task.render(given), False
    try:
        cut = task.truncate_inputs(given, (window - task.max_tokens) * MIN_CHARACTERS_PER_TOKEN)
    except ValueError as error:
        raise ModelError(f"{error}: name a model with a larger context window") from error
    return task.render(cut), cut != given


def complete_readably(task: Task[Any], prompt: str, complete: Callable[[str], Completion]) -> Completion | str:
    """A reply that ``task`` can read, with the cost of all attempts, or a sentence on why there is none.

    After an unreadable reply the model is asked once more, with what was wrong with it.
    """
    spent, asked, problem = Usage(), prompt, ""
    for _ in range(ATTEMPTS):
        completion = complete(asked)
        spent += completion.usage
        wrong = parse_problem(task, completion.text)
        if wrong is None:
            return Completion(completion.text, spent, completion.cut_at)
        problem = f"{wrong} (it began {completion.text[:60]!r})"
        asked = f"{prompt}\n\nYour last reply could not be used: {wrong}. Reply in exactly the form asked for."
    return problem


def parse_problem(task: Task[Any], reply: str) -> str | None:
    """Why ``task`` cannot read a reply; None if it can."""
    try:
        task.parse(reply)
    except ValueError as error:
        return str(error)
    return None


def parse_reply(task: Task[T], reply: str) -> T:
    """The value of a reply.

    Raises:
        ModelError: it cannot be read. Two tasks may send the same prompt, and read the reply differently.
    """
    try:
        return task.parse(reply)
    except ValueError as error:
        raise ModelError(f"the reply to {task.name} cannot be read: {error}") from error


def embed_function(model: Embedder, as_queries: bool) -> tuple[str, Callable[[Sequence[str]], Vectors]]:
    """How texts are embedded, as a ``text`` or a ``query``: the latter for queries, where the model differs."""
    queries = getattr(model, "embed_queries", None) if as_queries else None
    return ("query", queries) if queries else ("text", model.embed)


def unit_vectors(model: str, vectors: Sequence[Any] | Vectors, n: int) -> Vectors:
    """The ``n`` vectors of ``model`` in single precision; those that are neither zero nor of length 1 are scaled to it.

    Raises:
        ModelError: they are not ``n`` rows of finite numbers.
    """
    try:
        rows = np.asarray(vectors)
    except ValueError:  # rows of different lengths
        rows = np.asarray("")
    if rows.ndim != 2 or len(rows) != n or rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
        raise ModelError(f"{model}: not a row of finite numbers for each of {n} texts came back")
    of_length_1, changed = normalize_rows(rows)
    if changed.any():
        warn_normalized(model)
    return np.where(changed[:, np.newaxis], of_length_1, rows).astype(np.float32, copy=False)


def encode_vector(vector: Any) -> str:
    """A vector in its stored form: little-endian single precision, in base64."""
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def decode_vector(text: str) -> Any:
    """The vector of a stored form."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4")

"""Prompts, parsing of replies and encoding of vectors: the code of the gateway that affects results.

Every function of this module is part of the key of every evaluation (`ragsmith.evaluation.keys`). Caching, claims
and budgets are in other modules, which are not part of keys.
"""

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

MAX_REPLY_ATTEMPTS = 2
"""Maximum number of requests for a reply that can be parsed."""


def render_prompt(task: Task[Any], inputs: Mapping[str, Input], window: int | None) -> tuple[str, bool]:
    """Render the prompt of ``task``; return it, and whether inputs were truncated to fit ``window``.

    ``window`` is the size of prompt and reply in estimated tokens; None is no limit.

    Raises:
        ModelError: the prompt does not fit even with truncated inputs.
    """
    values = dict(inputs)
    if window is None:
        return task.render(values), False
    try:
        cut = task.truncate_inputs(values, (window - task.max_tokens) * MIN_CHARACTERS_PER_TOKEN)
    except ValueError as error:
        raise ModelError(f"{error}: name a model with a larger context window") from error
    return task.render(cut), cut != values


def complete_until_parsed(task: Task[Any], prompt: str, complete: Callable[[str], Completion]) -> Completion | str:
    """Return a reply that ``task`` can parse, with the cost of all attempts, or the error of the last attempt.

    After an unreadable reply, the prompt is sent again with the parsing error.
    """
    spent, current, problem = Usage(), prompt, ""
    for _ in range(MAX_REPLY_ATTEMPTS):
        completion = complete(current)
        spent += completion.usage
        wrong = parse_problem(task, completion.text)
        if wrong is None:
            return Completion(completion.text, spent, completion.cut_at)
        problem = f"{wrong} (it began {completion.text[:60]!r})"
        current = f"{prompt}\n\nYour last reply could not be used: {wrong}. Reply in exactly the form asked for."
    return problem


def parse_problem(task: Task[Any], reply: str) -> str | None:
    """Return the error of parsing a reply to ``task``, or None if it can be parsed."""
    try:
        task.read(reply)
    except ValueError as error:
        return str(error)
    return None


def parse_reply(task: Task[T], reply: str) -> T:
    """Parse a reply to ``task``.

    Raises:
        ModelError: the reply cannot be parsed, which may happen if another task with the same prompt accepted it.
    """
    try:
        return task.read(reply)
    except ValueError as error:
        raise ModelError(f"the reply to {task.name} cannot be read: {error}") from error


def select_embed_function(model: Embedder, as_queries: bool) -> tuple[str, Callable[[Sequence[str]], Vectors]]:
    """Return ``query`` and the model's function for queries if it has one, else ``text`` and that for texts."""
    queries = getattr(model, "embed_queries", None) if as_queries else None
    return ("query", queries) if queries else ("text", model.embed)


def normalize_vectors(model: str, vectors: Sequence[Any] | Vectors, n: int) -> Vectors:
    """Return the ``n`` vectors of ``model`` in single precision, scaled to length 1 if they are not zero.

    Raises:
        ModelError: they are not ``n`` rows of finite numbers.
    """
    try:
        rows = np.asarray(vectors)
    except ValueError:  # rows of different lengths
        rows = np.asarray("")
    if rows.ndim != 2 or len(rows) != n or rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
        raise ModelError(f"{model}: not a row of finite numbers for each of {n} texts came back")
    normalized, changed = normalize_rows(rows)
    if changed.any():
        warn_normalized(model)
    return np.where(changed[:, np.newaxis], normalized, rows).astype(np.float32, copy=False)


def encode_vector(vector: Any) -> str:
    """Encode a vector for storage: little-endian single precision in base64."""
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def decode_vector(text: str) -> Any:
    """Inverse of `encode_vector`."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4")

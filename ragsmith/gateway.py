"""The one way from techniques to models: remembers calls, joins identical ones in flight, and counts.

Techniques are handed metered views of the models. A remembered call returns the bill of the call that was made, so a
candidate that profits from the cache does not look cheap; the gateway's own counts say what this process really did.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np

from ragsmith.cache import Memo
from ragsmith.canonical import digest
from ragsmith.errors import ModelError
from ragsmith.models import CrossEncoder, Embedder, LanguageModel, Vectors
from ragsmith.tasks import Input, Task
from ragsmith.usage import ONE_CALL, Meter, Usage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply of a chat model."""

    text: str
    usage: Usage


class ChatModel(Protocol):
    """A model that completes prompts; its replies are paid for, so they are kept for good."""

    @property
    def id(self) -> str:
        """Provider, model and sampling: everything but the prompt that determines a reply."""
        ...

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        """Reply to ``prompt``.

        Raises:
            ModelError: no valid reply could be had.
        """
        ...


def completes(model: object) -> TypeGuard[ChatModel]:
    """Whether ``model`` is a chat model, which completes prompts, and not one that performs tasks itself."""
    return hasattr(model, "complete")


class CallStore(Protocol):
    """Where paid replies are kept."""

    def get_call(self, key: str) -> Any:
        """The stored call, or None."""
        ...

    def put_call(
        self,
        key: str,
        model: str,
        task: str,
        value: Any,
        *,
        calls: int,
        input_tokens: int,
        output_tokens: int,
        seconds: float,
        replacing: bool,
    ) -> None:
        """Keep a call, in the place of one that is there if ``replacing``; durable when this returns."""
        ...


@dataclass(slots=True)
class Counts:
    """What passed through a gateway, for one kind of call."""

    asked: int = 0
    distinct: int = 0
    stored: int = 0
    made: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


KINDS = ("language_model", "embedder", "cross_encoder")


class Gateway:
    """One per process; safe to use from many threads."""

    def __init__(self, store: CallStore | None = None) -> None:
        self._store = store
        self._replies: Memo[tuple[Any, Usage]] = Memo()
        self._vectors: Memo[Any] = Memo()
        self._scores: Memo[float] = Memo()
        self._unreadable: dict[Any, str] = {}
        self._counts = {kind: Counts() for kind in KINDS}
        self._lock = threading.Lock()

    def counts(self) -> dict[str, Counts]:
        """Calls asked for, distinct among them, answered from the store, and made, by kind of model."""
        memos: dict[str, Memo[Any]] = {
            "language_model": self._replies,
            "embedder": self._vectors,
            "cross_encoder": self._scores,
        }
        with self._lock:
            return {kind: Counts(c.asked, len(memos[kind]), c.stored, c.made) for kind, c in self._counts.items()}

    def language_model(self, model: LanguageModel | ChatModel, meter: Meter) -> LanguageModel:
        """A metered view of a language model."""
        return _Chat(self, model, meter) if completes(model) else _Tasks(self, model, meter)

    def embedder(self, model: Embedder, meter: Meter) -> Embedder:
        """A metered view of an embedder."""
        return _Embedder(self, model, meter)

    def cross_encoder(self, model: CrossEncoder, meter: Meter) -> CrossEncoder:
        """A metered view of a cross-encoder."""
        return _CrossEncoder(self, model, meter)

    def count(self, kind: str, *, asked: int = 0, stored: int = 0, made: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            counts = self._counts[kind]
            counts.asked += asked
            counts.stored += stored
            counts.made += made

    def complete(self, model: ChatModel, task: Task[Any], prompt: str, sample: int) -> tuple[str, Usage]:
        """A reply that ``task`` can read: from memory, from the store, or from the model (then kept at once)."""
        identity = (model.id, prompt, task.max_tokens, sample)

        def find() -> tuple[str, Usage]:
            key = digest("completion", *identity)
            known = self._store.get_call(key) if self._store else None
            if known is not None and _readable(task, known.value):
                self.count("language_model", stored=1)
                return known.value, Usage(1, 0, 0, known.input_tokens, known.output_tokens, known.seconds)
            completion = self._ask(model, task, prompt, sample)
            if self._store:
                usage = completion.usage
                self._store.put_call(
                    key,
                    model=model.id,
                    task=task.name,
                    value=completion.text,
                    calls=1,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    seconds=usage.seconds,
                    replacing=known is not None,
                )
                first = self._store.get_call(key)  # another process may have been quicker; what is stored is replayed
                if first is not None and first.value != completion.text and _readable(task, first.value):
                    return first.value, Usage(1, 0, 0, first.input_tokens, first.output_tokens, first.seconds)
            return completion.text, completion.usage

        self.count("language_model", asked=1)
        return self._replies.get(identity, find)

    def _ask(self, model: ChatModel, task: Task[Any], prompt: str, sample: int) -> Completion:
        """A new reply that ``task`` can read; an unreadable one is asked for once more, with what is wrong with it.

        If that is no better it fails, and fails at once for whoever else needs it in this process: at temperature 0 the
        same request would only be paid for again and again.
        """
        request = (model.id, prompt, task.max_tokens, sample, task)
        if request in self._unreadable:
            raise ModelError(self._unreadable[request])
        spent, asked, problem = Usage(), prompt, ""
        for _ in range(2):
            self.count("language_model", made=1)
            completion = model.complete(asked, max_tokens=task.max_tokens, sample=sample)
            spent += completion.usage
            try:
                task.parse(completion.text)
            except ValueError as error:
                problem = f"{error} (it began {completion.text[:60]!r})"
                asked = f"{prompt}\n\nYour last reply could not be used: {error}. Reply in exactly the form asked for."
            else:
                return Completion(completion.text, spent)
        self._unreadable[request] = message = f"two replies to {task.name} cannot be read; the last: {problem}"
        raise ModelError(message)

    def perform(self, model: LanguageModel, task: Task[T], sample: int, inputs: dict[str, Input]) -> tuple[T, Usage]:
        """The result of a task on a model that performs tasks itself; it costs less to compute than to keep on disk."""

        def compute() -> tuple[T, Usage]:
            self.count("language_model", made=1)
            return model.run(task, sample=sample, **inputs), ONE_CALL

        self.count("language_model", asked=1)
        return self._replies.get((model.id, task, sample, *inputs.items()), compute)

    def embed(self, model: Embedder, texts: Sequence[str]) -> Vectors:
        """Vectors of ``texts``, each embedded once."""

        def compute(missing: list[tuple[str, str]]) -> list[Any]:
            self.count("embedder", made=len(missing))
            return list(model.embed([text for _, text in missing]))

        if not texts:
            return model.embed(texts)
        self.count("embedder", asked=len(texts))
        return np.stack(self._vectors.get_many([(model.id, text) for text in texts], compute))

    def score(self, model: CrossEncoder, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Scores of ``texts`` against ``query``, each pair scored once."""

        def compute(missing: list[tuple[str, str, str]]) -> Sequence[float]:
            self.count("cross_encoder", made=len(missing))
            return model.score(query, [text for _, _, text in missing])

        self.count("cross_encoder", asked=len(texts))
        return tuple(self._scores.get_many([(model.id, query, text) for text in texts], compute))


def _readable(task: Task[Any], reply: str) -> bool:
    try:
        task.parse(reply)
    except ValueError:
        return False
    return True


def _check(task: Task[Any], reply: str) -> None:
    try:
        task.parse(reply)
    except ValueError as error:
        raise ModelError(f"the reply to {task.name} cannot be read: {error}") from error


class _Metered:
    def __init__(self, gateway: Gateway, model: Any, meter: Meter) -> None:
        self._gateway = gateway
        self._model = model
        self._meter = meter

    @property
    def id(self) -> str:
        return str(self._model.id)


class _Tasks(_Metered):
    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        result, usage = self._gateway.perform(self._model, task, sample, inputs)
        self._meter.add(usage)
        return result


class _Chat(_Metered):
    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        reply, usage = self._gateway.complete(self._model, task, task.render(inputs), sample)
        self._meter.add(usage)
        _check(task, reply)  # two tasks may send the same prompt and read the reply differently
        return task.parse(reply)


class _Embedder(_Metered):
    def embed(self, texts: Sequence[str]) -> Vectors:
        self._meter.texts_embedded += len(texts)
        return self._gateway.embed(self._model, texts)


class _CrossEncoder(_Metered):
    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        self._meter.pairs_scored += len(texts)
        return self._gateway.score(self._model, query, texts)

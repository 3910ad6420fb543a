"""Metered views of models: what techniques are handed. Every call goes through the gateway and on the meter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ragsmith.errors import ModelError
from ragsmith.models.protocols import Vectors
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import Meter, Usage

if TYPE_CHECKING:
    from ragsmith.gateway.gateway import Gateway

T = TypeVar("T")


class Metered:
    """A model, the gateway to it, and the meter its calls are added to."""

    def __init__(self, gateway: Gateway, model: Any, meter: Meter) -> None:
        self._gateway = gateway
        self._model = model
        self._meter = meter

    @property
    def id(self) -> str:
        """The model's."""
        return str(self._model.id)


class TaskView(Metered):
    """A language model that performs tasks itself."""

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """See `LanguageModel.run`."""
        result, usage = self._gateway.perform(self._model, task, sample, inputs)
        self._meter.add(usage)
        return result

    def run_all(self, task: Task[T], inputs: Sequence[Mapping[str, Input]]) -> tuple[T, ...]:
        """See `LanguageModel.run_all`."""
        return tuple(self.run(task, sample=0, **given) for given in inputs)


class ChatView(Metered):
    """A chat model: tasks become prompts, and replies results."""

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """See `LanguageModel.run`."""
        result, usage = self._asked(task, sample, inputs)
        self._meter.add(usage)
        return result

    def run_all(self, task: Task[T], inputs: Sequence[Mapping[str, Input]]) -> tuple[T, ...]:
        """See `LanguageModel.run_all`."""
        found = self._gateway.side_by_side(lambda given: self._asked(task, 0, given), inputs)
        for _, usage in found:  # in their order, and in this thread
            self._meter.add(usage)
        return tuple(result for result, _ in found)

    def _asked(self, task: Task[T], sample: int, inputs: Mapping[str, Input]) -> tuple[T, Usage]:
        given = dict(inputs)
        window = getattr(self._model, "context_window", None)
        if window is not None:
            given = self._gateway.within(window - task.max_tokens, task, given)
        reply, usage = self._gateway.complete(self._model, task, task.render(given), sample)
        _check(task, reply)  # two tasks may send the same prompt and read the reply differently
        return task.parse(reply), usage


class EmbedderView(Metered):
    """An embedder."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`."""
        self._meter.texts_embedded += len(texts)
        return self._gateway.embed(self._model, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries, which asymmetric models embed otherwise."""
        self._meter.texts_embedded += len(texts)
        return self._gateway.embed(self._model, texts, as_queries=True)


class CrossEncoderView(Metered):
    """A cross-encoder."""

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """See `CrossEncoder.score`."""
        self._meter.pairs_scored += len(texts)
        return self._gateway.score(self._model, query, texts)


def _check(task: Task[Any], reply: str) -> None:
    try:
        task.parse(reply)
    except ValueError as error:
        raise ModelError(f"the reply to {task.name} cannot be read: {error}") from error

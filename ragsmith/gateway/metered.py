"""Metered views of models: what techniques are handed. Every call is remembered, counted, and put on the meter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heapreplace
from typing import Any, Generic, TypeVar

from ragsmith.gateway.asking import parse_reply, render_prompt
from ragsmith.gateway.completions import CompletionMemo
from ragsmith.gateway.failures import Asker
from ragsmith.gateway.vectors_and_scores import EmbeddingMemo, ScoreMemo
from ragsmith.models.protocols import LanguageModel, Vectors
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import Meter, Usage

C = TypeVar("C")
T = TypeVar("T")


class MeteredModel(Generic[C]):
    """A model, the calls of its kind in this process, the meter that its own are added to, and who asks."""

    def __init__(self, calls: C, model: Any, meter: Meter, asker: Asker | None = None) -> None:
        self._calls = calls
        self._model = model
        self._meter = meter
        self._asker = asker

    @property
    def id(self) -> str:
        """The id of the model behind this view."""
        return str(self._model.id)


class MeteredTasks(MeteredModel[CompletionMemo], LanguageModel):
    """A language model that performs tasks itself."""

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """See `LanguageModel.run`."""
        result, usage = self._calls.perform(self._model, task, sample, inputs)
        self._meter.add(usage)
        return result


class MeteredChat(MeteredModel[CompletionMemo]):
    """A chat model: tasks become prompts, and replies results."""

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """See `LanguageModel.run`."""
        result, usage = self._asked(task, sample, inputs)
        self._meter.add(usage)
        return result

    def run_all(self, task: Task[T], inputs: Sequence[Mapping[str, Input]]) -> tuple[T, ...]:
        """See `LanguageModel.run_all`."""
        found = self._calls.desk.in_parallel(lambda given: self._asked(task, 0, given), inputs, task.name)
        for _, usage in found:  # in their order, and in this thread
            self._meter.add(replace(usage, seconds=0.0))
        self._meter.seconds += _together([usage.seconds for _, usage in found], self._model)
        return tuple(result for result, _ in found)

    def _asked(self, task: Task[T], sample: int, inputs: Mapping[str, Input]) -> tuple[T, Usage]:
        prompt, was_cut = render_prompt(task, inputs, getattr(self._model, "context_window", None))
        if was_cut:
            self._calls.desk.count("language_model", cut=1)
        reply, usage = self._calls.complete(self._model, task, prompt, sample, self._asker)
        return parse_reply(task, reply), usage


def _together(seconds: Sequence[float], model: Any) -> float:
    """How long it takes until all replies are there, if ``model`` is asked for as many at once as it may be."""
    provider = getattr(model, "provider", None)
    slots = len(seconds) if provider is None else min(len(seconds), provider.policy.in_flight)
    free = [0.0] * slots  # when each is
    for each in seconds:
        heapreplace(free, free[0] + each)
    return max(free, default=0.0)


class MeteredEmbedder(MeteredModel[EmbeddingMemo]):
    """An embedder."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`."""
        self._meter.texts_embedded += len(texts)
        return self._calls.embed(self._model, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries, which asymmetric models embed otherwise."""
        self._meter.texts_embedded += len(texts)
        return self._calls.embed(self._model, texts, as_queries=True)


class MeteredCrossEncoder(MeteredModel[ScoreMemo]):
    """A cross-encoder."""

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """See `CrossEncoder.score`."""
        self._meter.pairs_scored += len(texts)
        return self._calls.score(self._model, query, texts)

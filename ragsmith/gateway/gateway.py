"""The one way from techniques to models: remembers calls, joins identical ones in flight, and counts.

Techniques are handed metered views of the models. A remembered call returns the bill of the call that was made, so a
candidate that profits from the cache does not look cheap; the gateway's own counts say what this process really did.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ragsmith.errors import ModelError, ModelUnavailable
from ragsmith.gateway.batching import Batcher
from ragsmith.gateway.budget import CHARACTERS_A_TOKEN, Budget, tokens_at_most
from ragsmith.gateway.claims import PAUSE_SECONDS, CallStore, Grouped, claimed, claimed_many
from ragsmith.gateway.memo import Memo
from ragsmith.gateway.views import ChatView, CrossEncoderView, EmbedderView, TaskView
from ragsmith.models.calls import ChatModel, Completion, StoredCall, completes, completion_key, keeps, result_key
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel, Vectors
from ragsmith.models.served.provider import Activity, Provider
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import ONE_CALL, Meter, Usage

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
V = TypeVar("V")

TOGETHER = 64
"""Texts that are embedded, and kept, together."""

SIDE_BY_SIDE = 64
"""Requests of one technique that wait at once; how many are sent at once is for the provider to say."""


@dataclass(slots=True)
class Counts:
    """What passed through a gateway, for one kind of call."""

    asked: int = 0
    distinct: int = 0
    stored: int = 0
    made: int = 0
    cut: int = 0
    """Prompts that were shortened to what the model can read."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


KINDS = ("language_model", "embedder", "cross_encoder")


class Gateway:
    """One per process; safe to use from many threads.

    ``budget`` is asked before anything is sent to a provider; None spends without counting.
    """

    def __init__(self, store: CallStore | None = None, budget: Budget | None = None) -> None:
        self._store = None if store is None else Grouped(store)
        self._budget = budget
        self._stopped = False
        self._batchers: dict[str, Batcher[str, Any]] = {}
        self._providers: dict[int, Provider] = {}
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
            return {
                kind: Counts(c.asked, len(memos[kind]), c.stored, c.made, c.cut) for kind, c in self._counts.items()
            }

    def language_model(self, model: LanguageModel | ChatModel, meter: Meter) -> LanguageModel:
        """A metered view of a language model."""
        self._watch(model)
        return ChatView(self, model, meter) if completes(model) else TaskView(self, model, meter)

    def embedder(self, model: Embedder, meter: Meter) -> Embedder:
        """A metered view of an embedder."""
        self._watch(model)
        return EmbedderView(self, model, meter)

    def cross_encoder(self, model: CrossEncoder, meter: Meter) -> CrossEncoder:
        """A metered view of a cross-encoder."""
        self._watch(model)
        return CrossEncoderView(self, model, meter)

    def activity(self) -> Activity:
        """What the providers have done so far, and do now."""
        each = [provider.activity for provider in tuple(self._providers.values())]
        return Activity(
            sum(a.attempts for a in each),
            sum(a.retries for a in each),
            sum(a.in_flight for a in each),
            max((a.waiting_until for a in each), default=0.0),
        )

    def stop(self, patience: float = 0.0) -> None:
        """Send nothing more: whoever asks a provider now gets `ModelUnavailable`, or waits for one in ``patience`` s.

        Until then what was sent may be answered, and is kept.
        """
        self._stopped = True
        until = time.monotonic() + patience
        for provider in tuple(self._providers.values()):
            provider.close(patience=until - time.monotonic())

    def _watch(self, model: object) -> None:
        """Have the model's provider, if it has one, ask the budget before each attempt."""
        provider = getattr(model, "provider", None)
        if provider is not None and id(provider) not in self._providers:
            self._providers[id(provider)] = provider
            if self._budget is not None:
                provider.on_attempt = self._budget.before_attempt

    def count(self, kind: str, *, asked: int = 0, stored: int = 0, made: int = 0, cut: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            counts = self._counts[kind]
            counts.asked += asked
            counts.stored += stored
            counts.made += made
            counts.cut += cut

    def complete(self, model: ChatModel, task: Task[Any], prompt: str, sample: int) -> tuple[str, Usage]:
        """A reply that ``task`` can read: from memory, from the store, or from the model (then kept at once)."""
        identity = (model.id, prompt, task.max_tokens, sample)

        def find() -> tuple[str, Usage]:
            key = completion_key(*identity)
            if self._store is None:
                completion = self._ask(model, task, prompt, sample)
                return completion.text, completion.usage
            known = self._store.get_call(key)
            if known is None:
                with claimed(self._store, key, lambda: self._stopped) as known:
                    if known is None:
                        return self._asked_and_kept(self._store, key, model, task, prompt, sample)
            if _readable(task, known.value):
                self.count("language_model", stored=1)
                return known.value, Usage(known.calls, 0, 0, known.input_tokens, known.output_tokens, known.seconds)
            return self._asked_and_kept(self._store, key, model, task, prompt, sample, replacing=True)

        self.count("language_model", asked=1)
        return self._replies.get(identity, find)

    def _asked_and_kept(
        self,
        store: Grouped,
        key: str,
        model: ChatModel,
        task: Task[Any],
        prompt: str,
        sample: int,
        *,
        replacing: bool = False,
    ) -> tuple[str, Usage]:
        completion = self._ask(model, task, prompt, sample)
        usage = completion.usage
        tokens = usage.input_tokens, usage.output_tokens
        call = StoredCall(key, model.id, task.name, completion.text, usage.calls, *tokens, usage.seconds)
        store.put_calls([call], replacing=replacing)
        return completion.text, usage

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
            if self._stopped:
                raise ModelUnavailable("the run is being stopped")
            with self._paid(model.id, asked, task.max_tokens) as used:
                completion = model.complete(asked, max_tokens=task.max_tokens, sample=sample)
                used.append(completion.usage)
            self.count("language_model", made=1)
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

    def within(self, tokens: int, task: Task[Any], inputs: dict[str, Input]) -> dict[str, Input]:
        """``inputs`` cut, and counted, where the prompt would have more than ``tokens``, at 3 characters a token.

        Raises:
            ModelError: nothing that could be cut would make it fit.
        """
        try:
            fitted = task.fitted(inputs, tokens * CHARACTERS_A_TOKEN)
        except ValueError as error:
            raise ModelError(f"{error}: name a model with a larger context window") from error
        if fitted != inputs:
            self.count("language_model", cut=1)
        return fitted

    def side_by_side(self, ask: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """What ``ask`` makes of each item, in their order; many are asked at once."""
        if len(items) < 2:
            return [ask(item) for item in items]
        return list(self._pool.map(ask, items))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="ragsmith-calls")

    def perform(self, model: LanguageModel, task: Task[T], sample: int, inputs: dict[str, Input]) -> tuple[T, Usage]:
        """The result of a task on a model that performs tasks itself; it costs less to compute than to keep on disk."""

        def compute() -> tuple[T, Usage]:
            self.count("language_model", made=1)
            return model.run(task, sample=sample, **inputs), ONE_CALL

        self.count("language_model", asked=1)
        return self._replies.get((model.id, task, sample, *inputs.items()), compute)

    def embed(self, model: Embedder, texts: Sequence[str], *, as_queries: bool = False) -> Vectors:
        """Vectors of ``texts``, each embedded once; of slow models, in batches over threads, and kept."""
        queries = getattr(model, "embed_queries", None) if as_queries else None
        embed: Callable[[Sequence[str]], Vectors] = queries or model.embed
        kind = "query" if queries else "text"

        def compute(missing: list[tuple[str, str, str]]) -> Sequence[Any]:
            wanted = [text for *_, text in missing]
            if not keeps(model):
                self.count("embedder", made=len(wanted))
                return list(embed(wanted))
            batched = self._batcher(model, kind, embed)
            return self._kept("embedder", kind, model.id, wanted, batched, _row, _vector, TOGETHER)

        if not texts:
            return model.embed(texts)
        self.count("embedder", asked=len(texts))
        return np.stack(self._vectors.get_many([(model.id, kind, text) for text in texts], compute))

    def _batcher(self, model: Embedder, kind: str, embed: Callable[[Sequence[str]], Vectors]) -> Batcher[str, Any]:
        def run(batch: list[str]) -> list[Any]:
            if self._stopped:
                raise ModelUnavailable("the run is being stopped")
            asked = "".join(batch)
            with self._paid(model.id, asked, 0) as used:
                vectors = list(embed(batch))
                used.append(Usage(1, 0, 0, tokens_at_most(asked)))
            return vectors

        with self._lock:
            return self._batchers.setdefault(f"{kind} {model.id}", Batcher(run, size=TOGETHER))

    def _kept(
        self,
        counted: str,
        kind: str,
        model: str,
        texts: Sequence[str],
        compute: Callable[[Sequence[str]], Sequence[V]],
        plain: Callable[[V], Any],
        read: Callable[[Any], V],
        most: int,
    ) -> list[V]:
        """The results for ``texts``: those in the store as they are, others computed, ``most`` at a time, and kept."""
        keys = {text: result_key(counted, model, text, kind) for text in texts}
        known = self._store.get_calls(keys.values()) if self._store else {}
        found = {text: read(known[key].value) for text, key in keys.items() if key in known}
        self.count(counted, stored=len(found))
        missing = [text for text in keys if text not in found]

        def make(part: Sequence[str]) -> dict[str, V]:
            values = compute(part)
            self.count(counted, made=len(part))
            if self._store:
                new = [StoredCall(keys[t], model, kind, plain(v)) for t, v in zip(part, values, strict=True)]
                self._store.put_calls(new)
            return dict(zip(part, values, strict=True))

        def share(part: Sequence[str]) -> dict[str, V]:
            return self._shared(self._store, counted, keys, part, make, read) if self._store else make(part)

        for made in self.side_by_side(share, [missing[i : i + most] for i in range(0, len(missing), most)]):
            found.update(made)
        return [found[text] for text in texts]

    def _shared(
        self,
        store: Grouped,
        counted: str,
        keys: Mapping[str, str],
        texts: Sequence[str],
        make: Callable[[Sequence[str]], dict[str, V]],
        read: Callable[[Any], V],
    ) -> dict[str, V]:
        """The results for ``texts``, made here but for those that another process is making, which are waited for."""
        found: dict[str, V] = {}
        while missing := [text for text in texts if text not in found]:
            if self._stopped:
                raise ModelUnavailable("the run is being stopped")
            with claimed_many(store, [keys[text] for text in missing]) as (free, others):
                own = [text for text in missing if keys[text] in free]
                found.update(make(own) if own else {})
            theirs = [text for text in missing if keys[text] in others]
            found.update((text, read(others[keys[text]].value)) for text in theirs)
            self.count(counted, stored=len(theirs))
            if not own and not theirs:
                time.sleep(PAUSE_SECONDS)
        return found

    @contextmanager
    def _paid(self, model: str, text: str, max_tokens: int) -> Iterator[list[Usage]]:
        if self._budget is None:
            yield []
            return
        with self._budget.request(model, text, max_tokens) as used:
            yield used

    def score(self, model: CrossEncoder, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Scores of ``texts`` against ``query``, each pair scored once."""

        def compute(missing: list[tuple[str, str, str]]) -> Sequence[float]:
            wanted = [text for _, _, text in missing]
            if not keeps(model):
                self.count("cross_encoder", made=len(wanted))
                return model.score(query, wanted)
            return self._kept("cross_encoder", query, model.id, wanted, score, float, float, len(wanted))

        def score(wanted: Sequence[str]) -> tuple[float, ...]:
            if self._stopped:
                raise ModelUnavailable("the run is being stopped")
            asked = "".join(query + text for text in wanted)
            with self._paid(model.id, asked, 0) as used:
                scores = model.score(query, wanted)
                used.append(Usage(1, 0, 0, tokens_at_most(asked)))
            return scores

        self.count("cross_encoder", asked=len(texts))
        return tuple(self._scores.get_many([(model.id, query, text) for text in texts], compute))


def _row(vector: Any) -> str:
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def _vector(kept: str) -> Any:
    return np.frombuffer(base64.b64decode(kept), dtype="<f4")


def _readable(task: Task[Any], reply: str) -> bool:
    try:
        task.parse(reply)
    except ValueError:
        return False
    return True

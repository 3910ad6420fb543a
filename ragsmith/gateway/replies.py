"""Replies of language models: remembered, kept in the store if they are paid for, and asked for again if unreadable."""

from __future__ import annotations

from typing import Any, TypeVar

from ragsmith.errors import ModelError
from ragsmith.gateway.asking import fault, readable
from ragsmith.gateway.claims import Grouped, claimed
from ragsmith.gateway.desk import Desk
from ragsmith.gateway.limits import whole
from ragsmith.gateway.memo import Memo
from ragsmith.models.calls import ChatModel, Completion, StoredCall, completion_key
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import ONE_CALL, Usage

T = TypeVar("T")


class Replies:
    """What language models were asked in this process, and what they replied."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._count = desk.count
        self.remembered: Memo[tuple[Any, Usage]] = Memo()
        self._unreadable: dict[Any, str] = {}

    def perform(self, model: LanguageModel, task: Task[T], sample: int, inputs: dict[str, Input]) -> tuple[T, Usage]:
        """The result of a task on a model that performs tasks itself; it costs less to compute than to keep on disk."""

        def compute() -> tuple[T, Usage]:
            self._count("language_model", made=1)
            return model.run(task, sample=sample, **inputs), ONE_CALL

        self._count("language_model", asked=1)
        return self.remembered.get((model.id, task, sample, *inputs.items()), compute)

    def complete(self, model: ChatModel, task: Task[Any], prompt: str, sample: int) -> tuple[str, Usage]:
        """A reply that ``task`` can read: from memory, from the store, or from the model (then kept at once)."""
        identity = (model.id, prompt, task.max_tokens, sample)

        def find() -> tuple[str, Usage]:
            key = completion_key(*identity)
            store = self.desk.store
            if store is None:
                completion = self._ask(model, task, prompt, sample)
                return completion.text, completion.usage
            known = store.get_call(key)
            if known is None:
                with claimed(store, key, lambda: self.desk.stopped) as known:
                    if known is None:
                        return self._asked_and_kept(store, key, model, task, prompt, sample)
            if fault(task, known.value) is None:
                self._count("language_model", stored=1)
                return known.value, Usage(known.calls, 0, 0, known.input_tokens, known.output_tokens, known.seconds)
            return self._asked_and_kept(store, key, model, task, prompt, sample, replacing=True)

        self._count("language_model", asked=1)
        return self.remembered.get(identity, find)

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

        def complete(asked: str) -> Completion:
            def send(limit: int) -> Completion:
                with self.desk.paid(model, asked, limit) as used:
                    completion = model.complete(asked, max_tokens=limit, sample=sample)
                    used.append(completion.usage)
                self._count("language_model", made=1)
                return completion

            return whole(model, task, asked, send)

        found = readable(task, prompt, complete)
        if isinstance(found, str):
            self._unreadable[request] = message = f"two replies to {task.name} cannot be read; the last: {found}"
            raise ModelError(message)
        return found

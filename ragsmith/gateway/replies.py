"""Replies of language models: remembered, kept in the store if they are paid for, and asked for again if unreadable."""

from __future__ import annotations

from typing import Any, TypeVar

from ragsmith.errors import ModelError, Unreadable
from ragsmith.gateway.asking import fault, readable
from ragsmith.gateway.claims import Grouped, claimed
from ragsmith.gateway.desk import Desk
from ragsmith.gateway.failures import Asker, FailedCall
from ragsmith.gateway.limits import most_tokens, whole
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

    def perform(self, model: LanguageModel, task: Task[T], sample: int, inputs: dict[str, Input]) -> tuple[T, Usage]:
        """The result of a task on a model that performs tasks itself; it costs less to compute than to keep on disk."""

        def compute() -> tuple[T, Usage]:
            self._count("language_model", made=1)
            return model.run(task, sample=sample, **inputs), ONE_CALL

        self._count("language_model", asked=1)
        return self.remembered.get((model.id, task, sample, *inputs.items()), compute)

    def complete(
        self, model: ChatModel, task: Task[Any], prompt: str, sample: int, asker: Asker | None = None
    ) -> tuple[str, Usage]:
        """A reply that ``task`` can read: from memory, from the store, or from the model (then kept at once).

        What cannot be had is kept, too, and not asked for again: see `ragsmith.gateway.failures`.
        """
        identity = (model.id, prompt, task.max_tokens, sample)
        key, failures = completion_key(*identity), self.desk.failures

        def ask() -> Completion:
            within = f"{task.name} in {most_tokens(model, task)} tokens"
            for failed in failures.known(within, [key]).values():
                failures.in_vain(asker, task.name, key, failed.message)
                raise failed.error()
            try:
                completion = self._ask(model, task, prompt, sample)
            except ModelError as error:
                failures.keep([FailedCall.of(error, key, model.id, within)])
                failures.in_vain(asker, task.name, key, str(error))
                raise
            failures.answered(asker, task.name)
            return completion

        def find() -> tuple[str, Usage]:
            store = self.desk.store
            if store is None:
                completion = ask()
                return completion.text, completion.usage
            known = store.get_call(key)
            if known is None:
                with claimed(store, key, lambda: self.desk.stopped) as known:
                    if known is None:
                        return self._kept(store, key, model, task, ask())
            if fault(task, known.value) is None:
                failures.answered(asker, task.name)
                self._count("language_model", stored=1)
                return known.value, Usage(known.calls, 0, 0, known.input_tokens, known.output_tokens, known.seconds)
            return self._kept(store, key, model, task, ask(), replacing=True)

        self._count("language_model", asked=1)
        return self.remembered.get(identity, find)

    def _kept(
        self,
        store: Grouped,
        key: str,
        model: ChatModel,
        task: Task[Any],
        completion: Completion,
        *,
        replacing: bool = False,
    ) -> tuple[str, Usage]:
        usage = completion.usage
        tokens = usage.input_tokens, usage.output_tokens
        call = StoredCall(key, model.id, task.name, completion.text, usage.calls, *tokens, usage.seconds)
        store.put_calls([call], replacing=replacing)
        return completion.text, usage

    def _ask(self, model: ChatModel, task: Task[Any], prompt: str, sample: int) -> Completion:
        """A new reply that ``task`` can read; an unreadable one is asked for once more, with what is wrong with it.

        Raises:
            Unreadable: that is no better.
        """
        spent: list[Usage] = []

        def complete(asked: str) -> Completion:
            def send(limit: int) -> Completion:
                with self.desk.paid(model, asked, limit) as used:
                    completion = model.complete(asked, max_tokens=limit, sample=sample)
                    used.append(completion.usage)
                spent.append(completion.usage)
                self._count("language_model", made=1)
                return completion

            return whole(model, task, asked, send)

        found = readable(task, prompt, complete)
        if isinstance(found, str):
            cost = sum(spent, Usage())
            raise Unreadable(
                f"two replies to {task.name} cannot be read; the last: {found}",
                calls=cost.calls,
                input_tokens=cost.input_tokens,
                output_tokens=cost.output_tokens,
            )
        return found

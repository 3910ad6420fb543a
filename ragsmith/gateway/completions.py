"""Replies of language models: remembered, kept in the store if they are paid for, and asked for again if unreadable."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any, TypeVar

from ragsmith.errors import ModelError, Unreadable
from ragsmith.gateway.asking import complete_readably, parse_problem
from ragsmith.gateway.call_context import CallContext
from ragsmith.gateway.claims import BatchedStore, claim_call
from ragsmith.gateway.failures import Asker, FailedCall
from ragsmith.gateway.limits import complete_whole, most_tokens
from ragsmith.gateway.memo import EvictionPolicy, Memo
from ragsmith.models.calls import ChatModel, Completion, StoredCall, completion_key, takes_cut_answers
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import ONE_CALL, Usage

T = TypeVar("T")


class CompletionMemo:
    """What language models were asked in this process, and what they replied."""

    def __init__(self, desk: CallContext, room: EvictionPolicy | None = None) -> None:
        self.desk = desk
        self._count = desk.count
        self.remembered: Memo[tuple[Any, Usage]] = Memo(room, lambda key, kept: (*key[1:], kept[0]))

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

        What cannot be had is kept, too, and not asked for again: see `ragsmith.gateway.failures`. Where answers that
        were cut are scored, they are kept apart, so that a search which does not want them never meets them; a whole
        reply is one for both.
        """
        identity = (model.id, prompt, task.max_tokens, sample)
        cut_too = task.usable_cut and takes_cut_answers(model)
        key, failures = completion_key(*identity, cut=cut_too), self.desk.failures

        def ask() -> Completion:
            within = f"{task.name} in {most_tokens(model, task)} tokens"
            with failures.asking(asker, task.name, key):
                for failed in failures.known(within, [key]).values():
                    failures.recalled(asker, task.name, failed)
                    raise failed.error()
                try:
                    return self._ask(model, task, prompt, sample)
                except ModelError as error:
                    failures.keep([FailedCall.of(error, key, model.id, within)])
                    raise

        def kept(store: BatchedStore, completion: Completion, *, replacing: bool = False) -> tuple[str, Usage]:
            under = key if completion.cut_at else completion_key(*identity)
            usage = completion.usage
            tokens = usage.input_tokens, usage.output_tokens
            call = StoredCall(under, model.id, task.name, completion.text, usage.calls, *tokens, usage.seconds)
            store.put_calls([call], replacing=replacing)
            if under != key:
                store.release(key)
            return completion.text, _bill(completion)

        def find() -> tuple[str, Usage]:
            store = self.desk.store
            if store is None:
                completion = ask()
                return completion.text, _bill(completion)
            known = store.get_call(completion_key(*identity))
            if known is None:
                with claim_call(store, key, lambda: self.desk.stopped) as known:
                    if known is None:
                        return kept(store, ask())
            if parse_problem(task, known.value) is None:
                failures.answered(asker, task.name)
                self._count("language_model", stored=1)
                tokens = known.input_tokens, known.output_tokens
                is_cut = int(cut_too and known.key == key)
                return known.value, Usage(known.calls, 0, 0, *tokens, known.seconds, is_cut)
            return kept(store, ask(), replacing=True)

        self._count("language_model", asked=1)
        return self.remembered.get((*identity, cut_too), find)

    def _ask(self, model: ChatModel, task: Task[Any], prompt: str, sample: int) -> Completion:
        """A new reply that ``task`` can read; an unreadable one is asked for once more, with what is wrong with it.

        Raises:
            Unreadable: that is no better.
        """
        spent: list[Usage] = []

        def complete(asked: str) -> Completion:
            def send(limit: int) -> Completion:
                with self.desk.paid(model, asked, limit) as used:
                    began = perf_counter()
                    completion = model.complete(asked, max_tokens=limit, sample=sample)
                    if not completion.usage.seconds:  # a model of somebody else may not say it
                        took = replace(completion.usage, seconds=perf_counter() - began)
                        completion = replace(completion, usage=took)
                    used.append(completion.usage)
                spent.append(completion.usage)
                self._count("language_model", made=1)
                return completion

            return complete_whole(model, task, asked, send, cut_too=task.usable_cut and takes_cut_answers(model))

        found = complete_readably(task, prompt, complete)
        if isinstance(found, str):
            cost = sum(spent, Usage())
            raise Unreadable(
                f"two replies to {task.name} cannot be read; the last: {found}",
                calls=cost.calls,
                input_tokens=cost.input_tokens,
                output_tokens=cost.output_tokens,
            )
        return found


def _bill(completion: Completion) -> Usage:
    """What a reply cost, which says, too, that it was cut."""
    return replace(completion.usage, cut=1) if completion.cut_at else completion.usage

"""Completions of language models: remembered, stored if they are paid for, and repeated if they cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, TypeVar

from ragsmith.errors import CutReply, ModelError, RefusedContent, TooLong, Unreadable
from ragsmith.gateway.asking import complete_readably, parse_problem
from ragsmith.gateway.call_context import CallContext, CallMemo
from ragsmith.gateway.claims import BatchedStore
from ragsmith.gateway.failures import FailedCall, RequestTarget
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.models.calls import ChatModel, Completion, StoredCall, accepts_cut_answers, completion_key
from ragsmith.models.capabilities import ModelCapabilities, find_learner, thinking_tokens
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import ONE_CALL, Usage, estimate_max_tokens

T = TypeVar("T")


class CompletionMemo(CallMemo[tuple[Any, Usage]]):
    """The completions of language models in this process."""

    def __init__(self, context: CallContext, room: EvictionPolicy | None = None) -> None:
        super().__init__(context, room, lambda key, value: (*key[1:], value[0]))

    def perform(self, model: LanguageModel, task: Task[T], sample: int, inputs: dict[str, Input]) -> tuple[T, Usage]:
        """The result of a task on a model that performs tasks itself; computing it is cheaper than storing it."""

        def compute() -> tuple[T, Usage]:
            self._count("language_model", made=1)
            return model.run(task, sample=sample, **inputs), ONE_CALL

        self._count("language_model", asked=1)
        return self.memo.get((model.id, task, sample, *inputs.items()), compute)

    def complete(
        self, model: ChatModel, task: Task[Any], prompt: str, sample: int, target: RequestTarget | None = None
    ) -> tuple[str, Usage]:
        """A reply that ``task`` can read: from memory, from the store, or from the model (then stored at once).

        A failure is stored and not asked for again: see `ragsmith.gateway.failures`. Answers that were cut and are
        scored have keys of their own, so that a search which does not want them never reads them; whole replies have
        the same key for both.
        """
        identity = (model.id, prompt, task.max_tokens, sample)
        cut_too = task.usable_cut and accepts_cut_answers(model)
        whole_key, key = completion_key(*identity), completion_key(*identity, cut=cut_too)
        failures = self.context.failures

        def ask() -> Completion:
            within = f"{task.name} in {most_tokens(model, task)} tokens"
            with failures.attempt(target, task.name, key):
                for failed in failures.find_failed(within, [key]).values():
                    failures.count_known_failure(target, task.name, failed)
                    raise failed.error()
                try:
                    return self._ask(model, task, prompt, sample)
                except ModelError as error:
                    failures.record_failures([FailedCall.from_error(error, key, model.id, within)])
                    raise

        def ask_and_store(store: BatchedStore, *, replacing: bool = False) -> tuple[str, Usage]:
            completion = ask()
            under = key if completion.cut_at else whole_key
            usage = completion.usage
            tokens = usage.input_tokens, usage.output_tokens
            call = StoredCall(under, model.id, task.name, completion.text, usage.calls, *tokens, usage.seconds)
            store.put_calls([call], replacing=replacing)
            if under != key:
                store.release(key)
            return _with_cost(completion)

        def find() -> tuple[str, Usage]:
            store = self.context.store
            if store is None:
                return _with_cost(ask())
            stored = store.get_calls([whole_key]).get(whole_key)
            known = stored or self.context.share([key], lambda _: {key: ask_and_store(store)})[key]
            if not isinstance(known, StoredCall):
                return known
            if parse_problem(task, known.value) is not None:
                return ask_and_store(store, replacing=True)
            failures.record_reply(target, task.name)
            self._count("language_model", stored=1)
            is_cut = int(cut_too and known.key == key)
            return known.value, Usage(known.calls, 0, 0, known.input_tokens, known.output_tokens, known.seconds, is_cut)

        self._count("language_model", asked=1)
        return self.memo.get((*identity, cut_too), find)

    def _ask(self, model: ChatModel, task: Task[Any], prompt: str, sample: int) -> Completion:
        """A new reply that ``task`` can read; an unreadable one is asked for once more, with what is wrong with it.

        Raises:
            Unreadable: that is no better.
        """
        cost = Usage()

        def complete(asked: str) -> Completion:
            def send(limit: int) -> Completion:
                nonlocal cost
                with self.context.reserve_cost(model, asked, limit) as used:
                    began = perf_counter()
                    completion = model.complete(asked, max_tokens=limit, sample=sample)
                    if not completion.usage.seconds:  # a model of the user's own may leave them out
                        took = replace(completion.usage, seconds=perf_counter() - began)
                        completion = replace(completion, usage=took)
                    used.append(completion.usage)
                cost += completion.usage
                self._count("language_model", made=1)
                return completion

            return complete_whole(model, task, asked, send, cut_too=task.usable_cut and accepts_cut_answers(model))

        found = complete_readably(task, prompt, complete)
        if isinstance(found, str):
            raise Unreadable(
                f"two replies to {task.name} cannot be read; the last: {found}",
                calls=cost.calls,
                input_tokens=cost.input_tokens,
                output_tokens=cost.output_tokens,
            )
        return found


def _with_cost(completion: Completion) -> tuple[str, Usage]:
    """The text and the cost of a completion, which counts whether it was cut."""
    usage = completion.usage
    return completion.text, replace(usage, cut=1) if completion.cut_at else usage


# --- limits on the tokens of a reply: what its task has it write, and what its model needs to think ------------------

LEAST_RAISE = 4096
"""Tokens for thinking that are added, at least, for a reply that was cut: twice what most models need."""
LEAST_ALLOWANCE = 256
"""Tokens for thinking that are learnt, at least."""


def complete_whole(
    model: ChatModel, task: Task[Any], prompt: str, send: Callable[[int], Completion], *, cut_too: bool = False
) -> Completion:
    """Complete ``prompt`` by ``send``, which takes a limit on tokens; a reply that was cut is asked for once more.

    The limit is then `LEAST_RAISE` above that of the task, or twice the model's allowance for thinking where that is
    more. If the reply ends by itself, the tokens that it took beyond the limit of the task are learnt: twice as many,
    as a power of two, become the model's allowance. So fewer replies are cut, and little more is reserved than needed.
    Where prompt and allowance are more than the server accepts, the reply is asked for without an allowance. The reply
    has the cost of the second request alone: the run pays for the first, and no pipeline does.

    Raises:
        CutReply: the second reply was cut as well, and it has no text or ``cut_too`` is False.
    """
    needed = task.max_tokens
    first = needed + _thinking_room(model, prompt, needed, thinking_tokens(model))
    try:
        reply = send(first)
    except TooLong:
        if first == needed:
            raise
        first = needed  # prompt and thoughts are too much together, or the thoughts alone: without them there is room
        reply = send(first)
    spent = reply.usage
    is_own = 0 < reply.cut_at < first
    if reply.cut_at and not is_own:
        raised = _thinking_room(model, prompt, needed, most_tokens(model, task) - needed)
        if needed + raised > first:
            try:
                reply = send(needed + raised)
            except (RefusedContent, TooLong):
                pass  # the model reads or writes no more: the reply is as long as it can be
            else:
                spent += reply.usage
                if not reply.cut_at:
                    said = reply.usage.output_tokens
                    # more than the limit that was too low, though some servers leave thoughts out of what they count
                    _learn(model, max(said, first + 1) - needed if said else raised, raised)
    if reply.cut_at and not (cut_too and reply.text.strip()):
        more = "raise the limit that the model has of its own" if is_own else "give the model more thinking_tokens"
        instead = ", or score answers that are cut (--score-cut-answers)" if task.usable_cut else ""
        raise CutReply(
            f"{model.id}: the reply to {task.name} was cut at the limit of {reply.cut_at:,} tokens, "
            f"{min(needed, reply.cut_at):,} of them to write: {more}{instead}",
            calls=spent.calls,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
        )
    return reply


def most_tokens(model: ChatModel, task: Task[Any]) -> int:
    """The most tokens that a reply may have with its thoughts, where the window of the model has room for them."""
    return task.max_tokens + max(LEAST_RAISE, 2 * thinking_tokens(model))


def _thinking_room(model: ChatModel, prompt: str, needed: int, wanted: int) -> int:
    """The tokens for thinking that the model's window leaves, at most ``wanted``."""
    window: int | None = getattr(model, "context_window", None)
    return wanted if window is None else max(0, min(wanted, window - needed - estimate_max_tokens(prompt)))


def _learn(model: ChatModel, more: int, at_most: int) -> None:
    """Learn that a reply took ``more`` tokens than the limit of its task."""
    learner = find_learner(model)
    if learner is not None and more > 0:
        twice = 1 << (2 * more - 1).bit_length()
        learner.learn(ModelCapabilities(thinking_tokens=min(at_most, max(LEAST_ALLOWANCE, twice))))

"""Completions of language models, cached in memory, stored if they are paid for, and retried if unreadable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, TypeVar

from ragsmith.errors import CutReply, ModelError, RefusedContent, TooLong, Unreadable
from ragsmith.gateway.call_context import CallContext, CallMemo
from ragsmith.gateway.claims import BatchedStore
from ragsmith.gateway.failures import FailedCall, RequestTarget
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.gateway.prompts_and_vectors import complete_until_parsed, parse_problem
from ragsmith.models.calls import ChatModel, Completion, StoredCall, accepts_cut_answers, completion_key
from ragsmith.models.capabilities import ModelCapabilities, find_learner, thinking_tokens
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import ONE_CALL, Usage, estimate_max_tokens

T = TypeVar("T")


class CompletionMemo(CallMemo[tuple[Any, Usage]]):
    """The cache of completions of this process."""

    def __init__(self, context: CallContext, eviction: EvictionPolicy | None = None) -> None:
        super().__init__(context, eviction, lambda key, value: (*key[1:], value[0]))

    def perform(self, model: LanguageModel, task: Task[T], sample: int, inputs: dict[str, Input]) -> tuple[T, Usage]:
        """Return the result of a task on a model that performs tasks itself; results are cached in memory only."""

        def compute() -> tuple[T, Usage]:
            self._count("language_model", made=1)
            return model.run(task, sample=sample, **inputs), ONE_CALL

        self._count("language_model", asked=1)
        return self.memo.get((model.id, task, sample, *inputs.items()), compute)

    def complete(
        self, model: ChatModel, task: Task[Any], prompt: str, sample: int, target: RequestTarget | None = None
    ) -> tuple[str, Usage]:
        """Return a reply that ``task`` can parse, from memory, the store or the model; new replies are stored at once.

        Failures are stored, too, and the request is not repeated: see `ragsmith.gateway.failures`. Cut answers have
        separate keys, so a search that does not accept them never reads them; complete replies have the same key for
        both.
        """
        identity = (model.id, prompt, task.max_tokens, sample)
        accept_cut = task.usable_cut and accepts_cut_answers(model)
        complete_key, key = completion_key(*identity), completion_key(*identity, cut=accept_cut)
        failures = self.context.failures

        def request() -> Completion:
            within = f"{task.name} in {max_reply_tokens(model, task)} tokens"
            with failures.attempt(target, task.name, key):
                for failed in failures.find_failed(within, [key]).values():
                    failures.count_known_failure(target, task.name, failed)
                    raise failed.error()
                try:
                    return self._request(model, task, prompt, sample)
                except ModelError as error:
                    failures.record_failures([FailedCall.from_error(error, key, model.id, within)])
                    raise

        def request_and_store(store: BatchedStore, *, replacing: bool = False) -> tuple[str, Usage]:
            completion = request()
            under = key if completion.cut_at else complete_key
            usage = completion.usage
            tokens = usage.input_tokens, usage.output_tokens
            call = StoredCall(under, model.id, task.name, completion.text, usage.calls, *tokens, usage.seconds)
            store.put_calls([call], replacing=replacing)
            if under != key:
                store.release(key)
            return _text_and_usage(completion)

        def find() -> tuple[str, Usage]:
            store = self.context.store
            if store is None:
                return _text_and_usage(request())
            stored = store.get_calls([complete_key]).get(complete_key)
            known = stored or self.context.share([key], lambda _: {key: request_and_store(store)})[key]
            if not isinstance(known, StoredCall):
                return known
            if parse_problem(task, known.value) is not None:
                return request_and_store(store, replacing=True)
            failures.record_reply(target, task.name)
            self._count("language_model", stored=1)
            is_cut = int(accept_cut and known.key == key)
            return known.value, Usage(known.calls, 0, 0, known.input_tokens, known.output_tokens, known.seconds, is_cut)

        self._count("language_model", asked=1)
        return self.memo.get((*identity, accept_cut), find)

    def _request(self, model: ChatModel, task: Task[Any], prompt: str, sample: int) -> Completion:
        """Request a reply that ``task`` can parse; after an unreadable one, request another with the parsing error.

        Raises:
            Unreadable: the second reply is unreadable as well.
        """
        cost = Usage()

        def complete(text: str) -> Completion:
            def send(limit: int) -> Completion:
                nonlocal cost
                with self.context.reserve_cost(model, text, limit) as used:
                    began = perf_counter()
                    completion = model.complete(text, max_tokens=limit, sample=sample)
                    if not completion.usage.seconds:  # models from user code may not report them
                        timed = replace(completion.usage, seconds=perf_counter() - began)
                        completion = replace(completion, usage=timed)
                    used.append(completion.usage)
                cost += completion.usage
                self._count("language_model", made=1)
                return completion

            return complete_within_limits(
                model, task, text, send, accept_cut=task.usable_cut and accepts_cut_answers(model)
            )

        reply = complete_until_parsed(task, prompt, complete)
        if isinstance(reply, str):
            raise Unreadable(
                f"two replies to {task.name} cannot be read; the last: {reply}",
                calls=cost.calls,
                input_tokens=cost.input_tokens,
                output_tokens=cost.output_tokens,
            )
        return reply


def _text_and_usage(completion: Completion) -> tuple[str, Usage]:
    """Return the text and the usage of a completion; the usage counts whether it was cut."""
    usage = completion.usage
    return completion.text, replace(usage, cut=1) if completion.cut_at else usage


# --- token limits: the tokens of a task's reply, and the model's tokens for thinking ---------------------------------

MIN_EXTRA_THINKING_TOKENS = 4096
"""Minimum number of tokens for thinking that are added after a cut reply: twice the need of most models."""
MIN_LEARNT_THINKING_TOKENS = 256
"""Minimum number of tokens for thinking that are learnt."""


def complete_within_limits(
    model: ChatModel, task: Task[Any], prompt: str, send: Callable[[int], Completion], *, accept_cut: bool = False
) -> Completion:
    """Complete ``prompt`` by ``send``, which takes a token limit; after a cut reply, the request is repeated once.

    The second limit adds `MIN_EXTRA_THINKING_TOKENS` to that of the task, or twice the model's allowance for thinking
    if that is more. If the reply then ends by itself, the model's allowance becomes twice the tokens beyond the task's
    limit, rounded up to a power of two. If the server rejects prompt and allowance as too long, the request is sent
    without the allowance. The reply has the cost of the second request only: the first is charged to the run, and not
    to a pipeline.

    Raises:
        CutReply: the second reply was cut as well, and it has no text or ``accept_cut`` is False.
    """
    needed = task.max_tokens
    first = needed + _fit_thinking_tokens(model, prompt, needed, thinking_tokens(model))
    try:
        reply = send(first)
    except TooLong:
        if first == needed:
            raise
        first = needed  # too long with tokens for thinking; it may fit without them
        reply = send(first)
    spent = reply.usage
    is_own = 0 < reply.cut_at < first
    if reply.cut_at and not is_own:
        raised = _fit_thinking_tokens(model, prompt, needed, max_reply_tokens(model, task) - needed)
        if needed + raised > first:
            try:
                reply = send(needed + raised)
            except (RefusedContent, TooLong):
                pass  # the model accepts no larger limit
            else:
                spent += reply.usage
                if not reply.cut_at:
                    reported = reply.usage.output_tokens
                    # more than the limit that was too low, even if the server does not count thoughts
                    _learn(model, max(reported, first + 1) - needed if reported else raised, raised)
    if reply.cut_at and not (accept_cut and reply.text.strip()):
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


def max_reply_tokens(model: ChatModel, task: Task[Any]) -> int:
    """Return the maximum number of tokens of a reply with its thoughts, if the model's window permits it."""
    return task.max_tokens + max(MIN_EXTRA_THINKING_TOKENS, 2 * thinking_tokens(model))


def _fit_thinking_tokens(model: ChatModel, prompt: str, needed: int, wanted: int) -> int:
    """Return the number of tokens for thinking that fit into the model's window, at most ``wanted``."""
    window: int | None = getattr(model, "context_window", None)
    return wanted if window is None else max(0, min(wanted, window - needed - estimate_max_tokens(prompt)))


def _learn(model: ChatModel, more: int, at_most: int) -> None:
    """Learn from a reply with ``more`` tokens than the limit of its task; the allowance is ``at_most`` tokens."""
    learner = find_learner(model)
    if learner is not None and more > 0:
        twice = 1 << (2 * more - 1).bit_length()
        learner.learn(ModelCapabilities(thinking_tokens=min(at_most, max(MIN_LEARNT_THINKING_TOKENS, twice))))

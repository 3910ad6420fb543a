"""Completions of language models, cached in memory, stored if they are paid for, and retried if unreadable."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from ragsmith.errors import CutReply, LoopingReply, ModelError, RefusedContent, TooLong, Unreadable
from ragsmith.gateway.call_context import CallContext, CallMemo
from ragsmith.gateway.claims import BatchedStore
from ragsmith.gateway.failures import IN_FORM, FailedCall, RequestTarget, describe_limit
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.gateway.prompts_and_vectors import complete_until_parsed, parse_problem
from ragsmith.models.calls import (
    ChatModel,
    Completion,
    StoredCall,
    accepts_cut_answers,
    completion_key,
    form_argument,
)
from ragsmith.models.capabilities import ModelCapabilities, find_learner, thinking_tokens
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import ONE_CALL, Usage, estimate_max_tokens
from ragsmith.text.repetition import ends_in_loop

T = TypeVar("T")

Form = Mapping[str, Any]
"""The form of a reply as the argument of a request (`form_argument`); empty for a text."""


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

        Failures are stored as well, and their requests are not repeated (`ragsmith.gateway.failures`). Truncated
        answers have separate keys, so that they are only read by searches that accept them.
        """
        identity = (model.id, prompt, task.max_tokens, sample)
        accept_cut = task.usable_cut and accepts_cut_answers(model)
        form = form_argument(model, task)
        complete_key, key = completion_key(*identity, **form), completion_key(*identity, **form, cut=accept_cut)
        failures = self.context.failures

        def record(error: ModelError, limited_task: str, attempts: int = 0) -> None:
            """Record a failure; without attempts, one that is followed by a request with which a resumed run begins."""
            failed = FailedCall.from_error(error, key, model.id, limited_task)
            failures.record_failures([replace(failed, attempts=attempts)])

        def request() -> Completion:
            with failures.attempt(target, task.name, key):
                known = failures.find_failed([key]).get(key)
                if known and known.covers(task.name, max_reply_tokens(model, task)):
                    failures.count_known_failure(target, task.name, known)
                    raise known.error()
                cut_at = known.cut_at(task.name) if known else 0
                sent_form = {} if known and known.loops_in_form else form
                try:
                    return self._request(model, task, prompt, sample, sent_form, cut_at, record)
                except ModelError as error:
                    known = failures.find_failed([key]).get(key)  # the last one of this request
                    cut_at = max(known.cut_at(task.name) if known else 0, max_reply_tokens(model, task))
                    record(error, describe_limit(task.name, cut_at), attempts=1)
                    raise

        def request_and_store(store: BatchedStore, *, replacing: bool = False) -> tuple[str, Usage]:
            completion = request()
            stored_key = key if completion.cut_at else complete_key
            call = StoredCall.from_completion(stored_key, model.id, task.name, completion)
            store.put_calls([call], replacing=replacing)
            if stored_key != key:
                store.release(key)
            return _text_and_usage(completion)

        def load_or_request() -> tuple[str, Usage]:
            store = self.context.store
            if store is None:
                return _text_and_usage(request())
            stored = store.get_calls([complete_key]).get(complete_key)
            call = stored or self.context.share([key], lambda _: {key: request_and_store(store)})[key]
            if not isinstance(call, StoredCall):
                return call
            if parse_problem(task, call.value) is not None:
                return request_and_store(store, replacing=True)
            failures.record_reply(target, task.name)
            self._count("language_model", stored=1)
            n_cut = int(accept_cut and call.key == key)
            return call.value, Usage(call.calls, 0, 0, call.input_tokens, call.output_tokens, call.seconds, n_cut)

        self._count("language_model", asked=1)
        return self.memo.get((*identity, task.form and task.form.name, accept_cut), load_or_request)

    def _request(
        self,
        model: ChatModel,
        task: Task[Any],
        prompt: str,
        sample: int,
        form: Form,
        cut_before: int,
        record: Callable[[ModelError, str], None],
    ) -> Completion:
        """Request a reply that ``task`` can parse; after an unreadable reply, repeat it with the parsing error.

        ``cut_before`` is the limit at which an earlier reply to ``prompt`` was truncated. A reply that is truncated, or
        loops in its form, is passed to ``record`` before another request, so that a resumed run does not repeat it.

        Raises:
            Unreadable: the second reply is unreadable as well.
        """
        total_usage = Usage()

        def send(text: str, sent_form: Form, limit: int) -> Completion:
            nonlocal total_usage
            with self.context.reserve_cost(model, text, limit) as usages:
                began = perf_counter()
                completion = model.complete(text, max_tokens=limit, sample=sample, **sent_form)
                if not completion.usage.seconds:  # models of user code may not report seconds
                    usage = replace(completion.usage, seconds=perf_counter() - began)
                    completion = replace(completion, usage=usage)
                usages.append(completion.usage)
            total_usage += completion.usage
            self._count("language_model", made=1)
            if completion.cut_at and (text, sent_form) == (prompt, form):
                record(CutReply(f"{model.id}: a reply was truncated"), describe_limit(task.name, limit))
            return completion

        def on_loop(looped: LoopingReply) -> None:
            record(looped, f"{task.name}{IN_FORM}")

        try:
            return complete_task(model, task, prompt, form, send, cut_before=cut_before, on_loop=on_loop)
        except ModelError as error:  # with the cost of the replies before it
            for name in ("calls", "input_tokens", "output_tokens"):
                setattr(error, name, getattr(error, name) + getattr(total_usage, name))
            raise


def complete_task(
    model: ChatModel,
    task: Task[Any],
    prompt: str,
    form: Form,
    send: Callable[[str, Form, int], Completion],
    *,
    cut_before: int = 0,
    on_loop: Callable[[LoopingReply], None] = lambda _: None,
) -> Completion:
    """Return a reply that ``task`` can parse: see `complete_until_parsed` and `complete_within_limits`.

    If a reply in ``form`` loops, the task is requested once more as text, as a grammar can keep a small model from
    ending its reply; ``on_loop`` is called before. The text that is returned has the cost of no earlier request.
    ``send`` takes a prompt, the form and a token limit; ``cut_before`` is that at which a reply to ``prompt`` in
    ``form`` was truncated earlier.

    Raises:
        LoopingReply: the text loops as well, or there is no form.
        CutReply: as `complete_within_limits`.
        Unreadable: the second reply is unreadable as well.
    """

    def complete(text: str, sent_form: Form) -> Completion:
        before = cut_before if (text, sent_form) == (prompt, form) else 0
        accept_cut = task.usable_cut and accepts_cut_answers(model)
        send_within = partial(send, text, sent_form)
        return complete_within_limits(model, task, text, send_within, accept_cut=accept_cut, cut_before=before)

    try:
        reply = complete_until_parsed(task, prompt, partial(complete, sent_form=form))
    except LoopingReply as looped:
        if not form:
            raise
        on_loop(looped)
        reply = complete_until_parsed(task, prompt, partial(complete, sent_form={}))
    if isinstance(reply, str):
        raise Unreadable(f"two replies to {task.name} cannot be read; the last: {reply}")
    return reply


def _text_and_usage(completion: Completion) -> tuple[str, Usage]:
    """Return the text and the usage of a completion; the usage counts whether it was cut."""
    usage = completion.usage
    return completion.text, replace(usage, cut=1) if completion.cut_at else usage


# --- token limits ----------------------------------------------------------------------------------------------------

MIN_EXTRA_THINKING_TOKENS = 4096
"""Minimum number of thinking tokens that are added after a truncated thought: twice those of most models."""
MIN_LEARNT_THINKING_TOKENS = 256
"""Minimum number of thinking tokens that is learnt."""
MAX_EXTENSION = 4
"""Factor of the limit of a task after a reply that was truncated without thoughts, as the model writes much."""


def complete_within_limits(
    model: ChatModel,
    task: Task[Any],
    prompt: str,
    send: Callable[[int], Completion],
    *,
    accept_cut: bool = False,
    cut_before: int = 0,
) -> Completion:
    """Complete ``prompt`` by ``send``, which takes a token limit; a truncated reply is requested again once.

    After a truncated thought, the second limit adds `MIN_EXTRA_THINKING_TOKENS` to that of the task, or twice the
    model's allowance for thinking if that is more. If the reply is then complete, the model's allowance becomes twice
    the tokens beyond the task's limit, rounded up to a power of two. A truncated text gets `MAX_EXTENSION` times the
    task's limit, and the model learns nothing; one that ends in a loop is not requested again. If the server rejects
    prompt and allowance as too long, the request is sent without the allowance. The first limit is skipped if an
    earlier reply was truncated at it (``cut_before``). The reply has the cost of the second request only; the first is
    charged to the run, not to a pipeline.

    Raises:
        LoopingReply: a reply is truncated and ends in a loop.
        CutReply: the second reply is truncated as well, and has no text or ``accept_cut`` is False.
    """
    limit = task.max_tokens + _fit_thinking_tokens(model, prompt, task.max_tokens, thinking_tokens(model))
    if limit <= cut_before:
        limit = _extend(model, task, prompt, thinks=thinking_tokens(model) > 0)
    try:
        reply = _refuse_loop(model, task, send(limit))
    except TooLong:
        if limit == task.max_tokens:
            raise
        limit = task.max_tokens  # the prompt may fit without tokens for thinking
        reply = _refuse_loop(model, task, send(limit))
    is_model_limit = 0 < reply.cut_at < limit
    thinks = thinking_tokens(model) > 0 or reply.thought_tokens > 0 or not reply.text.strip()
    if reply.cut_at and not is_model_limit:
        extended = _extend(model, task, prompt, thinks=thinks)
        if extended > limit:
            try:
                reply = _refuse_loop(model, task, send(extended))
            except (RefusedContent, TooLong):
                pass  # the model accepts no larger limit
            else:
                if thinks and not reply.cut_at:
                    reported, allowance = reply.usage.output_tokens, extended - task.max_tokens
                    # above the first limit, even if the server does not count thoughts
                    _learn(model, max(reported, limit + 1) - task.max_tokens if reported else allowance, allowance)
    if reply.cut_at and not (accept_cut and reply.text.strip()):
        remedy = "raise the token limit of the model" if is_model_limit else "name a model that writes less"
        remedy = "give the model more thinking_tokens" if thinks and not is_model_limit else remedy
        raise CutReply(
            f"{model.id}: the reply to {task.name} was truncated at the limit of {reply.cut_at:,} tokens, "
            f"{min(task.max_tokens, reply.cut_at):,} of them without thoughts: {remedy}"
            f"{', or score truncated answers (--score-cut-answers)' if task.usable_cut else ''}"
        )
    return reply


def _refuse_loop(model: ChatModel, task: Task[Any], reply: Completion) -> Completion:
    """Return a reply unless it is truncated in a loop."""
    if reply.cut_at and (reply.loops or ends_in_loop(reply.text)):
        raise LoopingReply(
            f"{model.id}: the reply to {task.name} repeats itself up to the limit of {reply.cut_at:,} tokens: "
            "name another model, as more tokens do not end it"
        )
    return reply


def max_reply_tokens(model: ChatModel, task: Task[Any]) -> int:
    """Return the maximum number of tokens of a reply with its thoughts, if the model's window permits it."""
    return task.max_tokens + _max_allowance(model, task, thinks=thinking_tokens(model) > 0)


def _max_allowance(model: ChatModel, task: Task[Any], *, thinks: bool) -> int:
    extra = max(MIN_EXTRA_THINKING_TOKENS, 2 * thinking_tokens(model))
    return extra if thinks else (MAX_EXTENSION - 1) * task.max_tokens


def _extend(model: ChatModel, task: Task[Any], prompt: str, *, thinks: bool) -> int:
    """Return the limit after a truncated reply, as far as the model's window permits."""
    allowance = _max_allowance(model, task, thinks=thinks)
    return task.max_tokens + _fit_thinking_tokens(model, prompt, task.max_tokens, allowance)


def _fit_thinking_tokens(model: ChatModel, prompt: str, reply_limit: int, requested: int) -> int:
    """Return the number of thinking tokens that fit into the model's window, at most ``requested``."""
    window: int | None = getattr(model, "context_window", None)
    return requested if window is None else max(0, min(requested, window - reply_limit - estimate_max_tokens(prompt)))


def _learn(model: ChatModel, excess: int, maximum: int) -> None:
    """Learn from a reply with ``excess`` tokens beyond the limit of its task; the allowance is at most ``maximum``."""
    learner = find_learner(model)
    if learner is not None and excess > 0:
        twice = 1 << (2 * excess - 1).bit_length()
        learner.learn(ModelCapabilities(thinking_tokens=min(maximum, max(MIN_LEARNT_THINKING_TOKENS, twice))))

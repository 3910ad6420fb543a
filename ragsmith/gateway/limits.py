"""How many tokens a reply may have: what its task has it write, and what its model needs to think."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragsmith.errors import CutReply, RefusedContent, TooLong
from ragsmith.models.calls import ChatModel, Completion
from ragsmith.models.capabilities import ModelCapabilities, learner_of, thinking_tokens
from ragsmith.models.tasks import Task
from ragsmith.models.usage import tokens_at_most

LEAST_RAISE = 4096
"""Tokens to think, at least, for a reply that was cut: twice what models that think a little need."""
LEAST_ALLOWANCE = 256


def complete_whole(
    model: ChatModel, task: Task[Any], prompt: str, send: Callable[[int], Completion], *, cut_too: bool = False
) -> Completion:
    """The reply to ``prompt``, for which ``send`` is given a limit on tokens; one that was cut is asked for once more.

    The limit is then `LEAST_RAISE` above what the task has the model write, or twice the model's allowance where that
    is more. If the reply ends by itself, what it took beyond the task's limit is learnt: twice as much, as a power of
    two, is the model's allowance from then on. So few more replies are cut, whatever the model thinks, and little more
    is reserved than it needs. Where the model's room to think is more than the server grants, the reply is asked for
    without it. The reply has the bill of the second request alone: the first is a cost of learning,
    which the run pays and no pipeline.

    Raises:
        CutReply: the second reply was cut as well, and one that is cut will not do (``cut_too``), or has no text.
    """
    needed = task.max_tokens
    first = needed + _room(model, prompt, needed, thinking_tokens(model))
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
        raised = _room(model, prompt, needed, most_tokens(model, task) - needed)
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
    """The tokens that a reply may have at most, its thoughts included, where the model's window leaves them."""
    return task.max_tokens + max(LEAST_RAISE, 2 * thinking_tokens(model))


def _room(model: ChatModel, prompt: str, needed: int, wanted: int) -> int:
    """The tokens to think that the model's window leaves, at most ``wanted``."""
    window: int | None = getattr(model, "context_window", None)
    return wanted if window is None else max(0, min(wanted, window - needed - tokens_at_most(prompt)))


def _learn(model: ChatModel, more: int, at_most: int) -> None:
    """Keep in mind that a reply took ``more`` tokens than its task has a model write."""
    learner = learner_of(model)
    if learner is not None and more > 0:
        twice = 1 << (2 * more - 1).bit_length()
        learner.learn(ModelCapabilities(thinking_tokens=min(at_most, max(LEAST_ALLOWANCE, twice))))

"""Estimate the tokens and seconds of requests to a model from its replies in the cache, or from assumptions."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ragsmith.models.calls import StoredCall, is_chat_model
from ragsmith.models.capabilities import thinking_tokens
from ragsmith.models.served.policy import Policy
from ragsmith.models.usage import AVERAGE_CHARACTERS_PER_TOKEN, Usage
from ragsmith.runs.stub_models import RequestCount

ASSUMED_LATENCY = 1.0
"""Assumed latency of a request, in seconds."""

VERDICT_NOTE = (
    "verdicts on evidence and drafts with their frequencies in the cache, plus two for each task: the embedded "
    "model's, and one that leads to more requests, so the plan tends to be too high while there are few"
)


@dataclass
class CachedReplies:
    """The sums of replies in the cache; ``requests`` includes repeated ones, and ``timed`` have ``seconds``."""

    replies: int = 0
    requests: int = 0
    output_tokens: int = 0
    reply_characters: int = 0
    seconds: float = 0.0
    timed: int = 0

    def add(self, call: StoredCall) -> None:
        """Add a reply."""
        self.replies += 1
        self.requests += call.calls
        self.output_tokens += call.output_tokens
        self.reply_characters += len(str(call.value))
        self.seconds += call.seconds
        self.timed += call.calls if call.seconds else 0


@dataclass(frozen=True)
class TokenEstimate:
    """Estimates for one model: seconds of a request, characters of a token, and reasoning tokens of a reply."""

    latency: float
    in_flight: int
    characters: float = AVERAGE_CHARACTERS_PER_TOKEN
    thinking: float = 0.0
    replies: CachedReplies = field(default_factory=CachedReplies)
    tasks: Mapping[str, CachedReplies] = field(default_factory=dict)

    def usage(self, request: str, count: RequestCount, scale: float) -> Usage:
        """Return the usage of ``scale`` times the requests of ``count``, rounded up."""
        known = self.tasks.get(request, self.replies)
        attempts = known.requests / known.replies if known.replies else 1.0
        if known is not self.replies and known.output_tokens:
            written = count.needed * known.output_tokens / known.replies
        else:
            written = attempts * (count.reply_characters / self.characters + count.needed * self.thinking)
        calls = math.ceil(count.needed * attempts * scale)
        read = math.ceil(count.prompt_characters / self.characters * attempts * scale)
        return Usage(calls, 0, 0, read, math.ceil(written * scale), calls * self.latency / self.in_flight)


def estimate_tokens(
    model: Any,
    stored: Iterable[StoredCall],
    counts: Mapping[str, RequestCount],
    latency: float | None,
    in_flight: int | None,
) -> tuple[TokenEstimate, tuple[str, ...]]:
    """Estimate the tokens and seconds of requests to ``model``, and describe the source of each number.

    ``stored`` are its replies in the cache, and ``counts`` its requests in the simulation. ``latency`` and
    ``in_flight`` override the estimates.
    """
    replies, by_task = CachedReplies(), dict[str, CachedReplies]()
    for call in stored:
        replies.add(call)
        by_task.setdefault(call.task, CachedReplies()).add(call)
    tokens = sum(count.cached_prompt_tokens for count in counts.values())
    shown = sum(count.cached_prompt_characters for count in counts.values())
    characters = shown / tokens if tokens else AVERAGE_CHARACTERS_PER_TOKEN
    allowance = thinking_tokens(model)
    thinking: float = allowance
    if replies.output_tokens:
        thinking = max(0.0, (replies.output_tokens - replies.reply_characters / characters) / replies.replies)
    seconds = replies.seconds / replies.timed if replies.timed else None
    provider = getattr(model, "provider", None)
    found = TokenEstimate(
        latency or seconds or ASSUMED_LATENCY,
        in_flight or (provider.slots if provider else Policy().slots),
        characters,
        thinking,
        replies,
        by_task,
    )
    source = _describe_source(latency, seconds, replies)
    learns = in_flight is None and provider is not None and provider.learns_slots
    at_once = " (the first number at a private server, which learns it: the time is at most this)" if learns else ""
    notes = [f"at {found.latency:.3g} s a request{source} and {found.in_flight} at once{at_once}"]
    read = f"measured on {tokens:,} of them in the cache" if tokens else "assumed"
    notes.append(f"{characters:.3g} characters to a token of a prompt ({read})")
    if is_chat_model(model):
        notes.append(_describe_replies(replies, by_task, thinking, allowance))
        if unknown := sorted(request for request, count in counts.items() if count.needed and request not in by_task):
            notes.append(
                f"no reply to {', '.join(unknown)} is in the cache: `ragsmith models check` with this space and "
                "--cache requests each once, which makes a later plan more accurate"
            )
    return found, tuple(notes)


def _describe_source(given: float | None, measured: float | None, replies: CachedReplies) -> str:
    if given is not None:
        return ""
    return f" (measured on {replies.replies:,} replies)" if measured else " (assumed: set it with --latency)"


def _describe_replies(
    replies: CachedReplies, by_task: Mapping[str, CachedReplies], thinking: float, allowance: int
) -> str:
    """Describe the expected length of replies."""
    if replies.output_tokens:
        again = replies.requests / replies.replies - 1
        return (
            f"replies to {', '.join(sorted(by_task))} as long as {replies.replies:,} in the cache are, "
            f"{100 * again:.1f} % of them requested twice; {VERDICT_NOTE}"
        )
    thought = f", and {allowance:,} reasoning tokens, the maximum" if allowance else ""
    return (
        "replies as long as the embedded model's, of half the words that a prompt allows at most"
        f"{thought} (assumed: no reply is in the cache); {VERDICT_NOTE}"
    )

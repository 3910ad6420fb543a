"""Draft questions with a chat model in concurrent requests, and check the drafts with the model.

The requests depend only on the documents and on replies, not on the order in which replies arrive: drafting that is
resumed sends the remaining requests, and results in the same questions.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import TracebackType
from typing import Any, Self, TypeVar

from ragsmith.errors import BudgetExhausted, ModelError, ModelUnavailable, Unreadable
from ragsmith.evaluation.threads import close_pool
from ragsmith.gateway.failures import MAX_FAILED_REQUESTS
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.prompts_and_vectors import MAX_REPLY_ATTEMPTS
from ragsmith.labelling.drafting.checks import (
    CLOSED_BOOK,
    CLOSED_BOOK_NAME,
    ROUND_TRIP,
    ROUND_TRIP_NAME,
    closed_book_problem,
    rival_passages,
    round_trip_problem,
)
from ragsmith.labelling.drafting.draft import Draft, RejectedDraft, make_quote
from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.labelling.drafting.registry import DraftingMethod
from ragsmith.labelling.drafting.replies import MAX_QUESTIONS, DraftReply
from ragsmith.models.calls import ChatModel
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import Meter
from ragsmith.types import Chunk

T = TypeVar("T")

ROLE = "controller"
"""Role under which the gateway counts the requests."""

MAX_BATCH_DRAFTS = 32
"""Maximum number of drafts in a batch of checks."""

MIN_WAVE_REQUESTS = 4
"""Minimum number of requests in a wave; the replies of a wave are read before the next is sent."""

N_CHECKS = 2
"""Number of requests that check a draft."""

N_RETRY_SAMPLES = 3
"""Number of further samples after an unreadable reply if ``retry_failed`` is set, each with another seed."""

RETRY_SUFFIX = "\n\nYour last reply could not be used: {problem}. Reply in exactly the form asked for."


@dataclass(frozen=True, slots=True)
class DraftingFailure:
    """A request without a readable reply: its prompt, passage or question, and the kind and reason of the failure."""

    prompt: str
    about: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class DraftingPlan:
    """Bounds of the number of requests: ``min_requests`` if each draft passes, and ``max_requests`` without retries.

    Requests are retried after an error of the server, or if a reply was truncated.
    """

    wanted: int
    passages: int
    min_requests: int
    max_requests: int


@dataclass(frozen=True, slots=True)
class DraftingRequest:
    """Drafting method applied to a passage; ``passages`` are those in the prompt, which may include another one."""

    method: DraftingMethod
    passages: tuple[Chunk, ...]

    @property
    def inputs(self) -> dict[str, Input]:
        """Values of the placeholders of the prompt."""
        texts = tuple(chunk.text for chunk in self.passages)
        title = " and ".join(dict.fromkeys(_full_title(chunk) for chunk in self.passages))
        return {"title": title, "texts": texts} if len(texts) > 1 else {"title": title, "text": texts[0]}

    def to_drafts(self, replies: Iterable[DraftReply], model: str) -> Iterator[Draft]:
        """Yield the drafts in a reply."""
        for reply in replies:
            quotes = tuple(dict.fromkeys(make_quote(self.passages[number - 1], text) for number, text in reply.quotes))
            method, passage = self.method, self.passages[0].span
            draft = Draft(reply.question, reply.answer, quotes, method.type, method.name, passage)
            yield replace(draft, answerable=method.answerable, model=model, prompt=method.digest)


def plan_requests(
    passages: Iterable[Chunk], links: Links, methods: Sequence[DraftingMethod]
) -> Iterator[DraftingRequest]:
    """Yield requests of all suitable methods for all passages: one for each passage, then a second one, and so on.

    The next method of a passage is the one with the fewest requests so far; ties go to the method that suits the fewest
    passages. Any number of requests from the front is therefore balanced.
    """
    suited = [
        {m.name: DraftingRequest(m, shown) for m in methods if (shown := m.shown(chunk, links))} for chunk in passages
    ]
    counts = Counter(name for requests in suited for name in requests)
    asked: Counter[str] = Counter()
    while any(suited):
        for left in filter(None, suited):
            name = min(left, key=lambda name: (asked[name], counts[name], name))
            asked[name] += 1
            yield left.pop(name)


class ModelDrafting:
    """Drafts and checks questions with a chat model through a gateway; a context manager.

    ``failures`` are the requests without a reply; ``pause_reason`` is why no more requests are sent, or "".
    ``n_threads`` is the number of threads; the provider limits the number of concurrent requests to the server. On an
    error or Ctrl-C no more requests are sent, and those in flight are cancelled.
    """

    def __init__(
        self,
        model: ChatModel,
        gateway: Gateway,
        methods: Sequence[DraftingMethod],
        *,
        n_threads: int = MAX_BATCH_DRAFTS,
        retry_failed: bool = False,
        on_plan: Callable[[DraftingPlan], None] | None = None,
    ) -> None:
        self.gateway = gateway
        self.failures: list[DraftingFailure] = []
        self.pause_reason = ""
        self._model = model
        self._methods = methods
        self._n_threads = n_threads
        self._samples = 1 + N_RETRY_SAMPLES * retry_failed
        self._answered = False
        self._on_plan = on_plan or (lambda plan: None)
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="ragsmith-draft")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        close_pool(self._pool, self.gateway, kind)

    @property
    def name(self) -> str:
        """Name of the model in the rows of its drafts."""
        return self._model.id.partition("@")[0]

    def make_drafter(self, wanted: int) -> Callable[[Iterable[Chunk], DraftingCorpus], Iterator[Draft]]:
        """Return a function that drafts from passages.

        It sends requests in waves of at most half of the ``wanted`` drafts, so that few are unnecessary.
        """
        wave = max(min(math.ceil(wanted / MAX_QUESTIONS / 2), self._n_threads), MIN_WAVE_REQUESTS)

        def draft_from(passages: Iterable[Chunk], material: DraftingCorpus) -> Iterator[Draft]:
            read = list(passages)
            requests = list(plan_requests(read, Links(material), self._methods))
            least = min(math.ceil(wanted / MAX_QUESTIONS), len(requests)) + N_CHECKS * min(
                wanted, MAX_QUESTIONS * len(requests)
            )
            most = self._samples * MAX_REPLY_ATTEMPTS * len(requests) * (1 + N_CHECKS * MAX_QUESTIONS)
            self._on_plan(DraftingPlan(wanted, len(read), least, most))
            for first in range(0, len(requests), wave):
                if self.pause_reason:
                    return
                asked = requests[first : first + wave]
                replies = self._all([(one.method.task, one.inputs, one.passages[0].id) for one in asked])
                drafts = [one.to_drafts(reply or (), self.name) for one, reply in zip(asked, replies, strict=True)]
                for turn in zip_longest(*drafts):
                    yield from (draft for draft in turn if draft is not None)

        return draft_from

    def check(self, drafts: Sequence[Draft], material: DraftingCorpus) -> list[Draft | RejectedDraft | None]:
        """Check ``drafts``: return each one or its rejection; None if it could not be checked, see ``failures``."""
        found: list[Draft | RejectedDraft | None] = list(drafts)
        places = [place for place, draft in enumerate(drafts) if draft.answerable]
        asked = [(CLOSED_BOOK, {"question": drafts[p].question}, drafts[p].question) for p in places]
        known = self._all(asked)
        for place, answer in zip(places, known, strict=True):
            found[place] = _check_reply(drafts[place], CLOSED_BOOK_NAME, answer, closed_book_problem)
        shown = {p: s for p, one in enumerate(found) if isinstance(one, Draft) and (s := rival_passages(one, material))}
        about = [(drafts[p].question, tuple(chunk.text for chunk in its)) for p, its in shown.items()]
        again = [(ROUND_TRIP, {"question": q, "texts": texts}, q) for q, texts in about]
        found_there = self._all(again)
        for (place, its), reply in zip(shown.items(), found_there, strict=True):
            found[place] = _check_reply(
                drafts[place],
                ROUND_TRIP_NAME,
                reply,
                lambda draft, reply, its=its: round_trip_problem(draft, its, reply),  # type: ignore[misc]
            )
        return found

    def _all(self, asked: Sequence[tuple[Task[T], dict[str, Any], str]]) -> list[T | None]:
        """Return the replies in the order of the requests; None for a request that failed.

        An exhausted budget is no error: the replies that were paid for are used.

        Raises:
            ModelUnavailable: the first requests all failed.
        """

        def ask(task: Task[T], inputs: dict[str, Any]) -> T | ModelError | BudgetExhausted:
            try:
                return self._reply(task, inputs)
            except (ModelError, BudgetExhausted) as error:
                return error

        found: list[T | None] = []
        futures = [self._pool.submit(ask, task, inputs) for task, inputs, _ in asked]
        for (task, _, about), future in zip(asked, futures, strict=True):
            match future.result():
                case ModelError() as error:
                    self.failures.append(DraftingFailure(task.name, about, error.kind, str(error)))
                    found.append(None)
                case BudgetExhausted() as error:
                    self.pause_reason = str(error)
                    found.append(None)
                case reply:
                    self._answered = True
                    found.append(reply)
        if not self._answered and len(self.failures) >= MAX_FAILED_REQUESTS:
            raise ModelUnavailable(
                f"{self.name} has given no usable reply to {len(self.failures)} requests "
                f"(the last: {self.failures[-1].reason}): name another model"
            )
        return found

    def _reply(self, task: Task[T], inputs: dict[str, Any]) -> T:
        """Return the parsed reply of ``task``; after an unreadable reply the prompt is repeated with the error.

        The gateway caches raw replies, including unreadable ones, so that no request is paid for twice when drafting is
        resumed.

        Raises:
            Unreadable: no reply can be parsed.
            ModelError: there is no reply.
        """
        view = self.gateway.language_model(self._model, Meter(), ROLE)
        first, again = _raw_task(task, ""), _raw_task(task, RETRY_SUFFIX)
        text = problem = ""
        for sample in range(self._samples):
            for raw in (first, again):
                extra = {"problem": problem} if raw is again else {}
                text = view.run(raw, sample=sample, **inputs, **extra)
                try:
                    return task.read(text)
                except ValueError as error:
                    problem = str(error)
        raise Unreadable(f"the replies cannot be read; the last: {problem} (it began {text[:60]!r})")


def _raw_task(task: Task[Any], suffix: str) -> Task[str]:
    """Return ``task`` with ``suffix`` appended to its prompt and the unparsed reply as its result."""
    return Task(task.name, task.prompt + suffix, str, task.offline, task.max_tokens, form=task.form)


def _check_reply(
    draft: Draft, name: str, reply: T | None, problem: Callable[[Draft, T], str | None]
) -> Draft | RejectedDraft | None:
    if reply is None:
        return None
    reason = problem(draft, reply)
    return RejectedDraft(draft, name, reason) if reason else draft


def _full_title(chunk: Chunk) -> str:
    return f"{chunk.title or chunk.doc!r}" + (f", {' > '.join(chunk.headings)}" if chunk.headings else "")

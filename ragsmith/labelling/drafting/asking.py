"""Drafting with a chat model: many passages are asked about at once, and what comes back is checked with the model.

Which requests are sent depends on the documents and on replies alone, never on which reply came first: drafting that
was killed asks for what it has not got, and comes to the same questions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import TracebackType
from typing import Any, TypeVar

from ragsmith.errors import BudgetExhausted, ModelError, ModelUnavailable, Unreadable
from ragsmith.evaluation.threads import close
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
from ragsmith.labelling.drafting.draft import Draft, RejectedDraft, quote_of
from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.labelling.drafting.registry import DraftingMethod
from ragsmith.labelling.drafting.replies import MOST, DraftReply
from ragsmith.models.calls import ChatModel
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import Meter
from ragsmith.types import Chunk

T = TypeVar("T")

ROLE = "controller"
"""Who asks, as the gateway counts it: a model that is of use for one prompt is of use."""

TOGETHER = 32
"""Drafts that are checked together, at most."""

FEWEST = 4
"""Requests in a wave, at least: what is sent before what comes back is looked at."""

CHECKS = 2
"""Requests that a draft is checked with."""

MORE_SAMPLES = 3
"""How often what could not be read is asked for anew, with another seed each time, where that is wanted."""

AGAIN = "\n\nYour last reply could not be used: {problem}. Reply in exactly the form asked for."


@dataclass(frozen=True, slots=True)
class DraftingFailure:
    """A request to which there is no reply of use: the prompt, the passage or the question, the kind, and why."""

    prompt: str
    about: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class DraftingPlan:
    """How many requests drafting takes: ``least`` if each draft is good, and never more than ``most``, but for what is
    sent again after an error of the server, or because a reply was cut.
    """

    wanted: int
    passages: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class DraftingRequest:
    """A drafting method for a passage, with what the model is shown: the passage, and perhaps another."""

    method: DraftingMethod
    shown: tuple[Chunk, ...]

    @property
    def inputs(self) -> dict[str, Input]:
        """What fills the prompt."""
        texts = tuple(chunk.text for chunk in self.shown)
        title = " and ".join(dict.fromkeys(_titled(chunk) for chunk in self.shown))
        return {"title": title, "texts": texts} if len(texts) > 1 else {"title": title, "text": texts[0]}

    def drafts(self, written: Iterable[DraftReply], model: str) -> list[Draft]:
        """The drafts in a reply."""
        found = []
        for one in written:
            quotes = tuple(dict.fromkeys(quote_of(self.shown[number - 1], said) for number, said in one.quotes))
            method, passage = self.method, self.shown[0].span
            draft = Draft(one.question, one.answer, quotes, method.type, method.name, passage)
            found.append(replace(draft, answerable=method.answerable, model=model, prompt=method.digest))
        return found


def requests_for(passages: Iterable[Chunk], links: Links, methods: Sequence[DraftingMethod]) -> list[DraftingRequest]:
    """Every method for every passage that it suits: first one for each passage, then a second, and so on.

    The next for a passage is the one that was asked least so far, then the one that suits the fewest passages, so that
    any number of requests from the front is balanced.
    """
    suited = [
        {m.name: DraftingRequest(m, shown) for m in methods if (shown := m.shown(chunk, links))} for chunk in passages
    ]
    counts = Counter(name for requests in suited for name in requests)
    asked: Counter[str] = Counter()
    found = []
    while any(suited):
        for left in filter(None, suited):
            name = min(left, key=lambda name: (asked[name], counts[name], name))
            asked[name] += 1
            found.append(left.pop(name))
    return found


class ModelDrafting:
    """Asks a chat model through a gateway, which remembers, pays and counts; a context manager.

    ``failures`` are the requests to which there is no reply, and ``paused`` says why no more are sent, if none are.
    ``at_once`` requests are waited for together; how many of them the server is sent is the provider's matter. On the
    way out through an error, or Ctrl-C, nothing more is sent, and what is in flight soon given up.
    """

    def __init__(
        self,
        model: ChatModel,
        gateway: Gateway,
        methods: Sequence[DraftingMethod],
        *,
        at_once: int = TOGETHER,
        retry_failed: bool = False,
        on_plan: Callable[[DraftingPlan], None] | None = None,
    ) -> None:
        self.gateway = gateway
        self.failures: list[DraftingFailure] = []
        self.paused = ""
        self._model = model
        self._methods = methods
        self._at_once = at_once
        self._samples = 1 + MORE_SAMPLES * retry_failed
        self._answered = False
        self._on_plan = on_plan or (lambda plan: None)
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="ragsmith-draft")

    def __enter__(self) -> ModelDrafting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        close(self._pool, self.gateway, kind)

    @property
    def name(self) -> str:
        """What rows call the model."""
        return self._model.id.partition("@")[0]

    def drafting(self, wanted: int) -> Callable[[Iterable[Chunk], DraftingCorpus], Iterator[Draft]]:
        """What drafts of passages, in waves of at most half of the ``wanted`` drafts, so that few are paid in vain."""
        wave = max(min(math.ceil(wanted / MOST / 2), self._at_once), FEWEST)

        def drafting(passages: Iterable[Chunk], material: DraftingCorpus) -> Iterator[Draft]:
            read = list(passages)
            requests = requests_for(read, Links(material), self._methods)
            least = min(math.ceil(wanted / MOST), len(requests)) + CHECKS * min(wanted, MOST * len(requests))
            most = self._samples * MAX_REPLY_ATTEMPTS * len(requests) * (1 + CHECKS * MOST)
            self._on_plan(DraftingPlan(wanted, len(read), least, most))
            for first in range(0, len(requests), wave):
                if self.paused:
                    return
                asked = requests[first : first + wave]
                replies = self._all([(one.method.task, one.inputs, one.shown[0].id) for one in asked])
                drafts = [one.drafts(reply or (), self.name) for one, reply in zip(asked, replies, strict=True)]
                for turn in zip_longest(*drafts):
                    yield from (draft for draft in turn if draft is not None)

        return drafting

    def checked(self, drafts: Sequence[Draft], material: DraftingCorpus) -> list[Draft | RejectedDraft | None]:
        """Each of ``drafts``, or what refused it; None for one that could not be checked, see ``failures``."""
        found: list[Draft | RejectedDraft | None] = list(drafts)
        places = [place for place, draft in enumerate(drafts) if draft.answerable]
        asked = [(CLOSED_BOOK, {"question": drafts[p].question}, drafts[p].question) for p in places]
        known = self._all(asked)
        for place, answer in zip(places, known, strict=True):
            found[place] = _judged(drafts[place], CLOSED_BOOK_NAME, answer, closed_book_problem)
        shown = {p: s for p, one in enumerate(found) if isinstance(one, Draft) and (s := rival_passages(one, material))}
        about = [(drafts[p].question, tuple(chunk.text for chunk in its)) for p, its in shown.items()]
        again = [(ROUND_TRIP, {"question": q, "texts": texts}, q) for q, texts in about]
        found_there = self._all(again)
        for (place, its), reply in zip(shown.items(), found_there, strict=True):
            found[place] = _judged(
                drafts[place],
                ROUND_TRIP_NAME,
                reply,
                lambda draft, said, its=its: round_trip_problem(draft, its, said),  # type: ignore[misc]
            )
        return found

    def _all(self, asked: Sequence[tuple[Task[T], dict[str, Any], str]]) -> list[T | None]:
        """The replies in the order of the requests; None in the place of one that failed.

        What may be spent being spent is no error: what was paid for is worth having.

        Raises:
            ModelUnavailable: the model cannot be asked.
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
                    self.paused = str(error)
                    found.append(None)
                case reply:
                    self._answered = True
                    found.append(reply)
        if not self._answered and len(self.failures) >= MAX_FAILED_REQUESTS:
            raise ModelUnavailable(
                f"{self.name} has not given one reply of use to {len(self.failures)} requests "
                f"(the last: {self.failures[-1].reason}): name another model"
            )
        return found

    def _reply(self, task: Task[T], inputs: dict[str, Any]) -> T:
        """A reply that ``task`` can read; after an unreadable one the model is told what was wrong with it.

        The gateway is asked for the replies as they are, so that one that cannot be read is kept as well: nothing is
        paid for again, wherever drafting is killed.

        Raises:
            Unreadable: the second is no better.
            ModelError: there is none.
        """
        view = self.gateway.language_model(self._model, Meter(), ROLE)
        first, again = _as_it_is(task, ""), _as_it_is(task, AGAIN)
        said = problem = ""
        for sample in range(self._samples):
            for raw in (first, again):
                told = {"problem": problem} if raw is again else {}
                said = view.run(raw, sample=sample, **inputs, **told)
                try:
                    return task.parse(said)
                except ValueError as error:
                    problem = str(error)
        raise Unreadable(f"the replies cannot be read; the last: {problem} (it began {said[:60]!r})")


def _as_it_is(task: Task[Any], more: str) -> Task[str]:
    """The same request, with ``more`` behind it, for the text of the reply."""
    return Task(task.name, task.prompt + more, str, task.offline, task.max_tokens)


def _judged(
    draft: Draft, name: str, reply: T | None, problem: Callable[[Draft, T], str | None]
) -> Draft | RejectedDraft | None:
    if reply is None:
        return None
    reason = problem(draft, reply)
    return RejectedDraft(draft, name, reason) if reason else draft


def _titled(chunk: Chunk) -> str:
    return f"{chunk.title or chunk.doc!r}" + (f", {' > '.join(chunk.headings)}" if chunk.headings else "")

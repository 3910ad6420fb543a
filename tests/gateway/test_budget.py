from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from ragsmith.errors import BudgetExhausted, ModelError, ModelUnavailable, UsageError
from ragsmith.gateway.budget import (
    Budget,
    Limits,
    Price,
    Prices,
    Spending,
    Spent,
    read_prices,
    record_failed_attempt,
)
from ragsmith.gateway.call_context import CallContext
from ragsmith.models.calls import Completion
from ragsmith.models.served.policy import PROBE_USAGE, Policy, TransientFailure, UnusableReply
from ragsmith.models.served.provider import Provider
from ragsmith.models.usage import Usage
from ragsmith.store.store import Store

T = TypeVar("T")
MODEL = "openai:tiny@v1"
PRICES = Prices({"openai:tiny": Price(input=1_000_000, output=2_000_000)})
"""A token read costs 1, one written 2."""


class Book:
    """A ledger in memory, which remembers the most it ever held."""

    total = None

    def __init__(self) -> None:
        self.spent = Spent()
        self.most = Spent()
        self._lock = threading.Lock()

    def spending(self, key: str) -> Spending:
        return Spending(self.spent)

    def accept_spent(self, key: str, spent: Spent | None) -> Spent:
        raise NotImplementedError("nothing is damaged here")

    def spend(self, key: str, amount: Spent, limits: Limits | None) -> Spent | None:
        with self._lock:
            after = self.spent + amount
            if limits is not None and limits.exceeded(after):
                return None
            self.spent = after
            self.most = Spent(*(max(getattr(self.most, n), getattr(after, n)) for n in ("calls", "tokens", "cost")))
            return after


@pytest.fixture
def book() -> Book:
    return Book()


class Served:
    """A chat model of a provider, which announces its attempts to a call context."""

    id = MODEL

    def __init__(self, context: CallContext, policy: Policy | None = None) -> None:
        self.provider = Provider("here", policy or Policy())
        self.provider.on_attempt, self.provider.on_billable_failure = context.before_attempt, record_failed_attempt

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        raise NotImplementedError


def use(budget: Budget, text: str, max_tokens: int, read: int, written: int, attempts: int = 1) -> bool:
    """Make a request; False when the budget does not allow it."""
    try:
        with budget.request(MODEL, text, max_tokens) as used:
            for _ in range(attempts):
                budget.before_attempt()
            used.append(Usage(1, 0, 0, read, written))
    except BudgetExhausted:
        return False
    return True


def side_by_side(work: Callable[[int], T], workers: int) -> list[T]:
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, range(workers), timeout=30))


# Calls


@settings(max_examples=25)
@given(st.integers(1, 1500), st.integers(1, 8), st.integers(0, 400))
def test_never_more_attempts_than_allowed_and_all_that_are(limit: int, threads: int, each: int) -> None:
    book = Book()
    budget = Budget(book, "run", Limits(calls=limit))
    sent: list[int] = []

    def work(n: int) -> None:
        for _ in range(each):
            try:
                budget.before_attempt()
            except BudgetExhausted:
                return
            sent.append(n)

    side_by_side(work, threads)
    assert len(sent) == min(limit, threads * each) == budget.spent.calls
    assert len(sent) <= book.most.calls <= limit
    budget.close()
    assert book.spent == Spent(calls=len(sent))


def test_raising_the_limit_goes_on() -> None:
    book = Book()
    for limit, expected in ((3, 3), (3, 0), (2, 0), (5, 2)):
        budget = Budget(book, "run", Limits(calls=limit))
        assert [use(budget, "", 1, 0, 0) for _ in range(6)].count(True) == expected
        budget.close()
    with pytest.raises(BudgetExhausted, match=r"--max-calls 5\): raise it"):
        Budget(book, "run", Limits(calls=5)).before_attempt()


# Tokens and money, which are known afterwards


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, int, int, int]:
    length, most = draw(st.integers(0, 60)), draw(st.integers(0, 20))
    return length, most, draw(st.integers(0, length // 3 + 1)), draw(st.integers(0, most))


REQUESTS = st.lists(requests(), max_size=30)
"""Characters, most tokens to write, tokens read and written."""


@settings(max_examples=40)
@given(REQUESTS, st.integers(1, 200), st.integers(1, 300), st.sampled_from(["tokens", "cost", "both"]))
def test_tokens_and_money_stay_within_their_limits(
    requests: Sequence[tuple[int, int, int, int]], tokens: int, cost: int, which: str
) -> None:
    book = Book()
    limits = Limits(tokens=None if which == "cost" else tokens, cost=None if which == "tokens" else float(cost))
    budget = Budget(book, "run", limits, PRICES)
    done: list[tuple[int, int]] = []

    def work(n: int) -> None:
        for length, most, read, written in requests[n::4]:
            if use(budget, "x" * length, most, read, written):
                done.append((read, written))

    side_by_side(work, 4)
    budget.close()
    assert book.spent.calls >= len(done)
    said = [(read, written) for read, written in done if read or written]
    if len(said) == len(done):  # what a server does not say is estimated
        assert book.spent.tokens == sum(read + written for read, written in said)
        assert book.spent.cost == pytest.approx(sum(read + 2 * written for read, written in said), abs=1e-9)
    assert not limits.exceeded(book.most)


def test_a_request_that_could_cost_too_much_waits_for_those_in_flight(book: Book) -> None:
    """Of 20 tokens the first may take 14 and takes 2, so that the second has room after all."""
    budget = Budget(book, "run", Limits(tokens=20))
    entered, second = threading.Event(), threading.Event()

    def wait() -> bool:
        entered.wait()
        threading.Timer(0.1, second.set).start()
        return use(budget, "x" * 11, 10, read=1, written=1)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        with budget.request(MODEL, "x" * 11, 10) as used:
            entered.set()
            second.wait()
            assert not waiting.done()
            used.append(Usage(1, 0, 0, 1, 1))
        assert waiting.result(timeout=30)
    assert budget.spent.tokens == 4
    with pytest.raises(BudgetExhausted, match="--max-tokens 20"), budget.request(MODEL, "x" * 11, 13):
        pass


def test_a_request_that_fails_may_have_been_billed_so_its_reservation_is_spent(book: Book) -> None:
    budget = Budget(book, "run", Limits(tokens=40, cost=60), PRICES)
    with pytest.raises(ValueError, match="no reply"), budget.request(MODEL, "x" * 11, 10):
        raise ValueError("no reply")
    assert budget.spent.tokens == 14
    with pytest.raises(BudgetExhausted), budget.request(MODEL, "x" * 11, 10):
        raise BudgetExhausted("nothing was sent")
    assert budget.spent.tokens == 14


@pytest.mark.parametrize(("attempts", "spent"), [(0, 0), (1, 14)])
def test_a_request_that_was_never_sent_costs_nothing(book: Book, attempts: int, spent: int) -> None:
    """The run stops while the request waits for its turn, or for another attempt."""
    budget = Budget(book, "run", Limits(tokens=40))
    context = CallContext(None, budget)

    def stopped_after_some_attempts() -> None:
        for _ in range(attempts):
            context.before_attempt()
        context.stopped = True
        context.before_attempt()

    with pytest.raises(ModelUnavailable, match="stopped"), context.reserve_cost(Served(context), "x" * 11, 10):
        stopped_after_some_attempts()
    assert budget.spent.tokens == spent
    context.stopped = False
    with pytest.raises(ModelUnavailable), context.reserve_cost(Served(context), "x" * 11, 10):
        raise ModelUnavailable("the provider is down")
    assert budget.spent.tokens == spent


STATED = UnusableReply("no text", Usage(1, 0, 0, 4, 2))
LATE = TransientFailure("no complete reply", usage=Usage())


@pytest.mark.parametrize(
    ("failures", "spent"),
    [
        ([STATED, STATED], 6 + 6 + 5),
        ([STATED, LATE], 6 + 14 + 5),
        ([TransientFailure("HTTP 503")], 5),
        ([STATED] * 3, 6 + 6 + 6),
        ([LATE] * 4, 4 * 14),
        ([STATED, *[TransientFailure("HTTP 503")] * 3], 6 + 14),
    ],
)
def test_attempts_that_gave_nothing_cost_what_the_server_states_and_else_the_most(
    book: Book, failures: list[TransientFailure], spent: int
) -> None:
    budget = Budget(book, "run", Limits(tokens=100))
    context = CallContext(None, budget)
    left = list(failures)

    async def attempt() -> Usage:
        if left:
            raise left.pop(0)
        return Usage(1, 0, 0, 3, 2)

    served = Served(context, Policy(attempts=4, pause=0.0))
    with suppress(ModelError), context.reserve_cost(served, "x" * 11, 10) as used:
        used.append(served.provider.send(attempt, what="a model"))
    assert budget.spent.tokens == spent


def test_a_probe_is_paid_for_and_so_reserved(book: Book) -> None:
    budget = Budget(book, "run", Limits(tokens=14 + 48 + 13))
    context = CallContext(None, budget)
    probes = []

    async def attempt() -> None:
        raise TransientFailure("HTTP 503")

    async def probe() -> None:
        probes.append(budget.spent.tokens)

    served = Served(context, Policy(attempts=1, failures_in_a_row=1, cooldown=0.0))
    with pytest.raises(ModelError), context.reserve_cost(served, "x" * 11, 10):
        served.provider.send(attempt, what="a model", probe=probe)
    assert (PROBE_USAGE.input_tokens, PROBE_USAGE.output_tokens) == (32, 16)
    assert probes == [14 + 48]
    assert budget.spent.tokens == 14 + 48


def test_a_server_that_does_not_say_what_it_read_is_charged_the_estimate(book: Book) -> None:
    budget = Budget(book, "run", Limits(tokens=40))
    with budget.request(MODEL, "x" * 11, 10) as used:
        used.append(Usage(1, 0, 0, 0, 0))
    assert budget.spent.tokens == 14


def test_a_model_that_takes_more_than_was_asked_for_ends_the_run(book: Book) -> None:
    budget = Budget(book, "run", Limits(calls=100, tokens=20))
    assert use(budget, "", 5, read=30, written=5)
    assert book.spent.tokens == 35, "what is spent is said, though it is too much"
    assert not use(budget, "", 1, 0, 0)
    for _ in range(2):  # of the three that were reserved together
        budget.before_attempt()
    with pytest.raises(BudgetExhausted, match="--max-tokens 20"):
        budget.before_attempt()


# The store as the ledger


@pytest.mark.processes
def test_several_processes_keep_one_limit(place: Path | str) -> None:
    """Each has a store of its own, as each process has."""
    together = threading.Barrier(4)

    def work(n: int) -> int:
        with Store.open(place) as store:
            budget = Budget(store, "run", Limits(calls=100, tokens=1000))
            together.wait()
            sent = sum(use(budget, "xx", 9, read=1, written=4) for _ in range(40))
            budget.close()
            return sent

    sent = side_by_side(work, 4)
    with Store.open(place) as store:
        spent = Budget(store, "run").spent
        assert Budget(store, "another").spent == Spent()
    assert spent == Spent(sum(sent), 5 * sum(sent))
    assert 90 <= spent.calls <= 100  # one that ends may still hold some in reserve when the others give up


# What is asked for


def test_prices_are_of_a_million_tokens_and_a_thousand_requests() -> None:
    price = Price(input=0.4, output=1.6, requests=2.0)
    assert price.cost(10, 500_000, 250_000) == pytest.approx(0.2 + 0.4 + 0.02)
    assert Prices({"openai:tiny": price}).get_price("openai:tiny@v1@cut") is price
    assert Prices({"openai:tiny": price}).get_price("openai:tin") is None


def test_prices_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("openai:tiny: {input: 1, output: 2.5}\ncohere:rerank: {requests: 2}\n")
    assert read_prices(path).known == {"openai:tiny": Price(1.0, 2.5), "cohere:rerank": Price(requests=2.0)}


@pytest.mark.parametrize(("text", "message"), rows("wrong prices"))
def test_a_wrong_price_file_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        read_prices(path)
    assert "prices.yaml" in str(caught.value)


@pytest.mark.parametrize(("replies", "spent"), [(0, 5), (1, 5 + 14), (2, 5 + 2 * 14)])
def test_replies_of_no_use_are_paid_for_and_so_reserved(book: Book, replies: int, spent: int) -> None:
    budget = Budget(book, "run", Limits(tokens=14 * (replies + 1)))
    context = CallContext(None, budget)
    left = [UnusableReply("the reply has no text")] * replies

    async def attempt() -> Usage:
        if left:
            raise left.pop()
        return Usage(1, 0, 0, 3, 2)

    served = Served(context, Policy(pause=0.0))
    with context.reserve_cost(served, "x" * 11, 10) as used:
        used.append(served.provider.send(attempt, what="a model"))
    assert budget.spent.tokens == spent
    left = [UnusableReply("the reply has no text")] * 9
    with pytest.raises(BudgetExhausted), context.reserve_cost(served, "x" * 11, 10):
        served.provider.send(attempt, what="a model")
    assert budget.spent.tokens <= 14 * (replies + 1)

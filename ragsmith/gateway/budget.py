"""A budget: what a run may spend, reserved before anything is sent, and kept over resumes.

The ledger is the store. A reservation is durable before the request is sent, and is settled in the transaction in which
the reply is stored. So a kill can lose a reservation that was not used, and never forgets a request that was sent.
"""

from __future__ import annotations

import json
import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from ragsmith.errors import BudgetExhausted, Notice, RagsmithError, SpendingDamaged, UsageError
from ragsmith.models.usage import Usage, tokens_at_most
from ragsmith.plugins import is_of
from ragsmith.text.strict_yaml import parse_yaml, read_yaml

MILLION = 1_000_000
BLOCK = 16
"""Calls that are reserved together while the limit is far away."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Requests sent, tokens read and written, and money; also an amount to add to that."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.calls + other.calls, self.tokens + other.tokens, self.cost + other.cost)

    def __neg__(self) -> Spent:
        return Spent(-self.calls, -self.tokens, -self.cost)

    def __str__(self) -> str:
        return f"{self.calls:,} requests, {self.tokens:,} tokens and {self.cost:.6g} in money"

    def at_least(self, other: Spent) -> Spent:
        """The larger of both, number by number."""
        return Spent(max(self.calls, other.calls), max(self.tokens, other.tokens), max(self.cost, other.cost))


NOTHING_SPENT = Spent()


@dataclass(frozen=True, slots=True)
class Payment:
    """What the ledger does not know yet of a run's spending; it is added in the transaction that stores replies."""

    run: str
    amount: Spent


@dataclass(slots=True)
class _Request:
    """A request that is being made. ``sent`` is None for a model that does not announce its attempts to send.

    ``charge`` is the price of a usage; ``lost`` is what attempts cost that gave nothing, ``again`` how much of that is
    reserved, and ``charged`` whether the last attempt is among them.
    """

    sent: bool | None = None
    charge: Callable[[Usage], Spent] = lambda _: NOTHING_SPENT
    lost: Spent = NOTHING_SPENT
    again: Spent = NOTHING_SPENT
    charged: bool = False


_CURRENT: ContextVar[_Request | None] = ContextVar("ragsmith_request", default=None)
"""The request of this thread, and of what it has started on the event loop."""


@contextmanager
def attempting() -> Iterator[None]:
    """Announce an attempt to send the current request: if nothing is raised in the block, it counts as sent."""
    request = _CURRENT.get() or _Request()
    request.sent = request.sent or False
    yield
    request.sent, request.charged = True, False


def lost_attempt(usage: Usage) -> None:
    """Announce that an attempt of the current request gave nothing, and what it cost; without tokens, at most."""
    if (request := _CURRENT.get()) is not None:
        request.lost += request.charge(usage)
        request.charged = True


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that may be spent; None is no limit."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "cost"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"the limit on {name} (--max-{name}) is {value}: give a number above 0")

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return (self.calls, self.tokens, self.cost) != (None, None, None)

    def exceeded(self, spent: Spent) -> str | None:
        """The name of a limit that ``spent`` is above."""
        for name in ("calls", "tokens", "cost"):
            limit = getattr(self, name)
            if limit is not None and getattr(spent, name) > limit:
                return name
        return None


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in any one currency: a million tokens read, a million written, a thousand requests."""

    input: float = 0.0
    output: float = 0.0
    requests: float = 0.0

    def of(self, usage: Usage) -> float:
        """The price of what was used."""
        return self.of_counts(usage.calls, usage.input_tokens, usage.output_tokens)

    def of_counts(self, calls: float, input_tokens: float, output_tokens: float) -> float:
        """The price of so many requests and tokens, which may be means."""
        tokens = input_tokens * self.input + output_tokens * self.output
        return tokens / MILLION + calls * self.requests / 1000


@dataclass(frozen=True)
class Prices:
    """Prices by model, as models are named on the command line (``openai:gpt-4.1-mini``)."""

    known: Mapping[str, Price] = field(default_factory=dict)

    def of(self, model_id: str) -> Price | None:
        """The price of a model by its id, which begins with its name; None if it is not listed."""
        return self.known.get(model_id.partition("@")[0])

    def refuse_unknown(self, models: Iterable[str]) -> None:
        """Refuse models without a price, which a limit on cost could not hold.

        Raises:
            UsageError: there is such a model.
        """
        if unknown := [name for name in models if self.of(name) is None]:
            raise UsageError(
                f"a limit on cost (--max-cost) needs the price of {', '.join(unknown)}: add it to the prices (--prices)"
            )


def read_prices(given: str | Path | Mapping[str, Price | Mapping[str, float]]) -> Prices:
    """Prices from a YAML file, or a mapping of the same form: ``openai:gpt-4.1-mini: {input: 0.40, output: 1.60}``.

    Raises:
        UsageError: the file is missing, or a price is wrong; for a file, the message has file and line.
    """
    if isinstance(given, Mapping):  # JSON is YAML, so that both are checked in one way
        tree = parse_yaml(json.dumps(dict(given), default=asdict), "prices")
    else:
        tree = read_yaml(Path(given))
    known = {}
    for model in tree.mapping(form="prices are 'model: {input: ..., output: ...}', for a million tokens each"):
        form = f"the price of {model} is '{{input: ..., output: ...}}'"
        price = tree.mapping((model,), known=("input", "output", "requests"), form=form)
        if not price:
            raise tree.error((model,), form)
        for name, value in price.items():
            if not is_of(float, value) or value < 0:
                raise tree.error((model, name), f"{name} must be a number from 0 up, not {value!r}")
        known[model] = Price(**{name: float(value) for name, value in price.items()})
    return Prices(known)


@dataclass(frozen=True, slots=True)
class Spending:
    """What is recorded of a run; ``damage`` says what is wrong with the record, in words that follow "it".

    Where nothing is, it is ""; otherwise ``spent`` is a lower bound.
    """

    spent: Spent
    damage: str = ""


class Ledger(Protocol):
    """Where spending is kept."""

    def spending(self, key: str) -> Spending:
        """What was spent under ``key``, and whether all of that is known; called before anything is spent."""
        ...

    def accept_spent(self, key: str, spent: Spent | None) -> Spent:
        """Go on from a damaged record with its lower bound, or with ``spent`` where that is more; return it.

        Where ``spent`` is None the record stays one that holds no limit.
        """
        ...

    def spend(self, key: str, amount: Spent, limits: Limits) -> Spent | None:
        """Add to what was spent under ``key`` and return the sum; None, and nothing added, where it is above a limit.

        One transaction, durable when it returns. Amounts may be negative: what was reserved and not used.
        """
        ...


def parse_spent(text: str) -> Spent:
    """What was spent, as it is written after ``--accept-spent``: ``calls=352,tokens=5280,cost=0.0033``, or ``352``.

    Raises:
        UsageError: it cannot be read.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().rpartition("=")
        try:
            value = float(number) if name == "cost" else int(number)
        except ValueError:
            value = -1
        if name not in ("", "calls", "tokens", "cost") or not 0 <= value < math.inf:
            raise UsageError(f"--accept-spent {text}: write it as calls=352,tokens=5280,cost=0.0033, or only the calls")
        found[name or "calls"] = value
    return Spent(**found)  # type: ignore[arg-type]


def known_spent(ledger: Ledger, key: str, limits: Limits, accepted: Spent | None) -> Spent:
    """What was spent under ``key``. Where the record of it is damaged, what is known of it at least, which is said.

    Raises:
        SpendingDamaged: it is damaged, there is a limit, and nobody has ``accepted`` what is known.
    """
    found = ledger.spending(key)
    if not found.damage:
        if accepted is not None:
            words = f"the record of what this run has spent is whole ({found.spent}): --accept-spent changes nothing"
            warnings.warn(words, Notice, stacklevel=2)
        return found.spent
    least, words = found.spent, f"the record of what this run has spent {found.damage}"
    if accepted is None and limits.any:
        raise SpendingDamaged(
            f"{words}; known are at least {least}: look up with the provider what it really was, and add "
            f"--accept-spent calls={least.calls},tokens={least.tokens},cost={least.cost:g} to the same command, with "
            "larger numbers if they are"
        )
    spent = ledger.accept_spent(key, accepted)
    how = "accepted, it goes on from" if accepted is not None else "without a limit it goes on from what is known,"
    warnings.warn(f"{words}; {how} {spent}", Notice, stacklevel=2)
    return spent


class Budget:
    """What one run spends; safe to use from many threads."""

    def __init__(
        self,
        ledger: Ledger,
        key: str,
        limits: Limits | None = None,
        prices: Prices | None = None,
        accepted: Spent | None = None,
    ) -> None:
        """Begin or go on; ``accepted`` is what somebody says was spent, should the ledger not know any more.

        Raises:
            SpendingDamaged: the ledger does not know, there is a limit, and nothing was accepted.
        """
        self.limits = limits or Limits()
        self.prices = prices or Prices()
        self._ledger = ledger
        self._key = key
        self._changed = threading.Condition()
        self._block = 0
        self._open = 0
        self._unwritten = NOTHING_SPENT
        self._is_writing = False
        self._spent = known_spent(ledger, key, self.limits, accepted)

    @property
    def spent(self) -> Spent:
        """What was spent so far, in earlier commands as well; with limits, what is reserved counts."""
        with self._changed:
            return self._spent + self._unwritten + Spent(calls=-self._block)

    def before_attempt(self) -> None:
        """Reserve one request that is about to be sent; and the tokens and money that attempts before it cost.

        Raises:
            BudgetExhausted: there is none left; it must not be sent.
        """
        request = _CURRENT.get()
        with self._changed:
            if self._bounded and request is not None and request.again != request.lost:
                more = request.lost + -request.again
                if not self._write(more, self.limits):
                    raise self._exhausted(more)
                request.again = request.lost
            if self._block == 0:
                self._block = self._reserve_block()
            self._block -= 1

    @contextmanager
    def paying(self) -> Iterator[Payment]:
        """What the ledger does not know yet; the caller adds it when it stores replies, unless that raises."""
        with self._changed:
            with self._pending() as amount:
                yield Payment(self._key, amount)
            self._spent += amount

    @contextmanager
    def request(self, model_id: str, text: str, max_tokens: int, *, announced: bool = False) -> Iterator[list[Usage]]:
        """Reserve what a request may cost at most, by an estimate; append what it did cost to the list that is yielded.

        Nothing appended is a request that failed: the reservation is then spent, unless nothing was sent. Whether
        something was, `attempting` says; where its attempts are not ``announced`` in this way, it was. What attempts
        cost that gave nothing (`lost_attempt`) is added.

        Raises:
            BudgetExhausted: it could cost more than is left, and nothing is in flight that could leave some over.
        """
        price = self.prices.of(model_id) or Price()
        most = Usage(1, 0, 0, tokens_at_most(text), max_tokens)

        def charge(usage: Usage) -> Spent:
            # a server that does not say what it read did read it
            told = usage if usage.input_tokens or usage.output_tokens else most
            return Spent(0, told.input_tokens + told.output_tokens, price.of(told))

        reserved = charge(most)
        if self._bounded:
            self._reserve(reserved)
        used: list[Usage] = []
        current = _Request(False if announced else None, charge)
        before = _CURRENT.set(current)
        try:
            yield used
        except BudgetExhausted:
            current.sent = current.sent or False
            raise
        finally:
            _CURRENT.reset(before)
            took = [charge(usage) for usage in used]
            if not used and current.sent is not False and not current.charged:
                took = [reserved]  # a request that failed may have been billed
            self._settle(sum(took, current.lost), reserved + current.again)

    @property
    def _bounded(self) -> bool:
        """Whether tokens or money are reserved, not only counted."""
        return self.limits.tokens is not None or self.limits.cost is not None

    @property
    def all_settled(self) -> bool:
        """Whether the ledger knows all that was spent, and nothing is reserved that may not be used."""
        return self._block == 0 and self._unwritten == NOTHING_SPENT and not self._is_writing

    def close(self) -> None:
        """Give back what was reserved and not used, and write the rest."""
        with self._changed:
            unused, self._block = self._block, 0
            self._unwritten += Spent(calls=-unused)
            self._write(NOTHING_SPENT, Limits())

    @contextmanager
    def _pending(self) -> Iterator[Spent]:
        """What the ledger does not know yet, and knows when the block ends, unless that raises an error of ours.

        After an interrupt it may know it or not: nothing is given back twice, and nothing that was spent is forgotten.
        """
        pending, self._unwritten = self._unwritten, self._unwritten.at_least(NOTHING_SPENT)
        self._is_writing = True
        try:
            yield pending
            self._unwritten = NOTHING_SPENT
        except RagsmithError:
            self._unwritten = pending
            raise
        finally:
            self._is_writing = False

    def _write(self, amount: Spent, limits: Limits) -> bool:
        """Add ``amount``, and what the ledger does not know yet, to it, unless that is above a limit."""
        with self._pending() as pending:
            spent = self._ledger.spend(self._key, pending + amount, limits)
        if spent is None:
            self._unwritten = pending
            return False
        self._spent = spent
        return True

    def _reserve_block(self) -> int:
        """Reserve several calls while many are left, and one by one towards the end; without a limit, to count them."""
        limit = self.limits.calls
        most = BLOCK if limit is None else max(1, min(BLOCK, (limit - self._spent.calls) // 32))
        for size in dict.fromkeys((most, 1)):
            if self._write(Spent(calls=size), self.limits):
                return size
        raise self._exhausted(Spent(calls=1))

    def _reserve(self, amount: Spent) -> None:
        with self._changed:
            while not self._write(amount, self.limits):
                if self._open == 0:
                    raise self._exhausted(amount)
                self._changed.wait()  # what is in flight was reserved at its most
            self._open += 1

    def _settle(self, took: Spent, reserved: Spent) -> None:
        """Note what a request took; the ledger is told with the reply, or at once where it took more than reserved."""
        with self._changed:
            if not self._bounded:
                self._unwritten += took
                return
            self._open -= 1
            self._changed.notify_all()
            amount = took + -reserved
            self._unwritten += amount
            if amount.tokens > 0 or amount.cost > 0:
                self._write(NOTHING_SPENT, Limits())

    def _exhausted(self, amount: Spent) -> BudgetExhausted:
        name = self.limits.exceeded(self._spent + self._unwritten + amount) or "calls"
        limit = getattr(self.limits, name)
        which = "" if limit is None else f" (--max-{name} {limit})"  # None: another process has spent it meanwhile
        return BudgetExhausted(f"the budget is spent{which}: raise it, and the same command goes on")

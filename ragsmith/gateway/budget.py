"""Budgets: limits of a run that apply across resumes; the cost of each request is reserved before it is sent.

A reservation is durable in the ledger, which is the store, before the request is sent, and is settled in the
transaction that stores the reply. A killed process may leave an unused reservation, but no unrecorded request.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Protocol, TypeAlias

from ragsmith.argument_types import check_fields
from ragsmith.errors import BudgetExhausted, RagsmithError, SpendingDamaged, UsageError, WrongOption, warn_caller
from ragsmith.models.usage import Usage, estimate_max_tokens
from ragsmith.plugins import is_instance_of
from ragsmith.text.strict_yaml import parse_yaml, read_yaml

MILLION = 1_000_000
TOTAL_KEY = "total"
"""The key in a ledger of the spending under a total budget; keys of runs are digests."""
BLOCK_CALLS = 16
"""Maximum number of calls that are reserved together."""


@dataclass(frozen=True, slots=True)
class Spent:
    """An amount of spending: requests, input and output tokens, and money."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.calls + other.calls, self.tokens + other.tokens, self.cost + other.cost)

    def __neg__(self) -> Spent:
        return Spent(-self.calls, -self.tokens, -self.cost)

    def __str__(self) -> str:
        parts = f"{self.calls:,} requests", f"{self.tokens:,} tokens", f"{self.cost:.6g} in money"
        return f"{parts[0]}, {parts[1]} and {parts[2]}" if self.cost else f"{parts[0]} and {parts[1]}"

    def differs_from(self, other: Spent, tolerance: float = 0.25) -> bool:
        """Return whether any amount differs from the ``other`` one by more than the share ``tolerance`` of that."""
        return any(abs(mine - its) > tolerance * its for mine, its in zip(astuple(self), astuple(other), strict=True))

    def maximum(self, other: Spent) -> Spent:
        """Return the elementwise maximum."""
        return Spent(max(self.calls, other.calls), max(self.tokens, other.tokens), max(self.cost, other.cost))


NOTHING_SPENT = Spent()


@dataclass(frozen=True, slots=True)
class Payment:
    """Spending of a run that is not yet in the ledger; added in the transaction that stores replies."""

    run: str
    amount: Spent


@dataclass(slots=True)
class _Request:
    """A request in progress.

    Attributes:
        sent: Whether an attempt was sent; None for a model that does not report attempts.
        charge: Computes the cost of a usage.
        failed_cost: The cost of failed attempts.
        reserved: The reserved part of ``failed_cost``.
        charged: Whether ``failed_cost`` includes the last attempt.
    """

    sent: bool | None = None
    charge: Callable[[Usage], Spent] = lambda _: NOTHING_SPENT
    failed_cost: Spent = NOTHING_SPENT
    reserved: Spent = NOTHING_SPENT
    charged: bool = False


_CURRENT: ContextVar[_Request | None] = ContextVar("ragsmith_request", default=None)
"""The current request of this thread and of the coroutines that it started."""


@contextmanager
def mark_attempt() -> Iterator[None]:
    """Mark an attempt of the current request, which counts as sent if the block raises nothing."""
    request = _CURRENT.get() or _Request()
    request.sent = request.sent or False
    yield
    request.sent, request.charged = True, False


def record_failed_attempt(usage: Usage) -> None:
    """Record the usage of a failed attempt of the current request; without tokens, the maximum is charged."""
    if (request := _CURRENT.get()) is not None:
        request.failed_cost += request.charge(usage)
        request.charged = True


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the spending of a run; None is no limit."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name, value in self.by_name.items():
            if not value > 0:
                raise UsageError(f"the limit on {name} (--max-{name}) is {value}: give a number above 0")

    @property
    def by_name(self) -> dict[str, float]:
        """The limits that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def exceeded(self, spent: Spent) -> str | None:
        """Return the name of the first limit that ``spent`` exceeds, or None."""
        return next((name for name, limit in self.by_name.items() if getattr(spent, name) > limit), None)


LimitSpec: TypeAlias = Annotated[
    Limits | Mapping[str, float] | None, "numbers by name (calls, tokens, cost), as {'calls': 1000}"
]
"""Type of ``limits`` of `ragsmith.search`."""


def read_limits(limits: LimitSpec) -> Limits:
    """Return limits, which may be given by name, such as ``{"calls": 1000}``.

    Raises:
        UsageError: a name is unknown, or a limit is not a number above 0.
    """
    if isinstance(limits, Limits):
        return limits
    names = [one.name for one in fields(Limits)]
    if not isinstance(limits or {}, Mapping) or set(limits or {}) - set(names):
        raise WrongOption("limits", f"is {limits!r}: give numbers by name ({', '.join(names)}), as {{'calls': 1000}}")
    return Limits(**(limits or {}))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model in any currency, per million input and output tokens and per thousand requests."""

    input: float = 0.0
    output: float = 0.0
    requests: float = 0.0

    def cost(self, calls: float, input_tokens: float, output_tokens: float) -> float:
        """Return the cost of requests and tokens, which may be means."""
        tokens = input_tokens * self.input + output_tokens * self.output
        return tokens / MILLION + calls * self.requests / 1000


@dataclass(frozen=True)
class Prices:
    """Prices by the model names of the command line (``openai:gpt-4.1-mini``)."""

    known: Mapping[str, Price] = field(default_factory=dict)

    def get_price(self, model_id: str) -> Price | None:
        """Return the price of a model by its id, which begins with its name, or None if it is not listed."""
        return self.known.get(model_id.partition("@")[0])

    def require_prices(self, models: Iterable[str]) -> None:
        """Raise UsageError for models without a price, whose costs cannot be limited."""
        if unknown := [name for name in models if self.get_price(name) is None]:
            raise UsageError(
                f"a limit on cost (--max-cost) needs the price of {', '.join(unknown)}: add it to the prices (--prices)"
            )


def read_prices(source: str | Path | Mapping[str, Price | Mapping[str, float]]) -> Prices:
    """Read prices from a YAML file or a mapping of the same form: ``openai:gpt-4.1-mini: {input: 0.40, output: 1.60}``.

    Raises:
        UsageError: the file is missing, or a price is wrong; for a file, the message has file and line.
    """
    if isinstance(source, Mapping):  # JSON is YAML, so both have the same checks
        tree = parse_yaml(json.dumps(dict(source), default=asdict), "prices")
    else:
        tree = read_yaml(Path(source))
    prices = {}
    for model in tree.mapping(form="prices are 'model: {input: ..., output: ...}', for a million tokens each"):
        form = f"the price of {model} is '{{input: ..., output: ...}}'"
        price = tree.mapping((model,), known=("input", "output", "requests"), form=form)
        if not price:
            raise tree.error((model,), form)
        for name, value in price.items():
            if not is_instance_of(float, value) or value < 0:
                raise tree.error(
                    (model, name),
                    f"{name} must be the price of a million tokens, a number of at least 0, not {value!r}",
                )
        prices[model] = Price(**{name: float(value) for name, value in price.items()})
    return Prices(prices)


@dataclass(frozen=True, slots=True)
class Spending:
    """The recorded spending of a run; ``damage`` describes a damaged record, of which ``spent`` is a lower bound."""

    spent: Spent
    damage: str = ""


class Ledger(Protocol):
    """A durable record of spending, by the key of a run; a ``total`` budget is that of all runs together."""

    total: Budget | None

    def spending(self, key: str) -> Spending:
        """Return the spending under ``key``; called before anything is spent."""

    def accept_spent(self, key: str, spent: Spent | None) -> Spent:
        """Replace a damaged record by the maximum of its lower bound and ``spent``, and return it.

        With ``spent`` None, the record stays damaged, and no limit can be set on it.
        """

    def spend(self, key: str, amount: Spent, limits: Limits | None) -> Spent | None:
        """Add to the spending under ``key`` and return the sum; add nothing and return None if it exceeds a limit.

        The limits are those of the run and the total ones. Without ``limits`` the amount was spent already, and is
        added in any case. The transaction is durable on return. Amounts may be negative, to release unused
        reservations.
        """


def parse_spent(text: str) -> Spent:
    """Parse the value of ``--accept-spent``: ``calls=352,tokens=5280,cost=0.0033``, or only the calls, ``352``.

    Raises:
        UsageError: the text has another form.
    """
    amounts: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().rpartition("=")
        try:
            value = float(number) if name == "cost" else int(number)
        except ValueError:
            value = -1
        if name not in ("", "calls", "tokens", "cost") or not 0 <= value < math.inf:
            raise WrongOption(
                "accept_spent",
                f"is {text!r}: give what the provider counted, as calls=352,tokens=5280,cost=0.0033, or only the calls",
            )
        amounts[name or "calls"] = value
    return Spent(**amounts)  # type: ignore[arg-type]


def load_spent(ledger: Ledger, key: str, limits: Limits, accepted: Spent | None) -> Spent:
    """Return the spending under ``key``; for a damaged record its lower bound, with a warning.

    Raises:
        SpendingDamaged: the record is damaged, there is a limit, and no spending was ``accepted`` by the user.
    """
    record = ledger.spending(key)
    if not record.damage:
        if accepted is not None:
            message = f"the record of this run's spending is intact ({record.spent}): --accept-spent has no effect"
            warn_caller(message)
        return record.spent
    lower_bound, message = record.spent, f"the record of this run's spending {record.damage}"
    if accepted is None and limits.by_name:
        raise SpendingDamaged(
            f"{message}; at least {lower_bound} were spent: look up the actual amounts with the provider, and add "
            f"--accept-spent calls={lower_bound.calls},tokens={lower_bound.tokens},cost={lower_bound.cost:g} to the "
            "same command, with larger numbers if they are higher"
        )
    spent = ledger.accept_spent(key, accepted)
    origin = "accepted" if accepted is not None else "recorded, as there is no limit"
    warn_caller(f"{message}; the run continues from {spent} ({origin})")
    return spent


class Budget:
    """The budget of one run. Thread-safe."""

    def __init__(
        self,
        ledger: Ledger,
        key: str,
        limits: Limits | None = None,
        prices: Prices | None = None,
        accepted: Spent | None = None,
    ) -> None:
        """Start or resume; ``accepted`` is the spending stated by the user for a damaged ledger.

        Raises:
            SpendingDamaged: as `load_spent`.
        """
        self.limits = limits or Limits()
        self.prices = prices or Prices()
        self._ledger = ledger
        self._key = key
        self._changed = threading.Condition()
        self._reserved_calls = 0
        self._in_flight = 0
        self._unwritten = NOTHING_SPENT
        self._is_writing = False
        self._spent = load_spent(ledger, key, self.limits, accepted)

    @property
    def spent(self) -> Spent:
        """The spending so far, including that of earlier commands and reservations."""
        with self._changed:
            return self._spent + self._unwritten + Spent(calls=-self._reserved_calls)

    def before_attempt(self) -> None:
        """Reserve one request before it is sent, and the tokens and money of its earlier failed attempts.

        Raises:
            BudgetExhausted: the budget is exhausted, and the request must not be sent.
        """
        request = _CURRENT.get()
        with self._changed:
            if self._limits_cost and request is not None and request.reserved != request.failed_cost:
                amount = request.failed_cost + -request.reserved
                if not self._write(amount, self.limits):
                    raise self._exhausted_error(amount)
                request.reserved = request.failed_cost
            if self._reserved_calls == 0:
                self._reserved_calls = self._reserve_block()
            self._reserved_calls -= 1

    @contextmanager
    def payment(self) -> Iterator[Payment]:
        """Yield the unwritten spending, for the caller to add to the ledger together with the replies."""
        with self._changed:
            with self._pending() as amount:
                yield Payment(self._key, amount)
            self._spent += amount

    @contextmanager
    def request(self, model_id: str, text: str, max_tokens: int, *, announced: bool = False) -> Iterator[list[Usage]]:
        """Reserve the estimated maximum cost of a request; the caller appends its usage to the list that is yielded.

        A request without a usage has failed and may have been billed: the reservation is charged, unless `mark_attempt`
        recorded that nothing was sent; without ``announced`` attempts, a request counts as sent. The cost of failed
        attempts (`record_failed_attempt`) is added.

        Raises:
            BudgetExhausted: the request could exceed the budget, and no request in flight can release a part of it.
            UsageError: the total budget limits cost, and the price of a served model is not known.
        """
        if announced and self._ledger.total is not None and self._ledger.total.limits.cost is not None:
            self.prices.require_prices([model_id.partition("@")[0]])
        price = self.prices.get_price(model_id) or Price()
        maximum = Usage(1, 0, 0, estimate_max_tokens(text), max_tokens)

        def charge(usage: Usage) -> Spent:
            # a server that reports no tokens has processed them all the same
            billed = usage if usage.input_tokens or usage.output_tokens else maximum
            tokens = billed.input_tokens, billed.output_tokens
            return Spent(0, sum(tokens), price.cost(billed.calls, *tokens))

        reserved = charge(maximum)
        if self._limits_cost:
            self._reserve(reserved)
        usages: list[Usage] = []
        request = _Request(False if announced else None, charge)
        token = _CURRENT.set(request)
        try:
            yield usages
        except BudgetExhausted:
            request.sent = request.sent or False
            raise
        finally:
            _CURRENT.reset(token)
            costs = [charge(usage) for usage in usages]
            if not usages and request.sent is not False and not request.charged:
                costs = [reserved]  # a request that failed may have been billed
            self._settle(sum(costs, request.failed_cost), reserved + request.reserved)

    @property
    def _limits_cost(self) -> bool:
        """Whether tokens or money are limited, and so reserved."""
        return any(
            budget and (budget.limits.tokens is not None or budget.limits.cost is not None)
            for budget in (self, self._ledger.total)
        )

    @property
    def all_settled(self) -> bool:
        """Whether all spending is in the ledger, and nothing is reserved."""
        return self._reserved_calls == 0 and self._unwritten == NOTHING_SPENT and not self._is_writing

    def close(self) -> None:
        """Release unused reservations, and write the rest."""
        with self._changed:
            self._unwritten += Spent(calls=-self._reserved_calls)
            self._reserved_calls = 0
            self._write(NOTHING_SPENT, None)

    @contextmanager
    def _pending(self) -> Iterator[Spent]:
        """Yield the unwritten spending, which counts as written after the block unless that raises a RagsmithError.

        After an interrupt it may or may not be written; no reservation is released twice, and no spending is lost.
        """
        pending, self._unwritten = self._unwritten, self._unwritten.maximum(NOTHING_SPENT)
        self._is_writing = True
        try:
            yield pending
            self._unwritten = NOTHING_SPENT
        except RagsmithError:
            self._unwritten = pending
            raise
        finally:
            self._is_writing = False

    def _write(self, amount: Spent, limits: Limits | None) -> bool:
        """Add ``amount`` and the unwritten spending, unless the sum exceeds a limit; return whether it was added."""
        with self._pending() as pending:
            spent = self._ledger.spend(self._key, pending + amount, limits)
        if spent is None:
            self._unwritten = pending
            return False
        self._spent = spent
        return True

    def _reserve_block(self) -> int:
        """Reserve a block of calls, or a single one near the limit; return their number."""
        limit = self.limits.calls
        block_size = BLOCK_CALLS if limit is None else max(1, min(BLOCK_CALLS, (limit - self._spent.calls) // 32))
        for size in dict.fromkeys((block_size, 1)):
            if self._write(Spent(calls=size), self.limits):
                return size
        raise self._exhausted_error(Spent(calls=1))

    def _reserve(self, amount: Spent) -> None:
        with self._changed:
            while not self._write(amount, self.limits):
                if self._in_flight == 0:
                    raise self._exhausted_error(amount)
                self._changed.wait()  # requests in flight may use less than they reserved
            self._in_flight += 1

    def _settle(self, cost: Spent, reserved: Spent) -> None:
        """Record a finished request, to be written with the reply, or at once if it cost more than reserved."""
        with self._changed:
            if not self._limits_cost:
                self._unwritten += cost
                return
            self._in_flight -= 1
            self._changed.notify_all()
            amount = cost + -reserved
            self._unwritten += amount
            if amount.tokens > 0 or amount.cost > 0:
                self._write(NOTHING_SPENT, None)

    def _exhausted_error(self, amount: Spent) -> BudgetExhausted:
        name = self.limits.exceeded(self._spent + self._unwritten + amount) or "calls"
        limit = getattr(self.limits, name)
        option = "" if limit is None else f" (--max-{name} {limit})"  # None: another process has spent it
        return BudgetExhausted(f"the budget is exhausted{option}: raise it, and run the same command again")

"""Models and the store of another process, which makes or records the costly calls of several machines.

The process treats other machines like its threads, or like processes with the same cache: no call is made twice, and no
API key leaves a process.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, cast

from ragsmith.errors import ModelError
from ragsmith.gateway.budget import Budget, Limits, Prices
from ragsmith.gateway.failures import FailedCall, Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.leases import Lease
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.models.calls import Completion, StoredCall, accepts_cut_answers, answer_tokens, is_chat_model, is_costly
from ragsmith.models.names import ModelName
from ragsmith.models.usage import Meter

ModelKey = tuple[str, ModelName]
"""Role and name of a model with its options; models with the same id may differ in server or scoring."""


STORE = "store"


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """A call of a ``method`` of a model's view, with its arguments, the ``kind`` of model and its ``role``, if any.

    ``first_sample`` is that of the gateway of the other process. The kind `STORE` is a call of the store.
    """

    kind: str
    model_key: ModelKey
    role: str
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    first_sample: int = 0


REMOTE_METHODS = {
    "language_model": ("run", "run_all"),
    "embedder": ("embed", "embed_queries"),
    "cross_encoder": ("score",),
}
"""The methods of a view that another process may call, by the kind of model."""

SendRequest = Callable[[RemoteRequest], Any]
"""Sends a request to the process that has the models and the store; returns what `answer_remote` does."""


@dataclass(eq=False)
class RemoteModel:
    """A proxy of a model in another process, with the attributes that pipelines read.

    A process that reaches its server at ``address``, and has a key if ``needs_key``, may send ``slots`` requests at a
    time itself.
    """

    slow: ClassVar[bool] = True
    id: str
    model_key: ModelKey
    context_window: int | None = None
    cut_answers: bool = False
    answer_tokens: int | None = None
    slots: int = 0
    address: str = ""
    needs_key: bool = False


class RemoteChat(RemoteModel):
    """A proxy of a chat model."""

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        """Raise ModelError, because only a view of the gateway can call the model."""
        raise ModelError(f"{self.id} is called by another process")


def remote_model(model: Any, model_key: ModelKey) -> RemoteModel:
    """Return a proxy of ``model`` for other processes."""
    kind = RemoteChat if is_chat_model(model) else RemoteModel
    window = getattr(model, "context_window", None)
    return kind(model.id, model_key, window, accepts_cut_answers(model), answer_tokens(model))


def is_called_centrally(model: Any, *, is_object: bool) -> bool:
    """Whether one process makes or records all calls of ``model``, as it is costly or an object of that process."""
    return is_object or is_costly(model)


def divide_slots(gateway: Gateway, model: Any, processes: int) -> int:
    """Return the attempts in flight to ``model`` of each of ``processes`` that send its requests themselves, or 0.

    One process alone sends them if the number of attempts is learnt or too small to divide, or tokens or money are
    limited, as each request then waits for the record of those before it.
    """
    provider, budget = getattr(model, "provider", None), gateway._context._budget
    if provider is None or provider.learns_slots or (budget is not None and budget.limits_cost):
        return 0
    return int(provider.slots) // processes


def answer_remote(gateway: Gateway, models: Mapping[ModelKey, Any], request: RemoteRequest) -> Any:
    """Answer the request of another process with one of ``models``; return the result and its original cost.

    The result of a call of the store is returned alone, that of claims with earlier failures of the claimed calls.

    Raises:
        ModelError: there is no valid reply.
        RagsmithError: the run is being stopped.
    """
    if request.kind == STORE:
        return _answer_store(gateway._store, gateway._context.store, request)
    meter = Meter()
    model = models[request.model_key]
    view = gateway.with_first_sample(request.first_sample)._view(request.kind, model, meter, request.role)
    return getattr(view, request.method)(*request.args, **request.kwargs), meter.total()


class _RemoteView:
    """A metered view of a model of ``kind`` in another process."""

    def __init__(
        self, kind: str, send: SendRequest, model: RemoteModel, meter: Meter, role: str = "", first_sample: int = 0
    ) -> None:
        self.id, self._first_sample = model.id, first_sample
        self._kind, self._send, self._meter, self._role, self._model_key = kind, send, meter, role, model.model_key

    def _answer(self, method: str, *args: Any, **kwargs: Any) -> Any:
        value, usage = self._send(
            RemoteRequest(self._kind, self._model_key, self._role, method, args, kwargs, self._first_sample)
        )
        self._meter.add(usage)
        return value

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_") or method not in REMOTE_METHODS[self._kind]:
            raise AttributeError(method)
        return partial(self._answer, method)


def _answer_store(store: Any, batched: Any, request: RemoteRequest) -> Any:
    if request.method != "claim_many":
        return getattr(store, request.method)(*request.args, **request.kwargs)
    free, stored = store.claim_many(*request.args, **request.kwargs, is_gone=batched.is_gone)
    return free, stored, store.failed_calls(free)


BLOCK_CALLS = 64
"""Maximum number of calls that another process reserves together."""


class RemoteStore:
    """The store of another process, to which ``send`` sends requests: a `CallStore` and a `Ledger`."""

    total = None
    batch_seconds = 0.03
    """Seconds for which requests of several threads are collected."""

    def __init__(self, send: SendRequest) -> None:
        self._send = send
        self._failed: dict[str, FailedCall | None] = {}

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._send(RemoteRequest(STORE, ("", ModelName("")), "", method, args, kwargs))

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._call, method)

    def claim_many(
        self, keys: Sequence[str], owner: str, *, lease: Lease | None, is_gone: object
    ) -> tuple[set[str], dict[str, StoredCall]]:
        """See `CallStore.claim_many`; the other process monitors leases."""
        free, stored, failed = self._call("claim_many", keys, owner, lease=lease)
        self._failed |= dict.fromkeys(free) | failed
        return free, stored

    def failed_calls(self, keys: Iterable[str]) -> dict[str, FailedCall]:
        """See `FailureStore.failed_calls`; the failures of a claimed call came with the claim."""
        wanted = list(keys)
        if not self._failed.keys() >= set(wanted):
            return cast(dict[str, FailedCall], self._call("failed_calls", wanted))
        return {key: failed for key in wanted if (failed := self._failed.pop(key))}


def share_gateway(gateway: Gateway, remote: Iterable[RemoteModel]) -> dict[str, Any]:
    """Return arguments of `RemoteGateway` for processes that send requests to ``remote`` models themselves, if any."""
    if not any(model.slots for model in remote) or gateway._store is None:
        return {}
    budget = gateway._context._budget
    shared = None if budget is None else (budget._key, budget.limits, budget.prices)
    return {"stores": True, "budget": shared, "retry_failed": gateway._context.failures._retry_failed}


class RemoteGateway(Gateway):
    """A gateway that calls remote models by ``send``, and all others in this process, with the store of the other."""

    def __init__(
        self,
        send: SendRequest,
        eviction: EvictionPolicy | None = None,
        *,
        stores: bool = False,
        budget: tuple[str, Limits, Prices] | None = None,
        retry_failed: bool = False,
    ) -> None:
        store: Any = RemoteStore(send) if stores else None
        own = None if budget is None else Budget(store, *budget, block=BLOCK_CALLS)
        super().__init__(store, own, Failures(store, retry_failed=retry_failed), eviction)
        self._send = send

    def forget_trouble(self, times: int) -> None:
        """Forget trouble of providers unless this was done; the other process has done so ``times`` times."""
        failures = self._context.failures
        if failures.forgotten != times:
            failures.forget_trouble()
            failures.forgotten = times

    def _view(self, kind: str, model: Any, meter: Meter, role: str = "") -> object:
        if isinstance(model, RemoteModel):
            return _RemoteView(kind, self._send, model, meter, role, self._first_sample)
        return super()._view(kind, model, meter, role)

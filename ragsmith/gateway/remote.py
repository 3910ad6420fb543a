"""Models of another process: what costs something is asked in one place, however many machines need it.

There it is remembered, joined, claimed, paid and counted as if the machine that needs it were a thread of that process:
no call is made twice, and no key leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from ragsmith.errors import ModelError
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.models.calls import Completion, accepts_cut_answers, is_chat_model, is_costly
from ragsmith.models.names import ModelName
from ragsmith.models.usage import Meter, Usage

Chosen = tuple[str, ModelName]
"""The model of a role, with its options: two with the same id may be at different servers, or scored differently."""


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """A call of a ``method`` of the view of a model: its arguments, the ``kind`` of model and its ``role``, if any."""

    kind: str
    chosen: Chosen
    role: str
    method: str
    given: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)


METHODS = {"language_model": ("run", "run_all"), "embedder": ("embed", "embed_queries"), "cross_encoder": ("score",)}
"""The methods of a view that another process may call, by the kind of model."""

Ask = Callable[[RemoteRequest], tuple[Any, Usage]]
"""Sends a request to the process that has the models; returns the answer and what it cost when it was made."""


@dataclass(eq=False)
class RemoteModel:
    """The representation here of a model that another process has, with all that pipelines read of one."""

    slow: ClassVar[bool] = True
    id: str
    chosen: Chosen
    context_window: int | None = None
    cut_answers: bool = False


class RemoteChat(RemoteModel):
    """The representation of a chat model."""

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        """Raise ModelError: only a view of the gateway can ask it."""
        raise ModelError(f"{self.id} is asked by another process")


def remote_model(model: Any, chosen: Chosen) -> RemoteModel:
    """The representation in other processes of ``model``, which is ``chosen``."""
    kind = RemoteChat if is_chat_model(model) else RemoteModel
    return kind(model.id, chosen, getattr(model, "context_window", None), accepts_cut_answers(model))


def is_asked_in_one_place(model: Any, *, was_given: bool) -> bool:
    """Whether one process alone asks a model: it costs something, or is an object that no other process has."""
    return was_given or is_costly(model)


def answer_remote(gateway: Gateway, models: Mapping[Chosen, Any], request: RemoteRequest) -> tuple[Any, Usage]:
    """Answer the request of another process by one of ``models``; return also what the answer cost when it was made.

    Raises:
        ModelError: there is no valid reply.
        RagsmithError: nothing is asked any more.
    """
    meter = Meter()
    view = gateway._view(request.kind, models[request.chosen], meter, request.role)
    value = getattr(view, request.method)(*request.given, **request.named)
    return value, meter.total()


class _RemoteView:
    """The view of a model of one ``kind`` in another process; the cost of its calls is added to the meter."""

    def __init__(self, kind: str, ask: Ask, model: RemoteModel, meter: Meter, role: str = "") -> None:
        self.id = model.id
        self._kind, self._ask, self._meter, self._role, self._chosen = kind, ask, meter, role, model.chosen

    def _answer(self, method: str, *given: Any, **named: Any) -> Any:
        value, usage = self._ask(RemoteRequest(self._kind, self._chosen, self._role, method, given, named))
        self._meter.add(usage)
        return value

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_") or method not in METHODS[self._kind]:
            raise AttributeError(method)
        return partial(self._answer, method)


class RemoteGateway(Gateway):
    """A gateway whose remote models are asked by ``ask``, and all others here."""

    def __init__(self, ask: Ask, room: EvictionPolicy | None = None) -> None:
        super().__init__(room=room)
        self._ask = ask

    def _view(self, kind: str, model: Any, meter: Meter, role: str = "") -> object:
        if isinstance(model, RemoteModel):
            return _RemoteView(kind, self._ask, model, meter, role)
        return super()._view(kind, model, meter, role)

"""Models of another process, which makes all costly calls of several machines.

The process treats other machines like its threads: no call is made twice, and no API key leaves the process.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from ragsmith.errors import ModelError
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.models.calls import Completion, accepts_cut_answers, answer_tokens, is_chat_model, is_costly
from ragsmith.models.names import ModelName
from ragsmith.models.usage import Meter, Usage

ModelKey = tuple[str, ModelName]
"""Role and name of a model with its options; models with the same id may differ in server or scoring."""


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """A call of a ``method`` of a model's view, with its arguments, the ``kind`` of model and its ``role``, if any.

    ``first_sample`` is that of the gateway of the other process.
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

SendRequest = Callable[[RemoteRequest], tuple[Any, Usage]]
"""Sends a request to the process that has the models; returns the result and its original cost."""


@dataclass(eq=False)
class RemoteModel:
    """A proxy of a model in another process, with the attributes that pipelines read."""

    slow: ClassVar[bool] = True
    id: str
    model_key: ModelKey
    context_window: int | None = None
    cut_answers: bool = False
    answer_tokens: int | None = None


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
    """Whether one process makes all calls of ``model``, because it is costly or an object of that process."""
    return is_object or is_costly(model)


def answer_remote(gateway: Gateway, models: Mapping[ModelKey, Any], request: RemoteRequest) -> tuple[Any, Usage]:
    """Answer the request of another process with one of ``models``; return the result and its original cost.

    Raises:
        ModelError: there is no valid reply.
        RagsmithError: the run is being stopped.
    """
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


class RemoteGateway(Gateway):
    """A gateway that calls remote models by ``send``, and all others in this process."""

    def __init__(self, send: SendRequest, eviction: EvictionPolicy | None = None) -> None:
        super().__init__(eviction=eviction)
        self._send = send

    def _view(self, kind: str, model: Any, meter: Meter, role: str = "") -> object:
        if isinstance(model, RemoteModel):
            return _RemoteView(kind, self._send, model, meter, role, self._first_sample)
        return super()._view(kind, model, meter, role)

"""Spans of answers, of the stages of pipelines and of the calls of models, for OpenTelemetry.

Attributes follow the semantic conventions of OpenTelemetry for generative AI (``gen_ai.*``) and those of OpenInference,
by which viewers distinguish kinds of spans. A thread encodes finished spans and sends them in batches, so that answers
never wait for a collector. The SDK of OpenTelemetry is not used: it takes several times as long for a span.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from threading import Event, Thread
from time import monotonic, time_ns
from typing import Any, Literal
from urllib.parse import unquote

from ragsmith.argument_types import check_fields
from ragsmith.building import log_progress
from ragsmith.caches import bounded_cache
from ragsmith.digest import digest
from ragsmith.errors import RagsmithError, StageFailed, WrongOption
from ragsmith.gateway.gateway import Gateway
from ragsmith.models.local.weights import installed_version
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.stages import ObservedEngine
from ragsmith.types import Answer, Hit, Prompt, Question

QUEUED_SPANS, SENT_SPANS = 1 << 13, 1 << 10
"""Maximum number of spans that wait to be sent, of which the oldest are dropped, and of those in a request."""
SEND_SECONDS, LAST_SECONDS = 5.0, 1.0
"""Maximum number of seconds that a span waits, by default, and that the end of a process waits for the last ones."""
CACHED = "ragsmith.cached"
"""Attribute: whether the result of a stage or call is from a cache; a cached call has no usage of tokens."""
STAGE_KINDS = {"retrieval": "RETRIEVER", "reranking": "RERANKER"}
"""Kinds of OpenInference of the spans of stages; all others are ``CHAIN``."""
TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0+-)([0-9a-f]{32})-(?!0+-)([0-9a-f]{16})-[0-9a-f]([0-9a-f])(-.*)?")
"""The header of W3C Trace Context: version, trace, span and flags, of which the last bit is whether it is sampled."""
INTERNAL, SERVER, CLIENT = 1, 2, 3
"""Kinds of spans of OpenTelemetry, as numbers of its protocol."""


class RecordedSpan:
    """A span that is current within its context, which yields attributes that can be changed until it ends.

    It is written to ``queue`` unless that is None. ``fixed`` are its name, its role, and the attributes that all spans
    like it have. A class, as a generator takes half as long again.
    """

    __slots__ = ("_queue", "_token", "attributes", "ended", "fixed", "id", "parent", "started", "trace")

    def __init__(self, queue: deque[RecordedSpan] | None, trace: bytes, parent: bytes, fixed: tuple[Any, ...]) -> None:
        self._queue, self.trace, self.parent, self.fixed = queue, trace, parent, fixed
        self.id = os.urandom(8)
        self.attributes: dict[str, Any] = {}

    def __enter__(self) -> dict[str, Any]:
        self._token = _CURRENT.set(False if self._queue is None else self)
        self.started = time_ns()
        return self.attributes

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.ended = time_ns()
        _CURRENT.reset(self._token)
        if isinstance(error, RagsmithError):  # by its type, as its message may quote prompts
            self.attributes["error.type"] = type(error.cause if isinstance(error, StageFailed) else error).__name__
        if self._queue is not None:
            self._queue.append(self)


_CURRENT: ContextVar[RecordedSpan | Literal[False] | None] = ContextVar("_CURRENT", default=None)
"""The span of what this thread or task does; False if that is not traced, None outside of all spans."""


@dataclass(frozen=True, slots=True)
class Traces:
    """Where spans are sent, and which: ``url`` is a collector (OTLP/HTTP).

    ``share`` is the share of answers that are traced. A hash of pipeline and question decides, so that a repeated
    search traces the same ones. Questions, passages, prompts and answers are sent only with ``content``.

    Raises:
        WrongOption: ``url`` is no HTTP URL, or ``share`` is not in (0, 1].
        MissingExtra: the extra ``telemetry`` is not installed.
    """

    url: str
    share: float = 1.0
    content: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.url.startswith(("http://", "https://")):
            raise WrongOption("traces", f"is {self.url!r}: give the URL of a collector, such as http://localhost:4318")
        if not 0 < self.share <= 1:
            raise WrongOption("trace_share", f"is {self.share}: give a number above 0, and at most 1")
        installed_version("opentelemetry-proto", "telemetry")

    def samples(self, pipeline: Any, question: str) -> bool:
        """Return whether the answer of a pipeline, by the identity of its genes, to a question is traced."""
        return self.share == 1 or int(digest("traces", pipeline, question), 16) < self.share * 16**32

    def span(
        self,
        name: str,
        kind: str,
        *attributes: str,
        sampled: bool = False,
        role: int = INTERNAL,
        parent: tuple[bytes, bytes] | Literal[False] | None = None,
    ) -> RecordedSpan:
        """Return a span of a ``kind`` of OpenInference, below the current span or ``parent``, a trace and a span in it.

        ``attributes`` are names and values in turn, which many spans have. Outside of all spans it begins a trace if
        it is ``sampled``, or everything is. ``role`` is the kind of OpenTelemetry.
        """
        above = _CURRENT.get() if parent is None else parent
        is_traced = bool(above) or (above is None and (sampled or self.share == 1))
        trace, id_ = (above.trace, above.id) if isinstance(above, RecordedSpan) else above or (os.urandom(16), b"")
        queue = _open_queue(self.url) if is_traced else None
        return RecordedSpan(queue, trace, id_, (name, role, "openinference.span.kind", kind, *attributes))

    def request_span(self, route: str, traceparent: str) -> RecordedSpan:
        """Return the span of a request to a server, below that of its header ``traceparent`` (W3C Trace Context)."""
        found = TRACEPARENT.fullmatch(traceparent)
        parent = found and found[3] in "13579bdf" and (bytes.fromhex(found[1]), bytes.fromhex(found[2]))
        about = "http.request.method", "POST", "http.route", route
        return self.span(f"POST {route}", "CHAIN", *about, role=SERVER, parent=parent)


def mark_computed() -> None:
    """Record in the current span that not all of its result is from a cache."""
    if isinstance(span := _CURRENT.get(), RecordedSpan):
        span.attributes[CACHED] = False


@cache
def _open_queue(url: str) -> deque[RecordedSpan]:
    """Return the queue of the ended spans of this process, which a thread sends to ``url``."""
    from multiprocessing.util import Finalize  # noqa: PLC0415  acts at the end of worker processes too, unlike atexit

    spans: deque[RecordedSpan] = deque(maxlen=QUEUED_SPANS)
    ending = Event()
    thread = Thread(target=_send, args=(url, spans, ending), name="ragsmith-traces", daemon=True)
    thread.start()
    Finalize(None, ending.set, exitpriority=1)
    Finalize(None, thread.join, (LAST_SECONDS,), exitpriority=0)
    return spans


def _send(url: str, spans: deque[RecordedSpan], ending: Event) -> None:
    """Send ``spans`` until the process is ``ending``, and those that are left then; drop what is not accepted.

    They wait until a request is full, or for the delay that OpenTelemetry names, as each request has a cost of its own.
    """
    import httpx2  # noqa: PLC0415  slow to import
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData  # noqa: PLC0415  optional

    address = f"{url.rstrip('/').removesuffix('/v1/traces')}/v1/traces"
    given = re.findall(r"([^=,\s]+)\s*=\s*([^,]+)", unquote(os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")))
    milliseconds, due = os.environ.get("OTEL_BSP_SCHEDULE_DELAY", ""), 0.0
    delay = int(milliseconds) / 1000 if milliseconds.isdecimal() else SEND_SECONDS
    with httpx2.Client(headers={**dict(given), "Content-Type": "application/x-protobuf"}) as client:
        while not ending.wait(min(delay, LAST_SECONDS)) or spans:
            if len(spans) < SENT_SPANS and monotonic() < due and not ending.is_set():
                continue
            due = monotonic() + delay
            if batch := [spans.popleft() for _ in range(min(len(spans), SENT_SPANS))]:
                resource = (data := TracesData()).resource_spans.add()
                name = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "ragsmith")}
                _add_attributes(resource.resource.attributes, name)
                scope = resource.scope_spans.add()
                for span in batch:
                    _encode(span, scope.spans.add())
                try:
                    client.post(address, content=data.SerializeToString()).raise_for_status()
                except httpx2.HTTPError as error:
                    log_progress(f"{len(batch)} spans of traces were dropped, as {url} does not accept them: {error}")


def _encode(span: RecordedSpan, message: Any) -> None:
    """Write a span to an empty ``message`` of the protocol of OpenTelemetry."""
    message.MergeFromString(_encode_fixed(span.attributes.pop(CACHED, None), *span.fixed))
    message.trace_id, message.span_id, message.parent_span_id = span.trace, span.id, span.parent
    message.start_time_unix_nano, message.end_time_unix_nano = span.started, span.ended
    _add_attributes(message.attributes, span.attributes)
    if "error.type" in span.attributes:
        message.status.code = 2


@bounded_cache(1 << 10, key="what spans have in common: name, role, attributes")
def _encode_fixed(is_cached: bool | None, name: str, role: int, *attributes: str) -> bytes:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span  # noqa: PLC0415  optional

    message = Span(name=name, kind=role)
    pairs = dict(zip(attributes[::2], attributes[1::2], strict=True))
    _add_attributes(message.attributes, pairs if is_cached is None else {**pairs, CACHED: is_cached})
    encoded: bytes = message.SerializeToString()
    return encoded


def _add_attributes(messages: Any, attributes: Mapping[str, Any]) -> None:
    fields = {bool: "bool_value", int: "int_value", float: "double_value"}
    for key, value in attributes.items():
        field, valid = fields.get(type(value)), str(value).encode("utf-8", "replace")  # half of a surrogate pair
        setattr(messages.add(key=key).value, field or "string_value", value if field else valid.decode())


class TracedEngine(ObservedEngine):
    """An engine on a `TracedGateway` with a span for each answer, and one for each stage in it."""

    gateway: TracedGateway

    def prepare(self, candidate: Candidate) -> Any:
        """See `Engine.prepare`; pre-embedding has a span when it builds an index, once for a collection."""
        is_built, run = candidate[0].identity in list(self._indexes.keys()), partial(super().prepare, candidate)
        return run() if is_built else self._run_stage("pre_embedding", candidate[0].technique.name, run)

    def _intern(self, value: Any) -> Any:
        mark_computed()  # only computed outputs are interned
        return super()._intern(value)

    def _run(self, candidate: Candidate, question: Question, gold: Any, before: str | None = None) -> Any:
        traces = self.gateway.traces
        sampled = traces.samples([gene.identity for gene in candidate], question.text)
        with traces.span("retrieve" if before else "answer", "CHAIN", sampled=sampled) as about:
            trace, reads = super()._run(candidate, question, gold, before)
            if traces.content:
                about |= {"input.value": question.text, "output.value": "" if before else trace.answer.text}
            return trace, reads

    def _run_stage(self, name: str, technique: str, run: Callable[[], Any]) -> Any:
        operation = ("gen_ai.operation.name", name) if name == "retrieval" else ()
        kind = STAGE_KINDS.get(name, "CHAIN")
        with self.gateway.traces.span(name, kind, "ragsmith.technique", technique, *operation) as about:
            about[CACHED] = name not in ("pre_embedding", "retrieval")
            result = super()._run_stage(name, technique, run)
            if self.gateway.traces.content and name != "pre_embedding":
                about.update(_stage_content(result[0]))
            return result


def _stage_content(output: Any) -> Mapping[str, Any]:
    """Return the content of the output of a stage: its text, hits or passages; of retrieval the first ranking."""
    value = next(iter(output), ()) if isinstance(output, tuple) else output.value
    if isinstance(value, Prompt | Answer):
        return {"output.value": value.text}
    return {
        f"retrieval.documents.{number}.document.{field}": content
        for number, item in enumerate(value)
        for field, content in (
            ("id", item.chunk.id if isinstance(item, Hit) else ""),
            ("content", item.chunk.text if isinstance(item, Hit) else item.text),
            ("score", float(item.score)),
        )
    }


class TracedGateway(Gateway):
    """A gateway with a span for each call of a model."""

    def __init__(self, traces: Traces, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._context.on_made = mark_computed
        self.traces = traces

    def _view(self, *arguments: Any) -> Any:
        view: Any = super()._view(*arguments)
        view._calls = _TracedCalls(view._calls, self.traces)
        return view


CALLS: Mapping[str, tuple[str, str, Callable[..., str]]] = {
    "perform": ("chat", "LLM", lambda task, sample, inputs: str(inputs)),
    "complete": ("chat", "LLM", lambda task, prompt, *_: str(prompt)),
    "embed": ("embeddings", "EMBEDDING", "\n".join),
    "score": ("rerank", "RERANKER", lambda query, texts: "\n".join((query, *texts))),
}
"""Operation, kind of OpenInference, and content of the input, by method of the caches of calls."""


@dataclass(frozen=True, slots=True)
class _TracedCalls:
    """The cache of the calls of one kind of model, with a span for each call."""

    calls: Any
    traces: Traces

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.calls, name)
        return partial(self._call, name, value) if name in CALLS else value

    def _call(self, method: str, call: Callable[..., Any], model: Any, *inputs: Any, **options: Any) -> Any:
        operation, kind, describe = CALLS[method]
        with self.traces.span(*_describe_call(operation, kind, str(model.id)), role=CLIENT) as about:
            about[CACHED] = True
            result = call(model, *inputs, **options)
            if kind == "LLM":
                about |= {"ragsmith.task": inputs[0].name, **({} if about[CACHED] else _count_tokens(result[1]))}
            if self.traces.content:
                about |= {"input.value": describe(*inputs), "output.value": str(result[0]) if kind == "LLM" else ""}
            return result


@cache
def _describe_call(operation: str, kind: str, model_id: str) -> tuple[str, ...]:
    """Return the name, kind and attributes of a call of a model, whose id may also have options and digests of code."""
    provider, *parts = model_id.partition("@")[0].split(":")
    name = ":".join(part for part in parts if not re.fullmatch("[0-9a-f]{16,}", part)) or provider
    asked = "gen_ai.operation.name", operation, "gen_ai.provider.name", provider, "gen_ai.request.model", name
    return f"{operation} {name}", kind, *asked, f"{kind.lower()}.model_name", name


def _count_tokens(usage: Any) -> Mapping[str, int]:
    """Return the tokens of a call by the names of both conventions."""
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "llm.token_count.prompt": usage.input_tokens,
        "llm.token_count.completion": usage.output_tokens,
        "llm.token_count.total": usage.input_tokens + usage.output_tokens,
    }

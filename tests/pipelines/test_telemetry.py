"""Spans, as a collector on a loopback socket receives them; and that nothing is imported where nothing is traced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from collector import Collector, Spanned, collecting
from fault_replies import chat_reply
from hypothesis import given
from hypothesis import strategies as st

import ragsmith as package
from ragsmith.cli.options import TraceFlags
from ragsmith.errors import MissingExtra, ModelError, Notice, StageFailed, WrongOption
from ragsmith.evaluation.experiment import Experiment
from ragsmith.models.calls import Completion
from ragsmith.models.names import ModelNames, partition_models
from ragsmith.models.usage import Usage
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.telemetry import Traces, _add_attributes
from ragsmith.runs.run import Execution, Run
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.types import Question

pytest.importorskip("opentelemetry.proto", reason="needs the extra telemetry")

QUESTION = "When does the ferry to Marrow leave?"
STAGES = [*(family.name for family in FAMILIES), "generation"]
Pipelines = Callable[..., Candidate]


class Chat:
    """A chat model that replies to every task, or fails with what it quotes from the prompt."""

    id = "served:model-1@temperature=0"

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        if self.fails:
            raise ModelError(f"refused: {prompt}")
        return Completion(chat_reply(prompt), Usage(1, 0, 0, 40, 7))


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with collecting() as running:
        yield running


def below(spans: Sequence[Spanned], name: str) -> list[str]:
    """The names of the spans directly below the only one of that name, in order of their ends."""
    (above,) = [span for span in spans if span.name == name]
    return [span.name for span in spans if span.parent == above.id]


def traced(setup: Experiment, traces: Traces, **models: Any) -> Experiment:
    named, objects = partition_models(models)
    return replace(setup, traces=traces, models=ModelNames().override(named), given=objects)


def test_an_answer_is_a_trace_of_its_stages_and_of_the_calls_of_models_in_them(
    collector: Collector, tiny_setup: Experiment, pipeline: Pipelines
) -> None:
    setup = traced(tiny_setup, Traces(collector.url), language_model=Chat())
    candidate = pipeline(retrieval="hybrid", query_expansion="multi_query", reranking="cross_encoder")
    setup.engine().answer(candidate, Question(QUESTION))
    spans = collector.wait_for("answer")
    assert collector.paths == ["/v1/traces"] * len(collector.paths)
    assert len({span.trace for span in spans}) == 1
    assert [span.name for span in spans if not span.parent] == ["answer"]
    assert sorted([*below(spans, "answer"), "retrieval"]) == sorted(STAGES)
    assert below(spans, "generation") == ["chat model-1"]
    assert "chat model-1" in below(spans, "query_expansion")
    assert [name.split()[0] for name in below(spans, "reranking")] == ["rerank"]
    kinds = {span.name: span.kind for span in spans}
    assert (kinds["answer"], kinds["reranking"], kinds["chat model-1"]) == ("CHAIN", "RERANKER", "LLM")
    assert {span.kind for span in spans if span.name.startswith("embeddings ")} == {"EMBEDDING"}
    searches = [span for span in spans if span.name == "retrieval"]
    assert {span.kind for span in searches} == {"RETRIEVER"}
    assert {span.attributes["gen_ai.operation.name"] for span in searches} == {"retrieval"}
    (generation,) = [span for span in spans if span.name == "generation"]
    (call,) = [span for span in spans if span.parent == generation.id]
    assert call.role == 3
    expected = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "served", "gen_ai.request.model": "model-1"}
    expected |= {"gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 7, "llm.token_count.total": 47}
    assert {name: call.attributes[name] for name in expected} == expected
    assert (call.attributes["ragsmith.task"], call.attributes["ragsmith.cached"]) == ("answer", False)


def test_calls_in_parallel_are_below_the_stage_that_makes_them(
    collector: Collector, tiny_setup: Experiment, pipeline: Pipelines
) -> None:
    setup = traced(tiny_setup, Traces(collector.url), language_model=Chat())
    setup.engine().answer(pipeline(passage_compress="tree_summarize"), Question(QUESTION))
    spans = collector.wait_for("answer")
    assert below(spans, "passage_compress").count("chat model-1") >= 2


def test_what_comes_from_a_cache_is_marked_and_has_no_usage(
    collector: Collector, tiny_setup: Experiment, pipeline: Pipelines, store: Store
) -> None:
    setup, candidate = traced(tiny_setup, Traces(collector.url), language_model=Chat()), pipeline()
    for _ in range(2):  # the second engine has the reply of the first from the store
        setup.engine(store).answer(candidate, Question(QUESTION))
    calls = [span.attributes for span in collector.wait_for("answer", 2) if span.name == "chat model-1"]
    assert [call["ragsmith.cached"] for call in calls] == [False, True]
    assert ["gen_ai.usage.input_tokens" in call for call in calls] == [True, False]
    engine = setup.engine()
    first = len(collector.spans)
    for _ in range(2):  # here the stages are remembered
        engine.answer(candidate, Question(QUESTION))
    spans = collector.wait_for("answer", 4)[first:]
    cached = [span.attributes["ragsmith.cached"] for span in spans if span.name == "prompt_maker"]
    assert cached == [False, True]
    assert [span.name for span in spans].count("chat model-1") == 1


@pytest.mark.parametrize("content", [False, True])
def test_content_is_sent_only_if_it_is_asked_for(
    collector: Collector, tiny_setup: Experiment, pipeline: Pipelines, *, content: bool
) -> None:
    setup = traced(tiny_setup, Traces(collector.url, content=content), language_model=Chat())
    trace = setup.engine().answer(pipeline(reranking="cross_encoder"), Question(QUESTION))
    spans = collector.wait_for("answer")
    sent = b"".join(collector.bodies)
    texts = [QUESTION, trace.answer.text, trace.prompt.text, trace.hits[0].chunk.text, trace.hits[0].chunk.id]
    assert [text.encode() in sent for text in texts] == [content] * len(texts)
    if content:
        found = {span.name: span.attributes for span in spans}
        assert found["answer"]["input.value"] == QUESTION
        assert found["answer"]["output.value"] == trace.answer.text
        assert trace.prompt.text in found["chat model-1"]["input.value"]
        assert found["passage_filter"]["retrieval.documents.0.document.content"] == trace.hits[0].chunk.text


def test_an_error_is_recorded_by_its_type_without_what_it_quotes(
    collector: Collector, tiny_setup: Experiment, pipeline: Pipelines
) -> None:
    setup = traced(tiny_setup, Traces(collector.url), language_model=Chat(fails=True))
    with pytest.raises(StageFailed, match="ferry"):
        setup.engine().answer(pipeline(), Question(QUESTION))
    spans = collector.wait_for("answer")
    failed = {span.name: span.attributes["error.type"] for span in spans if span.status == 2}
    assert failed == dict.fromkeys(["answer", "generation", "chat model-1"], "ModelError")
    assert b"ferry" not in b"".join(collector.bodies)
    assert all(span.events == 0 and not span.said for span in spans)


def test_a_collector_that_does_not_reply_keeps_no_answer_waiting(
    collector: Collector, tiny_setup: Experiment, pipeline: Pipelines
) -> None:
    collector.held.set()
    engine = traced(tiny_setup, Traces(collector.url)).engine()
    expected = tiny_setup.engine().answer(pipeline(), Question(QUESTION)).answer
    assert engine.answer(pipeline(), Question(QUESTION)).answer == expected
    assert collector.bodies == []
    collector.released.set()
    collector.wait_for("answer")


@given(st.text(min_size=1), st.floats(0.001, 1), st.floats(0.001, 1))
def test_the_answers_of_a_smaller_share_are_among_those_of_a_larger_one(text: str, one: float, other: float) -> None:
    few, many = (Traces("http://localhost", share).samples("pipeline", text) for share in sorted((one, other)))
    assert many or not few


def test_the_share_of_traced_answers_is_what_was_asked_for() -> None:
    traces = Traces("http://localhost", 0.2)
    sampled = sum(traces.samples("pipeline", str(number)) for number in range(2000))
    assert 320 <= sampled <= 480  # 400 expected, within 4.5 standard deviations


def test_a_search_in_processes_is_the_same_and_traces_the_same_answers_each_time(
    collector: Collector, tiny_setup: Experiment, space: Any, tmp_path: Path
) -> None:
    settings = package.RunSettings(
        genetic=package.GeneticSettings(population=4, generations=1, elitism=1), max_evaluations=4, probes=False
    )
    rows, counts = [], []
    for number, traces in enumerate((None, Traces(collector.url, 0.2), Traces(f"{collector.url}/v1/traces", 0.2))):
        with Store.open(tmp_path / f"{number}.sqlite") as store:
            setup = replace(tiny_setup, traces=traces)
            outcome = Run(setup, space, store, settings, execution=Execution(workers=2)).go()
            rows.append((outcome.key, store.results(outcome.winner.key if outcome.winner else "")))
        if traces is not None:
            before = sum(counts)
            counts.append(sum(span.name in ("answer", "retrieve") for span in collector.spans) - before)
    assert rows[0] == rows[1] == rows[2]
    assert counts[0] == counts[1] > 0
    roots = [span for span in collector.spans if not span.parent]
    assert {span.name for span in roots} <= {"answer", "retrieve"}


@given(st.lists(st.one_of(st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats()), max_size=8))
def test_attributes_of_any_type_arrive_as_they_are(values: list[Any]) -> None:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span  # noqa: PLC0415

    _add_attributes((encoded := Span()).attributes, {str(place): value for place, value in enumerate(values)})
    decoded = Span.FromString(encoded.SerializeToString()).attributes
    found = [getattr(pair.value, pair.value.WhichOneof("value")) for pair in decoded]
    assert repr(found) == repr(values)  # also tells apart 1, 1.0 and True, and finds nan


def test_half_of_a_surrogate_pair_does_not_stop_the_others(collector: Collector) -> None:
    traces = Traces(collector.url)
    for text in ("\ud800 and more", "fine"):
        with traces.span("said", "CHAIN") as about:
            about["text"] = text
    assert [span.attributes["text"] for span in collector.wait_for("said", 2)] == ["? and more", "fine"]


def test_what_cannot_be_traced_is_refused(ragsmith: Any, tmp_path: Path) -> None:
    with pytest.raises(WrongOption, match="traces is 'localhost:4318': give the URL of a collector"):
        Traces("localhost:4318")
    for share in (0.0, 1.5, float("nan")):
        with pytest.raises(WrongOption, match="above 0, and at most 1"):
            Traces("http://localhost:4318", share)
    got = ragsmith("ask", tmp_path / "winner.yaml", "Why?", "--trace-content")
    assert got.code == 2
    assert "--traces is '': give the URL of a collector" in got.err


OFF = """
import sys, ragsmith
ragsmith.ask(sys.argv[1], "When does the ferry to Marrow leave?")
loaded = [name for name in sys.modules if name.startswith(("opentelemetry", "google.protobuf"))]
threads = [thread.name for thread in __import__("threading").enumerate()]
assert not loaded and "ragsmith-traces" not in threads, (loaded, threads)
"""


def test_nothing_is_imported_or_started_where_nothing_is_traced(tiny_setup: Experiment, tmp_path: Path) -> None:
    winner = tmp_path / "winner.yaml"
    package.recommend(tiny_setup.dataset.source, output=winner)
    subprocess.run([sys.executable, "-c", OFF, str(winner)], check=True, cwd=tmp_path)


def test_the_environment_names_a_collector_where_no_option_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TraceFlags().arguments() == {}
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    assert TraceFlags().arguments(0.5) == {"traces": Traces("http://localhost:4318", 0.5)}
    assert TraceFlags("http://localhost:9").arguments() == {"traces": Traces("http://localhost:9")}
    assert TraceFlags(trace_content=True).arguments() == {"traces": Traces("http://localhost:4318", content=True)}
    monkeypatch.setattr("ragsmith.pipelines.telemetry.installed_version", _lacks)
    assert TraceFlags().arguments() == {}
    with pytest.raises(MissingExtra):
        TraceFlags("http://localhost:9").arguments()


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_TRACES_EXPORTER", "console")],
)
def test_the_environment_can_turn_traces_off(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4317")
    monkeypatch.setenv(name, value)
    assert TraceFlags().arguments() == {}
    assert TraceFlags("http://localhost:9").arguments() == {"traces": Traces("http://localhost:9")}


@pytest.mark.parametrize(("url", "protocol"), [("localhost:4317", ""), ("http://localhost:4317", "grpc")])
def test_a_collector_of_the_environment_that_takes_no_http_is_noticed_and_left_out(
    monkeypatch: pytest.MonkeyPatch, url: str, protocol: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    with pytest.warns(Notice, match=f"no spans are sent, as OTEL_EXPORTER_OTLP_ENDPOINT is '{url}'"):
        assert TraceFlags().arguments() == {}


def _lacks(package: str, extra: str) -> str:
    raise MissingExtra(package, extra)

"""Spans of requests: where they hang, and which requests have none."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from asking import sent
from collector import Collector, collecting

from ragsmith.pipelines.telemetry import Traces
from ragsmith.serving.app import ServingApp

pytest.importorskip("opentelemetry.proto", reason="needs the extra telemetry")

QUESTION = {"question": "When does the ferry to Marrow leave?"}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"  # the examples of W3C Trace Context


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with collecting() as running:
        yield running


def test_a_request_is_below_the_span_of_its_client_and_the_answer_below_it(
    collector: Collector, serving: Callable[..., ServingApp]
) -> None:
    app = serving(traces=Traces(collector.url))
    got = sent(app, "POST", "/ask", QUESTION, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    assert got.status == 200
    spans = [span for span in collector.wait_for("POST /ask") if span.trace == TRACE]
    (request,) = [span for span in spans if span.name == "POST /ask"]
    (answer,) = [span for span in spans if span.name == "answer"]
    assert (request.parent, request.role, answer.parent) == (PARENT, 2, request.id)
    expected = {"http.route": "/ask", "http.response.status_code": 200}
    expected["ragsmith.request_id"] = got.headers["x-request-id"]
    assert expected.items() <= request.attributes.items()
    assert {"generation", "retrieval", "post_generation"} <= {span.name for span in spans}


def test_a_client_that_does_not_trace_is_not_traced(collector: Collector, serving: Callable[..., ServingApp]) -> None:
    app = serving(traces=Traces(collector.url))
    assert sent(app, "POST", "/ask", QUESTION, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"}).status == 200
    zeros = f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01"
    invalid = ("", "nonsense", f"00-{TRACE}-01", f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE.upper()}-{PARENT}-01", *zeros)
    for header in invalid:  # these begin traces of their own
        assert sent(app, "POST", "/retrieve", QUESTION, headers={"traceparent": header}).status == 200
    spans = collector.wait_for("POST /retrieve", len(invalid))
    assert "POST /ask" not in {span.name for span in spans}
    assert TRACE not in {span.trace for span in spans}
    assert len({span.trace for span in spans if span.name == "POST /retrieve"}) == len(invalid)


def test_probes_and_refused_requests_have_no_span(collector: Collector, serving: Callable[..., ServingApp]) -> None:
    app = serving(traces=Traces(collector.url), token="a-token-of-the-test")
    assert sent(app, "GET", "/health").status == 200
    assert sent(app, "POST", "/ask", QUESTION).status == 401
    assert sent(app, "GET", "/metrics").status == 401
    assert not [span for span in collector.spans if span.name.startswith(("GET", "POST"))]


def test_the_spans_of_a_command_are_sent_before_its_process_ends(
    collector: Collector, winner: Path, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    asked = spawn("ask", winner, QUESTION["question"], "--traces", collector.url, "--trace-content")
    _, said = asked.communicate(timeout=60)
    assert asked.returncode == 0, said
    found = {span.name: span.attributes for span in collector.spans}
    assert found["answer"]["input.value"] == QUESTION["question"]
    assert {"pre_embedding", "retrieval", "generation"} <= found.keys()


def test_a_collector_that_is_down_changes_no_answer(winner: Path, spawn: Callable[..., subprocess.Popen[str]]) -> None:
    with collecting() as gone:
        url = gone.url
    plain, traced = (spawn("ask", winner, QUESTION["question"], *flags) for flags in ((), ("--traces", url)))
    (expected, _), (answer, said) = plain.communicate(timeout=60), traced.communicate(timeout=60)
    assert (traced.returncode, answer) == (0, expected)
    assert "Traceback" not in said

"""HTTP against a server that fails: every way of failing has a kind, and a response is whole and bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fault_server import Fault, FaultServer

from ragsmith.errors import ModelError, RefusedContent, TooLong
from ragsmith.models.served.http.transport import BoundedClient, classify_response, retry_after
from ragsmith.models.served.policy import AccessRefused, AttemptFailed, RequestRejected, TransientFailure, UnusableReply

KEY = "secret-0123456789"
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


def post(server: FaultServer, largest: int = 10 * 1024 * 1024, deadline: float = 5.0) -> Any:
    """The outcome of one request: a response, or what was raised."""

    async def once() -> Any:
        async with asyncio.timeout(deadline), BoundedClient(largest_response=largest) as client:
            try:
                return await client.post(
                    f"{server.root}/v1/rerank",
                    json={"query": "a question", "documents": ["an answer", "something"]},
                    headers={"Authorization": f"Bearer {KEY}"},
                )
            except AttemptFailed as failure:
                return failure

    return asyncio.run(once())


def test_a_good_response_is_whole(server: FaultServer) -> None:
    assert [row["index"] for row in post(server).json()["results"]] == [0, 1]


@pytest.mark.parametrize(
    ("fault", "kind", "problem"),
    [
        (Fault("reset"), TransientFailure, "the reply broke off"),
        (Fault("cut"), TransientFailure, "the reply broke off"),
        (Fault("large"), UnusableReply, "the reply is larger than 10,485,760 bytes"),
        (Fault("gzip_bomb"), UnusableReply, "the reply is larger than 10,485,760 bytes"),
        (Fault("500"), TransientFailure, "HTTP 500 (the server is busy)"),
        (Fault("429"), TransientFailure, "HTTP 429"),
        (Fault("redirect"), RequestRejected, "HTTP 307: the server redirects"),
        (Fault(status=400, said="too long"), RequestRejected, "HTTP 400 (too long): the server refuses the request"),
        (Fault(status=401), AccessRefused, "HTTP 401"),
        (Fault(status=403), AccessRefused, "HTTP 403"),
        (Fault(status=403, said='Your input was flagged for "violence"'), RequestRejected, "HTTP 403"),
        (Fault(status=404), AccessRefused, "HTTP 404"),
        (Fault(status=402), AccessRefused, "HTTP 402"),
        (Fault(status=429, said="insufficient_quota"), AccessRefused, "HTTP 429"),
        (Fault(status=400, said="Your credit balance is too low to access the API"), AccessRefused, "HTTP 400"),
        (Fault(status=400, said="Budget has been exceeded! Current cost: 10.1"), AccessRefused, "HTTP 400"),
        (Fault(status=413), RequestRejected, "HTTP 413"),
        (Fault(status=599), TransientFailure, "HTTP 599"),
    ],
    ids=lambda value: (
        getattr(value, "kind", "") + str(getattr(value, "status", "")) if isinstance(value, Fault) else ""
    ),
)
def test_a_failure_has_a_kind(server: FaultServer, fault: Fault, kind: type[AttemptFailed], problem: str) -> None:
    server.always = fault
    failure = post(server)
    assert type(failure) is kind
    assert problem in failure.problem
    assert failure.__cause__ is failure.__context__ is None
    assert len(server.log) == 1
    assert not any("elsewhere" in request.path for request in server.log)


@pytest.mark.parametrize(
    ("status", "said", "error"),
    [
        (400, "Invalid prompt: it may violate the usage policy", RefusedContent),
        (422, "unprocessable", RefusedContent),
        (413, "Payload Too Large", TooLong),
        (400, "This model's maximum context length is 8192 tokens. context_length_exceeded", TooLong),
        (400, "the request exceeds the available context size", TooLong),
        (400, "prompt is too long: 212000 tokens > 200000 maximum", TooLong),
        (400, "max_tokens is too large: 50000. This model supports at most 16384 completion tokens", TooLong),
        (400, "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens", TooLong),
        (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", TooLong),
        (400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", RefusedContent),
        (403, "The model requires moderation and your input was flagged", RefusedContent),
        (403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO", RefusedContent),
        (405, "Method Not Allowed", ModelError),
        (407, "Proxy Authentication Required", ModelError),
        (302, "", ModelError),
    ],
)
def test_a_rejection_says_what_the_request_fails_with(status: int, said: str, error: type[ModelError]) -> None:
    failure = classify_response(status, {}, json.dumps({"error": {"message": said}}).encode())
    assert isinstance(failure, RequestRejected)
    assert failure.error is error


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (403, {"message": "Your account has been flagged for potential abuse"}),
        (403, {"message": "Your access was terminated due to violation of our policies"}),
        (403, {"message": "Your organization must be verified to use the model"}),
        (429, {"message": "You exceeded your current quota. " + "x" * 190, "code": "insufficient_quota"}),
    ],
)
def test_a_refused_account_is_told_from_a_refused_prompt_and_from_haste(status: int, error: dict[str, str]) -> None:
    assert isinstance(classify_response(status, {}, json.dumps({"error": error}).encode()), AccessRefused)


def test_what_a_server_says_is_short_and_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X_API_KEY", KEY)
    message = b"x" * 190 + b" " + KEY.encode() + b" and\\u001b[0m"
    failure = classify_response(400, {}, b'{"error": {"message": "' + message + b'"}}')
    assert KEY[:4] not in failure.problem
    assert "\x1b" not in failure.problem
    assert len(failure.problem) < 300


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT", "date": DATE}, 10.0),
        ({"retry-after": DATE, "date": "Sun, 06 Nov 1994 08:49:47 GMT"}, 0.0),
        ({"retry-after": DATE}, 0.0),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds

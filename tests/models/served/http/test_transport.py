"""What an unsuccessful response means; the wire itself is tested with each client in ``test_wire``."""

from __future__ import annotations

import json

import pytest

from ragsmith.errors import ModelError, RefusedContent, TooLong
from ragsmith.models.served.http.transport import classify_response, retry_after
from ragsmith.models.served.policy import AccessRefused, RequestRejected, TransientFailure

KEY = "secret-0123456789"
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("status", "said", "error"),
    [
        (400, "Invalid prompt: it may violate the usage policy", RefusedContent),
        (400, "This model's maximum context length is 8192 tokens. context_length_exceeded", TooLong),
        (400, "the request exceeds the available context size", TooLong),
        (400, "prompt is too long: 212000 tokens > 200000 maximum", TooLong),
        (400, "max_tokens is too large: 50000. This model supports at most 16384 completion tokens", TooLong),
        (400, "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens", TooLong),
        (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", TooLong),
        (400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", RefusedContent),
        (400, "Your credit balance is too low to access the API", AccessRefused),
        (400, "Budget has been exceeded! Current cost: 10.1", AccessRefused),
        (403, "The model requires moderation and your input was flagged", RefusedContent),
        (403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO", RefusedContent),
        (403, "Your account has been flagged for potential abuse", AccessRefused),
        (403, "Your access was terminated due to violation of our policies", AccessRefused),
        (403, "Your organization must be verified to use the model", AccessRefused),
        (404, "", AccessRefused),
        (405, "Method Not Allowed", ModelError),
        (407, "Proxy Authentication Required", ModelError),
        (413, "Payload Too Large", TooLong),
        (422, "unprocessable", RefusedContent),
        (429, "insufficient_quota: you exceeded your current quota" + "x" * 190, AccessRefused),
        (429, "slow down", TransientFailure),
        (599, "", TransientFailure),
        (302, "", ModelError),
    ],
)
def test_a_response_says_what_the_request_fails_with(status: int, said: str, error: type[Exception]) -> None:
    failure = classify_response(status, {}, json.dumps({"error": {"message": said}}).encode())
    assert f"HTTP {status}" in failure.problem
    assert (failure.error if isinstance(failure, RequestRejected) else type(failure)) is error


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

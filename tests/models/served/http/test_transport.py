"""What an unsuccessful response means; the wire itself is tested with each client in ``test_wire``."""

from __future__ import annotations

import json

import pytest
from rows import rows

from ragsmith.models.served.http.transport import classify_response, retry_after
from ragsmith.models.served.policy import RequestRejected

KEY = "secret-0123456789"


@pytest.mark.parametrize(("status", "said", "error"), rows("unsuccessful responses"))
def test_a_response_says_what_the_request_fails_with(status: int, said: str, error: str) -> None:
    failure = classify_response(status, {}, json.dumps({"error": {"message": said}}).encode())
    assert f"HTTP {status}" in failure.problem
    assert (failure.error if isinstance(failure, RequestRejected) else type(failure)).__name__ == error


def test_what_a_server_says_is_short_and_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X_API_KEY", KEY)
    message = b"x" * 190 + b" " + KEY.encode() + b" and\\u001b[0m"
    failure = classify_response(400, {}, b'{"error": {"message": "' + message + b'"}}')
    assert KEY[:4] not in failure.problem
    assert "\x1b" not in failure.problem
    assert len(failure.problem) < 300


@pytest.mark.parametrize(("headers", "seconds"), rows("headers that ask to wait"))
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds

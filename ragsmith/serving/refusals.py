"""Why a request is not answered, in the form of OpenAI's errors: one sentence, without paths, keys and prompts."""

from __future__ import annotations

from ragsmith.errors import ModelUnavailable, StageFailed, StoreError

INVALID, BROKEN = "invalid_request_error", "server_error"
"""What OpenAI calls errors of the request, whatever is wrong with it, and those of the server, from status 500 up."""

AGAIN_SECONDS = 2
"""When to come again, where nobody knows better."""


class RequestRefused(Exception):
    """A request is answered by an error with this ``status``; ``message`` is what the client is told.

    ``code`` names the reason for programs, ``parameter`` the part of the request that is wrong. ``retry_after`` is in
    seconds, 0 where coming again is of no use: OpenAI's clients, which send again whatever failed with 500 or above,
    are told so, as it may have been paid. ``closes`` says that the connection is of no use any more.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        parameter: str | None = None,
        retry_after: int = 0,
        closes: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.parameter = parameter
        self.retry_after = retry_after
        self.closes = closes

    @property
    def body(self) -> dict[str, object]:
        """The error as OpenAI sends it."""
        kind = BROKEN if self.status >= 500 else INVALID
        return {"error": {"message": self.message, "type": kind, "param": self.parameter, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        """What belongs into the head of the reply."""
        found = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        if self.status >= 500 and not self.retry_after:
            found["X-Should-Retry"] = "false"
        if self.closes:
            found["Connection"] = "close"
        if self.status == 401:
            found["WWW-Authenticate"] = "Bearer"
        return found


def wrong(message: str, parameter: str | None = None, code: str = "invalid_value") -> RequestRefused:
    """A request that says something wrong."""
    return RequestRefused(400, message, code, parameter=parameter)


def large_head() -> RequestRefused:
    """A request with more before its body than there may be."""
    return RequestRefused(431, "the head of the request is too large: leave something out", "large_head", closes=True)


def no_http(error: BaseException | None) -> RequestRefused:
    """What is not read as a request; ``error`` is the parser's."""
    status = getattr(error, "error_status_hint", 400)
    if status == 431:
        return large_head()
    if status == 501:
        said = "the body comes in an encoding that is not known here: send it as it is, or chunked"
        return RequestRefused(501, said, "unknown_encoding", closes=True)
    return RequestRefused(
        400, "this is no HTTP request, or its body is not as it announces it", "invalid_http", closes=True
    )


def busy() -> RequestRefused:
    """A request for which there is no room."""
    return RequestRefused(
        503, "the server answers as many questions as it can: come again", "busy", retry_after=AGAIN_SECONDS
    )


def failed(error: Exception) -> RequestRefused:
    """A request that the pipeline failed on. What the error says is for the log: it may have a prompt, or a path."""
    cause = error.cause if isinstance(error, StageFailed) else error
    stage = f"the stage {error.family} failed" if isinstance(error, StageFailed) else "the pipeline failed"
    if isinstance(cause, ModelUnavailable):
        said = f"{stage}, as a model that it asks is not available now: come again later"
        return RequestRefused(503, said, "model_unavailable", retry_after=AGAIN_SECONDS * 5)
    if isinstance(cause, StoreError):
        said = f"{stage}, as what is paid for cannot be kept now: come again later, it is not paid for again"
        return RequestRefused(503, said, "not_kept", retry_after=AGAIN_SECONDS * 5)
    if isinstance(error, StageFailed):
        said = f"{stage} on this question: ask otherwise, or look for the request id in the log of the server"
        return RequestRefused(502, said, "pipeline_failed")
    return broken()


def broken() -> RequestRefused:
    """A request on which the server itself failed."""
    said = "the server failed on this request: look for the request id in its log"
    return RequestRefused(500, said, "internal_error")

"""The body of a request, within its limits, and what stands in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.requests import ClientDisconnect, Request

from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.refusals import RequestRefused, wrong
from ragsmith.text.files import FORBIDDEN, TextError, control
from ragsmith.text.jsonl import kind, parse_json

Body = Mapping[str, object]


async def read_body(request: Request, limits: ServingLimits) -> Body:
    """The JSON object that a request sends.

    Raises:
        Refused: it is none, too large, or too slow.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise RequestRefused(
            415, "the body must be JSON: send  Content-Type: application/json", "not_json", closes=True
        )
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 18 or int(announced) > limits.body:
        raise _too_large(limits)
    data = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                data += part
                if len(data) > limits.body:
                    raise _too_large(limits)
    except TimeoutError:
        said = f"the body did not arrive within {limits.body_seconds:g} seconds"
        raise RequestRefused(408, said, "slow_body", closes=True) from None
    except ClientDisconnect:
        raise RequestRefused(400, "the request broke off", "broken_off", closes=True) from None
    try:
        body = parse_json(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise wrong("the body is not UTF-8") from None
    except TextError as error:
        raise wrong(f"the body cannot be read: {error.reason}") from None
    if not isinstance(body, dict):
        raise wrong(f"the body must be an object, not {kind(body)}")
    return body


def _too_large(limits: ServingLimits) -> RequestRefused:
    return RequestRefused(413, f"the body is larger than {limits.body:,} bytes", "too_large", closes=True)


def question_of(value: object, limits: ServingLimits, parameter: str = "question") -> str:
    """A question that was sent.

    Raises:
        Refused: it is no text, blank, too long, or has characters that no text has.
    """
    if value is None:
        raise wrong(f"{parameter!r} is missing: send a text", parameter, "missing_required_parameter")
    if not isinstance(value, str):
        raise wrong(f"{parameter!r} must be a text, not {kind(value)}", parameter, "invalid_type")
    text = value.strip()
    if not text:
        raise wrong(f"{parameter!r} is blank", parameter)
    if len(text) > limits.question:
        said = f"{parameter!r} has {len(text):,} characters: give at most {limits.question:,}"
        raise wrong(said, parameter, "string_above_max_length")
    return plain_text(text, parameter)


def plain_text(text: str, parameter: str) -> str:
    """``text``, unless there are characters in it that no text has.

    Raises:
        Refused: there are control characters, or halves of characters.
    """
    if found := FORBIDDEN.search(text):
        raise wrong(f"{parameter!r} has a {control(found.group())}: remove it", parameter)
    return text


def switch(body: Body, name: str, *, default: bool = False) -> bool:
    """A value that is true or false, or not there; null is not there, too.

    Raises:
        Refused: it is something else.
    """
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise wrong(f"{name!r} must be true or false, not {kind(value)}", name, "invalid_type")
    return value


def refuse_unknown(body: Body, known: tuple[str, ...]) -> None:
    """Raise `RequestRefused` where ``body`` has keys that mean nothing here."""
    for key in body:
        if key not in known:
            raise wrong(f"there is no parameter {key[:40]!r}: give {', '.join(known)}", code="unknown_parameter")

"""Requests that are wrong in some way, as bytes, each with the statuses that are right for it.

They are drawn, kind by kind (`KINDS`), and depend on the draw alone. Bodies hold `CANARY`, which no log may repeat.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CANARY = "canary-5b1f"
QUESTION = f"Who keeps the {CANARY} in the tower?"

ROUTES: Mapping[str, Mapping[str, Any]] = {
    "/ask": {"question": QUESTION},
    "/retrieve": {"question": QUESTION},
    "/explain": {"question": QUESTION},
    "/feedback": {"question": QUESTION, "answer": CANARY, "thumb": "up"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": QUESTION}]},
}
"""A good body for each address that takes one."""
LOOKING = ("/", "/health", "/ready", "/metrics", "/v1/models", "/v1/models/ragsmith")


@dataclass(frozen=True)
class Malformed:
    """What is sent, and the statuses of which the reply must have one."""

    sent: bytes
    right: frozenset[int]


Make = Callable[[random.Random], Malformed]


def request(
    path: str | bytes,
    body: bytes = b"",
    *,
    method: str = "POST",
    headers: Sequence[tuple[str, str | bytes]] | None = None,
    more: Sequence[tuple[str, str | bytes]] = (),
) -> bytes:
    """A request; ``headers`` take the place of those that belong into it, ``more`` come after them."""
    if headers is None:
        headers = [("Host", "localhost"), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    lines = [f"{method} ".encode() + (path if isinstance(path, bytes) else path.encode()) + b" HTTP/1.1"]
    lines += [name.encode() + b": " + (v if isinstance(v, bytes) else v.encode()) for name, v in (*headers, *more)]
    return b"\r\n".join([*lines, b"", b""]) + body


def _wrong(sent: bytes, *right: int) -> Malformed:
    return Malformed(sent, frozenset(right or (400,)))


def _route(draw: random.Random) -> tuple[str, dict[str, Any]]:
    path = draw.choice(list(ROUTES))
    return path, dict(ROUTES[path])


def broken_json(draw: random.Random) -> Malformed:
    path, good = _route(draw)
    whole = json.dumps(good)
    broken = [
        whole[: draw.randrange(len(whole))],
        whole + draw.choice("}],x0"),
        whole.replace('"', "'"),
        whole[:-1] + ",}",
        whole[:-1] + ', "a": NaN}',
        whole[:-1] + ', "a": -Infinity}',
        whole[:-1] + ', "a": 1, "a": 2}',
        whole.replace(":", "="),
        "// " + whole,
        "".join(draw.choices("{}[]:,\"'0 \\n", k=draw.randrange(1, 60))) + "!",
    ]
    return _wrong(request(path, draw.choice(broken).encode()))


OTHERS: Sequence[Any] = (1, -1.5, True, [], {}, ["x"], {"text": "x"}, [[[]]], None)
"""Instead of a text."""
CONVERSATIONS: Sequence[Any] = (
    *("x", 1, True, {}, [], None, [1], [None], [[]], [{}], [{"role": 5}], [{"role": "user"}]),
    [{"role": "user", "content": 5}],
    [{"role": "user", "content": {}}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}],
    [{"role": "robot", "content": "x"}],
    [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
)
"""Instead of messages."""


def wrong_types(draw: random.Random) -> Malformed:
    path, good = _route(draw)
    if draw.random() < 0.2:
        return _wrong(request(path, json.dumps(draw.choice(["x", 1, 1.5, True, None, [], [good]])).encode()))
    if path == "/v1/chat/completions":
        name, values = draw.choice(
            [
                ("messages", CONVERSATIONS),
                ("stream", ("yes", 1, [])),
                ("sources", ("no", 0, {})),
                ("n", ("1", 2, [], 0.5)),
                ("tools", ([{}], "x")),
                ("response_format", (1, [], {"type": "json_object"})),
            ]
        )
    elif path == "/feedback":
        name, values = draw.choice(
            [
                *((key, OTHERS) for key in good),
                ("declined", ("no", 0, [])),
                ("corrected", OTHERS[:-1]),
                ("sources", ("x", {}, [1], [{}], [{"doc": "x", "start": "0", "end": 1}])),
            ]
        )
    else:
        name, values = "question", OTHERS
    return _wrong(request(path, json.dumps({**good, name: draw.choice(values)}).encode()))


def huge_numbers(draw: random.Random) -> Malformed:
    path, good = _route(draw)
    number = draw.choice(
        ["9" * draw.choice([20, 400, 5000, 50_000]), "-" + "9" * 400, "1e999", "-1e999", "1e-999999999", "0." + "0" * 9]
    )
    if draw.random() < 0.2:
        length = draw.choice(["9" * 12, "9" * 18, "9" * 30, "9" * 4000])
        head = [("Host", "localhost"), ("Content-Type", "application/json"), ("Content-Length", length)]
        return _wrong(request(path, headers=head), 400, 413)
    name = {"/v1/chat/completions": "n"}.get(path, draw.choice(["question", "depth", number]))
    if path == "/feedback" and draw.random() < 0.7:
        start = draw.choice(["0", number])
        place = f'{{"doc": "ferry", "start": {start}, "end": {number}}}'
        return _wrong(request(path, (json.dumps(good)[:-1] + f', "sources": [{place}]}}').encode()))
    good.pop(name, None)
    return _wrong(
        request(path, f"{json.dumps(good)[:-1]}{', ' if good else ''}{json.dumps(name)}: {number}}}".encode())
    )


def deep_nesting(draw: random.Random) -> Malformed:
    path, good = _route(draw)
    depth = draw.choice([50, 900, 1000, 5000, 100_000, 150_000])
    opening, closing = draw.choice([("[", "]"), ('{"a":', "}")])
    nested = draw.choice([opening * depth, opening * depth + "1" + closing * depth])
    name = next(iter(good))
    body = draw.choice([nested, json.dumps({**good, name: "@"}).replace('"@"', nested)])
    return _wrong(request(path, body.encode()))


def invalid_text(draw: random.Random) -> Malformed:
    path, good = _route(draw)
    whole = json.dumps(good).encode()
    place = whole.index(CANARY.encode()) + draw.randrange(len(CANARY))
    spoilt = draw.choice(
        [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\x80", b"\xe2\x82", b"\x00"]
    )
    escaped = draw.choice([b"\\ud800", b"\\udfff", b"\\u0000", b"\\u0007", b"\\u001b[2J"])
    wide = whole.decode().encode(draw.choice(["utf-16", "utf-32", "utf-16-be"]))
    body = draw.choice([whole[:place] + spoilt + whole[place:], whole[:place] + escaped + whole[place:], wide])
    return _wrong(request(path, body))


def unknown_methods(draw: random.Random) -> Malformed:
    path = draw.choice([*ROUTES, *LOOKING])
    names = ["BREW", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "PROPFIND", "get", "post", "M-SEARCH", "X" * 200]
    if path in ROUTES:
        names += ["GET", "HEAD"]
    return _wrong(request(path, b"{}" if draw.random() < 0.5 else b"", method=draw.choice(names)), 405)


def unknown_paths(draw: random.Random) -> Malformed:
    path = draw.choice(
        [
            f"/{draw.choice('abcxyz')}{draw.randrange(1000)}",
            *("/asks", "/ask/", "/v1", "/v1/", "/v1/models/gpt-9", "/v1/completions", "/v2/chat/completions", "/docs"),
            *("/.env", "/.git/config", "/wp-login.php", "/favicon.ico", "/server-status", "*", "/ask;x=1", "/%2e/ask"),
            *("//localhost/ask", "http://evil.example/ask", "/x?/../ask", "/" + "a" * 20_000, "/ask%0d%0aX-Evil:%201"),
        ]
    )
    body = json.dumps(ROUTES["/ask"]).encode()
    return _wrong(request(path, body, method=draw.choice(["GET", "POST", "PUT"])), 404)


def content_types(draw: random.Random) -> Malformed:
    path, good = _route(draw)
    body = json.dumps(good).encode()
    kind: str | bytes | None = draw.choice(
        [
            *(None, "", "text/plain", "text/html", "application/jsonp", "application/x-www-form-urlencoded", "json"),
            *("multipart/form-data; boundary=x", "application/octet-stream", b"\xff\xfe", ";", "application / json"),
        ]
    )
    head: list[tuple[str, str | bytes]] = [("Host", "localhost"), ("Content-Length", str(len(body)))]
    return _wrong(request(path, body, headers=[*head, *([] if kind is None else [("Content-Type", kind)])]), 415)


def duplicate_headers(draw: random.Random) -> Malformed:
    path, good = _route(draw)
    body = json.dumps(good).encode()
    chunked = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    length, own = ("Content-Length", str(len(body))), ("Host", "localhost")
    kind, encoding = ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")
    return draw.choice(
        [
            _wrong(request(path, body, more=[("Host", "evil.example")])),
            _wrong(request(path, body, more=[("host", "localhost")])),
            _wrong(request(path, body, more=[("Content-Length", str(len(body) + 1))])),
            _wrong(request(path, body, headers=[own, kind, ("Content-Length", f"{len(body)}, 7")])),
            _wrong(request(path, chunked, headers=[own, kind, length, encoding])),
            _wrong(request(path, chunked, headers=[own, kind, encoding, ("Content-Length", "0")])),
            _wrong(request(path, chunked, headers=[own, kind, encoding, encoding]), 400, 501),
            _wrong(request(path, body, headers=[own, ("Content-Type", "text/plain"), kind, length]), 415),
            _wrong(request(path, body, more=[("Origin", "https://evil.example"), ("Origin", "http://localhost")]), 403),
        ]
    )


def broken_framing(draw: random.Random) -> Malformed:
    path, good = _route(draw)
    body = json.dumps(good).encode()
    own: list[tuple[str, str | bytes]] = [("Host", "localhost"), ("Content-Type", "application/json")]
    chunked = [*own, ("Transfer-Encoding", "chunked")]
    return draw.choice(
        [
            _wrong(draw.randbytes(draw.randrange(1, 200)) + b"\r\n\r\n"),
            _wrong(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + draw.randbytes(200)),  # TLS knocks
            _wrong(b"GET\r\n\r\n"),
            _wrong(b"GET /health\r\n\r\n"),
            _wrong(b"GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            _wrong(b"GET /health HTTP/1.1 x\r\nHost: localhost\r\n\r\n"),
            _wrong(b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            _wrong("GET /é HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()),
            _wrong(b"GET /health HTTP/1.1\r\n\r\n"),
            _wrong(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 403),
            _wrong(request(path, body, more=[("X ", "space before the colon")])),
            _wrong(request(path, body, more=[("X", b"a\x00b")])),
            _wrong(request(path, body, more=[("X", b"a\rb")])),
            _wrong(request("/health", method="GET", more=[("X", b"y" * 40_000)]), 431),
            _wrong(request("/" + "a" * 40_000, method="GET"), 431),
            _wrong(request(path, headers=[*own, ("Content-Length", draw.choice(["-1", "+5", "abc", "1e3", "0x10"]))])),
            _wrong(request(path, b"zz\r\n" + body + b"\r\n0\r\n\r\n", headers=chunked)),
            _wrong(request(path, b"-5\r\n" + body + b"\r\n0\r\n\r\n", headers=chunked)),
            _wrong(request(path, b"5\r\n" + body + b"\r\n0\r\n\r\n", headers=chunked)),
            _wrong(request(path, b"f" * 30 + b"\r\n" + body, headers=chunked)),
            _wrong(request("/health", b"zz\r\n", headers=chunked), 400, 405),
            _wrong(request(path, body, headers=[*own, ("Transfer-Encoding", "gzip, chunked")]), 501),
            _wrong(request(path, body, headers=[*own, ("Transfer-Encoding", "identity")]), 501),
        ]
    )


KINDS: Mapping[str, Make] = {
    "broken JSON": broken_json,
    "wrong types": wrong_types,
    "huge numbers": huge_numbers,
    "deep nesting": deep_nesting,
    "invalid text": invalid_text,
    "unknown methods": unknown_methods,
    "unknown paths": unknown_paths,
    "content types": content_types,
    "duplicate headers": duplicate_headers,
    "broken framing": broken_framing,
}

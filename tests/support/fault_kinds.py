"""The kinds of faults of `fault_server`, and the good replies that they spoil."""

from __future__ import annotations

import array
import asyncio
import base64
import contextlib
import copy
import gzip
import json
from dataclasses import dataclass
from typing import Any

from fault_replies import chat_reply, scores, vector

KEY_HEADERS = ("authorization", "x-api-key")
LARGE = 10 * 1024 * 1024 + 1
DRIP_SECONDS = 0.02
"""Between two bytes of a reply that drips."""

ANYWHERE = ("429", "429_date", "429_ms", "500", "502", "503_wait", "reset", "cut", "malformed", "not_utf8", "key")
"""Kinds of faults that any request may meet and another attempt may not."""
SLOW = ("drip", "drip_head", "hang", "large", "gzip_bomb")
"""Likewise, but these take long, and are met only when asked for."""
AT = {
    "chat": ("no_choices", "null_content", "empty_content", "no_finish"),
    "embeddings": ("wrong_length", "too_few", "too_many", "duplicate_index", "nan", "zero"),
    "rerank": ("too_few", "duplicate_index", "out_of_range", "nan"),
}
"""Kinds of faults of one API."""
STATUSES = {"429": 429, "429_date": 429, "429_ms": 429, "500": 500, "502": 502, "503_wait": 503, "key": 500}


@dataclass(frozen=True)
class Fault:
    """``kind``, or any ``status``; ``wait`` is what a 429 tells, in seconds; ``said`` is the message of the error."""

    kind: str = "status"
    wait: float = 0.1
    status: int = 500
    said: str = "the server is busy"

    @property
    def told(self) -> float | None:
        """Seconds that the client is told to wait."""
        return self.wait if self.kind in ("429", "429_date", "429_ms", "503_wait") else None


# --- good replies ----------------------------------------------------------------------------------------------------


def endpoint(path: str, body: Any) -> str:
    """Which API a request is for: chat, embeddings, rerank, or "" for none."""
    if path.endswith("/chat/completions"):
        return "chat"
    if path.endswith(("/embeddings", "/embed")):
        return "embeddings"
    return "rerank" if path.endswith("/rerank") and isinstance(body, dict) else ""


def reply_to(method: str, path: str, body: Any) -> Any:
    """The good reply; None for a path that is not served."""
    api = endpoint(path, body)
    if method == "GET":
        return {"object": "list", "data": [{"id": "tiny", "object": "model"}]} if path.endswith("/models") else None
    if api == "chat":
        return completion(chat_reply(body["messages"][-1]["content"]))
    if api == "embeddings":
        return _cohere_vectors(body) if path.endswith("/embed") else _vectors(body)
    return _ranking(path, body) if api == "rerank" else None


def completion(text: str | None, **changes: Any) -> dict[str, Any]:
    """A reply of the chat API, with changes to its only choice; a change to ``...`` removes the key.

    The server adds the model that it was asked for.
    """
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message, **changes}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "choices": [{key: value for key, value in choice.items() if value is not ...}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }


def _vectors(body: dict[str, Any]) -> dict[str, Any]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    rows: list[Any] = [vector(text, *([body["dimensions"]] if body.get("dimensions") else [])) for text in texts]
    if body.get("encoding_format") == "base64":
        rows = [base64.b64encode(array.array("f", row).tobytes()).decode() for row in rows]
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    tokens = sum(len(text) for text in texts) // 4
    return {
        "object": "list",
        "model": body["model"],
        "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _cohere_vectors(body: dict[str, Any]) -> dict[str, Any]:
    rows = [vector(text) for text in body["texts"]]
    meta = {"api_version": {"version": "2"}, "billed_units": {"input_tokens": len(rows)}}
    return {"id": "e1", "embeddings": {"float": rows}, "texts": body["texts"], "meta": meta}


def _ranking(path: str, body: dict[str, Any]) -> Any:
    """Best first, as all these servers send it."""
    is_tei = "texts" in body
    found = list(enumerate(scores(body["query"], body["texts" if is_tei else "documents"])))
    name = "score" if is_tei else "relevance_score"
    rows = [{"index": i, name: value} for i, value in sorted(found, key=lambda pair: -pair[1])]
    if is_tei:
        return rows
    rows = rows[: body.get("top_n") or len(rows)]
    if path.endswith("/v2/rerank"):
        return {"id": "r1", "results": rows, "meta": {"billed_units": {"search_units": 1}}}
    return {"model": body.get("model"), "results": rows, "usage": {"total_tokens": 10}}


# --- spoilt replies --------------------------------------------------------------------------------------------------


def broken(fault: Fault | None, good: Any, key: str, root: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the reply to a request with ``key``, when ``fault`` befalls it."""
    if fault is None or fault.kind in ("reset", "cut", "hang", "drip", "drip_head"):
        return (200, {}, _json(good)) if good is not None else (404, {}, _json(_error("there is nothing here")))
    if fault.kind == "status" or fault.kind in STATUSES:
        headers = {"429": {"Retry-After": f"{fault.wait:g}"}, "503_wait": {"Retry-After": f"{fault.wait:g}"}}
        headers |= {"429_date": {"Retry-After": ""}, "429_ms": {"Retry-After-Ms": f"{fault.wait * 1000:g}"}}
        said = f"the key {key} has no luck today" if fault.kind == "key" else fault.said.replace("KEY", key)
        return STATUSES.get(fault.kind, fault.status), headers.get(fault.kind, {}), _json(_error(said))
    if fault.kind == "redirect":
        return 307, {"Location": root.replace("127.0.0.1", "localhost") + "/elsewhere"}, b"{}"
    if fault.kind == "gzip_bomb":
        return 200, {"Content-Encoding": "gzip"}, gzip.compress(b" " * LARGE, 1)
    bodies = {
        "malformed": _json(good)[:-9],
        "page": b"<!doctype html><title>We will be back soon</title>",
        "not_utf8": b'{"choices": "\xff\xfe"}',
        "large": b" " * LARGE,
        "deep": b"[" * 100_000,
    }
    return 200, {}, bodies.get(fault.kind) or _json(_spoilt(fault.kind, copy.deepcopy(good)))


def _error(said: str) -> dict[str, Any]:
    return {"error": {"message": said, "type": "error", "code": None}}


def _json(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def _spoilt(kind: str, good: Any) -> Any:
    """A reply that is JSON and wrong."""
    if isinstance(good, dict) and "choices" in good:
        changes: dict[str, Any] = {
            "null_content": {"message": {"role": "assistant", "content": None}},
            "empty_content": {"message": {"role": "assistant", "content": " "}},
            "no_finish": {"finish_reason": None},
            "filter": {"finish_reason": "content_filter"},
            "cut_at_limit": {"finish_reason": "length"},
        }.get(kind, {})
        choices = [] if kind == "no_choices" else [good["choices"][0] | changes]
        return good | {"choices": choices}
    if isinstance(good, dict) and "embeddings" in good:
        rows = good["embeddings"]["float"]
    else:
        rows = good if isinstance(good, list) else good.get("data", good.get("results"))
    _spoil_rows(kind, rows)
    return good


def _spoil_rows(kind: str, rows: list[Any]) -> None:
    if kind == "too_few":
        del rows[-1]
    elif kind == "too_many":
        rows.append(rows[-1])
    elif kind == "reversed":  # no fault: the index says which is which
        rows.reverse()
    elif isinstance(rows[0], list):
        _spoil_vector(kind, rows[-1])
    elif kind in ("duplicate_index", "out_of_range"):
        rows[-1]["index"] = rows[0]["index"] if kind == "duplicate_index" and len(rows) > 1 else len(rows)
    elif "embedding" in rows[-1]:
        _spoil_vector(kind, rows[-1]["embedding"])
    elif kind == "nan":
        rows[-1]["score" if "score" in rows[-1] else "relevance_score"] = float("nan")


def _spoil_vector(kind: str, numbers: list[float]) -> None:
    if kind == "wrong_length":
        del numbers[-1]
    elif kind == "nan":
        numbers[0] = float("nan")
    elif kind == "zero":
        numbers[:] = [0.0] * len(numbers)


# --- the wire --------------------------------------------------------------------------------------------------------


class Sent:
    """The sending half of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def out(self, fault: Fault | None, status: int, headers: dict[str, str], body: bytes) -> bool:
        """Send a response, or what ``fault`` leaves of it; False when the connection has ended."""
        told = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        head = f"HTTP/1.1 {status} Status\r\n" + "".join(f"{name}: {value}\r\n" for name, value in told.items())
        whole = head.encode() + b"\r\n" + body
        kind = fault.kind if fault else ""
        if kind == "reset":
            self._writer.transport.abort()
        elif kind == "hang":
            await self._reader.read()  # until the client closes
        elif kind == "cut":
            self._writer.write(whole[:-9])
        elif kind in ("drip", "drip_head"):
            whole = head.encode() + b"X-Slow: " + b"x" * 10_000 if kind == "drip_head" else whole
            await self._drip(whole, 0 if kind == "drip_head" else len(head) + 2)
        else:
            self._writer.write(whole)
            await self._writer.drain()
            return True
        return False

    async def _drip(self, whole: bytes, start: int) -> None:
        """Byte by byte, from ``start`` on."""
        self._writer.write(whole[:start])
        with contextlib.suppress(ConnectionError):
            for i in range(start, len(whole)):
                self._writer.write(whole[i : i + 1])
                await self._writer.drain()
                await asyncio.sleep(DRIP_SECONDS)

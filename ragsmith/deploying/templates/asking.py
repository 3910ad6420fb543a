"""One request to the server, with the standard library alone."""

import json
import os
import urllib.error
import urllib.request
from typing import Any

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks the server itself, whatever proxy this machine goes through to others."""


def asked(url: str, body: dict[str, Any] | None = None, seconds: float = 150.0) -> tuple[int, Any]:
    """The status and the JSON that ``url`` replies; ``body`` makes it a POST. RAGSMITH_TOKEN goes along, if it is set.

    Raises:
        OSError: there is no reply.
    """
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("RAGSMITH_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with DIRECT.open(urllib.request.Request(url, data, headers), timeout=seconds) as reply:
            return reply.status, read(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, read(error.read())


def read(data: bytes) -> Any:
    """JSON as what it says, and anything else as text."""
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")

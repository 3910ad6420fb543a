"""Send a request to the server, with the standard library only."""

import json
import os
import urllib.error
import urllib.request
from typing import Any

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opener that ignores the proxy settings of this machine."""


def request(url: str, body: dict[str, Any] | None = None, seconds: float = 150.0) -> tuple[int, Any]:
    """Return the status and the JSON of the reply; a ``body`` is sent by POST, with RAGSMITH_TOKEN if it is set.

    Raises:
        OSError: there is no reply.
    """
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("RAGSMITH_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with DIRECT.open(urllib.request.Request(url, data, headers), timeout=seconds) as reply:
            return reply.status, parse(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, parse(error.read())


def parse(data: bytes) -> Any:
    """Parse JSON; return anything else as text."""
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")

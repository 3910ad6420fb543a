"""Pages of other origins, and a proxy in front of the server, configured as the documentation says."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from asking import PATIENCE, sent
from real_servers import free_port, running
from started import Start

import ragsmith
from ragsmith.errors import UsageError
from ragsmith.serving.app import ServingApp

Serving = Callable[..., ServingApp]
QUESTION = "When does the ferry to Marrow leave?"
ORIGIN = "https://rag.example.org"
TOKEN = "correct-horse-battery-staple"
DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs" / "serving.md"


def test_a_page_of_an_allowed_origin_asks_and_reads_replies(serving: Serving) -> None:
    app = serving(token=TOKEN, origins=[f"{ORIGIN}/"])
    asks = {"origin": ORIGIN, "access-control-request-method": "POST"}
    wants = {"access-control-request-headers": "authorization,content-type"}
    preflight = sent(app, "OPTIONS", "/ask", headers={**asks, **wants})  # has no token
    assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
    given = {"origin": ORIGIN, "authorization": f"Bearer {TOKEN}"}
    got = sent(app, "POST", "/ask", {"question": QUESTION}, headers=given)
    assert (got.status, got.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert "X-Request-ID" in got.headers["access-control-expose-headers"]
    refused = sent(app, "POST", "/ask", {"question": QUESTION}, headers={"origin": ORIGIN})
    assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, ORIGIN)  # the page can read it


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://rag.example.org", "https://rag.example.org:444", "null", ""]
)
def test_a_page_of_another_origin_is_refused(serving: Serving, origin: str) -> None:
    app = serving(origins=[ORIGIN])
    got = sent(app, "POST", "/ask", {"question": QUESTION}, headers={"origin": origin})
    assert (got.status, got.json["error"]["code"]) == (403, "cross_origin")
    assert "access-control-allow-origin" not in got.headers
    asks = {"origin": origin, "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in sent(app, "OPTIONS", "/ask", headers=asks).headers


def test_the_name_of_an_allowed_origin_is_a_host_and_others_are_not(serving: Serving) -> None:
    app = serving(origins=[ORIGIN])
    for host, status in (("rag.example.org", 200), ("localhost", 200), ("evil.example", 403)):
        assert sent(app, "GET", "/ready", headers={"host": host}).status == status


@pytest.mark.parametrize(
    "origin", ["*", "null", "rag.example.org", "ftp://rag.example.org", "https://rag.example.org/page", "https://"]
)
def test_an_origin_must_be_one(winner: Path, origin: str) -> None:
    with pytest.raises(UsageError, match="is not the origin of a page: give one as https:"):
        ragsmith.asgi_app(winner, origins=[origin])


@contextmanager
def nginx(home: Path, server: str, *, keeps_host: bool) -> Iterator[str]:
    """A real nginx with the documented configuration, on a port of its own and without TLS."""
    [block] = re.findall(r"```nginx\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    port = free_port()
    block = block.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    block = re.sub(r" *ssl_certificate.*;\n", "", block)
    assert "proxy_set_header Host" in block
    if not keeps_host:
        block = re.sub(r" *proxy_set_header Host .*;.*\n", "", block)
    assert "http://127.0.0.1:8000" in block
    block = block.replace("http://127.0.0.1:8000", server.rstrip("/"))
    places = "".join(
        f"{name}_temp_path {home}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    (home / "nginx.conf").write_text(
        f"{user} daemon off; pid {home}/pid; error_log {home}/errors; events {{}} "
        f"http {{ access_log off; {places} {block} }}"
    )
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    with running([program, "-p", str(home), "-c", str(home / "nginx.conf")], port, "/health", home) as url:
        yield url


@pytest.mark.processes
@pytest.mark.parametrize("keeps_host", [True, False])
def test_the_page_works_behind_a_real_nginx(start: Start, tmp_path: Path, *, keeps_host: bool) -> None:
    if shutil.which("nginx") is None and not Path("/usr/sbin/nginx").exists():
        pytest.skip("nginx is not installed: apt-get install nginx")
    server = start("--origin", ORIGIN)
    name = {"host": "rag.example.org"}
    with nginx(tmp_path, server.url, keeps_host=keeps_host) as url, httpx.Client(timeout=PATIENCE) as client:
        assert "<html" in client.get(url, headers=name).text
        page = {**name, "origin": ORIGIN}  # what a browser sends for the page
        asked = client.post(f"{url}/ask", json={"question": QUESTION}, headers=page)
        assert (asked.status_code, bool(asked.json()["answer"])) == (200, True)
        body = {"messages": [{"role": "user", "content": QUESTION}], "stream": True}
        with client.stream("POST", f"{url}/v1/chat/completions", json=body, headers=page) as stream:
            lines = [line for line in stream.iter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        assert json.loads(lines[0].removeprefix("data: "))["object"] == "chat.completion.chunk"
        other = client.post(
            f"{url}/ask", json={"question": QUESTION}, headers={**name, "origin": "https://evil.example"}
        )
        assert (other.status_code, other.json()["error"]["code"]) == (403, "cross_origin")
    assert server.stop()[0] == 0

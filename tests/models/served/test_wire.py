"""What every client of a server does with a request, whichever package or helper writes it: faults are tested here."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from fault_kinds import ANYWHERE, completion, reply_to
from fault_server import Fault, FaultServer

from ragsmith.errors import ModelError, ModelUnavailable, RefusedContent, TooLong
from ragsmith.models.served.cohere import CohereEmbedder, CohereReranker
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import OpenAIChat
from ragsmith.models.served.openai_embeddings import OpenAIEmbeddings
from ragsmith.models.served.policy import Policy
from ragsmith.models.served.rerank_endpoint import RerankEndpoint

KEY = "sk-very-secret/0123456789"
PASSWORD = "address-0123456789"
OF_ENVIRONMENT = "sk-of-the-environment-0123456789"
QUICK = Policy(attempts=3, pause=0.0, deadline=5.0, failures_in_a_row=1000)
PATHS = {
    OpenAIChat: "/v1/chat/completions",
    OpenAIEmbeddings: "/v1/embeddings",
    RerankEndpoint: "/v1/rerank",
    CohereReranker: "/v2/rerank",
    CohereEmbedder: "/v2/embed",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "CO_API_KEY"):
        monkeypatch.setenv(name, OF_ENVIRONMENT)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/of-the-environment")
    monkeypatch.setenv("CO_API_URL", "http://127.0.0.1:9/of-the-environment")
    with FaultServer() as server:
        server.answer = lambda path, body: completion("Four.") if "messages" in body else reply_to("POST", path, body)
        yield server


@pytest.fixture(params=PATHS, ids=lambda made: made.__name__)
def made(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def client(server: FaultServer, made: Any) -> Iterator[Callable[..., Any]]:
    clients: list[Any] = []

    def make(key: str = KEY, user: str = "", **policy: Any) -> Any:
        root = (server.root if "v2" in PATHS[made] else server.url).replace("://", f"://{user}")
        clients.append(made("tiny", endpoint=JsonEndpoint(root, key=key, policy=replace(QUICK, **policy))))
        return clients[-1]

    yield make
    for one in clients:
        one.provider.close()


def ask(client: Any) -> Any:
    if isinstance(client, OpenAIChat):
        return client.complete("What is due?", max_tokens=7, sample=2).text
    if hasattr(client, "score"):
        return client.score("When does the ferry leave?", ["At seven.", "Eel is smoked.", "It is red."])
    return client.embed(["the ferry", "an eel"]).tolist()


# --- what is sent ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", KEY])
def test_a_request_has_the_key_of_its_endpoint_and_nothing_of_the_environment(
    client: Callable[..., Any], server: FaultServer, made: Any, key: str
) -> None:
    ask(client(key))
    [request] = server.log
    assert request.path == PATHS[made]
    assert request.headers.get("authorization") == (f"Bearer {key}" if key else None)
    assert OF_ENVIRONMENT not in str(request.headers)


def test_each_attempt_is_announced(client: Callable[..., Any], server: FaultServer) -> None:
    one, announced = client(), []
    one.provider.on_attempt = lambda: announced.append(1)
    server.script = [Fault("500"), Fault("malformed")]
    ask(one)
    assert len(announced) == len(server.log) == 3
    assert server.log[0].body == server.log[2].body


def test_no_package_is_imported_before_it_is_asked() -> None:
    script = (
        "import sys; from ragsmith.models.loading import Loader, ModelName\n"
        "names = {'language_model': ModelName('openai:m', base_url='http://127.0.0.1:9')}\n"
        "Loader(names, ()).model('language_model')\n"
        "print({'openai', 'cohere', 'httpx', 'httpx2'} & sys.modules.keys())"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "set()\n"


# --- what may pass ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ANYWHERE, "deep"])
def test_a_fault_is_no_result(client: Callable[..., Any], server: FaultServer, kind: str) -> None:
    clean = ask(client())
    server.log.clear()
    server.script = [Fault(kind, wait=0.05)]
    assert ask(client()) == clean
    assert len(server.log) == 2
    assert server.early() == []


@pytest.mark.parametrize("kind", ["large", "gzip_bomb"])
def test_a_body_without_end_is_not_read_to_its_end(client: Callable[..., Any], server: FaultServer, kind: str) -> None:
    server.always = Fault(kind)
    with pytest.raises(ModelError, match="larger than 10,000 bytes"):
        ask(client(attempts=1, largest_response=10_000))


@pytest.mark.parametrize("kind", ["drip", "drip_head", "hang"])
def test_an_attempt_has_a_total_deadline(client: Callable[..., Any], server: FaultServer, kind: str) -> None:
    server.script = [Fault(kind)]
    began = time.monotonic()
    assert ask(client(deadline=0.3))
    assert time.monotonic() - began < 5
    assert len(server.log) == 2


@pytest.mark.parametrize(
    "reply", [b"", b"[1, 2]", b"5", b"null", b'"text"', b"{}", b"<html>", b"[" + b"1" * 9999 + b"]"]
)
def test_a_reply_of_another_shape_is_an_error_of_the_model(
    client: Callable[..., Any], server: FaultServer, reply: bytes
) -> None:
    server.answer = lambda path, body: reply
    with pytest.raises(ModelError, match=r":tiny\S*: the reply .* \(attempts: 3\)"):
        ask(client())


def test_a_server_that_is_not_there_is_an_error(made: Any) -> None:
    one = made("tiny", endpoint=JsonEndpoint("http://127.0.0.1:9/v1", policy=QUICK))
    with pytest.raises(ModelError, match=r"no answer from http://127\.0\.0\.1:9; is the server running"):
        ask(one)
    one.provider.close()


# --- what does not ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault("redirect"), ModelError),
        (Fault(status=401, said="bad key KEY"), ModelUnavailable),
        (Fault(status=402), ModelUnavailable),
        (Fault(status=403, said="KEY may not do this"), ModelUnavailable),
        (Fault(status=403, said="tiny requires moderation and your input was flagged"), RefusedContent),
        (Fault(status=413), TooLong),
        (Fault(status=429, said="insufficient_quota"), ModelUnavailable),
        (Fault(status=451), RefusedContent),
    ],
)
def test_a_refusal_is_sent_once_and_nowhere_else(
    client: Callable[..., Any], server: FaultServer, made: Any, fault: Fault, error: type[Exception]
) -> None:
    server.always = fault
    with pytest.raises(error, match=r":tiny\S*: HTTP \d+") as raised:
        ask(client())
    assert type(raised.value) is error
    assert [request.path for request in server.log] == [PATHS[made]]


# --- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [*(Fault(status=status, said="no KEY") for status in (400, 401, 429, 500)), Fault("key"), Fault("cut")]
)
def test_the_key_is_in_no_error_and_no_log(
    client: Callable[..., Any], server: FaultServer, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.always = fault
    with pytest.raises((ModelError, ModelUnavailable)) as raised:
        ask(client(user=f"me:{PASSWORD}@"))
    error = raised.value
    assert error.__cause__ is error.__context__ is None
    said = (str(error), repr(error), "".join(traceback.format_exception(error)), caplog.text)
    for text in (*said, *(str(vars(record)) for record in caplog.records)):
        assert KEY not in text
        assert PASSWORD not in text


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_client_that_is_not_closed_leaves_no_connection(server: FaultServer, made: Any) -> None:
    ask(made("tiny", endpoint=JsonEndpoint(server.root if "v2" in PATHS[made] else server.url, policy=QUICK)))
    gc.collect()
    time.sleep(0.05)  # a warning would be an error


def test_a_process_ends_at_once_and_quietly(server: FaultServer) -> None:
    server.script = [None, Fault("hang")]
    script = (
        "import threading, time; from ragsmith.models.loading import load_models, ModelName, ModelNames\n"
        f"names = ModelNames(ModelName('openai:tiny', base_url={server.url!r}))\n"
        "chat = load_models(names, ()).language_model; print(chat.complete('a', max_tokens=5, sample=0).text)\n"
        "ask = lambda: chat.complete('b', max_tokens=5, sample=0)\n"
        "threading.Thread(target=ask, daemon=True).start(); time.sleep(0.2)"
    )
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "Four.\n"

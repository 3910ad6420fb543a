"""Whole searches whose requests go off in batches: the same end, nothing paid twice, whatever befalls the command."""

from __future__ import annotations

import math
import os
import re
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer
from fault_replies import number
from served import Left, left

from ragsmith.store.store import Store

Arguments = Callable[..., list[object]]
Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with BatchServer() as server:
        yield server


@pytest.fixture
def arguments(search_arguments: Arguments, server: BatchServer) -> Arguments:
    def build(*more: object, cache: str = "cache.sqlite") -> list[object]:
        chat = ("--llm", "openai:tiny", "--base-url", server.url)
        return search_arguments(*chat, "--no-probes", "--max-evaluations", 3, "-q", *more, cache=cache)

    return build


def end(cache: Path) -> Left:
    with Store.open(cache, read_only=True) as store:
        assert store.verify() == []
        return left(store)


@pytest.fixture
def direct(
    ragsmith: Callable[..., Any],
    arguments: Arguments,
    server: BatchServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Left:
    """What the search leaves without batches."""
    monkeypatch.chdir(tmp_path)
    ended = ragsmith(*arguments(cache="direct.sqlite"))
    assert (ended.code, ended.err) == (0, "")
    server.served.clear()
    server.direct = 0
    return end(tmp_path / "direct.sqlite")


def test_a_search_in_batches_ends_as_one_without(
    direct: Left, ragsmith: Callable[..., Any], arguments: Arguments, server: BatchServer, tmp_path: Path
) -> None:
    ended = ragsmith(*arguments("--batch"))
    assert (ended.code, ended.err) == (0, "")
    assert end(tmp_path / "cache.sqlite") == direct
    assert server.direct == 0
    assert set(server.served.values()) == {1}
    assert len(server.served) == len(direct.calls)
    assert max(server.sizes) > 10
    before = len(server.batches)
    assert ragsmith(*arguments("--batch")).code == 0
    assert len(server.batches) == before


@pytest.mark.processes
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_ends_early_leaves_a_batch_that_the_same_command_fetches(
    direct: Left,
    ragsmith: Callable[..., Any],
    spawn: Spawn,
    arguments: Arguments,
    server: BatchServer,
    tmp_path: Path,
    sent: signal.Signals,
) -> None:
    for batch in (0, 3):
        server.held_from = batch
        process = spawn(*arguments("--batch", "--max-calls", len(direct.calls)))
        until = time.monotonic() + 60
        while not server.is_looked_after(batch):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
        os.killpg(process.pid, sent)
        began = time.monotonic()
        _, err = process.communicate(timeout=30)
        if sent == signal.SIGINT:
            assert time.monotonic() - began < 15
            assert process.returncode == 130, err
            assert re.search(r"warning: the batch batch_\d+ goes on at .*: the same command fetches its replies", err)
            assert "Traceback" not in err
    server.held_from = math.inf
    ended = ragsmith(*arguments("--batch"))
    assert ended.code == 0, ended.err
    assert end(tmp_path / "cache.sqlite") == direct
    assert set(server.served.values()) == {1}
    assert sum(server.sizes) == len(direct.calls)


def test_a_limit_on_calls_holds_and_what_went_off_within_it_is_fetched(
    direct: Left, ragsmith: Callable[..., Any], arguments: Arguments, server: BatchServer, tmp_path: Path
) -> None:
    most = len(direct.calls) // 2
    for _ in range(2):
        ended = ragsmith(*arguments("--batch", "--max-calls", most))
        assert ended.code == 130
        assert "raise it" in ended.err
        assert sum(server.sizes) == most
    assert ragsmith(*arguments("--batch", "--max-calls", len(direct.calls))).code == 0
    assert end(tmp_path / "cache.sqlite") == direct
    assert sum(server.sizes) == len(direct.calls)


def test_one_refused_request_and_an_expired_batch_change_nothing_else(
    direct: Left, ragsmith: Callable[..., Any], arguments: Arguments, server: BatchServer, tmp_path: Path
) -> None:
    server.ends, server.answered = ["completed", "expired"], 3
    server.rule = lambda prompt, n: (500, {"error": {"message": "busy"}}) if number(prompt, 9) == 0 and not n else None
    ended = ragsmith(*arguments("--batch"))
    assert (ended.code, ended.err) == (0, "")
    assert end(tmp_path / "cache.sqlite") == direct


MOMENTS = [
    ("POST", "/v1/files", False),
    ("POST", "/v1/files", True),
    ("POST", "/v1/batches", False),
    ("POST", "/v1/batches", True),
    ("GET", "/v1/files/", True),
]
"""Requests of a command, and whether the server has done what it is asked for when the command is killed."""


@pytest.mark.processes
def test_a_command_that_is_killed_at_any_moment_pays_for_nothing_twice(
    direct: Left,
    ragsmith: Callable[..., Any],
    spawn: Spawn,
    arguments: Arguments,
    server: BatchServer,
    tmp_path: Path,
) -> None:
    usual = server.reply
    for method, path, is_done in MOMENTS:
        killed = threading.Event()
        process: list[subprocess.Popen[str]] = []

        def reply(asked: str, where: str, *rest: Any) -> Any:
            if killed.is_set() or asked != method or not where.startswith(path) or not process:  # noqa: B023
                return usual(asked, where, *rest)
            if is_done:  # noqa: B023
                usual(asked, where, *rest)
            killed.set()  # noqa: B023
            os.killpg(process[0].pid, signal.SIGKILL)  # noqa: B023
            return None

        server.reply = reply  # type: ignore[method-assign]
        process.append(spawn(*arguments("--batch")))
        assert process[0].wait(timeout=60) == -signal.SIGKILL
    server.reply = usual  # type: ignore[method-assign]
    ended = ragsmith(*arguments("--batch"))
    assert ended.code == 0, ended.err
    assert end(tmp_path / "cache.sqlite") == direct
    assert set(server.served.values()) == {1}
    assert sum(server.sizes) == len(direct.calls)


def paid(cache: Path) -> tuple[int, int]:
    """The tokens of all replies that are kept, and those that are in the ledger."""
    with closing(sqlite3.connect(f"{cache.as_uri()}?mode=ro", uri=True)) as connection:
        kept = "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM model_call"
        spent = "SELECT coalesce((SELECT tokens_after FROM expense ORDER BY number DESC LIMIT 1), 0)"
        found: tuple[int, int] = connection.execute(f"SELECT ({kept}), ({spent})").fetchone()
        return found


@pytest.mark.processes
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_ends_as_its_replies_are_kept_knows_what_they_cost(
    direct: Left,
    ragsmith: Callable[..., Any],
    spawn: Spawn,
    arguments: Arguments,
    server: BatchServer,
    tmp_path: Path,
    sent: signal.Signals,
) -> None:
    cache = tmp_path / "cache.sqlite"
    for _ in range(3):
        before = paid(cache)[0] if cache.exists() else 0
        process = spawn(*arguments("--batch"))
        while process.poll() is None:
            with suppress(sqlite3.OperationalError):  # it has made no tables yet
                if paid(cache)[0] > before:
                    break
            time.sleep(0.001)
        assert process.poll() is None
        os.killpg(process.pid, sent)
        _, err = process.communicate(timeout=30)
        kept, spent = paid(cache)
        assert kept == spent > before, err
        if sent == signal.SIGINT:
            assert process.returncode == 130, err
            with Store.open(cache) as store:
                (run,) = store.runs()
                assert store.spending(run.key).spent.calls == sum(server.sizes)
    ended = ragsmith(*arguments("--batch"))
    assert ended.code == 0, ended.err
    assert end(cache) == direct
    kept, spent = paid(cache)
    assert kept == spent
    assert set(server.served.values()) == {1}


@pytest.mark.processes
def test_two_commands_at_once_share_their_batches(
    direct: Left, spawn: Spawn, arguments: Arguments, server: BatchServer, tmp_path: Path
) -> None:
    both = [spawn(*arguments("--batch")) for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert end(tmp_path / "cache.sqlite") == direct
    assert set(server.served.values()) == {1}
    assert sum(server.sizes) == len(direct.calls)

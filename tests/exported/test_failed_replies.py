"""Replies to a question that cannot be used are stored with what they cost, and asked for again by the next command."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer

from ragsmith.errors import StageFailed
from ragsmith.exported.pipeline import Pipeline
from ragsmith.store.store import open_store
from ragsmith.techniques.families import FAMILIES

TABLES = ("model_call", "failed_call")
QUESTION = "Who steers the ferry?"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


def reply(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "usage": usage} | {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]
    }


@pytest.fixture
def pipeline(server: FaultServer, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    chosen = {"retrieval": "bm25", "query_expansion": "multi_query", "passage_filter": "top_k"}
    plain = {one.name: "none" if "none" in one.techniques else "listing" for one in FAMILIES}
    families = {family: {"technique": name} for family, name in {**plain, **chosen}.items()}
    return Pipeline.of(tiny_folder, families, models={"language_model": "openai:m"}, base_url=server.url)


def spent(cache: Path) -> int:
    with closing(sqlite3.connect(cache)) as stored:
        counts = [stored.execute(f"select sum(calls) from {table}").fetchone()[0] for table in TABLES]
    return sum(filter(None, counts))


def test_unusable_replies_are_in_the_account_and_asked_for_again(
    pipeline: Pipeline, server: FaultServer, tmp_path: Path
) -> None:
    cache = tmp_path / "cache.sqlite"
    server.answer = lambda path, body: reply("The ferry is steered by a pilot who is sworn in by the harbour master.")
    for command in (1, 2):
        with open_store(cache) as store, pipeline.remembering(store) as cached, pytest.raises(StageFailed):
            cached.ask(QUESTION)
        assert spent(cache) == len(server.log) == 2 * command
    server.answer = lambda path, body: reply("1. Who is at the helm of the ferry?\n2. Who pilots the ferry?")
    with open_store(cache) as store, pipeline.remembering(store) as cached:
        assert cached.ask(QUESTION).answer

"""A cache that cannot be written answers what it holds, and pays for nothing that it could not store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer
from ordinary_user import as_ordinary_user

import ragsmith
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.techniques.families import FAMILIES


def test_a_cache_that_cannot_be_written_answers_what_it_holds(
    tiny_folder: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    none = {one.name: "none" if "none" in one.techniques else "listing" for one in FAMILIES}
    chosen: Any = {**none, "retrieval": "bm25", "passage_filter": "top_k"}
    families = {family: {"technique": name} for family, name in chosen.items()}
    cache = open_folder / "cache.sqlite"
    models = {"language_model": "openai:m"}
    with FaultServer() as server:
        writer, reader, other = (
            Pipeline.of(tiny_folder, families, models=models, base_url=server.url) for _ in range(3)
        )
        answer = ragsmith.ask(writer, "Who steers the ferry?", cache=cache)
        paid = len(server.log)
        before = cache.read_bytes()
        cache.chmod(0o444)
        open_folder.chmod(0o555)
        with as_ordinary_user():
            assert ragsmith.ask(reader, "Who steers the ferry?", cache=cache) == answer
            with pytest.raises(UsageError, match=r"can only be read, so a new reply or result cannot be stored"):
                ragsmith.ask(other, "Who founded the library?", cache=cache)
        assert len(server.log) == paid > 0
    assert cache.read_bytes() == before
    assert list(open_folder.iterdir()) == [cache]

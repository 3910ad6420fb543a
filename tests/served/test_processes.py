"""Several processes on one cache, a file or a database: they share the calls out, and end as one alone would."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer

from ragsmith.digest import to_canonical_json
from ragsmith.store.store import Store

Spawn = Callable[..., "subprocess.Popen[str]"]
Rows = dict[str, list[Any]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with FaultServer(latency=0.02) as server:
        yield server


@pytest.fixture
def arguments(search_arguments: Callable[..., list[object]], server: FaultServer) -> Callable[..., list[object]]:
    def build(cache: Path | str, number: int = 0) -> list[object]:
        return search_arguments(
            *("--llm", "openai:tiny", "--embedder", "openai:vectors", "--base-url", server.url, "--workers", 16),
            *("--no-probes", "--max-evaluations", 2, "--noise", 0, "--quiet"),
            cache=str(cache),
            reports=f"reports{number}",
        )

    return build


def rows(cache: Path | str) -> Rows:
    """What equal searches leave, in the same order wherever it is kept."""
    with Store.open(cache, read_only=True) as store:
        [run] = store.runs()
        assert run.state == "finished"
        evaluations = store.evaluations(run.dataset)
        results = store.results_many(row.key for row in evaluations)
        assert store.verify() == []
        return {
            "evaluations": sorted((row.key, to_canonical_json(row.configuration)) for row in evaluations),
            "results": sorted(
                (row.evaluation, row.question, row.state, to_canonical_json(row.value))
                for found in results.values()
                for row in found.values()
            ),
            "proposals": [
                to_canonical_json([row.position, row.step, row.genome, row.evaluation, row.value])
                for row in store.proposals(run.key)
            ],
        }


def asked_texts(server: FaultServer) -> list[str]:
    """What the server was sent, one by one: the prompts, and each text of the batches that were embedded."""
    sent: list[str] = []
    for request in server.log:
        if request.path.endswith("/embeddings"):
            sent += request.body["input"]
        else:
            sent.append(request.body["messages"][-1]["content"])
    return sent


def finish(process: subprocess.Popen[str]) -> None:
    _, err = process.communicate(timeout=180)
    said = [line for line in err.splitlines() if not line.startswith("warning: waiting for process ")]
    assert (process.returncode, said) == (0, [])  # on a busy machine one waits for another long enough to say so


@dataclass(frozen=True)
class End:
    """What a search was sent, and what it leaves."""

    texts: list[str]
    rows: Rows
    files: list[bytes]


def end(server: FaultServer, cache: Path | str, reports: Path) -> End:
    files = [(reports / "island" / name).read_bytes() for name in ("winner.yaml", "ranking.csv")]
    return End(sorted(asked_texts(server)), rows(cache), files)


@pytest.fixture(scope="module")
def kept() -> dict[str, End]:
    """The end of the search that was alone, once it was run."""
    return {}


@pytest.fixture
def alone(
    kept: dict[str, End],
    ragsmith: Callable[..., Any],
    arguments: Callable[..., list[object]],
    server: FaultServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> End:
    if not kept:
        monkeypatch.chdir(tmp_path)
        ended = ragsmith(*arguments("alone.sqlite"))
        assert (ended.code, ended.err) == (0, "")
        kept["end"] = end(server, tmp_path / "alone.sqlite", tmp_path / "reports0")
        server.log.clear()
    return kept["end"]


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_share_a_cache_and_pay_nothing_twice(
    alone: End,
    spawn: Spawn,
    arguments: Callable[..., list[object]],
    server: FaultServer,
    place: Path | str,
    tmp_path: Path,
    processes: int,
) -> None:
    assert len(alone.texts) == len(set(alone.texts)) > 100
    started = [spawn(*arguments(place, number)) for number in range(processes)]
    for process in started:
        finish(process)
    for number in range(processes):
        assert end(server, place, tmp_path / f"reports{number}") == alone

"""Searches that may spend so much and no more: what the server has seen is what counts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer
from rows import rows
from served import left

from ragsmith.store.store import Store

Arguments = Callable[..., list[object]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with FaultServer(latency=0.01) as server:
        yield server


@pytest.fixture
def limited(search_arguments: Arguments, server: FaultServer, tmp_path: Path) -> Callable[..., list[object]]:
    """The arguments of a search that needs 123 calls, with 32 questions in flight."""

    def arguments(*more: object) -> list[object]:
        return search_arguments(
            *("--llm", "openai:tiny", "--base-url", server.url, "--workers", 32, "--no-probes"),
            *("--max-evaluations", 2, "--no-faithfulness", *more),
            cache=str(tmp_path / "cache.sqlite"),
            reports=str(tmp_path / "reports"),
        )

    return arguments


def paid_twice(server: FaultServer) -> int:
    return len(server.log) - len({request.digest for request in server.log})


def test_calls_stay_within_their_limit_over_resumes_and_end_alike_when_it_is_raised(
    ragsmith: Callable[..., Any], limited: Arguments, server: FaultServer, tmp_path: Path
) -> None:
    for _ in range(3):
        ended = ragsmith(*limited("--max-calls", 60))
        assert (ended.code, len(server.log)) == (130, 60)
        assert "--max-calls 60" in ended.err
        assert "raise it" in ended.err
    seen, code = 60, 130
    for limit in (80, 1000):
        code = ragsmith(*limited("--max-calls", limit)).code
        assert seen < len(server.log) <= limit
        seen = len(server.log)
    assert code == 0
    assert paid_twice(server) == 0
    with Store.open(tmp_path / "cache.sqlite") as store:
        raised = left(store)
    (tmp_path / "cache.sqlite").unlink()
    assert ragsmith(*limited()).code == 0
    assert len(server.log) == 2 * seen
    with Store.open(tmp_path / "cache.sqlite") as store:
        assert left(store) == raised


def test_money_stays_within_its_limit(
    ragsmith: Callable[..., Any], limited: Arguments, server: FaultServer, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("openai:tiny: {input: 100, output: 200, requests: 10}\n")
    each = (12 * 100 + 3 * 200) / 1_000_000 + 10 / 1000
    for limit in (0.5, 0.5, 0.9):
        ended = ragsmith(*limited("--max-cost", limit, "--prices", prices))
        assert ended.code == 130
        assert f"--max-cost {limit}" in ended.err
        assert 0 < each * len(server.log) <= limit
    ended = ragsmith(*limited("--max-cost", 100, "--prices", prices))
    assert ended.code == 0
    told = re.search(r"([\d.]+) in money", ended.out)
    assert told
    assert float(told[1]) >= round(each * len(server.log), 4), "a failed request may have been billed"
    assert paid_twice(server) == 0


def test_a_limit_after_the_first_candidates_pauses_the_run(
    ragsmith: Callable[..., Any], limited: Arguments, server: FaultServer, tmp_path: Path
) -> None:
    ended = ragsmith(*limited("--strategy", "random"))
    assert ended.code == 0
    needed = len(server.log)
    (tmp_path / "cache.sqlite").unlink()
    ended = ragsmith(*limited("--strategy", "random", "--max-calls", needed - 5))
    assert ended.code == 0
    assert re.search(r"paused: .*--max-calls", ended.err)
    assert len(server.log) == 2 * needed - 5


def test_several_data_sets_share_a_limit(
    ragsmith: Callable[..., Any], limited: Arguments, server: FaultServer, tiny_folder: Path, tmp_path: Path
) -> None:
    """The other islands have other questions, so that no reply of the first serves it."""
    for name in ("harrow", "barrow"):
        other = shutil.copytree(tiny_folder, tmp_path / name)
        for path in (file for file in other.rglob("*") if file.is_file()):
            text = path.read_text().replace("Marrow", name.title()).replace("name: island", f"name: {name}")
            path.write_text(text.replace('"question": "', f'"question": "On {name.title()}: '))
    more = ("--dataset", tmp_path / "harrow", "--dataset", tmp_path / "barrow", "--json")
    assert ragsmith(*limited()).code == 0
    alone = len(server.log)
    (tmp_path / "cache.sqlite").unlink()
    for _ in range(2):
        ended = ragsmith(*limited("--max-calls", alone + 20, *more))
        said = json.loads(ended.out)["datasets"]
        assert ended.code == 130
        assert [said[name]["state"] for name in ("island", "harrow", "barrow")] == ["finished", "waiting", "waiting"]
        assert len(server.log) == alone + alone + 20
    ended = ragsmith(*limited("--max-calls", 10 * alone, *more))
    assert ended.code == 0
    assert {one["state"] for one in json.loads(ended.out)["datasets"].values()} == {"finished"}
    assert paid_twice(server) == alone  # the cache of the first search was removed


@pytest.mark.parametrize(("more", "message"), rows("limits that cannot be kept"))
def test_a_limit_that_cannot_be_kept_is_refused_before_anything_is_sent(
    ragsmith: Callable[..., Any],
    limited: Arguments,
    server: FaultServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[object, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.yaml").write_text("openai:huge: {input: 1, output: 1}\n")
    ended = ragsmith(*limited(*more))
    assert ended.code == 2
    assert re.search(message, ended.err)
    assert ended.err.count("\n") == 1
    assert server.log == []

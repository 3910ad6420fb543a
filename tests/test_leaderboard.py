"""The leaderboard: rows are what searches found, the page is what is kept, and a chat model is not asked unasked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import leaderboard
import pytest
from fault_server import FaultServer

import ragsmith
from ragsmith.datasets.bundled import bundled_domains
from ragsmith.errors import UsageError
from ragsmith.gateway.budget import BLOCK_CALLS
from ragsmith.store.store import open_store


@pytest.fixture(scope="module")
def islands(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> list[Path]:
    home = tmp_path_factory.mktemp("islands")
    found = []
    for name in ("marrow", "harrow"):
        folder = shutil.copytree(tiny_folder, home / name)
        for path in (file for file in folder.rglob("*") if file.is_file()):
            path.write_text(path.read_text().replace("Marrow", name.title()).replace("name: island", f"name: {name}"))
        found.append(folder)
    return found


@pytest.fixture(scope="module")
def made(islands: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small search of both."""
    folder = tmp_path_factory.mktemp("made")
    assert leaderboard.main([*arguments(islands, folder), "--workers", "1"]) == 0
    return folder / "board.md"


def arguments(islands: list[Path], folder: Path, *more: str) -> list[str]:
    named = [part for one in islands for part in ("--dataset", str(one))]
    small = ("--preset", "quick", "--max-evaluations", "3", "--cache", str(folder / "cache.sqlite"))
    return [*named, *small, "--output", str(folder / "board.md"), *more]


def rows(text: str, table: int) -> list[list[str]]:
    """The cells of a table of the page, below its head."""
    blocks = [block for block in text.split("\n\n") if block.startswith("| ")]
    lines = [line.strip("| ").split(" | ") for line in blocks[table].splitlines()]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def test_the_page_is_what_the_kept_numbers_say() -> None:
    kept = leaderboard.PAGE.with_suffix(".json")
    assert leaderboard.PAGE.exists() == kept.exists()
    if kept.exists():
        sections = leaderboard.read(kept)
        names = list(sections[0]["domains"])
        assert leaderboard.PAGE.read_text("utf-8") == leaderboard.page(sections, names), (
            "run  tools/leaderboard.py --page"
        )


def test_rows_are_what_the_searches_found(made: Path, islands: list[Path]) -> None:
    text, sections = made.read_text(), json.loads(made.with_suffix(".json").read_text())
    [section] = sections
    assert list(section["domains"]) == ["marrow", "harrow"]
    scores = {row[0]: row[1:] for row in rows(text, 0)}
    differences = {row[0]: row[1:] for row in rows(text, 1)}
    for place, folder in enumerate(islands):
        found = ragsmith.search(
            folder, preset="quick", max_evaluations=3, cache=made.parent / "cache.sqlite", workers=1
        )
        assert found.computed == 0
        for finalist in found.test:
            if finalist.name in leaderboard.PIPELINES:
                mean = finalist.test.scores["fitness"].mean
                assert scores[leaderboard.PIPELINES[finalist.name]][place].startswith(f"{mean:.3f} [")
        by_name = {one.name: one.difference for one in found.verdict.comparisons}
        if its := by_name.get("naive"):
            sign = "+" if its.mean_difference > 0 else ""
            assert differences["naive RAG"][place].startswith(f"{sign}{its.mean_difference:.3f}".replace("-", "−"))
    assert list(scores) == list(leaderboard.PIPELINES.values())


def test_the_page_is_written_again_from_what_is_kept(made: Path, islands: list[Path]) -> None:
    before = made.read_text()
    made.unlink()
    assert leaderboard.main([*arguments(islands, made.parent), "--page"]) == 0
    assert made.read_text() == before


def section(models: str, fitness: float) -> dict[str, Any]:
    one = {"pipeline": "bm25", "fitness": fitness, "interval": [0.1, 0.9], "calls": 1.0, "questions": 10}
    level = {"mean": 0.0, "error": 0.0, "same": True}
    found = {"questions": 10, "pipelines": {"winner": one}, "differences": {"bm25": level}}
    return {"models": models, "domains": {"marrow": found}, "pooled": {}}


def test_rows_of_other_models_are_kept_and_those_of_the_same_replaced() -> None:
    old = [section(leaderboard.EMBEDDED, 0.4), section("openai:big", 0.6)]
    new = leaderboard.kept(old, section("openai:big", 0.7))
    assert [one["models"] for one in new] == [leaderboard.EMBEDDED, "openai:big"]
    text = leaderboard.page(new, ["marrow"])
    assert "## With openai:big" in text
    assert "0.700 [0.100, 0.900]" in text
    assert "0.600" not in text
    assert "is the winner" in text
    assert leaderboard.COMMAND not in text


def test_a_domain_that_is_searched_again_keeps_the_others_and_is_pooled_with_them() -> None:
    def found(mean: float) -> dict[str, Any]:
        return {"questions": 10, "pipelines": {}, "differences": {"bm25": {"mean": mean, "error": 0.01}}}

    old = {"models": leaderboard.EMBEDDED, "domains": {"marrow": found(0.1), "harrow": found(0.2)}, "pooled": {}}
    [new] = leaderboard.kept([old], {**old, "domains": {"marrow": found(0.3)}})
    assert new["domains"] == {"marrow": found(0.3), "harrow": found(0.2)}
    assert new["pooled"]["bm25"]["mean"] == pytest.approx(0.25)
    assert new["pooled"]["bm25"]["domains"] == 2


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with FaultServer() as running:
        yield running


def test_a_chat_model_is_asked_only_within_a_limit_and_after_what_it_costs(
    islands: list[Path], tmp_path: Path, server: FaultServer, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = ("--llm", "openai:tiny", "--base-url", server.url, "--prices", "1000/2000")
    assert leaderboard.main(arguments(islands, tmp_path, *chat)) == 0
    said = capsys.readouterr().out.splitlines()
    assert server.log == []
    assert [line.partition(":")[0] for line in said[:2]] == [str(one) for one in islands]
    assert said[2].startswith("openai:tiny, all 2: ")
    assert all(" in money" in line for line in said[:3])
    assert "nothing was sent" in said[3]
    assert not (tmp_path / "board.md").exists()
    assert leaderboard.main(arguments(islands, tmp_path, *chat, "--max-calls", "10")) == 130
    assert capsys.readouterr().out.splitlines() == said[:3], "it says so before it asks"
    assert len(server.log) == 10
    assert not (tmp_path / "board.md").exists()


def test_prices_are_a_file_or_those_of_the_model_for_a_million_tokens() -> None:
    assert leaderboard._prices(".4/1.6", "openai:tiny") == {"openai:tiny": {"input": 0.4, "output": 1.6}}
    assert leaderboard._prices("0/2", "openai:tiny") == {"openai:tiny": {"input": 0.0, "output": 2.0}}
    for other in ("prices.yaml", "folder/4", None):
        assert leaderboard._prices(other, "openai:tiny") == other


def test_after_a_kill_the_same_command_pays_for_what_is_missing_alone_within_one_limit(
    islands: list[Path], tmp_path: Path, server: FaultServer
) -> None:
    server.latency = 0.01
    chat = ("--llm", "openai:tiny", "--base-url", server.url, "--prices", ".4/1.6", "--workers", "4")
    given = arguments(islands, tmp_path, *chat, "--max-cost", "10")
    process = subprocess.Popen([sys.executable, leaderboard.__file__, *given], start_new_session=True)
    try:
        deadline = time.monotonic() + 300
        while len(server.log) < 40:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    lost, before = server.most_in_flight, len(server.log)
    assert leaderboard.main(given) == 0
    sent = Counter(request.digest for request in server.log)
    assert sent.total() > before
    assert sent.total() - len(sent) <= lost, "only what was in flight is sent again"
    [found] = json.loads((tmp_path / "board.json").read_text())
    assert (found["models"], list(found["domains"])) == ("openai:tiny", ["marrow", "harrow"])
    with open_store(tmp_path / "cache.sqlite") as store:
        spent = sum(store.spending(row.key).spent.calls for row in store.runs())
    assert len(server.log) <= spent <= len(server.log) + BLOCK_CALLS, "a killed process leaves what it had reserved"


def test_models_of_a_file_are_said_to_cost_what_the_same_named_one_does(
    islands: list[Path], tmp_path: Path, server: FaultServer, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("language_model: openai:tiny\n")
    said = []
    for chosen in (("--llm", "openai:tiny"), ("--models", str(file))):
        assert leaderboard.main(arguments(islands, tmp_path, *chosen, "--base-url", server.url)) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "openai:tiny, all 2: " in said[1]
    assert server.log == []


@pytest.mark.parametrize(
    ("unlike", "said"),
    [
        (("--dataset", "law"), "a search of --dataset law is not one"),
        (("--preset", "quick"), "one with --preset quick is not one"),
        (("--max-evaluations", "3"), "one with --max-evaluations 3 is not one"),
    ],
)
def test_what_is_not_published_is_refused_before_it_is_searched(
    unlike: tuple[str, str], said: str, published: Path, tmp_path: Path
) -> None:
    before = published.read_bytes()
    with pytest.raises(UsageError, match=rf"{said}: name another page with --output FILE"):
        leaderboard.main([*unlike, "--cache", str(tmp_path / "cache.sqlite")])
    assert published.read_bytes() == before
    assert not (tmp_path / "cache.sqlite").exists()


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is published, and a page of it, in a folder of its own."""
    monkeypatch.setattr(leaderboard, "PAGE", tmp_path / "leaderboard.md")
    file = tmp_path / "leaderboard.json"
    file.write_text(json.dumps([section(leaderboard.EMBEDDED, 0.4)]))
    parser = leaderboard._parsed
    monkeypatch.setattr(
        leaderboard, "_parsed", lambda given: parser(["--output", str(file.with_suffix(".md")), *given])
    )
    return file


@pytest.mark.parametrize("ended", [{"failed": {"harrow": "it broke"}}, {"waiting": {"harrow": "no time"}}])
def test_a_run_of_which_a_domain_is_missing_leaves_what_is_published(
    ended: dict[str, dict[str, str]],
    published: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {name: SimpleNamespace(state="finished") for name in bundled_domains()[1:]}
    of_all = SimpleNamespace(found=found, **{"failed": {}, "waiting": {}, **ended})
    monkeypatch.setattr(ragsmith, "search_each", lambda *_, **__: of_all)
    monkeypatch.setenv("RAGSMITH_LEDGER", str(published.parent / "looks.sqlite"))
    before = published.read_bytes()
    assert leaderboard.main([]) == (1 if "failed" in ended else 130)
    assert published.read_bytes() == before
    assert f"leaderboard.md is left as it is, for {len(found)} of {len(bundled_domains())} domains ended" in (
        capsys.readouterr().err
    )

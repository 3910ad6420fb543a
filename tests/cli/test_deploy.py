"""``ragsmith deploy``: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ragsmith.cli import run as command
from ragsmith.cli.app import load
from ragsmith.datasets.dataset import load_documents


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents and a pipeline that is about them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "harbour.md").write_text("The master of Aldham collects the salt dues.")
    families = ("pre_embedding", "query_expansion", "reranking", "passage_augment", "passage_compress")
    pipeline = {
        **{family: {"technique": "none"} for family in (*families, "post_generation")},
        "retrieval": {"technique": "bm25"},
        "passage_filter": {"technique": "top_k"},
        "prompt_maker": {"technique": "listing"},
    }
    dataset = {"name": "annals", "documents": "documents", "digest": load_documents("documents").digest}
    (tmp_path / "winner.yaml").write_text(yaml.safe_dump({"dataset": dataset, "pipeline": pipeline}))
    return tmp_path


def run(*arguments: str) -> int:
    return command(["deploy", "winner.yaml", *arguments])


def test_what_was_made_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-o", "kit", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["folder"] == "kit"
    assert set(said["files"]) == {
        path.relative_to("kit").as_posix() for path in Path("kit").rglob("*") if path.is_file()
    }
    assert (said["extras"], said["keys"], said["services"]) == (["serve"], [], [])  # words alone: no vectors to hold
    assert run("-o", "kit", "--force") == 0
    assert "starter kit  kit" in capsys.readouterr().out
    asking = ["ask", "kit/winner.yaml", "Who collects the salt dues?"]
    asked = CliRunner().invoke(load(), asking, catch_exceptions=False)
    assert "master of Aldham" in asked.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "documents"], "is no starter kit"),
        (["-o", "documents", "--force"], "is no starter kit"),
        (["-o", "winner.yaml"], "is a file"),
        (["-o", "kit", "--documents", "nowhere"], "names no folder"),
        (["-o", "kit", "--dataset", "nowhere"], "neither a folder nor the name of a data set"),
        (["-o", "kit", "--dataset", "law", "--documents", "documents"], "give one of them"),
        ([], "needs -o"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    before = sorted(here.rglob("*"))
    assert run(*arguments) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert sorted(here.rglob("*")) == before


def test_a_kit_is_replaced_only_where_that_is_asked_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-o", "kit") == 0
    before = {path: path.stat().st_mtime_ns for path in Path("kit").rglob("*") if path.is_file()}
    assert run("-o", "kit") == 2
    assert "--force" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in Path("kit").rglob("*") if path.is_file()} == before


def test_programs_that_were_edited_are_not_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-o", "kit") == 0
    for name in ("pipeline.py", "server.py", "compose.yaml", "Dockerfile"):
        with (here / "kit" / name).open("a") as file:
            file.write("# mine\n")
    before = {path: path.read_bytes() for path in Path("kit").rglob("*") if path.is_file()}
    assert run("-o", "kit", "--force") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "Dockerfile, compose.yaml, pipeline.py, server.py were put there, or edited, since the kit was made" in said
    assert {path: path.read_bytes() for path in Path("kit").rglob("*") if path.is_file()} == before

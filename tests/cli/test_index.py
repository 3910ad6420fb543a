"""``ragsmith index`` and ``ragsmith ask`` as a collection grows and shrinks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from ragsmith.cli.app import load
from ragsmith.datasets.dataset import load_documents
from ragsmith.errors import DatasetError, UsageError
from ragsmith.exported.collection import Collection
from ragsmith.index.artifact_cache import ArtifactCache

DOCUMENTS = {
    "harbour": "The harbour of Aldham has levied salt dues since 1402. The master collects the salt dues.",
    "tower": "The tower wall of Brenwick was mended after the flood of 1620.",
    "bell": "The bell of Corsey is rung for every ship.",
}


def write(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents and a pipeline that was found on them."""
    monkeypatch.chdir(tmp_path)
    documents = write(tmp_path / "documents", DOCUMENTS)
    plain = ("query_expansion", "reranking", "passage_augment", "passage_compress", "post_generation")
    pipeline = {
        "pre_embedding": {"technique": "none"},
        "retrieval": {"technique": "hybrid"},
        "passage_filter": {"technique": "top_k", "parameters": {"k": 1}},
        "prompt_maker": {"technique": "listing"},
        **{family: {"technique": "none"} for family in plain},
    }
    dataset = {"name": "annals", "documents": "documents", "digest": load_documents(documents).digest}
    (tmp_path / "winner.yaml").write_text(yaml.safe_dump({"dataset": dataset, "pipeline": pipeline}))
    return tmp_path


def said(*arguments: str) -> Any:
    done = CliRunner().invoke(load(), [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def ask(question: str, *further: str) -> Any:
    return said("ask", "winner.yaml", question, *further)


def test_an_index_grows_and_shrinks_and_is_asked_as_it_is(here: Path) -> None:
    built = said("index", "build", "winner.yaml")
    assert built == {"documents": 3, "chunks": 3, "changes": {"added": [], "changed": [], "removed": []}}
    new = write(
        here / "new", {"ferry": "The ferry of Dunmere carries sheep.", "bell": "The bell of Corsey is cracked."}
    )
    added = said("index", "add", "winner.yaml", "new")
    assert added["changes"] == {"added": ["ferry"], "changed": ["bell"], "removed": []}
    found = ask("What does the ferry of Dunmere carry?", "--indexed")
    assert [source["doc"] for source in found["sources"]] == ["ferry"]
    assert found["changes"]["added"] == ["ferry"]
    removed = said("index", "remove", "winner.yaml", "ferry", "tower")
    assert removed == {"documents": 2, "chunks": 2, "changes": {"added": [], "changed": ["bell"], "removed": ["tower"]}}
    assert (new / "ferry.md").exists()
    assert ask("What does the ferry of Dunmere carry?", "--indexed")["sources"][0]["doc"] != "ferry"
    assert said("index", "add", "winner.yaml", str(new / "ferry.md"))["documents"] == 3
    status = said("index", "status", "winner.yaml")
    assert status["index"]["documents"] == 3
    assert {kept["kind"] for kept in status["kept"]} == {"documents", "vectors", "words"}
    assert ask("bell", "--documents", "documents")["changes"] == {"added": [], "changed": [], "removed": []}


def test_in_words(here: Path) -> None:
    run = CliRunner().invoke(load(), ["index", "build", "winner.yaml"], catch_exceptions=False)
    assert run.stdout.splitlines() == [
        "3 documents, 3 chunks",
        "against what the pipeline was found on: none added, changed or removed",
    ]
    status = CliRunner().invoke(load(), ["index", "status"], catch_exceptions=False).stdout
    assert "vectors" in status
    (here / "documents" / "tower.md").unlink()
    asking = ["ask", "winner.yaml", "bell", "--documents", "documents"]
    asked = CliRunner().invoke(load(), asking, catch_exceptions=False)
    assert "1 removed" in asked.stderr


def test_nothing_is_kept_before_something_was_built(here: Path) -> None:
    assert said("index", "status") == {"folder": "cache.sqlite.indexes", "kept": [], "index": None}


def test_what_is_wrong_is_said(here: Path) -> None:
    collection = Collection(Path("winner.yaml"), ArtifactCache("cache.sqlite.indexes"))
    for attempt in (collection.read, lambda: collection.add(["documents"]), lambda: collection.remove(["bell"])):
        with pytest.raises(UsageError, match=r"there is no index of winner\.yaml yet: build it with"):
            attempt()
    before = collection.start(load_documents("documents").documents)
    with pytest.raises(DatasetError, match="has no 'bells': did you mean") as wrong:
        collection.remove(["bells", "bell", "ferry"])
    assert len(wrong.value.mistakes) == 2
    with pytest.raises(UsageError, match="all documents that the index holds"):
        collection.remove(list(DOCUMENTS))
    (here / "picture.png").write_bytes(b"\x89PNG")
    with pytest.raises(DatasetError) as unread:
        collection.add(["picture.png", "nowhere.md", "documents"])
    assert [line.partition(":")[0] for line in unread.value.mistakes] == ["picture.png", "nowhere.md"]
    assert collection.read() == before


def test_a_damaged_collection_is_not_believed(here: Path) -> None:
    collection = Collection(Path("winner.yaml"), ArtifactCache("cache.sqlite.indexes"))
    collection.start(load_documents("documents").documents)
    file = next(here.glob("cache.sqlite.indexes/collections/*.jsonl"))
    file.write_text(file.read_text().replace("1402", "1403"))
    for attempt in (collection.read, lambda: collection.start(load_documents("documents").documents)):
        with pytest.raises(UsageError, match=r"is damaged: put a copy of the file there, or .* --replace$"):
            attempt()
    collection.start(load_documents("documents").documents, replace=True)
    assert len(collection.read().documents) == 3


def test_documents_that_were_added_are_not_given_up_by_building_again(here: Path) -> None:
    write(here / "new", {"ferry": "The ferry of Dunmere carries sheep."})
    said("index", "build", "winner.yaml")
    said("index", "add", "winner.yaml", "new")
    refused = CliRunner().invoke(load(), ["index", "build", "winner.yaml"])
    assert isinstance(refused.exception, UsageError)
    assert "holds what is not among these documents, 1 in all (ferry)" in str(refused.exception)
    assert said("index", "status", "winner.yaml")["index"]["documents"] == 4
    write(here / "documents", {"ferry": "The ferry of Dunmere carries goats."})
    assert said("index", "build", "winner.yaml", "--documents", "documents")["documents"] == 4, "none is given up"
    (here / "documents" / "ferry.md").unlink()
    assert said("index", "build", "winner.yaml", "--replace")["documents"] == 3


def test_of_two_files_with_one_text_each_can_be_removed_and_the_other_is_asked(here: Path) -> None:
    """The data set keeps one of them; the index must not lose the text with it, nor not know the other."""
    write(here / "documents", {"zebra": DOCUMENTS["bell"]})
    assert said("index", "build", "winner.yaml", "--documents", "documents")["documents"] == 3
    assert said("index", "remove", "winner.yaml", "bell")["documents"] == 3
    assert ask("Which bell is rung for every ship?", "--indexed")["sources"][0]["doc"] == "zebra"
    assert said("index", "add", "winner.yaml", "documents")["documents"] == 3
    assert said("index", "remove", "winner.yaml", "zebra")["documents"] == 3
    assert ask("Which bell is rung for every ship?", "--indexed")["sources"][0]["doc"] == "bell"


def test_a_folder_that_is_added_brings_both_files_of_one_text(here: Path) -> None:
    said("index", "build", "winner.yaml")
    ferry = "The ferry of Dunmere carries sheep."
    write(here / "new", {"ferry": ferry, "yacht": ferry})
    assert said("index", "add", "winner.yaml", "new")["documents"] == 4
    assert said("index", "remove", "winner.yaml", "ferry")["changes"]["added"] == ["yacht"]
    assert ask("What does the ferry of Dunmere carry?", "--indexed")["sources"][0]["doc"] == "yacht"

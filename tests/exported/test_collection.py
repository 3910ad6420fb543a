"""The documents of the index of a pipeline: their key, and atomic writes."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragsmith.errors import SpaceError, UsageError
from ragsmith.exported.collection import Collection
from ragsmith.index.artifact_cache import ArtifactCache
from ragsmith.types import Document

Content = dict[str, Any]

DOCUMENTS = [Document("bell", "The bell", "The bell of Corsey is rung for every ship.")]
OTHERS = [*DOCUMENTS, Document("tower", "The tower", "The tower of Brenwick was mended in 1620.")]


def content() -> Content:
    return {
        "format": 1,
        "dataset": {"name": "annals", "documents": "documents", "digest": "ab12"},
        "chunk_size": 400,
        "pipeline": {
            "pre_embedding": {"technique": "parent_document", "parameters": {"size": 200}},
            "retrieval": {"technique": "hybrid", "parameters": {"weight": 0.5}},
            "passage_filter": {"technique": "top_k", "parameters": {"k": 4}},
        },
        "expected": {"search": {"questions": 9, "fitness": 0.5}},
    }


def written(folder: Path, change: Callable[[Content], object] = lambda _: None, name: str = "winner.yaml") -> Path:
    made = content()
    change(made)
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(yaml.safe_dump(made))
    return folder / name


def test_documents_are_held_with_their_fields_and_read_from_an_earlier_version(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path / "shelf")
    fields = {"year": 2023.0, "signed": date(2023, 5, 31), "tags": ("rent", "north"), "tenant": "acme"}
    collection = Collection(written(tmp_path), shelf)
    collection.start([replace(DOCUMENTS[0], fields=fields)])
    assert collection.read().documents[0].fields == fields
    [path] = (shelf.folder / "collections").glob("*.jsonl")
    record = {name: value for name, value in asdict(DOCUMENTS[0]).items() if name != "fields"}
    line = json.dumps(record).encode()
    path.write_bytes(line + b"\n" + blake2b(line, digest_size=16).hexdigest().encode() + b"\n")
    assert collection.read().documents == tuple(DOCUMENTS)


def held(winner: Path, shelf: ArtifactCache) -> bool:
    try:
        return Collection(winner, shelf).read().documents == tuple(DOCUMENTS)
    except UsageError as error:
        if "there is no index of" not in str(error):
            raise
        return False


@pytest.mark.parametrize(
    "change",
    [
        lambda known: known["pipeline"]["passage_filter"]["parameters"].update(k=2),
        lambda known: known["pipeline"].update(prompt_maker={"technique": "listing"}),
        lambda known: known["pipeline"]["retrieval"].update(fitted={"numbers": {"weight": 1}, "held_out": []}),
        lambda known: known["expected"]["search"].update(fitness=0.75),
        lambda known: known["dataset"].update(documents="elsewhere"),
        lambda known: known.update(chunk_overlap=0),
        lambda known: known.update(run={"seed": 4}, ragsmith="99"),
    ],
)
def test_what_changes_no_index_leaves_what_is_held(change: Callable[[Content], object], tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path / "shelf")
    Collection(written(tmp_path), shelf).start(DOCUMENTS)
    assert held(written(tmp_path, change), shelf)


@pytest.mark.parametrize(
    "change",
    [
        lambda known: known["dataset"].update(digest="ab13"),
        lambda known: known.update(chunk_size=401),
        lambda known: known.update(chunk_overlap=40),
        lambda known: known["pipeline"].update(pre_embedding={"technique": "none"}),
        lambda known: known["pipeline"]["pre_embedding"]["parameters"].update(size=201),
        lambda known: known["pipeline"]["retrieval"].update(technique="vector"),
        lambda known: known["pipeline"]["retrieval"]["parameters"].update(weight=0.25),
    ],
)
def test_another_index_holds_documents_of_its_own(change: Callable[[Content], object], tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path / "shelf")
    Collection(written(tmp_path), shelf).start(DOCUMENTS)
    other = written(tmp_path, change, "other.yaml")
    assert not held(other, shelf)
    Collection(other, shelf).start(OTHERS)
    assert held(written(tmp_path), shelf)


def test_another_spelling_name_or_folder_of_the_file_loses_nothing(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path / "shelf")
    winner = written(tmp_path)
    Collection(winner, shelf).start(DOCUMENTS)
    winner.write_text(f"# The one of May.\n{yaml.safe_dump(content(), sort_keys=False, default_flow_style=True)}")
    assert held(winner, shelf)
    assert held(written(tmp_path / "archive", name="annals.yaml"), shelf)


def test_without_a_digest_documents_are_told_by_where_they_are(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path / "shelf")

    def at(place: str) -> Callable[[Content], object]:
        return lambda known: known.update(dataset={"name": "annals", "documents": place})

    Collection(written(tmp_path / "here", at("documents")), shelf).start(DOCUMENTS)
    assert held(written(tmp_path / "there", at("../here/documents")), shelf)
    assert not held(written(tmp_path / "there", at("documents")), shelf)


def test_what_is_no_pipeline_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "winner.yaml").write_text("- not\n- a pipeline\n")
    with pytest.raises(SpaceError, match=r"winner\.yaml:1: this is not a pipeline"):
        Collection(tmp_path / "winner.yaml", ArtifactCache(tmp_path / "shelf"))


@pytest.mark.skipif(os.name != "posix", reason="folders are not opened elsewhere")
def test_the_name_of_the_file_reaches_the_disk_after_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, seen = ArtifactCache(tmp_path / "shelf"), []

    def synced(file: Any) -> None:
        number = file if isinstance(file, int) else file.fileno()
        seen.append((stat.S_ISDIR(os.fstat(number).st_mode), bool(list(tmp_path.glob("shelf/*/*.jsonl")))))

    winner = written(tmp_path)
    monkeypatch.setattr(os, "fsync", synced)
    Collection(winner, shelf).start(DOCUMENTS)
    assert seen == [(False, False), (True, True)]  # (a folder, the collection has its name)


def test_a_full_disk_leaves_what_was_held_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    collection = Collection(written(tmp_path), ArtifactCache(tmp_path / "shelf"))
    collection.start(DOCUMENTS)
    before = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            collection.start(OTHERS)
    assert sorted(tmp_path.rglob("*")) == before
    assert collection.read().documents == tuple(DOCUMENTS)


def test_of_two_documents_with_the_same_text_one_stays_when_the_other_goes(tmp_path: Path) -> None:
    winner = written(tmp_path)
    collection = Collection(winner, ArtifactCache(tmp_path / "shelf"))
    copy = Document("zebra", "The bell", DOCUMENTS[0].text)
    assert collection.start([*OTHERS, copy]).documents == tuple(OTHERS)
    left = collection.remove(["bell"])
    assert {document.id: document.text for document in left.documents} == {"tower": OTHERS[1].text, "zebra": copy.text}


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("place", [0, 40, -1, -20])
def test_whatever_byte_of_the_file_changed_it_is_said_to_be_damaged(bits: int, place: int, tmp_path: Path) -> None:
    collection = Collection(written(tmp_path), ArtifactCache(tmp_path / "shelf"))
    collection.start(OTHERS)
    [file] = tmp_path.glob("shelf/*/*.jsonl")
    content = bytearray(file.read_bytes())
    content[place] ^= bits
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"\.jsonl is damaged: restore a copy of the file, or replace"):
        collection.read()


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.update(colour="red"),
        lambda fields: fields.pop("pages"),
        lambda fields: fields.update(modality="smell"),
        lambda fields: fields.update(pages=None),
    ],
)
def test_documents_of_another_version_are_one_sentence(change: Callable[[Content], object], tmp_path: Path) -> None:
    collection = Collection(written(tmp_path), ArtifactCache(tmp_path / "shelf"))
    collection.start(DOCUMENTS)
    [file] = tmp_path.glob("shelf/*/*.jsonl")
    fields = json.loads(file.read_bytes().splitlines()[0])
    change(fields)
    line = json.dumps(fields).encode()
    file.write_bytes(line + b"\n" + blake2b(line, digest_size=16).hexdigest().encode() + b"\n")
    with pytest.raises(UsageError, match="that this version cannot read: restore a copy of the file, or replace"):
        collection.read()

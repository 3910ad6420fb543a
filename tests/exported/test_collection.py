"""The documents of the index of a pipeline: their key, and atomic writes."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragsmith.datasets.dataset import load_documents
from ragsmith.errors import DatasetError, SpaceError, UsageError
from ragsmith.exported.collection import Collection, IndexUpdate, all_documents
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


def test_documents_are_held_with_their_fields(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path / "shelf")
    fields = {"year": 2023.0, "signed": date(2023, 5, 31), "tags": ("rent", "north"), "tenant": "acme"}
    collection = Collection(written(tmp_path), shelf)
    collection.start([replace(DOCUMENTS[0], fields=fields)], tmp_path)
    assert collection.read().documents[0].fields == fields


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
    Collection(written(tmp_path), shelf).start(DOCUMENTS, tmp_path)
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
    Collection(written(tmp_path), shelf).start(DOCUMENTS, tmp_path)
    other = written(tmp_path, change, "other.yaml")
    assert not held(other, shelf)
    Collection(other, shelf).start(OTHERS, tmp_path)
    assert held(written(tmp_path), shelf)


def test_another_spelling_name_or_folder_of_the_file_loses_nothing(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path / "shelf")
    winner = written(tmp_path)
    Collection(winner, shelf).start(DOCUMENTS, tmp_path)
    winner.write_text(f"# The one of May.\n{yaml.safe_dump(content(), sort_keys=False, default_flow_style=True)}")
    assert held(winner, shelf)
    assert held(written(tmp_path / "archive", name="annals.yaml"), shelf)


def test_without_a_digest_documents_are_told_by_where_they_are(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path / "shelf")

    def at(place: str) -> Callable[[Content], object]:
        return lambda known: known.update(dataset={"name": "annals", "documents": place})

    Collection(written(tmp_path / "here", at("documents")), shelf).start(DOCUMENTS, tmp_path)
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
    Collection(winner, shelf).start(DOCUMENTS, tmp_path)
    assert seen == [(False, False), (True, True)]  # (a folder, the collection has its name)


def test_a_full_disk_leaves_what_was_held_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    collection = Collection(written(tmp_path), ArtifactCache(tmp_path / "shelf"))
    collection.start(DOCUMENTS, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            collection.start(OTHERS, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert collection.read().documents == tuple(DOCUMENTS)


def test_of_two_documents_with_the_same_text_one_stays_when_the_other_goes(tmp_path: Path) -> None:
    winner = written(tmp_path)
    collection = Collection(winner, ArtifactCache(tmp_path / "shelf"))
    copy = Document("zebra", "The bell", DOCUMENTS[0].text)
    data, update = collection.start([*OTHERS, copy], tmp_path)
    assert data.documents == tuple(OTHERS)
    assert update == IndexUpdate(added=("bell", "tower", "zebra"), hidden={"zebra": "bell"})
    left, update = collection.remove(["bell"])
    assert update == IndexUpdate(removed=("bell",), shown=("zebra",))
    assert {document.id: document.text for document in left.documents} == {"tower": OTHERS[1].text, "zebra": copy.text}


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("place", [0, 40, -1, -20])
def test_whatever_byte_of_the_file_changed_it_is_said_to_be_damaged(bits: int, place: int, tmp_path: Path) -> None:
    collection = Collection(written(tmp_path), ArtifactCache(tmp_path / "shelf"))
    collection.start(OTHERS, tmp_path)
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
        lambda fields: fields.pop("id"),
    ],
)
def test_documents_of_another_version_are_one_sentence(change: Callable[[Content], object], tmp_path: Path) -> None:
    collection = Collection(written(tmp_path), ArtifactCache(tmp_path / "shelf"))
    collection.start(DOCUMENTS, tmp_path)
    [file] = tmp_path.glob("shelf/*/*.jsonl")
    settings, line, _ = file.read_bytes().splitlines()
    record = json.loads(line)
    change(record["document"])
    lines = b"\n".join([settings, json.dumps(record).encode()])
    file.write_bytes(lines + b"\n" + blake2b(lines, digest_size=16).hexdigest().encode() + b"\n")
    with pytest.raises(UsageError, match="that this version cannot read: restore a copy of the file, or replace"):
        collection.read()


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def wiki(tmp_path: Path) -> Path:
    """A folder with two policies, of which an index was built."""
    for team in ("hr", "it"):
        put(tmp_path / "wiki", f"{team}/policy.md", f"The policy of {team}.")
    return tmp_path / "wiki"


def built_on(folder: Path, place: Path) -> Collection:
    collection = Collection(written(place), ArtifactCache(place / "shelf"))
    collection.start(all_documents(load_documents(folder)), folder)
    return collection


def texts(collection: Collection) -> dict[str, str]:
    return {document.id: document.text for document in all_documents(collection.read())}


@pytest.mark.parametrize("given", ["wiki/hr/new.md", "wiki/hr", "wiki", "wiki/hr/../hr/new.md", "."])
def test_a_file_of_the_folder_has_its_path_there_however_it_is_given(
    given: str, wiki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = built_on(wiki, tmp_path / "place")
    put(wiki, "hr/new.md", "The new one of hr.")
    monkeypatch.chdir(wiki / "hr" if given == "." else tmp_path)
    assert collection.add([given])[1] == IndexUpdate(added=("hr/new",))
    assert collection.add([wiki / "hr" / "new.md"])[1] == IndexUpdate()
    assert texts(collection) == texts(built_on(wiki, tmp_path / "anew"))


def test_a_file_elsewhere_keeps_the_identifier_of_its_first_addition(wiki: Path, tmp_path: Path) -> None:
    collection = built_on(wiki, tmp_path / "place")
    minutes = put(tmp_path / "notes", "2024/minutes.md", "Minutes.")
    assert collection.add([minutes, tmp_path / "notes"])[1] == IndexUpdate(added=("minutes",))
    minutes.write_text("Minutes, corrected.")
    assert collection.add([tmp_path / "notes"])[1] == IndexUpdate(replaced=("minutes",))
    moved = minutes.rename(tmp_path / "minutes.md")
    assert collection.add([moved])[1] == IndexUpdate()
    assert texts(collection)["minutes"] == "Minutes, corrected."


def test_two_files_of_one_name_are_refused_with_both(wiki: Path, tmp_path: Path) -> None:
    collection = built_on(wiki, tmp_path / "place")
    before = texts(collection)
    one, other = (put(tmp_path / team, "rules.md", f"Rules of {team}.") for team in ("north", "south"))
    copy, own = put(tmp_path / "copy", "hr/policy.md", "Another policy of hr."), wiki / "hr/policy.md"
    with pytest.raises(DatasetError) as refused:
        collection.add([one, other, tmp_path / "copy", copy])
    assert refused.value.mistakes == (
        f"{other} and {one} are both 'rules': rename one, or replace {one} with  --replace",
        f"{copy} and {own} are both 'hr/policy': rename one, or replace {own} with  --replace",
        f"{copy} could be 'policy' or 'hr/policy' of the index: add the folder that 'hr/policy' is in, or rename the "
        "file",
    )
    assert texts(collection) == before, "nothing is added"
    with pytest.raises(DatasetError, match="are both 'rules'"):
        collection.add([one, other], replace=True)
    assert collection.add([tmp_path / "copy"], replace=True)[1] == IndexUpdate(replaced=("hr/policy",))
    assert texts(collection)["hr/policy"] == "Another policy of hr."


def test_the_folder_may_have_moved(wiki: Path, tmp_path: Path) -> None:
    collection = built_on(wiki, tmp_path / "place")
    moved = wiki.rename(tmp_path / "intranet")
    put(moved, "hr/policy.md", "The new policy of hr.")
    with pytest.raises(DatasetError, match="could be 'policy' or 'hr/policy' of the index: add the folder that"):
        collection.add([moved / "hr/policy.md"])
    assert collection.add([moved])[1] == IndexUpdate(replaced=("hr/policy",))
    assert collection.remove([str(moved / "hr/policy.md")])[1] == IndexUpdate(removed=("hr/policy",))


def test_a_renamed_file_replaces_its_document(wiki: Path, tmp_path: Path) -> None:
    collection = built_on(wiki, tmp_path / "place")
    other = put(wiki, "hr/policy.txt", "The policy as text.")
    with pytest.raises(DatasetError, match=r"policy\.txt and .*policy\.md are both 'hr/policy'"):
        collection.add([other])
    (wiki / "hr/policy.md").unlink()
    assert collection.add([other])[1] == IndexUpdate(replaced=("hr/policy",))


def test_a_name_that_could_be_two_is_not_removed(wiki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(wiki, "policy.md", "The policy.")
    collection = built_on(wiki, tmp_path / "place")
    monkeypatch.chdir(wiki / "hr")
    with pytest.raises(DatasetError) as refused:
        collection.remove(["policy.md", "it/policy"])
    assert refused.value.mistakes == (
        f"'policy.md' could be 'hr/policy' ({wiki / 'hr/policy.md'}) or 'policy' ({wiki / 'policy.md'}): "
        "give the whole path of one, or its identifier from another folder",
    )
    assert collection.remove([str(wiki / "hr/policy.md"), "it/policy"])[1] == IndexUpdate(
        removed=("hr/policy", "it/policy")
    )
    (wiki / "policy.md").unlink()
    put(wiki, "other.md", "Another one.")
    collection.add([wiki / "other.md"])
    assert collection.remove(["../policy.md"])[1] == IndexUpdate(removed=("policy",)), "its file is gone"


def test_added_files_are_read_as_those_of_the_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "deeds"
    put(
        folder, "dataset.yaml", "name: deeds\nlanguage: de\nfields: {year: number, path: list}\ntitles: {b/two: Zwei}\n"
    )
    put(folder, "documents/one.md", "---\nyear: 2023\n---\nThe first deed.")
    put(folder, "documents/b/two.md", "---\nyear: 2024\n---\nThe second deed.")
    collection = built_on(folder, tmp_path / "place")
    put(folder, "documents/b/two.md", "---\nyear: 2025\n---\nThe second deed, amended.")
    elsewhere = put(tmp_path / "new", "three.md", "---\nyear: 2026\n---\nThe third deed.")
    collection.add([folder / "documents/b/two.md", elsewhere])
    found = {document.id: document for document in collection.read().documents}
    anew = {document.id: document for document in load_documents(folder).documents}
    assert found["b/two"] == anew["b/two"]
    assert found["b/two"].fields == anew["b/two"].fields == {"year": 2025.0, "path": ("b", "b/two")}
    assert (found["three"].fields["year"], found["three"].language) == (2026.0, "de")
    with pytest.raises(DatasetError, match="year"):
        collection.add([put(tmp_path / "new", "four.md", "---\nyear: late\n---\nThe fourth deed.")])


def test_languages_are_those_of_a_new_index(tmp_path: Path) -> None:
    wiki = tmp_path / "wiki"
    german = "Die Urkunde wird im Archiv der Stadt verwahrt und darf nur mit Erlaubnis des Rates gelesen werden. " * 5
    put(
        wiki, "one.md", "The deed is kept in the archive of the town and may be read with a permit of the council. " * 5
    )
    collection = built_on(wiki, tmp_path / "place")
    put(wiki, "zwei.md", german)
    put(wiki, "drei.md", f"{german} Sie ist alt.")
    collection.add([wiki / "zwei.md"])
    collection.add([wiki / "drei.md"])
    assert collection.read().documents == load_documents(wiki).documents
    assert {document.language for document in collection.read().documents} == {"de", "en"}

"""The other corpora: recipes hold nobody's texts, and documents are those that the questions were written for."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import UsageError

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
other_corpora = importlib.import_module("other_corpora")
CORPORA = sorted(path.parent for path in other_corpora.CORPORA.glob("*/recipe.yaml"))

LAMPS = "# Lamps\n\nThe keeper fills the lamps at dusk, and puts them out at six.\n"
BELLS = "# Bells\n\nThree strokes of the bell mean fog, and four mean that the ferry is late.\n"
NOTES = "The harbour of Marrow silts up, so that it is dredged every second spring.\n"
PAGE = r"""
.\" Nobody reads this.
.TH LAMP 1 "" "" ""
.SH NAME
lamp \- light a \fBlamp\fP
.SH OPTIONS
.TP
.BR \-f ", " \-\-fill
Fill it first, with
.IR oil .
.TS
tab(;);
l l.
oil;hours
fish;T{
about
six
T}
.TE
"""
PAGE_AS_TEXT = """# LAMP(1)

## NAME

lamp - light a lamp

## OPTIONS

-f, --fill
Fill it first, with oil.

oil | hours
fish | about six
"""

Files = Mapping[str, bytes]


class Shop:
    """Has packages, which are folders, and hands them out."""

    def __init__(self, packages: Mapping[str, Files]) -> None:
        self.packages = packages
        self.handed: list[str] = []

    def __call__(self, package: Any, folder: Path) -> Path:
        if package.name not in self.packages:
            raise UsageError(f"{package} cannot be had")
        self.handed.append(package.name)
        for name, data in self.packages[package.name].items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder


def corpus(
    folder: Path,
    packages: Mapping[str, Sequence[str]],
    documents: Mapping[str, str],
    evidence: tuple[str, int, int],
    **more: object,
) -> Path:
    """Write a corpus with one question, whose documents are to have these texts."""
    folder.mkdir(parents=True)
    about = {**dict.fromkeys(("title", "description", "licence"), "made up"), "name": folder.name, "language": "en"}
    recipe = {
        **{**about, "names": "file", "convert": "none", "read_with": [], **more},
        "packages": [{"registry": "npm", "name": n, "version": "1.0", "files": files} for n, files in packages.items()],
        "documents": {id_: sha256(text.encode()).hexdigest()[:12] for id_, text in documents.items()},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    place = dict(zip(("doc", "start", "end"), evidence, strict=True))
    question = {"id": "q1", "question": "When?", "answer": "At dusk.", "type": "fact", "evidence": [place]}
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n")
    return folder


SHOP = {
    "harbour": {
        "lights/index.md": LAMPS.encode(),
        "sounds/index.md": BELLS.encode(),
        "sounds/old/bells.md": b"not chosen, as * is in one folder",
        "notes.txt.gz": gzip.compress(NOTES.encode()),
    },
    "pages": {"man/lamp.1.gz": gzip.compress(PAGE.encode())},
}
GUIDES = {"lights__index": LAMPS, "sounds__index": BELLS, "notes": NOTES}
PATTERNS = {"harbour": ["*/*.md", "notes*.gz"]}
AT_DUSK = ("lights__index", 36, 43)


def test_files_are_chosen_by_patterns_and_evidence_is_quoted(tmp_path: Path) -> None:
    recipe = corpus(tmp_path / "corpora" / "harbour_guides", PATTERNS, GUIDES, AT_DUSK)
    data = other_corpora.make(recipe, tmp_path / "made", Shop(SHOP))
    assert {document.id: document.text for document in data.documents} == GUIDES
    assert (data.name, data.licence, data.language) == ("harbour_guides", "made up", "en")
    [line] = (tmp_path / "made" / "harbour_guides" / "questions.jsonl").read_text().splitlines()
    assert json.loads(line)["evidence"] == [{"doc": "lights__index", "start": 36, "end": 43, "text": "at dusk"}]
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["harbour_guides"]


def test_files_may_be_called_after_their_packages(tmp_path: Path) -> None:
    lights = {"harbour": ["lights/*"]}
    place = ("harbour__index", 36, 43)
    recipe = corpus(tmp_path / "lights", lights, {"harbour__index": LAMPS}, place, names="package")
    [document] = other_corpora.make(recipe, tmp_path / "made", Shop(SHOP)).documents
    assert document.id == "harbour__index"
    recipe = corpus(tmp_path / "both", PATTERNS, GUIDES, AT_DUSK, names="package")
    with pytest.raises(UsageError, match=r"two files are called harbour__index\.md"):
        other_corpora.make(recipe, tmp_path / "made", Shop(SHOP))


def test_manual_pages_become_text(tmp_path: Path) -> None:
    patterns = {"pages": ["man/lamp.1.gz"]}
    recipe = corpus(tmp_path / "pages", patterns, {"lamp.1": PAGE_AS_TEXT}, ("lamp.1", 20, 39), convert="roff")
    [document] = other_corpora.make(recipe, tmp_path / "made", Shop(SHOP)).documents
    assert (document.id, document.text) == ("lamp.1", PAGE_AS_TEXT)


def test_a_document_that_differs_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    recipe = corpus(tmp_path / "corpora" / "harbour_guides", PATTERNS, {**GUIDES, "gone": "?"}, AT_DUSK)
    edited = {**SHOP["harbour"], "sounds/index.md": BELLS.replace("fog", "smoke").encode()}
    wrong = r"documents that differ: sounds__index; documents that are missing: gone$"
    with pytest.raises(UsageError, match=wrong):
        other_corpora.make(recipe, tmp_path / "made", Shop({"harbour": edited}))
    assert list((tmp_path / "made").iterdir()) == []


def test_what_is_there_is_compared_and_not_fetched_again(tmp_path: Path) -> None:
    recipe = corpus(tmp_path / "corpora" / "harbour_guides", PATTERNS, GUIDES, AT_DUSK)
    shop = Shop(SHOP)
    first = other_corpora.make(recipe, tmp_path / "made", shop)
    assert other_corpora.make(recipe, tmp_path / "made", shop) == first
    assert shop.handed == ["harbour"]
    (tmp_path / "made" / "harbour_guides" / "documents" / "notes.txt").write_text("It was dredged.\n")
    with pytest.raises(UsageError, match="documents that differ: notes"):
        other_corpora.make(recipe, tmp_path / "made", shop)


def test_the_others_are_made_where_one_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpora, made = tmp_path / "corpora", tmp_path / "made"
    corpus(corpora / "absent", {"quay": ["*"]}, GUIDES, AT_DUSK)
    corpus(corpora / "bare", {"harbour": ["*/*.rst"]}, GUIDES, AT_DUSK)
    corpus(corpora / "good", PATTERNS, GUIDES, AT_DUSK)
    assert other_corpora.main([str(made)], corpora=corpora, fetch=Shop(SHOP)) == 1
    said = capsys.readouterr()
    assert said.out == "good: 3 documents, 1 questions\n"
    assert said.err.splitlines() == [
        "absent: quay 1.0 (npm) cannot be had",
        "bare: harbour 1.0 (npm) has no file */*.rst",
        "2 of 3 corpora were left out: absent, bare",
    ]
    assert other_corpora.main([str(made), "good"], corpora=corpora, fetch=Shop({})) == 0
    assert len(load_dataset(made / "good").examples) == 1


@pytest.mark.parametrize("folder", CORPORA, ids=lambda folder: folder.name)
def test_a_corpus_has_forty_questions_and_nobodys_text(folder: Path) -> None:
    recipe = other_corpora.Recipe.read(folder)
    assert recipe.about["name"] == folder.name
    assert all(package.fetching and package.files for package in recipe.packages)
    assert sorted(path.name for path in folder.iterdir()) == ["questions.jsonl", "recipe.yaml"]
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len({question["id"] for question in questions}) == len(questions) == 40
    for question in questions:
        assert set(question) == {"id", "question", "answer", "type", "evidence"}
        assert question["evidence"]
        for place in question["evidence"]:
            assert set(place) == {"doc", "start", "end"}
            assert place["doc"] in recipe.documents
            assert 0 <= place["start"] < place["end"]

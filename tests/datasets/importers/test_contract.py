"""Contract of all registered importers, and registration from a user's file."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset, write_dataset
from ragsmith.datasets.importers import IMPORTERS, import_dataset, importer, recognise_format
from ragsmith.datasets.importers.registry import Imported, Importer
from ragsmith.datasets.splits import split
from ragsmith.errors import DatasetError, UsageError

SAMPLES = Path(__file__).with_name("samples")
OWN = '''
from pathlib import Path

from ragsmith.datasets.importers.registry import (
    EvidenceCollector,
    Fields,
    Imported,
    document_with_title,
    numbered_ids,
    read_files,
)
from ragsmith.datasets.importers.registry import importer
from ragsmith.datasets.places import whole_document_span
from ragsmith.types import UNSPECIFIED, Example


@importer("cards", keys=[{"front", "back"}], licence="CC0")
def import_cards(source: Path, *, deck: str = "all") -> Imported:
    """Flash cards in JSON."""
    items = [Fields.from_value(item, "a card", "cards") for items in read_files(source, list) for item in items]
    kept = [item for item in items if deck in ("all", item.record.get("deck"))]
    gold = EvidenceCollector()
    ids = numbered_ids("card-", len(kept))
    documents = [document_with_title(id_, "", item.text("back")) for id_, item in zip(ids, kept)]
    for item, document in zip(kept, documents):
        evidence = (whole_document_span(document),)
        example = Example(document.id, item.text("front"), item.text("back"), UNSPECIFIED, evidence)
        gold.add(example, 1)
    return gold.to_imported(source, documents, "Cards.")
'''
CARDS = """[{"front": "How tall is the oak?", "back": "The oak is nine metres tall.", "deck": "trees"},
{"front": "How long is the eel?", "back": "The eel is as long as an arm.", "deck": "fish"}]"""


def sample(importer: Importer, folder: Path) -> Path:
    """A copy of the sample of a format; the binary one is written."""
    if importer.name != "autorag":
        return Path(shutil.copytree(SAMPLES / importer.name, folder / "sample"))
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (folder / "sample").mkdir()
    passages = [{"doc_id": "oak", "contents": "The oak is nine metres tall.", "path": "", "start_end_idx": None}]
    asked = [{"qid": "q1", "query": "How tall?", "retrieval_gt": [["oak"]], "generation_gt": ["Nine metres."]}]
    parquet.write_table(pa.Table.from_pylist(passages), folder / "sample" / "corpus.parquet")
    parquet.write_table(pa.Table.from_pylist(asked), folder / "sample" / "qa.parquet")
    return folder / "sample"


@pytest.mark.parametrize("importer", list(IMPORTERS), ids=lambda importer: importer.name)
def test_a_sample_is_recognised_read_written_and_read_again(importer: Importer, tmp_path: Path) -> None:
    source = sample(importer, tmp_path)
    assert recognise_format(source).name == importer.name
    imported = import_dataset(source)
    assert (imported.located, imported.total, len(imported.dataset.examples)) == (1, 1, 1)
    assert imported.dataset.licence == importer.licence
    texts = {document.id: document.text for document in imported.dataset.documents}
    [span] = imported.dataset.examples[0].evidence
    assert any(word in texts[span.doc][span.start : span.end] for word in ("nine metres", "30.15"))
    write_dataset(imported.dataset, tmp_path / "written")
    assert load_dataset(tmp_path / "written").digest == imported.dataset.digest
    assert import_dataset(source, importer.name).dataset == imported.dataset


@pytest.mark.parametrize("importer", list(IMPORTERS), ids=lambda importer: importer.name)
def test_it_is_described_and_refuses_what_is_in_another_layout(importer: Importer, tmp_path: Path) -> None:
    assert importer.summary.endswith((".", ":", ",")) or importer.summary
    assert importer.paper.startswith("https://") or importer.name in {"list", "llama-index"}
    (tmp_path / "data.json").write_text('{"trees": 3}')
    with pytest.raises(DatasetError):
        importer.read(tmp_path)
    if not importer.takes_documents:
        with pytest.raises(UsageError, match="has its own documents"):
            importer.read(tmp_path, load_dataset("law"))


def test_a_name_is_registered_once() -> None:
    def import_squad_anew(source: Path) -> Imported:
        raise AssertionError(source)

    with pytest.raises(ValueError, match="'squad' is registered twice"):
        importer("squad")(import_squad_anew)


def test_a_file_of_ones_own_adds_an_importer_to_the_command(tmp_path: Path, ragsmith: Callable[..., Any]) -> None:
    (tmp_path / "importing_cards.py").write_text(OWN)
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "cards.json").write_text(CARDS)
    own = ("--import", tmp_path / "importing_cards.py")
    assert "Flash cards in JSON. Options: deck='all'." in ragsmith("dataset", "import", *own, "--help").out
    told = ragsmith("dataset", "import", tmp_path / "published", "-o", tmp_path / "all", *own)
    wrong = ragsmith(
        "dataset", "import", tmp_path / "published", "-o", tmp_path / "x", "--format", "cards(decks='a')", *own
    )
    command = ("dataset", "import", tmp_path / "published", "-o", tmp_path / "fish", "--format", "cards(deck='fish')")
    chosen = ragsmith(*command, *own)
    IMPORTERS.remove("cards")
    assert told.code == 0, told.err
    assert len(load_dataset(tmp_path / "all").examples) == 2
    assert chosen.code == 0, chosen.err
    assert [example.question for example in load_dataset(tmp_path / "fish").examples] == ["How long is the eel?"]
    assert load_dataset(tmp_path / "fish").licence == "CC0"
    assert wrong.code == 2
    assert "cards has no option 'decks': did you mean 'deck'?" in wrong.err


@pytest.mark.parametrize(
    ("name", "documents", "questions", "spans", "located", "total", "notes"),
    [
        ("ragsmith_law_10", 10, 100, 199, 199, 199, 0),
        ("ragsmith_finance_10", 10, 100, 209, 209, 209, 0),
        ("hotpotqa_100", 994, 100, 208, 229, 229, 0),  # 21 sentences follow another one
        ("tatqa_dev", 278, 1_668, 2_465, 2_066, 2_205, 139),
    ],
)
def test_published_data_is_located_completely(
    tmp_path: Path, name: str, documents: int, questions: int, spans: int, located: int, total: int, notes: int
) -> None:
    folder = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not beside the checkout")
    imported = import_dataset(folder)
    data = imported.dataset
    assert (len(data.documents), len(data.examples), data.merged) == (documents, questions, ())
    assert sum(len(example.evidence) for example in data.examples) == spans
    assert (imported.located, imported.total, len(imported.notes)) == (located, total, notes)
    write_dataset(data, tmp_path / "written")
    assert load_dataset(tmp_path / "written") == data
    assert split(data).test


TAKING = '''
from ragsmith.datasets.importers.registry import EvidenceCollector, document_with_title, importer
from ragsmith.datasets.places import whole_document_span
from ragsmith.types import UNSPECIFIED, Example


def read(source, documents):
    """One question, whose document is named after what was given as documents."""
    name = documents if isinstance(documents, str) else "none" if documents is None else documents.name
    document = document_with_title(name, "", source.read_text())
    gold = EvidenceCollector()
    gold.add(Example("q1", "How tall is it?", "Nine metres.", UNSPECIFIED, (whole_document_span(document),)), 1)
    return gold.to_imported(source, [document], "Trees.")


@importer("by_place")
def by_place(source, documents="its_own"):
    """A default."""
    return read(source, documents)


@importer("by_name")
def by_name(source, *, tall: bool = True, documents=None):
    """A default of a keyword."""
    return read(source, documents)


@importer("by_default")
def by_default(source, *, documents="its_own"):
    """Another default of a keyword."""
    return read(source, documents)


@importer("needed")
def needed(source, documents):
    """No default."""
    return read(source, documents)
'''


@pytest.mark.parametrize(
    ("layout", "without"),
    [("by_place", "its_own"), ("by_name", "none"), ("by_default", "its_own"), ("needed", "none")],
)
def test_documents_have_the_default_of_the_importer_unless_they_are_given(
    layout: str, without: str, tmp_path: Path, tiny_folder: Path, ragsmith: Callable[..., Any]
) -> None:
    # Files stay loaded, and workers of other tests load them too: no name may be registered by two of them.
    (tmp_path / f"taking_{layout}.py").write_text(
        re.sub(r'@importer\("(\w+)"\)', rf'@importer("\1_of_{layout}")', TAKING)
    )
    registered = f"{layout}_of_{layout}"
    (tmp_path / "trees.txt").write_text("The oak is nine metres tall.")
    command = ("dataset", "import", tmp_path / "trees.txt", "--format", registered, "--import")
    own = (*command, tmp_path / f"taking_{layout}.py", "-o")
    told = ragsmith(*own, tmp_path / "without")
    given = ragsmith(*own, tmp_path / "given", "--documents", tiny_folder)
    wrong = ragsmith(*own, tmp_path / "wrong", "--format", f"{registered}(documents='x')")
    for name in ("by_place", "by_name", "by_default", "needed"):
        IMPORTERS.remove(f"{name}_of_{layout}")
    assert (told.code, given.code) == (0, 0), told.err + given.err
    assert [document.id for document in load_dataset(tmp_path / "without").documents] == [without]
    assert [document.id for document in load_dataset(tmp_path / "given").documents] == [load_dataset(tiny_folder).name]
    assert wrong.code == 2
    assert f"{registered} has no option 'documents'" in wrong.err


@pytest.mark.parametrize(
    ("name", "layout", "tried"),
    [
        ("a.json", (), "is in no format that was recognised"),
        ("a.csv", (), "is in no format that was recognised"),
        ("a.json", ("--format", "squad"), "was read in the format squad"),
        ("a.bin", ("--format", "list"), "was read in the format list"),
    ],
)
def test_an_unreadable_file_is_named_with_the_format_that_was_tried_and_those_known(
    name: str, layout: tuple[str, ...], tried: str, tmp_path: Path, ragsmith: Callable[..., Any]
) -> None:
    (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    said = ragsmith("dataset", "import", tmp_path / name, "-o", tmp_path / "out", *layout)
    assert said.code == 2
    known = ", ".join(importer.name for importer in IMPORTERS)
    assert f"{tmp_path / name} {tried}; name another with --format ({known})" in said.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("search", "--dataset", "law", "--strategy", "annealing"), "unknown strategy 'annealing'"),
        (("dataset", "import", "x.json", "-o", "y", "--format", "trees"), "unknown format 'trees'"),
        (("dataset", "check", "law", "--only", "beauty"), "--only has the unknown gate 'beauty'"),
        (("search", "--dataset", "law", "--vector-store", "heap"), "unknown vector store 'heap'"),
    ],
)
def test_an_unknown_name_hints_at_the_option_that_loads_ones_own(
    arguments: tuple[str, ...], said: str, ragsmith: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = ragsmith(*arguments)
    assert ended.code == 2
    assert said in ended.err
    assert "; --import FILE.py loads one of your own" in ended.err
    assert "--import" in ragsmith(*arguments[: 1 + (arguments[0] == "dataset")], "--help").out

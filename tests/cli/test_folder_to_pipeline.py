"""From a folder of files, or a published data set, to a pipeline; and what is refused on the way."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragsmith.cli.interrupts import NOTHING_WRITTEN
from ragsmith.datasets.dataset import load_dataset, load_documents, load_documents_option, make_dataset, write_dataset
from ragsmith.errors import DatasetError, WrongOption
from ragsmith.exported.file import ExportedFile

Command = Callable[..., Any]

HOTPOTQA = [
    {
        "_id": "q1",
        "question": "Which tree is old?",
        "answer": "The oak",
        "type": "bridge",
        "context": [["Oak", ["The oak is a tree.", " It is old."]]],
        "supporting_facts": [["Oak", 1]],
    }
]
TATQA = json.loads((Path(__file__).parents[1] / "datasets/importers/samples/tatqa/data.json").read_text())


def published(folder: Path, **files: object) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


@pytest.mark.parametrize("option", [(), ("--format", "hotpotqa")])
def test_a_published_data_set_is_imported_and_can_be_loaded(
    ragsmith: Command, tmp_path: Path, option: tuple[str, ...]
) -> None:
    source = published(tmp_path / "published", data=HOTPOTQA)
    shown = ragsmith("dataset", "import", source, "-o", tmp_path / "mine", *option)
    assert (shown.code, shown.err) == (0, "")
    assert "1 documents, 1 questions; 1 of 1 pieces of evidence located exactly (100.0 %)" in shown.out
    assert len(load_dataset(tmp_path / "mine").examples) == 1
    assert ragsmith("dataset", "validate", tmp_path / "mine").code == 0


def test_a_file_that_tells_nothing_does_not_hide_the_format(ragsmith: Command, tmp_path: Path) -> None:
    source = published(tmp_path / "published", corpus={"Elm": ["The elm is tall."]}, data=HOTPOTQA)
    assert "2 documents, 1 questions" in ragsmith("dataset", "import", source, "-o", tmp_path / "mine").out


def test_what_was_not_found_is_said(ragsmith: Command, tmp_path: Path) -> None:
    lost = [{**HOTPOTQA[0], "supporting_facts": [["Oak", 1], ["Elm", 0]]}]
    source = published(tmp_path / "published", data=lost)
    shown = ragsmith("dataset", "import", source, "-o", tmp_path / "mine")
    assert "1 of 2 pieces of evidence located exactly (50.0 %)" in shown.out
    assert "q1: sentence 0 of 'Elm' does not occur there exactly once" in shown.out.splitlines()
    found = json.loads(ragsmith("dataset", "import", source, "-o", tmp_path / "again", "--json").out)
    assert (found["located"], found["total"], len(found["notes"])) == (1, 2, 1)


@pytest.mark.parametrize(
    ("files", "options", "said"),
    [
        ({}, [], "has no *.json files; give the folder or the file that was published"),
        ({"a": HOTPOTQA, "b": TATQA}, [], "has files in several formats (hotpotqa, tatqa); name one with --format"),
        ({"a": {"Oak": ["It is old."]}}, [], "is in no known format; name one with --format"),
        ({"a": '[\n{"_id": }]'}, [], "error: a.json:2: not valid JSON: Expecting value at column 9"),
        ({"a": TATQA}, ["--format", "hotpotqa"], "error: a.json: question 1: '_id' is missing"),
        ({"a": TATQA}, ["--format", "tatqas"], "unknown format 'tatqas': did you mean 'tatqa'?"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_a_sentence(
    ragsmith: Command, tmp_path: Path, files: dict[str, object], options: list[str], said: str
) -> None:
    source = published(tmp_path / "published", **files)
    shown = ragsmith("dataset", "import", source, "-o", tmp_path / "mine", *options)
    assert (shown.code, shown.out) == (2, "")
    error, *advice = shown.err.splitlines()
    assert said in error
    assert len(advice) <= 1
    assert all("--format" in line for line in advice)  # if no format was recognised
    assert not (tmp_path / "mine").exists()


def test_a_folder_that_is_not_there_is_refused(ragsmith: Command, tmp_path: Path) -> None:
    shown = ragsmith("dataset", "import", tmp_path / "nothing", "-o", tmp_path / "mine")
    assert shown.code == 2
    assert "there is no such folder or file" in shown.err


# --- dataset show DATASET DOC ----------------------------------------------------------------------------------------


def test_a_document_is_printed_as_it_was_loaded(ragsmith: Command, tiny_folder: Path) -> None:
    for document in load_dataset(tiny_folder).documents:
        shown = ragsmith("dataset", "show", tiny_folder, document.id)
        assert ragsmith("dataset", "show", tiny_folder, f"documents/{document.id}.md").out == shown.out
        assert (shown.code, shown.out) == (0, document.text.removesuffix("\n") + "\n")


def test_evidence_offsets_point_into_the_text_that_is_printed(ragsmith: Command, tiny_folder: Path) -> None:
    data = load_dataset(tiny_folder)
    texts = {document.id: document.text for document in data.documents}
    for example in data.examples[:5]:
        [span] = example.evidence
        place = ("dataset", "show", tiny_folder, span.doc, "--start", span.start, "--end", span.end)
        assert ragsmith(*place).out == texts[span.doc][span.start : span.end] + "\n"
        found = json.loads(ragsmith(*place, "--json").out)
        assert found["text"] == texts[span.doc][span.start : span.end]
        assert (found["id"], found["length"]) == (span.doc, len(texts[span.doc]))


def test_a_document_is_shown_before_there_are_questions(ragsmith: Command, tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "parts.csv").write_text("part,price\nDX-1,12.50\n")
    shown = ragsmith("dataset", "show", tmp_path, "parts.csv")
    assert shown.out == "part: DX-1; price: 12.50\n"
    assert shown.err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ferri"], "has no document 'ferri'; did you mean 'ferry'? known: ferry, lighthouse"),
        (["ferry", "--start", "9", "--end", "5"], "[9, 5) is not a range of 'ferry': give --start and --end from 0 to"),
        (["ferry", "--end", "999999"], "[0, 999999) is not a range of 'ferry'"),
        (["ferry", "--start", "-1"], "[-1, 424) is not a range of 'ferry'"),
        (["--start", "3"], "--start and --end are offsets in a document: name one after the data set"),
    ],
)
def test_a_place_that_is_not_there_is_refused(
    ragsmith: Command, tiny_folder: Path, arguments: list[str], said: str
) -> None:
    shown = ragsmith("dataset", "show", tiny_folder, *arguments)
    assert (shown.code, shown.out, len(shown.err.splitlines())) == (2, "", 1)
    assert said in shown.err


def test_a_split_of_one_s_own_that_leaks_is_valid_and_warned_of(ragsmith: Command, tmp_path: Path) -> None:
    law = load_dataset("law")
    marked = [replace(e, split="test" if n % 2 else "search") for n, e in enumerate(law.examples)]
    write_dataset(make_dataset({"name": "mine"}, law.documents, marked), tmp_path / "mine")
    checked = ragsmith("dataset", "validate", tmp_path / "mine")
    assert checked.code == 0
    assert re.fullmatch(
        r"warning: \d+ of 100 test questions have gold within 900 characters of a search question's, "
        r"\d+ share a relevant chunk with one: the test questions are not independent of the search questions\.\n",
        checked.err,
    )
    assert "valid" in checked.out


def test_texts_are_looked_for_in_documents_of_one_s_own(ragsmith: Command, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "oak.md").write_text("# Oak\n\nThe oak is a tree. It is old, and its bark is grey.\n")
    contexts = ["it is old and its bark is grey", "The oak is a tree.", "Nothing of this kind is written there."]
    rows = [{"user_input": "How old is it?", "reference": "Old.", "reference_contexts": contexts}]
    source = published(tmp_path / "published", testset=rows)
    options = ("--documents", tmp_path / "pages")
    shown = ragsmith("dataset", "import", source, "-o", tmp_path / "mine", *options)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[0].endswith(
        "1 documents, 1 questions; 2 of 3 pieces of evidence located (66.7 %): 1 normalised, 1 exact"
    )
    assert len(load_dataset(tmp_path / "mine").examples[0].evidence) == 2
    found = json.loads(ragsmith("dataset", "import", source, "-o", tmp_path / "again", *options, "--json").out)
    assert (found["located"], found["total"], found["how"]) == (2, 3, {"normalised": 1, "exact": 1})


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A folder with one page that says a little."""
    folder = tmp_path / "pages"
    folder.mkdir()
    text = "The mill on the Aller was built in 1742 by Henrik Moor, and it ground rye until the spring of 1911."
    (folder / "mill.md").write_text(f"# The mill\n\n{text}\n")
    return folder


def test_a_data_set_within_the_folder_is_not_taken_in(ragsmith: Command, pages: Path, tmp_path: Path) -> None:
    assert ragsmith("dataset", "init", pages, "-o", pages / "out").code == 0
    found = json.loads(ragsmith("dataset", "init", pages, "-o", tmp_path / "zz", "--json").out)
    assert [path.name for path in (tmp_path / "zz" / "documents").rglob("*")] == ["mill.md"]
    [aside] = [file for file in found["files"] if file["outcome"] == "left aside"]
    assert (aside["source"], aside["reason"].split(";")[0]) == ("out", "is a data set made by init")


def test_what_a_check_found_is_said_though_its_page_cannot_be_written(ragsmith: Command, tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file where a folder should be")
    shown = ragsmith("dataset", "check", "workshop", "--html", tmp_path / "reports" / "check.html")
    assert shown.code == 2
    assert "workshop" in shown.out
    assert "bm25" in shown.out
    assert f"{tmp_path / 'reports'} is a file, so that nothing can be written in it" in shown.err


@pytest.mark.processes
@pytest.mark.parametrize("foreign", [0, 1, 2])
def test_init_names_the_embedder_for_documents_in_other_languages(
    ragsmith: Command, tmp_path: Path, foreign: int
) -> None:
    for number in range(10):
        text = "Der Urlaub verfällt am Ende des Jahres, und wer krank ist, meldet sich bis neun Uhr bei der Leitung."
        if number >= foreign:
            text = "The holiday ends with the year, and whoever is ill tells the head of the department until nine."
        (tmp_path / f"page{number}.txt").write_text(f"{number}. {text} {text}\n", encoding="utf-8")
    made = tmp_path / "made"
    shown = ragsmith("dataset", "init", tmp_path, "-o", made).out
    assert ("pip install 'ragsmith[multilingual]'" in shown) is (foreign > 1)
    assert f"next: ragsmith recommend {made}{' --embedder multilingual-e5-small' * (foreign > 1)}  or " in shown


def test_init_that_is_interrupted_says_that_nothing_was_written(
    spawn: Callable[..., Any], pages: Path, tmp_path: Path
) -> None:
    for number in range(3_000):
        (pages / f"{number}.md").write_text(f"# Page {number}\n\n{f'The word {number} stands here. ' * 40}\n")
    process = spawn("dataset", "init", pages, "-o", tmp_path / "mill")
    process.stderr.readline()  # 200 files are read
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said.splitlines()[-1]) == (130, NOTHING_WRITTEN)
    assert not (tmp_path / "mill").exists()


def test_a_folder_that_is_no_data_set_is_said_to_be_none(ragsmith: Command, pages: Path, tmp_path: Path) -> None:
    (pages / "scan.pdf").write_bytes(b"no such thing")
    (tmp_path / "list.csv").write_text("question,answer\nWhen was it built?,1742\n")
    said = (
        f"{pages} is not a data set: `ragsmith dataset init {pages} -o DIR` makes one without questions, which a "
        f"search needs (`ragsmith dataset anchor QUESTIONS.csv --documents DIR` adds them); "
        f"`ragsmith recommend {pages}` needs none"
    )
    shown = ragsmith("dataset", "validate", pages)
    assert (shown.code, said in shown.out + shown.err) == (2, True)
    model = ("--llm", "openai:tiny", "--base-url", "http://127.0.0.1:9/v1", "--cache", tmp_path / "cache.sqlite")
    for arguments in (
        ("draft", pages, *model),
        ("anchor", tmp_path / "list.csv", "--documents", pages, "-o", tmp_path / "o"),
    ):
        shown = ragsmith("dataset", *arguments)
        assert shown.code == 2
        assert said in shown.err.splitlines()[0]


def test_documents_that_are_there_are_adopted_or_the_file_is_refused(
    ragsmith: Command, pages: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine" / "documents"
    mine.mkdir(parents=True)
    (pages / "lock.md").write_text("# The lock\n\nBoats wait here.\n")
    (mine / "mill.md").write_text((pages / "mill.md").read_text())
    (mine / "lock.md").write_text("# The lock\n\nBoats waited here.\n")
    for outcome in ("added", "unchanged"):
        files = json.loads(ragsmith("dataset", "init", pages, "-o", mine.parent, "--json").out)["files"]
        assert {file["source"]: file["outcome"] for file in files} == {"mill.md": outcome, "lock.md": "refused"}
    assert sorted(path.name for path in mine.iterdir()) == ["lock.md", "mill.md"]
    assert (mine / "lock.md").read_text() == "# The lock\n\nBoats waited here.\n"
    [reason] = [file["reason"] for file in files if file["reason"]]
    assert reason.startswith("documents/lock.md exists with another text")


MILL = "The mill on the Aller was built in 1742 by Henrik Moor, and it ground rye until the spring of 1911."
LOCK = "Boats wait at the lower gate until the keeper rings the copper bell twice."
BUILT, RUNG = "When was the mill on the Aller built?", "What does the keeper of the lock ring?"


def page(title: str, *paragraphs: str) -> str:
    inner = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f"<html><head><title>{title}</title></head><body><h1>{title}</h1>{inner}</body></html>"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a page of the web and a page of text; paths are from where it lies."""
    pytest.importorskip("markdownify", reason="needs the extra documents, to read a page of the web")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "mill.html").write_text(page("The mill", MILL))
    (folder / "lock.md").write_text(f"# The lock\n\n{LOCK}\n")
    return folder


@pytest.fixture
def stale(ragsmith: Command, files: Path) -> Path:
    """A data set whose mill's page grew at its top after a pipeline was named for it; its lock is as it was."""
    rows = [{"question": BUILT, "answer": "1742", "evidence": MILL}, {"question": RUNG, "answer": "A copper bell"}]
    rows[1]["evidence"] = LOCK
    Path("list.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert ragsmith("dataset", "init", "files", "-o", "set").code == 0
    assert ragsmith("dataset", "anchor", "list.jsonl", "--documents", "set").code == 0
    assert ragsmith("recommend", "set").code == 0
    assert ragsmith("ask", "winner.yaml", BUILT).code == 0
    (files / "mill.html").write_text(page("The mill", "Closed on Mondays.", MILL))
    again = ragsmith("dataset", "init", "files", "-o", "set")
    assert again.out.splitlines()[-1] == (
        "next: ragsmith dataset anchor --repair set  then  ragsmith dataset validate set  or  "
        'ragsmith search --dataset set  or  ragsmith ask WINNER "..." --documents set'
    )
    return Path("set")


@pytest.mark.parametrize(
    "command",
    [("dataset", "validate", "set"), ("dataset", "check", "set"), ("search", "--dataset", "set"), ("recommend", "set")],
)
def test_stale_evidence_is_named_with_the_command_that_mends_it(
    ragsmith: Command, stale: Path, command: tuple[str, ...]
) -> None:
    shown = ragsmith(*command)
    assert shown.code == 2
    question, advice = shown.err.splitlines()
    assert question.startswith("error: questions.jsonl:1 (q001): evidence 1: text differs from document 'mill.html'")
    assert advice == (
        "error: questions.jsonl: a piece of evidence is not at the given offsets, as after an edit of documents: "
        "`ragsmith dataset anchor --repair set` locates it again"
    )


def test_the_command_that_is_named_mends_it(ragsmith: Command, stale: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        load_dataset(stale)
    [advice] = caught.value.advice
    _, command, _ = advice.split("`")
    assert ragsmith(*command.split()[1:]).code == 0
    assert ragsmith("dataset", "validate", stale).code == 0


def test_programs_are_told_what_to_do_apart_from_what_is_wrong(ragsmith: Command, stale: Path) -> None:
    found = json.loads(ragsmith("dataset", "validate", stale, "--json").out)
    assert (found["valid"], len(found["mistakes"])) == (False, 1)
    assert ["anchor --repair set" in line for line in found["advice"]] == [True]
    (stale / "questions.jsonl").write_text("{}\n")
    assert json.loads(ragsmith("dataset", "validate", stale, "--json").out)["advice"] == []


def test_the_documents_are_asked_though_evidence_is_stale(ragsmith: Command, stale: Path) -> None:
    shown = ragsmith("ask", "winner.yaml", BUILT)
    assert shown.code == 2
    last = shown.err.splitlines()[-1]
    assert last == 'error: `ragsmith ask` needs no questions:  ragsmith ask winner.yaml "..." --documents set'
    for question, answer in ((BUILT, "1742"), (RUNG, "copper bell")):
        asked = ragsmith("ask", "winner.yaml", question, "--documents", "set")
        assert asked.code == 0
        assert answer in asked.out.partition("\nsources\n")[0]


def test_a_corrected_answer_leaves_its_documents_to_be_asked(ragsmith: Command, files: Path) -> None:
    row = {"question": BUILT, "answer": "1743", "evidence": MILL}
    Path("list.jsonl").write_text(json.dumps(row) + "\n")
    assert ragsmith("dataset", "init", "files", "-o", "set").code == 0
    assert ragsmith("dataset", "anchor", "list.jsonl", "--documents", "set").code == 0
    assert ragsmith("recommend", "set").code == 0
    before = ragsmith("ask", "winner.yaml", BUILT)
    questions = Path("set", "questions.jsonl")
    questions.write_text(questions.read_text().replace('"1743"', '"1742"'))
    after = ragsmith("ask", "winner.yaml", BUILT)
    assert (before.code, after.code, after.out, after.err) == (0, 0, before.out, before.err)
    for command in ("evaluate", "verify"):
        refused = ragsmith(command, "winner.yaml")
        assert refused.code == 2
        assert "its documents or questions changed" in refused.err


def test_after_the_repair_the_documents_as_they_are_can_be_asked(ragsmith: Command, stale: Path) -> None:
    ragsmith("dataset", "anchor", "--repair", stale)
    refused = (
        "search again, score on them as they are with `ragsmith evaluate winner.yaml --dataset set`, or answer from "
        'the documents as they are with `ragsmith ask winner.yaml "..." --documents set`\n'
    )
    for command in (("ask", "winner.yaml", BUILT), ("evaluate", "winner.yaml", "--documents", "set")):
        shown = ragsmith(*command)
        assert (shown.code, shown.out) == (2, "")
        assert shown.err.endswith(refused)
    asked = ragsmith("ask", "winner.yaml", BUILT, "--documents", "set")
    assert asked.code == 0
    assert "those of the search were edited, moved or removed" in asked.err
    assert ragsmith("evaluate", "winner.yaml", "--dataset", "set").code == 0


def test_the_folder_of_a_data_set_is_named_as_it_is_typed(ragsmith: Command, stale: Path) -> None:
    (stale / "reports").mkdir()
    file = stale.parent / "winner.yaml"
    nested = stale.parent / "reports" / "mine" / "winner.yaml"
    nested.parent.mkdir(parents=True)
    nested.write_text(file.read_text().replace("path: set", "path: ../../set"))
    shutil.rmtree(stale)
    shown = ragsmith("ask", nested.relative_to(stale.parent), BUILT)
    assert shown.code == 2
    assert "there is no folder set, as seen from" in shown.err


def test_mistakes_that_no_edit_made_are_not_sent_to_the_repair(stale: Path) -> None:
    row = {"id": "q001", "question": BUILT, "answer": "1742", "evidence": [{"doc": "quay"}]}
    (stale / "questions.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DatasetError) as caught:
        load_dataset(stale)
    assert caught.value.advice == ()


@pytest.mark.parametrize("nested", [False, True])
def test_files_that_have_to_be_converted_are_one_sentence_with_what_to_type(
    ragsmith: Command, stale: Path, files: Path, nested: bool
) -> None:
    (files / "more").mkdir()
    for name in ("bakery.html", "more/inn.docx"):
        (files / name).write_bytes(b"<p>Bread</p>")
    given = files.rename("documents").parent if nested else files
    folder = given / "documents" if nested else given
    shown = ragsmith("ask", "winner.yaml", BUILT, "--documents", given)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "error: bakery.html and 2 more cannot be read as they are: "
        f"`ragsmith dataset init {folder} -o DIR` converts the folder; then name DIR instead\n"
    )
    (folder / "more" / "inn.docx").unlink()
    assert ragsmith("dataset", "init", folder, "-o", "converted").code == 0
    assert "1742" in ragsmith("ask", "winner.yaml", BUILT, "--documents", "converted").out


def test_a_folder_that_is_not_there_is_one_sentence(ragsmith: Command, stale: Path) -> None:
    for option in ("nowhere", "list.jsonl"):
        shown = ragsmith("ask", "winner.yaml", BUILT, "--documents", option)
        assert (shown.code, shown.out) == (2, "")
        said = (
            f"error: --documents is {str(option)!r}, which is neither a folder nor a data set: give a folder of "
            "documents, or a data set\n"
        )
        assert shown.err == said
    with pytest.raises(WrongOption):
        load_documents_option("nowhere")


def test_what_else_is_wrong_in_the_folder_is_listed_too(files: Path) -> None:
    (files / "empty.md").write_text("")
    with pytest.raises(DatasetError) as caught:
        load_documents(files)
    first, second = caught.value.mistakes
    assert first.startswith("mill.html cannot be read as it is: `ragsmith dataset init")
    assert second == "empty.md: is empty; add text or remove the file"


def test_a_bundled_data_set_is_a_folder_of_documents_too() -> None:
    assert len(load_documents_option("law").documents) == len(load_dataset("law").documents)


def test_the_report_of_another_data_set_of_the_same_name_is_not_written_over(
    ragsmith: Command, tmp_path: Path, tiny_folder: Path, tiny_space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--space", tiny_space, "--strategy", "random", "--max-evaluations", "2", "--cache", "c.sqlite", "-q")
    for folder in ("one", "same", "other"):
        shutil.copytree(tiny_folder, folder)
    questions = Path("other/questions.jsonl")
    questions.write_text("".join(questions.read_text().splitlines(keepends=True)[1:]))
    assert ragsmith("search", "--dataset", "one", *options).code == 0
    before = {path: path.read_bytes() for path in Path("reports").rglob("*") if path.is_file()}
    shown = ragsmith("search", "--dataset", "other", *options)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        f"error: --reports has in reports/island the report of another data set of the name 'island', {tmp_path}/one: "
        "name another folder, or change the name in dataset.yaml\n"
    )
    assert {path: path.read_bytes() for path in Path("reports").rglob("*") if path.is_file()} == before
    same = ragsmith("search", "--dataset", "same", *options)  # the same documents and questions
    assert (same.code, same.err) == (0, "")
    key = ExportedFile(Path("reports/island/winner.yaml")).run_key()
    further = ragsmith("search", "--dataset", "same", *options, "--seed", "7")
    assert further.code == 0
    assert f"reports/island has the report of another search, {key[:12]}, which this one replaces" in further.err
    kept = ragsmith("search", "--dataset", "same", *options, "--reports", "kept")
    assert (kept.code, kept.err) == (0, "")
    assert ExportedFile(Path("kept/island/winner.yaml")).run_key() == key
    assert ragsmith("search", "--dataset", "other", *options, "--reports", "apart").code == 0
    shutil.rmtree("one")
    shutil.rmtree("same")
    assert ragsmith("search", "--dataset", "other", *options).code == 0  # what it was of is gone

"""Write a data set from a list of questions and a folder of documents, and list the questions not anchored."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragsmith.datasets.anchoring.anchor import Anchor, Anchored, Anchoring, Unanchored
from ragsmith.datasets.anchoring.answers import MIN_PROBABILITY
from ragsmith.datasets.anchoring.folded import fold
from ragsmith.datasets.anchoring.matches import NoMatch, NoMatchReason
from ragsmith.datasets.anchoring.question_lists import ListedQuestion, read_question_list
from ragsmith.datasets.dataset import load_documents
from ragsmith.datasets.documents import FOLDER
from ragsmith.datasets.locking import lock_questions
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import KEYS, derive_dataset_name, format_manifest, read_optional_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.questions import MAX_BYTES, question_record
from ragsmith.datasets.sources import FILE as SOURCES
from ragsmith.datasets.writing import document_files, new_folder, write_documents
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.jsonl import Record, json_lines, read_json_lines
from ragsmith.text.writing import write_file
from ragsmith.types import UNSPECIFIED, Dataset, Document

UNANCHORED = "unanchored.jsonl"


def anchor_list(
    questions: Path,
    documents: Path,
    output: Path | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    at_least: float = MIN_PROBABILITY,
) -> Anchoring:
    """Find the evidence of the questions in the list ``questions`` and write them as ``questions.jsonl``.

    ``documents`` is a folder of documents or the folder of a data set. Without ``output`` the questions are appended to
    those of the data set; else ``output``, a new folder, gets documents and questions. Questions that were not anchored
    go to ``unanchored.jsonl`` in the same folder, which is all that is written if none was anchored.

    Raises:
        DatasetError: the list or the documents have mistakes; it lists all of them.
        UsageError: there is no folder to write to. Nothing is written in either case.
    """
    if not questions.is_file():
        raise UsageError(
            f"{questions}: there is no such file; give a list of questions (.csv, .tsv, .jsonl, .json, .xlsx)"
        )
    if not documents.is_dir():
        raise UsageError(f"{documents}: there is no such folder; give a folder of documents, or of a data set")
    if output is None and not (documents / FOLDER).is_dir():
        raise UsageError(f"{documents} is not a data set (it has no {FOLDER}/): give --output, a new folder")
    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is not an empty folder; give a new one")
    asked = read_question_list(questions, columns)
    data = load_documents(documents)
    found = Anchor(data.documents, dict(data.merged)).anchor(asked, at_least)
    if output is None or output == documents:
        return _append_to_dataset(found, documents, data)
    _write_new_dataset(found, documents, output, data)
    return found


def _append_to_dataset(found: Anchoring, folder: Path, data: Dataset) -> Anchoring:
    """Append the anchored questions to those in ``folder``; return the result with ids as written."""
    with lock_questions(folder):  # questions may be drafted or reviewed at the same time
        existing = read_json_lines(folder / QUESTIONS, MAX_BYTES)
        if existing.mistakes:
            raise DatasetError(list(existing.mistakes.values()))
        found = _merge_with_rows(found, list(existing.records.values()))
        rows, left = _lines(found, data)
        if not (folder / MANIFEST).exists():
            write_file(format_manifest(_manifest_values(data), {}), folder / MANIFEST)
        if left or (folder / UNANCHORED).exists():
            write_file(left, folder / UNANCHORED)
        if rows:  # last: with the questions, everything is written
            text = existing.text
            write_file((text if not text or text.endswith("\n") else f"{text}\n") + rows, folder / QUESTIONS)
    return found


def _write_new_dataset(found: Anchoring, source: Path, output: Path, data: Dataset) -> None:
    rows, left = _lines(found, data)
    if not rows:
        write_file(left, output / UNANCHORED)
        return
    manifest, mistakes = read_optional_manifest(source)
    if mistakes:
        raise DatasetError(mistakes)
    converted = (source / SOURCES).exists()  # copy the files as they are, so that init recognises them
    files = {} if converted else document_files(data.documents)
    with new_folder(output) as draft:
        about = {**_manifest_values(data), **manifest.metadata, "name": derive_dataset_name(output)}
        write_documents(draft, about, data.documents, files)
        if converted:
            shutil.copytree(source / FOLDER, draft / FOLDER, dirs_exist_ok=True)
            shutil.copy2(source / SOURCES, draft / SOURCES)
        write_file(rows, draft / QUESTIONS)
        if left:
            write_file(left, draft / UNANCHORED)


def _manifest_values(data: Dataset) -> dict[str, str]:
    return {key: getattr(data, key) for key in KEYS}


def _lines(found: Anchoring, data: Dataset) -> tuple[str, str]:
    """Return the lines of ``questions.jsonl`` and of ``unanchored.jsonl``."""
    documents = {document.id: document for document in data.documents}
    texts = {id_: document.text for id_, document in documents.items()}
    rows = json_lines(question_record(each.example, texts) for each in found.anchored)
    return rows, json_lines(_unanchored_record(each, documents) for each in found.unanchored)


def _unanchored_record(left: Unanchored, documents: Mapping[str, Document]) -> dict[str, object]:
    """Return a line of ``unanchored.jsonl``: the question, the reason, and candidates for its evidence.

    With a candidate copied to a key ``evidence``, or a quotation written there, the line can be anchored again.
    """
    asked = left.asked
    return {
        "id": asked.id,
        "question": asked.question,
        **({"answer": asked.answer} if asked.answer else {}),
        **({} if asked.type == UNSPECIFIED else {"type": asked.type}),
        "line": asked.line,
        "status": str(left.why.status),
        "reason": left.why.reason,
        "candidates": [match.to_dict(documents) for match in left.why.candidates],
        **({"split": asked.split} if asked.split else {}),
    }


def _merge_with_rows(found: Anchoring, rows: Sequence[Record]) -> Anchoring:
    """Return the anchored questions as they go with existing ``rows``: with unique ids, and splits if the rows have.

    A question that a row asks already, and one without an answer where the rows have answers, is not anchored.

    Raises:
        DatasetError: the list has answers, or splits, and the rows have none: they would be lost.
    """
    if not rows:
        return found
    has_answers = any("answer" in row for row in rows)
    has_splits = any("split" in row for row in rows)
    no_answers_needed = all(row.get("answerable", True) is False for row in rows)
    anchored = [each.asked for each in found.anchored]
    wrong = [
        f"{QUESTIONS} has no {what}s, and the list does: leave out its column, or give --output, a new folder"
        for what, in_list, in_rows in (
            ("answer", any(asked.answer for asked in anchored), has_answers or no_answers_needed),
            ("split", any(asked.split for asked in anchored), has_splits),
        )
        if in_list and not in_rows
    ]
    if wrong:
        raise DatasetError(wrong)
    ids = {str(row.get("id", "")) for row in rows}
    known = {fold(str(row.get("question", ""))).text: str(row.get("id", "")) for row in rows}
    merged: list[Anchored] = []
    left: list[Unanchored] = list(found.unanchored)
    for each in found.anchored:
        same = known.get(fold(each.asked.question).text)
        if same is not None:
            left.append(
                Unanchored(each.asked, NoMatch(NoMatchReason.ALREADY_PRESENT, f"{QUESTIONS} asks the same ({same})"))
            )
        elif has_answers and each.asked.answerable and not each.asked.answer:
            why = "it has no answer, and the existing questions have one"
            left.append(Unanchored(each.asked, NoMatch(NoMatchReason.NOT_FOUND, why)))
        else:
            split = each.asked.split or ("test" if has_splits else None)  # the test has questions written by people
            merged.append(replace(each, asked=replace(_with_unique_id(each.asked, ids), split=split)))
    return Anchoring(tuple(merged), tuple(sorted(left, key=lambda each: each.asked.line)))


def _with_unique_id(asked: ListedQuestion, ids: set[str]) -> ListedQuestion:
    id_, number = asked.id, 2
    while id_ in ids:
        id_, number = f"{asked.id}-{number}", number + 1
    ids.add(id_)
    return replace(asked, id=id_)

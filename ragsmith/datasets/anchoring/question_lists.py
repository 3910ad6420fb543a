"""Read a list of questions, and recognise its columns by their names."""

import ast
import csv
import io
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ragsmith.datasets.document_types.tables import iter_csv_rows
from ragsmith.datasets.evidence import ANY, KEYS
from ragsmith.datasets.ingest.decoding import read_any_text
from ragsmith.datasets.ingest.readers.delimited import MAX_CELL_CHARACTERS
from ragsmith.datasets.ingest.readers.office import iter_filled_rows
from ragsmith.datasets.ingest.readers.part import DAMAGED, open_archive
from ragsmith.datasets.places import PLACES
from ragsmith.datasets.questions import MAX_ID_CHARACTERS, SPLITS
from ragsmith.errors import DatasetError, MissingExtra
from ragsmith.text.files import FORBIDDEN, MIB, TextError, name_character, read_bytes, shorten
from ragsmith.text.jsonl import iter_records, name_type, parse_json
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import UNSPECIFIED

MAX_BYTES = 256 * MIB
"""Maximum size of the file, in bytes."""

Row = tuple[int, Mapping[str, object]]
"""The number of a line in the file, or of a row, and the values by column."""

COLUMN_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "question": ("question", "query", "user input", "q", "prompt", "input", "questions", "user question"),
        "answer": (
            *("answer", "reference answer", "ground truth", "expected answer", "gold answer", "ground truth answer"),
            *("reference", "expected output", "correct answer", "answers", "ground truths", "a", "response", "output"),
        ),
        "evidence": (
            *("evidence", "quotation", "quote", "quotes", "evidences", "supporting text", "source text", "excerpt"),
            *("reference contexts", "ground truth context", "ground truth contexts", "gold context", "gold contexts"),
            *("contexts", "context", "reference context", "passage", "passages", "snippet", "support"),
        ),
        "doc": (
            *("doc", "document", "doc id", "document id", "file", "filename", "file name", "source file"),
            *("source", "source document", "document name", "doc name", "path"),
        ),
        "id": ("id", "question id", "qid", "query id", "uid", "number", "nr", "no"),
        "type": ("type", "question type", "category", "kind", "evolution type", "synthesizer name"),
        "split": ("split",),
        "answerable": ("answerable",),
    }
)
"""Common column names by role, in order of preference."""

BOOLEAN_VALUES: Mapping[str, bool] = MappingProxyType(
    {"": True, "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
)
"""Accepted values of the column ``answerable``, in lower case."""


@dataclass(frozen=True, slots=True)
class QuotedEvidence:
    """A quotation, its document if given, and its evidence record as in ``questions.jsonl``, if any."""

    text: str
    doc: str | None = None
    record: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class ListedQuestion:
    """A question in a list; ``docs`` names the documents with the answer."""

    line: int
    id: str
    question: str
    answer: str = ""
    type: str = UNSPECIFIED
    quotations: tuple[QuotedEvidence, ...] = ()
    docs: tuple[str, ...] = ()
    split: str | None = None
    answerable: bool = True


def read_question_list(path: Path, columns: Mapping[str, str] | None = None) -> list[ListedQuestion]:
    """Return the questions of the list at ``path``, in order.

    ``columns`` maps roles (the keys of `COLUMN_NAMES`) to column names; the other columns are recognised by name.

    Raises:
        DatasetError: the list has mistakes; the error lists all of them.
    """
    rows = read_rows(path)
    columns_by_role = recognise_columns([name for _, row in rows for name in row], columns or {}, path)
    questions: list[ListedQuestion] = []
    mistakes: list[str] = []
    for number, row in enumerate(rows, start=1):
        try:
            default_id = f"q{number:0{max(3, len(str(len(rows))))}d}"
            questions.append(_question_from_row(row, columns_by_role, default_id))
        except TextError as error:
            mistakes.append(f"{path.name}:{row[0]}: {error.reason}")
    mistakes += _iter_repeated_ids(questions, path)
    without_split = [question.line for question in questions if not question.split]
    with_split = [question.line for question in questions if question.split]
    if without_split and with_split:
        mistakes.append(
            f"{path.name}:{without_split[0]}: has no 'split', but line {with_split[0]} has; give all or none"
        )
    if mistakes:
        raise DatasetError(mistakes)
    return questions


def recognise_columns(names: Collection[str], given: Mapping[str, str], path: Path) -> dict[str, str]:
    """Return the column names of a list by role: the ``given`` ones, else those in `COLUMN_NAMES`.

    Raises:
        DatasetError: a given column is missing, or there are no questions, or nothing about their answers.
    """
    columns = list(dict.fromkeys(names))
    by_name = {_normalise_name(column): column for column in reversed(columns)}
    listed = ", ".join(map(repr, columns))
    mistakes = [
        f"{path.name}: has no column {shorten(column)} for --{role}-column; {did_you_mean(column, columns)}"
        for role, column in given.items()
        if column not in columns
    ]
    columns_by_role = dict(given)
    for role, aliases in COLUMN_NAMES.items():
        free = [by_name[name] for name in aliases if name in by_name and by_name[name] not in columns_by_role.values()]
        if role not in columns_by_role and free:
            columns_by_role[role] = free[0]
    if "question" not in columns_by_role:
        mistakes.append(f"{path.name}: no column of questions was recognised ({listed}); name it: --question-column")
    elif columns_by_role.keys().isdisjoint(("answer", "evidence", "answerable")):
        problem = "no column of answers or quotations was recognised"
        mistakes.append(f"{path.name}: {problem} ({listed}); name one: --answer-column or --evidence-column")
    if mistakes:
        raise DatasetError(mistakes)
    return columns_by_role


def _normalise_name(name: str) -> str:
    """Normalise a column name: ``Ground_Truth`` is ``ground truth``."""
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", name).casefold()))


def _question_from_row(row: Row, columns_by_role: Mapping[str, str], default_id: str) -> ListedQuestion:
    line, record = row
    values = {role: record.get(column) for role, column in columns_by_role.items()}
    question = _single_text(values.get("question"), "question")
    if not question:
        raise TextError("the question is blank; write it, or remove the row")
    split = _single_text(values.get("split"), "split") or None
    if split is not None and split not in SPLITS:
        raise TextError(f"'split' must be 'search', 'test' or 'unused', not {shorten(split)}")
    id_ = _single_text(values.get("id"), "id") or default_id
    if not id_.isprintable() or len(id_) > MAX_ID_CHARACTERS:
        raise TextError(f"the id must be one line of at most {MAX_ID_CHARACTERS} printable characters")
    answerable = values.get("answerable")
    answerable_text = "" if answerable is None else str(answerable).strip().casefold()
    if answerable_text not in BOOLEAN_VALUES:
        raise TextError(f"'answerable' must be true or false, not {shorten(answerable)}")
    return ListedQuestion(
        line,
        id_,
        question,
        _single_text(values.get("answer"), "answer"),
        _single_text(values.get("type"), "type") or UNSPECIFIED,
        tuple(_read_quotations(values.get("evidence"))),
        tuple(text for entry in _list_entries(values.get("doc")) if (text := _single_text(entry, "document"))),
        split,
        BOOLEAN_VALUES[answerable_text],
    )


def _single_text(value: object, label: str) -> str:
    """Return a stripped text, also of a list with one entry; "" for a missing value."""
    if isinstance(value, list) and len(value) <= 1:
        value = value[0] if value else None
    if value is None:
        return ""
    if isinstance(value, bool | dict | list):
        raise TextError(f"the {label} is {name_type(value)}; write a text")
    return str(value).strip()


def _list_entries(value: object) -> Sequence[object]:
    """Return the entries of a list, or of the text of a list in JSON or Python syntax, as in a CSV cell."""
    if isinstance(value, str) and value.strip()[:1] == "[" and value.strip()[-1:] == "]":
        for parse in (parse_json, ast.literal_eval):
            try:
                entries = parse(value.strip())
            except (TextError, ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(entries, list) and all(isinstance(entry, str | dict) for entry in entries):
                return entries
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _read_quotations(value: object) -> Iterator[QuotedEvidence]:
    for entry in _list_entries(value):
        if isinstance(entry, dict) and ANY in entry:
            yield QuotedEvidence("", record=entry)
            continue
        if isinstance(entry, dict):
            text, doc = _single_text(entry.get("text"), "evidence"), _single_text(entry.get("doc"), "document")
            record = {key: value for key, value in entry.items() if key in (*KEYS, *PLACES)}
            quotation = QuotedEvidence(text, doc or None, record if doc else None)
        else:
            quotation = QuotedEvidence(_single_text(entry, "evidence"))
        if quotation.text or quotation.record:
            yield quotation


def _iter_repeated_ids(questions: Sequence[ListedQuestion], path: Path) -> Iterator[str]:
    first_lines: dict[str, int] = {}
    for question in questions:
        first = first_lines.setdefault(question.id, question.line)
        if first != question.line:
            yield f"{path.name}:{question.line}: the id {shorten(question.id)} is used on line {first} already"


# --- rows of a CSV, TSV, JSON, JSONL or XLSX file; a byte order mark, semicolons and blank rows are accepted ---------


def read_rows(path: Path) -> list[Row]:
    """Return the rows of the file at ``path`` that are not blank; the suffix determines the format.

    Raises:
        DatasetError: the file is not a list of that format.
        MissingExtra: the package that reads XLSX is not installed.
    """
    reader = FORMATS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(FORMATS)
        raise DatasetError([f"{path}: is not a list of questions; give a file that ends in one of {known}"])
    try:
        rows = [(number, row) for number, row in reader(path) if any(map(_has_value, row.values()))]
    except TextError as error:
        raise DatasetError([error.at(path.name)]) from None
    if not rows:
        raise DatasetError([f"{path.name}: has no rows; write one question a row, under the names of the columns"])
    return rows


def _has_value(value: object) -> bool:
    return value is not None and value != [] and bool(str(value).strip())


def _read_text(path: Path) -> str:
    return read_any_text(path, limit=MAX_BYTES, links=True)


def _read_csv(path: Path) -> Iterator[Row]:
    text = _read_text(path)
    first = text.split("\n", 1)[0]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=first.count)
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    return _rows_by_column(iter_csv_rows(text, delimiter))


def _rows_by_column(rows: Iterable[tuple[int, Sequence[object]]]) -> Iterator[Row]:
    """Yield the rows below the header, the first row that is not blank."""
    filled_lines = [(line, cells) for line, cells in rows if any(map(_has_value, cells))]
    if not filled_lines:
        return
    line, head = filled_lines[0]
    names = ["" if name is None else str(name).strip() for name in head]
    if repeated := sorted({name for name in names if name and names.count(name) > 1}):
        raise TextError(f"the column {shorten(repeated[0])} occurs {names.count(repeated[0])} times; rename one", line)
    for number, cells in filled_lines[1:]:
        if any(map(_has_value, cells[len(names) :])):
            problem = f"the row has {len(cells)} cells, the header {len(names)}; quote a cell that contains a separator"
            raise TextError(problem, number)
        filled = [*cells, *[""] * (len(names) - len(cells))]
        yield number, {name: cell for name, cell in zip(names, filled, strict=False) if name}


def _read_json(path: Path) -> Iterator[Row]:
    content = parse_json(_read_text(path))
    lists = [value for value in content.values() if isinstance(value, list)] if isinstance(content, dict) else [content]
    if len(lists) != 1 or not isinstance(lists[0], list):
        raise TextError(f"expected a list of questions, found {name_type(content)}; write [{{...}}, ...]")
    for number, record in enumerate(lists[0], start=1):
        if not isinstance(record, dict):
            raise TextError(f"entry {number} is {name_type(record)}, not an object; write {{...}}")
        yield number, record


def _read_xlsx(path: Path) -> Iterator[Row]:
    try:
        import openpyxl  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("openpyxl", "documents") from None
    data = read_bytes(path, limit=MAX_BYTES, links=True)
    open_archive(data).close()
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        rows = list(enumerate(iter_filled_rows(book.worksheets[0], lambda cell: _format_cell(cell.value)), start=1))
        book.close()
    except DAMAGED as error:
        raise TextError(f"is not a readable XLSX workbook ({error}); save it again, or as CSV") from None
    for number, cells in rows:
        if found := next((m for cell in cells if (m := FORBIDDEN.search(cell))), None):
            raise TextError(f"{name_character(found.group())}; remove it", number)
    yield from _rows_by_column(rows)


def _format_cell(cell: object) -> str:
    """Return a cell as displayed: whole numbers without a decimal point, dates without a time."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).removesuffix(" 00:00:00")


FORMATS: Mapping[str, Callable[[Path], Iterator[Row]]] = MappingProxyType(
    {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".jsonl": lambda path: iter_records(_read_text(path)),
        ".json": _read_json,
        ".xlsx": _read_xlsx,
    }
)

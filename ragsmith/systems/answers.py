"""The answers of another system: rows of a file, of an endpoint or of a function, with the contexts it retrieved.

A row is a JSON object. `KEYS` lists the names of its fields; other fields are ignored, so that rows of other tools can
be read as they are. A context is a text, or an object with a document and a place, a text in it, or nothing else for
the whole document.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragsmith.errors import DatasetError
from ragsmith.grouping import group_values
from ragsmith.text.files import MIB, TextError, read_text, shorten
from ragsmith.text.jsonl import iter_records, name_type, parse_json
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Dataset

SystemFunction = Callable[[str], object]
"""A system in Python: maps the text of a question to its answer, to the pair of answer and contexts, or to a row."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "question_id", "query_id", "qid"),
    "question": ("question", "user_input", "query"),
    "answer": ("answer", "response"),
    "contexts": ("contexts", "retrieved_contexts", "passages"),
    "cost": ("cost",),
    "seconds": ("seconds",),
    "error": ("error",),
}
"""The names of each field of a row; the others are those of RAGAS, BEIR and `ragsmith serve`."""

MAX_BYTES = 1024 * MIB
"""Maximum size of a file of rows, in bytes."""
_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_LISTED = 5
"""The number of mistakes in rows that are listed."""


@dataclass(frozen=True, slots=True)
class Context:
    """A retrieved context: a ``text``, a place ``[start, end)`` of a document, or a whole document."""

    text: str | None = None
    doc: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """The answer of a system to a question, and its contexts, best first.

    ``cost`` is in the currency of the system's bill. ``error`` is the reason if the system failed on the question;
    then there is no answer.
    """

    answer: str
    contexts: tuple[Context, ...] = ()
    cost: float | None = None
    seconds: float | None = None
    error: str = ""

    def to_row(self, question: str) -> dict[str, Any]:
        """Return the row of the answer to the question with the text ``question``, without fields that it lacks."""
        fields = {name: value for name, value in asdict(self).items() if value not in (None, "")}
        contexts = [{name: value for name, value in one.items() if value is not None} for one in fields["contexts"]]
        return {"question": question, "answer": self.answer, **fields, "contexts": contexts}


def read_rows(path: Path) -> list[tuple[str, Mapping[str, object]]]:
    """Read the rows of a file, JSON Lines or one JSON list, each with the place that messages name.

    Raises:
        DatasetError: the file cannot be read, or a row is no JSON object.
    """
    try:
        text = read_text(path, limit=MAX_BYTES)
        if not text.lstrip().startswith("["):
            return [(f"{path}:{number}", record) for number, record in iter_records(text)]
        rows = parse_json(text)
    except TextError as error:
        raise DatasetError([error.at(str(path))]) from None
    assert isinstance(rows, list)
    if wrong := [number for number, row in enumerate(rows, 1) if not isinstance(row, dict)]:
        raise DatasetError([f"{path}: row {wrong[0]} is {name_type(rows[wrong[0] - 1])}; write an object"])
    return [(f"{path}: row {number}", row) for number, row in enumerate(rows, 1)]


def match_rows(rows: Iterable[tuple[str, Mapping[str, object]]], dataset: Dataset) -> dict[str, GivenAnswer]:
    """Return the answers of rows by the id of their question in ``dataset``, which a row names by its id or text.

    Questions with the same text get the same answer.

    Raises:
        DatasetError: rows are malformed, or name no question of the data set, or the same question twice.
    """
    texts = {example.id: _fold(example.question) for example in dataset.examples}
    by_text = group_values((text, id_) for id_, text in texts.items())
    found: dict[str, GivenAnswer] = {}
    first: dict[str, str] = {}
    mistakes: list[str] = []
    for where, row in rows:
        try:
            for question in by_text[_question_text(row, texts, by_text, dataset.name)]:
                if question in first:
                    raise TextError(f"answers {question!r} like {first[question]}; keep one of them")
                first[question] = where
                found[question] = parse_answer(row)
        except TextError as error:
            mistakes.append(f"{where}: {error.reason}")
    if mistakes:
        further = len(mistakes) - MAX_LISTED
        raise DatasetError([*mistakes[:MAX_LISTED], *([f"and {further:,} more rows"] if further > 0 else [])])
    return found


def _question_text(
    row: Mapping[str, object], texts: Mapping[str, str], by_text: Mapping[str, Collection[str]], dataset: str
) -> str:
    """Return the text of the question that a row answers, by its text if both are given and agree."""
    named, asked = _get(row, "id"), _get(row, "question")
    id_ = None if named is None else unicodedata.normalize("NFC", str(named))
    text = _fold(asked) if isinstance(asked, str) else None
    if id_ is not None and id_ in texts:
        if text not in (None, texts[id_]):
            raise TextError(f"has the id {id_!r} and another text than this question, {shorten(text)}; correct one")
        return texts[id_]
    if text is not None and text in by_text:
        return text
    if id_ is not None:
        raise TextError(f"{dataset!r} has no question {shorten(id_)}; {did_you_mean(id_, texts)}")
    if text is None:
        raise TextError("names no question; add its 'id', or its text as 'question'")
    raise TextError(f"{dataset!r} has no question {shorten(text)}; give its text as it is there, or its 'id'")


def parse_answer(row: Mapping[str, object]) -> GivenAnswer:
    """Return the answer in a row. Raises ``TextError`` with the first mistake."""
    cost, seconds = (_number(row, name) for name in ("cost", "seconds"))
    if error := _get(row, "error"):
        return GivenAnswer("", (), cost, seconds, " ".join(str(error).split()))
    answer, contexts = _get(row, "answer"), _get(row, "contexts")
    if not isinstance(answer, str):
        raise TextError(f"'answer' {_name(answer, 'a text')}; a question that failed has an 'error'")
    if any(map(_SURROGATE.search, (answer, *_texts(contexts)))):
        raise TextError("has half a character in a text, which is not valid Unicode; mend it")
    if not isinstance(contexts, list):
        raise TextError(f"'contexts' {_name(contexts, 'a list')}; give what was retrieved, best first, or []")
    return GivenAnswer(answer, tuple(_context(place, one) for place, one in enumerate(contexts, 1)), cost, seconds)


def _context(place: int, value: object) -> Context:
    if isinstance(value, str):
        return Context(value)
    if not isinstance(value, dict):
        raise TextError(f"context {place} is {name_type(value)}; give a text, or an object with 'doc'")
    text, doc, start, end = (value.get(key) for key in ("text", "doc", "start", "end"))
    kinds = ((text, str), (doc, str), (start, int), (end, int))
    if any(one is not None and (not isinstance(one, kind) or isinstance(one, bool)) for one, kind in kinds):
        raise TextError(f"context {place}: 'text' and 'doc' are texts, 'start' and 'end' integers; correct them")
    if (start is None) != (end is None) or (text is None and doc is None) or (start is not None and doc is None):
        raise TextError(f"context {place} needs a 'text', or a 'doc' with 'start' and 'end', or a whole 'doc'")
    return Context(text, doc, start, end)


def _number(row: Mapping[str, object], name: str) -> float | None:
    value = _get(row, name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise TextError(f"{name!r} must be a number from 0 on, not {shorten(str(value))}")
    return float(value)


def _get(row: Mapping[str, object], name: str) -> object:
    return next((row[key] for key in KEYS[name] if row.get(key) is not None), None)


def _name(value: object, wanted: str) -> str:
    """Describe what is wrong with a field that must be ``wanted``."""
    return "is missing" if value is None else f"must be {wanted}, not {name_type(value)}"


def _texts(contexts: object) -> list[str]:
    each = contexts if isinstance(contexts, list) else []
    return [text for one in each if isinstance(text := one.get("text") if isinstance(one, dict) else one, str)]


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())

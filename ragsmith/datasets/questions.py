"""Read ``questions.jsonl`` of a data set, and collect all mistakes by line and identifier.

Each line is a JSON object with ``id`` and ``question``; optionally ``type`` and ``evidence`` (a list, see
`ragsmith.datasets.evidence`); ``"answerable": false``, without evidence, if the documents do not answer it; ``origin``
if a model drafted it; ``filter`` (`ragsmith.text.filters`) if only some documents may answer it; and, on all lines or
none, ``split`` and ``answer`` (of answerable questions). Without answers only retrieval is scored; without evidence
only answers are.
"""

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragsmith.datasets.documents import Documents, read_documents
from ragsmith.datasets.evidence import EvidenceChecker, entry_places, gold_record, lacks_offsets
from ragsmith.datasets.fields import get_types
from ragsmith.datasets.locking import lock_questions
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.files import FORBIDDEN, MIB, read_text, shorten
from ragsmith.text.filters import format_filter, parse_filter
from ragsmith.text.jsonl import Record, key_problems, name_type, parse_record, read_json_lines, text_problems
from ragsmith.text.writing import write_file
from ragsmith.types import DRAFTED, UNSPECIFIED, Example, Origin, Span

REVIEWED = ("accepted", "mended")
"""Outcomes of a review, as written in the file."""

_ORIGIN_TEXTS = ("by", "method", "model", "prompt", "reviewed", "reviewer")
_RECEIVED = ("time", "request", "pipeline")
"""When feedback came and what it is about, which is not read."""
_PASSAGE_KEYS = ("doc", "start", "end")


def read_origin(value: object) -> tuple[Origin | None, list[str]]:
    """Return the origin of a question, or a message for each mistake."""
    if not isinstance(value, dict):
        return None, [f"'origin' must be an object, not {name_type(value)}"]
    problems = [
        *key_problems(value, required=("by",), optional=(*_ORIGIN_TEXTS[1:], *_RECEIVED, "passage")),
        *text_problems(value, (*_ORIGIN_TEXTS, *_RECEIVED)),
    ]
    by, reviewed = value.get("by"), value.get("reviewed")
    if isinstance(by, str) and by != DRAFTED:
        problems.append(
            f"'by' must be {DRAFTED!r}, not {shorten(by)}; leave 'origin' out if a person wrote the question"
        )
    if isinstance(reviewed, str) and reviewed not in REVIEWED:
        problems.append(f"'reviewed' must be 'accepted' or 'mended', not {shorten(reviewed)}")
    passage, wrong = _read_passage(value["passage"]) if "passage" in value else (None, [])
    problems += wrong
    if problems:
        return None, [f"origin: {problem}" for problem in problems]
    by, method, model, prompt, reviewed, reviewer = (str(value.get(key, "")) for key in _ORIGIN_TEXTS)
    return Origin(by, method, model, prompt, passage, reviewed, reviewer), []


def origin_record(origin: Origin) -> dict[str, object]:
    """Return the JSON object of ``origin``, which `read_origin` reads."""
    record: dict[str, object] = {key: value for key in _ORIGIN_TEXTS[:4] if (value := getattr(origin, key))}
    if origin.passage is not None:
        record["passage"] = {key: getattr(origin.passage, key) for key in _PASSAGE_KEYS}
    return record | {key: value for key in _ORIGIN_TEXTS[4:] if (value := getattr(origin, key))}


def _read_passage(value: object) -> tuple[Span | None, list[str]]:
    """Read the passage that a question was drafted from; the document may have changed, so the span is not checked."""
    if not isinstance(value, dict):
        return None, [f"'passage' must be an object with the keys {', '.join(_PASSAGE_KEYS)}, not {name_type(value)}"]
    doc, start, end = (value.get(key) for key in _PASSAGE_KEYS)
    problems = [*key_problems(value, required=_PASSAGE_KEYS), *text_problems(value, ("doc",))]
    if problems:
        return None, [f"passage: {problem}" for problem in problems]
    if type(start) is not int or type(end) is not int or not 0 <= start < end:
        return None, [f"passage: 'start' and 'end' must be integers from 0 up, in order, not {shorten([start, end])}"]
    return Span(str(doc), start, end), []


FILE = "questions.jsonl"
MAX_BYTES = 256 * MIB
"""Maximum size of the file, in bytes."""
MAX_ID_CHARACTERS = 200
"""Maximum length of an identifier, in characters."""

SPLITS = ("search", "test", "unused")

TEXTS = ("id", "question", "answer", "type")
ALL_OR_NONE = ("answer", "split")
REQUIRED = ("id", "question")
OPTIONAL = ("answer", "answerable", "type", "evidence", "split", "origin", "filter")

Mistake = tuple[int, str]
"""A line number and a message."""


@dataclass(frozen=True, slots=True)
class QuestionLine:
    """A JSON object of the file with its line number."""

    number: int
    record: Record

    @property
    def answerable(self) -> bool:
        """Whether the question is not marked as unanswerable."""
        return self.record.get("answerable") is not False

    def mistake(self, problem: str) -> Mistake:
        """Return ``questions.jsonl:17 (law-017): problem``."""
        id_ = self.record.get("id")
        where = f"{FILE}:{self.number} ({id_})" if _is_id(id_) else f"{FILE}:{self.number}"
        return self.number, f"{where}: {problem}"


def read_questions(dataset: Path, documents: Documents) -> tuple[list[Example], list[str]]:
    """Return the valid questions in the order of the file, and all mistakes in the order of lines."""
    if not os.path.lexists(dataset / FILE):
        folder = shlex.quote(str(dataset))
        return [], [
            f"{FILE}: is missing; draft questions with `ragsmith dataset draft {folder} --llm MODEL`, find the "
            "evidence of an existing list with `ragsmith dataset anchor QUESTIONS "
            f"--documents {folder}`, or write them"
        ]
    content = read_json_lines(dataset / FILE, MAX_BYTES)
    lines = [QuestionLine(number, record) for number, record in content.records.items()]
    mistakes = list(content.mistakes.items())
    if 0 in content.mistakes:
        return [], [content.mistakes[0]]
    if not lines and not mistakes:
        return [], [f"{FILE}: has no questions; write one JSON object a line"]
    checker = EvidenceChecker(documents)
    examples: list[Example] = []
    types = get_types(document for document in documents.values() if document)
    for line in lines:
        example, problems = _parse_question(line.record, checker)
        if example and "filter" in line.record:
            try:
                example = replace(example, filter=parse_filter(line.record["filter"], types))
            except UsageError as error:
                example, problems = None, [str(error)]
        mistakes.extend(line.mistake(problem) for problem in problems)
        examples.extend([example] if example else [])
    mistakes += [*_find_repeated_ids(lines), *(mistake for key in ALL_OR_NONE for mistake in _find_missing(key, lines))]
    mistakes += _find_unscorable(lines)
    return examples, [sentence for _, sentence in sorted(mistakes, key=lambda mistake: mistake[0])]


def _parse_question(record: Record, checker: EvidenceChecker) -> tuple[Example | None, list[str]]:
    problems = [*key_problems(record, required=REQUIRED, optional=OPTIONAL), *text_problems(record, TEXTS)]
    if isinstance(id_ := record.get("id"), str) and id_.strip() and not FORBIDDEN.search(id_) and not _is_id(id_):
        problems.append(
            f"'id' must be one line of at most {MAX_ID_CHARACTERS} printable characters without spaces around it"
        )
    split = record.get("split")
    if "split" in record and split not in SPLITS:
        problems.append(f"'split' must be 'search', 'test' or 'unused', not {shorten(split)}")
    spans, wrong = checker.spans(record["evidence"]) if "evidence" in record else ((), [])
    problems += wrong
    answerable = record.get("answerable", True)
    if not isinstance(answerable, bool):
        problems.append(f"'answerable' must be true or false, not {name_type(answerable)}")
    elif not answerable and record.get("evidence"):
        problems.append("'answerable' is false, but there is evidence for an answer; remove one of them")
    origin, wrong = read_origin(record["origin"]) if "origin" in record else (None, [])
    problems += wrong
    if problems:
        return None, problems
    id_, question, answer, type_ = (str(record.get(key, "")) for key in TEXTS)
    part = None if split is None else str(split)
    return Example(id_, question, answer, type_ or UNSPECIFIED, spans, part, bool(answerable), origin), []


def question_record(example: Example, texts: Mapping[str, str]) -> dict[str, object]:
    """Return the JSON object of ``example``, without default values; ``texts`` maps documents to their texts."""
    evidence = [gold_record(span, texts) for span in example.evidence]
    return {
        "id": example.id,
        "question": example.question,
        **({"answer": example.answer} if example.answer else {}),
        **({} if example.answerable else {"answerable": False}),
        **({} if example.type == UNSPECIFIED else {"type": example.type}),
        **({"evidence": evidence} if evidence else {}),
        **({"split": example.split} if example.split else {}),
        **({"origin": origin_record(example.origin)} if example.origin else {}),
        **({"filter": format_filter(example.filter)} if example.filter else {}),
    }


def _is_id(value: object) -> bool:
    """Whether ``value`` is a valid identifier of a question."""
    if not isinstance(value, str) or not value.isprintable():
        return False
    return value == value.strip() and 0 < len(value) <= MAX_ID_CHARACTERS


def _find_repeated_ids(lines: Sequence[QuestionLine]) -> Iterator[Mistake]:
    first: dict[str, int] = {}
    for line in lines:
        id_ = line.record.get("id")
        if isinstance(id_, str) and first.setdefault(id_, line.number) != line.number:
            yield line.mistake(f"the id is used on line {first[id_]} already; give each question its own")


def _find_missing(key: str, lines: Sequence[QuestionLine]) -> Iterator[Mistake]:
    """Yield a mistake if ``key`` is given on some of the lines that may have it, but not on all."""
    lines = [line for line in lines if key != "answer" or line.answerable]
    without = [line for line in lines if key not in line.record]
    given = next((line for line in lines if key in line.record), None)
    if given is None or not without:
        return
    others = f" and on {len(without) - 1} more lines" if len(without) > 1 else ""
    yield without[0].mistake(f"{key!r} is missing here{others} but given on line {given.number}; give all or none")


def _find_unscorable(lines: Sequence[QuestionLine]) -> Iterator[Mistake]:
    """Yield mistakes for questions with neither answer nor evidence, or if all are unanswerable."""
    answerable = [line for line in lines if line.answerable]
    if lines and not answerable:
        advice = "add some that the documents answer"
        yield lines[0].mistake(f"'answerable' is false here and on every other line; {advice}")
    if any("answer" in line.record for line in answerable):  # missing answers are reported by `_find_missing`
        return
    for line in answerable:
        if "evidence" not in line.record or line.record["evidence"] == []:
            advice = "give 'answer', 'evidence' or both, or '\"answerable\": false' if the documents have no answer"
            yield line.mistake(f"the question has neither answer nor evidence to score; {advice}")


def write_offsets(folder: Path) -> int:
    """Add ``doc``, ``start`` and ``end`` to evidence with a ``text`` and no offsets; return the number of such pieces.

    Other lines, and evidence with only a place, are not changed. The file is replaced atomically.

    Raises:
        DatasetError: documents or questions have mistakes; the error lists all of them.
    """
    with lock_questions(folder):
        documents, wrong_documents = read_documents(folder)
        _, wrong_questions = read_questions(folder, documents)
        if mistakes := (*wrong_documents, *wrong_questions):
            raise DatasetError(mistakes)
        texts = {document.id: document.text for document in documents.values() if document}
        lines, written = [], 0
        checker = EvidenceChecker(documents)
        for line in read_text(folder / FILE, limit=MAX_BYTES).split("\n"):
            record = parse_record(line) if line.strip() else {}
            if count := sum(map(_is_quotation, evidence_entries(record))):
                written += count
                ending = "\r" if line.endswith("\r") else ""
                lines.append(json.dumps(_add_offsets(record, checker, texts), ensure_ascii=False) + ending)
            else:
                lines.append(line)
        if written:
            write_file("\n".join(lines), folder / FILE)
    return written


def _add_offsets(record: Record, checker: EvidenceChecker, texts: Mapping[str, str]) -> Record:
    entries = evidence_entries(record)
    spans = [checker.span(entry)[0] if _is_quotation(entry) else None for entry in entries]
    evidence = [gold_record(span, texts) if span else entry for entry, span in zip(entries, spans, strict=True)]
    return {**record, "evidence": evidence}


def evidence_entries(record: Record) -> list[object]:
    """Return the entries of the ``evidence`` of a question, which may be invalid; none if it is not a list."""
    evidence = record.get("evidence")
    return evidence if isinstance(evidence, list) else []


def _is_quotation(entry: object) -> bool:
    """Whether an entry, or one of its places, has a text without offsets."""
    return any(isinstance(place, dict) and "text" in place and lacks_offsets(place) for place in entry_places(entry))

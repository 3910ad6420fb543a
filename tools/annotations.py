"""Optional annotations of questions: correct and wrong answers, traits and clusters.

    annotations.jsonl   one line for each question: its cluster and traits, a second correct answer, a plausible wrong
                        answer and its kind, and optional paraphrases; searches and digests ignore it
    clusters.yaml       documents that may be combined in one question, by cluster

`ragsmith models check --calibration` reads the answers only; this reads and checks everything, as the bundled domains
are described by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragsmith.datasets.annotations import FILE, MAX_BYTES, WRONG_KINDS
from ragsmith.errors import DatasetError
from ragsmith.text.jsonl import key_problems, read_json_lines

TRAITS = ("across_documents", "other_words", "table", "newer_version", "unanswerable")
"""Evidence in two documents; wording that differs from the evidence; an answer in a table; an answer only in the newer
of two versions; no answer in these documents."""

READER_KEYS = ("second_reading", "third_reading")
"""Keys of the judgements of readers other than the author; the third reader judges the changes of the second."""


@dataclass(frozen=True, slots=True)
class ReaderJudgement:
    """Whether a reader could answer a question from its evidence alone, and without any documents.

    ``mended`` describes the changes made after the judgement.
    """

    from_spans: bool
    without_documents: bool
    mended: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """The annotation of the question ``id``.

    ``paraphrase`` is a second correct answer, ``wrong`` a wrong one of ``wrong_kind``, ``wordings`` are paraphrases of
    the question. Questions of one ``cluster`` have evidence in the same documents, those of one ``group`` in the same
    sections.
    """

    id: str
    cluster: str
    traits: tuple[str, ...]
    paraphrase: str
    wrong: str
    wrong_kind: str
    wordings: tuple[str, ...] = ()
    group: str = ""
    readings: tuple[ReaderJudgement, ...] = ()


def read_annotations(folder: Path) -> Mapping[str, Annotation]:
    """Return the annotations of the data set in ``folder`` by question; none without the file.

    Raises:
        DatasetError: lines are invalid; the error lists all of them.
    """
    lines = read_json_lines(folder / FILE, MAX_BYTES)
    annotations: dict[str, Annotation] = {}
    mistakes = dict(lines.mistakes)
    for number, row in lines.records.items():
        problems = list(_find_problems(row)) or (
            ["an earlier line has the same id"] if row["id"] in annotations else []
        )
        if problems:
            mistakes[number] = "\n".join(f"{FILE}:{number} ({row.get('id')}): {problem}" for problem in problems)
        else:
            annotations[str(row["id"])] = _parse_annotation(row)
    if mistakes:
        raise DatasetError([line for number in sorted(mistakes) for line in mistakes[number].split("\n")])
    return annotations


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_judgement(value: object) -> bool:
    return (
        isinstance(value, dict)
        and {"from_spans", "without_documents"} <= value.keys() <= {"from_spans", "without_documents", "mended"}
        and all(isinstance(entry, str if name == "mended" else bool) for name, entry in value.items())
    )


_REQUIRED = ("id", "cluster", "traits", "paraphrase", "wrong", "wrong_kind")
_TEXT, _TEXTS = (_is_text, "is not a text: write one"), (_is_text_list, "is not a list of texts: write [...]")
_JUDGEMENT = (_is_judgement, 'is not {"from_spans": true or false, "without_documents": true or false}')
_VALIDATORS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("id", "cluster", "paraphrase", "wrong", "wrong_kind", "group"), _TEXT),
    **dict.fromkeys(("traits", "wordings"), _TEXTS),
    **dict.fromkeys(READER_KEYS, _JUDGEMENT),
}
"""Predicates of values by key, and messages for invalid values."""


def _find_problems(row: Mapping[str, object]) -> Iterator[str]:
    """Yield the mistakes in a line."""
    yield from key_problems(row, required=_REQUIRED, optional=("wordings", "group", *READER_KEYS))
    wrong = {name for name, (is_valid, _) in _VALIDATORS.items() if name in row and not is_valid(row[name])}
    yield from (f"{name!r} {message}" for name, (_, message) in _VALIDATORS.items() if name in wrong)
    traits = [] if "traits" in wrong else _get_texts(row, "traits")
    for noun, listed, known in (("trait", traits, TRAITS), ("wrong_kind", [row.get("wrong_kind")], WRONG_KINDS)):
        if unknown := [value for value in listed if value is not None and value not in known]:
            yield f"there is no {noun} {unknown[0]!r}: the known ones are {', '.join(known)}"


def _get_texts(row: Mapping[str, object], name: str) -> Sequence[str]:
    value = row.get(name, [])
    return [str(text) for text in value] if isinstance(value, list) else []


def _parse_annotation(row: Mapping[str, object]) -> Annotation:
    readings: list[Any] = [row[name] for name in READER_KEYS if name in row]
    return Annotation(
        id=str(row["id"]),
        cluster=str(row["cluster"]),
        traits=tuple(_get_texts(row, "traits")),
        paraphrase=str(row["paraphrase"]),
        wrong=str(row["wrong"]),
        wrong_kind=str(row["wrong_kind"]),
        wordings=tuple(_get_texts(row, "wordings")),
        group=str(row.get("group", "")),
        readings=tuple(ReaderJudgement(**reading) for reading in readings),
    )

"""TAT-QA: questions over pages of financial reports, a table and the paragraphs around it (Zhu et al. 2021).

A document is a page: its table in Markdown, then its paragraphs. The published file labels the paragraphs with the
answer of a question, but no cells, so the rows of the table are searched for (see `find_rows`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragsmith.datasets.importers.registry import (
    EvidenceCollector,
    Fields,
    Imported,
    check_ids,
    document_from_text,
    importer,
    numbered_ids,
    read_files,
)
from ragsmith.text.files import TextError
from ragsmith.text.jsonl import name_type
from ragsmith.text.words import terms
from ragsmith.types import Document, Example, Span

Cells = tuple[tuple[str, ...], ...]
"""A table as rows of equal width."""

Value = str | float
"""A case-folded cell, or a number in it without sign, unit and thousands separators."""

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?|\.\d+")
_WORD = re.compile(r"[^\W\d_]{4,}")
_YEAR = re.compile(r"(?:fy\s*)?(?:19|20)\d\d", re.IGNORECASE)
_CONSTANT = re.compile(r"[/*×]\s*(?:[2-9]|1[0-2]|100|1,?000)(?![\d.,]*\d|\s*%)|-\s*1\s*$")
"""Constants of formulas: the 2 of an average, the 12 of months, the 100 of per cent, the 1 subtracted from a ratio."""


@dataclass(frozen=True, slots=True)
class AnswerDerivation:
    """The question, texts copied as the answer, and the derivation of the answer.

    ``derivation`` is a formula such as ``(44.1-56.7)/56.7``, a list such as ``2019##2018``, or remarks.
    """

    question: str
    copied: tuple[str, ...]
    derivation: str


def find_rows(table: Cells, derivation: AnswerDerivation) -> tuple[int, ...]:
    """Return the indices of the rows with the values of an answer, if any.

    The numbers of a formula are searched for in the cells, else the copied or listed values. Of several rows with a
    value, the row with most of the values is chosen, then the row whose label is in the question. Years are ignored, as
    they are column names.
    """
    values = [frozenset(value for cell in row for value in _cell_values(cell)) for row in table]
    label_overlaps = [_label_overlap(row, derivation.question) for row in table]
    operands = _parse_operands(derivation.derivation)
    listed = derivation.copied or ([] if operands else derivation.derivation.split("##"))
    texts = [text.strip() for text in listed if text.strip() and not _YEAR.fullmatch(text.strip())]
    return (
        _cover_greedily(values, operands, label_overlaps)
        or _cover_greedily(values, frozenset(value for text in texts for value in _answer_values(text)), label_overlaps)
        or _cover_greedily(_find_containing(table, texts), frozenset(texts), label_overlaps)
    )


def _cover_greedily(
    values: list[frozenset[Value]], targets: frozenset[Value], label_overlaps: list[float]
) -> tuple[int, ...]:
    """Return rows that cover the ``targets``, chosen greedily (Chvatal 1979)."""
    left = targets
    chosen: list[int] = []
    while left:
        best = max(
            range(len(values)), key=lambda i: (len(values[i] & left), len(values[i] & targets), label_overlaps[i], -i)
        )
        if not values[best] & left:
            break
        chosen.append(best)
        left -= values[best]
    return tuple(sorted(chosen))


def _parse_operands(derivation: str) -> frozenset[Value]:
    """Return the numbers of a formula without constants and years; an empty set for a list or words."""
    if _WORD.search(derivation) or "##" in derivation:
        return frozenset()
    found = _NUMBER.findall(_CONSTANT.sub(" ", derivation))
    return frozenset(_parse_number(number) for number in found if not _YEAR.fullmatch(number))


def _cell_values(cell: str) -> Iterator[Value]:
    yield _normalize(cell)
    if not _WORD.search(cell):
        yield from map(_parse_number, _NUMBER.findall(cell))


def _answer_values(text: str) -> Iterator[Value]:
    numbers = [] if _WORD.search(text) else _NUMBER.findall(text)
    yield from map(_parse_number, numbers) if numbers else [_normalize(text)]


def _find_containing(table: Cells, texts: Iterable[str]) -> list[frozenset[Value]]:
    """Return for each row the ``texts`` with words that are part of a cell."""
    worded = [text for text in texts if _WORD.search(text)]
    return [
        frozenset(text for text in worded if any(_normalize(text) in _normalize(cell) for cell in row)) for row in table
    ]


def _label_overlap(row: tuple[str, ...], question: str) -> float:
    """Return the share of the words of a row's label that are in the question."""
    label = frozenset(terms(row[0]))
    return len(label & frozenset(terms(question))) / len(label) if label else 0.0


def _normalize(text: str) -> str:
    return text.casefold().strip(" .,:;")


def _parse_number(text: str) -> float:
    return float(text.replace(",", ""))


LAYOUT = "TAT-QA's"
LICENCE = "CC BY 4.0 (TAT-QA; pages of annual reports)"
SOURCES = ("text", "table", "table-text")
"""Sources of answers."""


@dataclass(frozen=True, slots=True)
class TatQuestion:
    """A question without evidence, the orders of the paragraphs that answer it, and values to find in the table."""

    example: Example
    paragraphs: tuple[str, ...]
    derivation: AnswerDerivation

    @property
    def uses_table(self) -> bool:
        """Whether the answer is from the table, alone or with paragraphs."""
        return not self.example.type.endswith("/text")


@dataclass(frozen=True, slots=True)
class TatPage:
    """A table, the paragraphs by their order on the page, and the questions on them."""

    table: Cells
    paragraphs: Mapping[str, str]
    questions: tuple[TatQuestion, ...]


@dataclass(frozen=True, slots=True)
class TatDocument:
    """A page as a document, and the spans of its parts."""

    document: Document
    table: Span
    rows: tuple[Span, ...]
    paragraphs: Mapping[str, Span]


@importer(
    "tatqa", keys=[{"table", "paragraphs", "questions"}], licence=LICENCE, paper="https://arxiv.org/abs/2105.07624"
)
def import_tatqa(source: Path) -> Imported:
    """Read the TAT-QA files in the folder ``source``, or the file ``source``.

    Documents are ``page-001`` and so on, in the order of the files. The evidence consists of labelled paragraphs and
    of the table rows with the answer, else the whole table. Questions without evidence are omitted; the notes list
    missing evidence. Raises ``DatasetError`` when a file is not in this layout.
    """
    pages = [page for found in read_files(source, _read) for page in found]
    check_ids((question.example.id for page in pages for question in page.questions), source, LAYOUT)
    documents = [_make_document(page, id_) for id_, page in zip(numbered_ids("page-", len(pages)), pages, strict=True)]
    gold = EvidenceCollector()
    for page, parts in zip(pages, documents, strict=True):
        for question in page.questions:
            spans, missing = _find_evidence(question, page, parts)
            pieces = len(question.paragraphs) + question.uses_table
            gold.add(replace(question.example, evidence=spans), pieces - len(missing), missing)
    return gold.to_imported(
        source,
        [parts.document for parts in documents],
        f"{len(pages)} pages of financial reports with questions, imported from TAT-QA.",
    )


def _find_evidence(question: TatQuestion, page: TatPage, document: TatDocument) -> tuple[tuple[Span, ...], list[str]]:
    """Return the evidence of a question, and messages about missing evidence."""
    spans = [document.paragraphs[order] for order in question.paragraphs if order in document.paragraphs]
    missing = [
        f"the page has no paragraph {order}" for order in question.paragraphs if order not in document.paragraphs
    ]
    if question.uses_table:
        found = find_rows(page.table, question.derivation)
        spans += [document.rows[number] for number in found] or [document.table]
        missing += [] if found else ["no row of the table has the answer, so the whole table is its evidence"]
    return tuple(spans), missing


def _make_document(page: TatPage, id_: str) -> TatDocument:
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in page.table]
    rule = f"| {' | '.join(['---'] * len(page.table[0]))} |"  # the rule below the header of a Markdown table
    text = ""
    spans = []
    for line in lines:
        spans.append(Span(id_, len(text), len(text) + len(line)))
        text += f"{line}\n" if len(spans) > 1 else f"{line}\n{rule}\n"
    table = Span(id_, 0, len(text) - 1)
    paragraphs = {}
    for order, paragraph in page.paragraphs.items():
        text += "\n"
        paragraphs[order] = Span(id_, len(text), len(text) + len(paragraph))
        text += f"{paragraph}\n"
    return TatDocument(document_from_text(id_, text), table, tuple(spans), paragraphs)


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(content: object) -> list[TatPage]:
    if not isinstance(content, list):
        raise TextError(f"expected a list of pages, found {name_type(content)}; give a file in {LAYOUT} layout")
    return [
        _parse_page(Fields.from_value(item, f"page {number}", LAYOUT)) for number, item in enumerate(content, start=1)
    ]


def _parse_page(fields: Fields) -> TatPage:
    table = Fields.from_value(fields.get("table", dict), f"{fields.where}, table", LAYOUT)
    ordered = sorted(fields.objects("paragraphs"), key=lambda paragraph: paragraph.get("order", int))
    paragraphs = {str(paragraph.get("order", int)): paragraph.text("text") for paragraph in ordered}
    if len(paragraphs) < len(ordered):
        raise fields.error("two of its 'paragraphs' have the same 'order'")
    return TatPage(
        _parse_cells(table), paragraphs, tuple(_parse_question(question) for question in fields.objects("questions"))
    )


def _parse_cells(fields: Fields) -> Cells:
    """Return the rows of a table, padded to equal width, with white space in cells collapsed."""
    found = fields.get("table", list)
    if not found or not all(isinstance(row, list) and all(isinstance(cell, str) for cell in row) for row in found):
        raise fields.error("'table' must be rows of texts")
    width = max(1, *map(len, found))
    cells = [[" ".join(cell.split()) for cell in row] for row in found]
    return tuple((*row, *[""] * (width - len(row))) for row in cells)


def _parse_question(fields: Fields) -> TatQuestion:
    id_ = fields.text("uid")
    fields = Fields(fields.record, f"{fields.where} ({id_})", LAYOUT)
    source = fields.text("answer_from")
    if source not in SOURCES:
        raise fields.error(f"'answer_from' is {source!r}, not one of {', '.join(SOURCES)}")
    answers = _parse_answers(fields)
    copied = answers if isinstance(fields.record["answer"], list) else ()  # a single value was computed
    question = fields.text("question")
    derivation = AnswerDerivation(question, copied, fields.get("derivation", str))
    labelled = tuple(dict.fromkeys(map(str, fields.get("rel_paragraphs", list))))
    type_ = f"{fields.text('answer_type')}/{source}"
    example = Example(id_, question, _join_answers(answers, fields.get("scale", str)), type_, ())
    return TatQuestion(example, labelled, derivation)


def _parse_answers(fields: Fields) -> tuple[str, ...]:
    """Return the parts of an answer that are not blank."""
    value = fields.record.get("answer")
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str | int | float) and not isinstance(part, bool) for part in parts):
        raise fields.error("'answer' must be a text, a number or a list of texts")
    texts = tuple(text for part in parts if (text := str(part).strip()))
    if not texts:
        raise fields.error("'answer' is blank")
    return texts


def _join_answers(answers: Sequence[str], scale: str) -> str:
    """Join the parts of an answer and append its unit: ``30.15; 30.90 million``."""
    answer = "; ".join(answers)
    has_unit = not scale or scale in answer.casefold() or (scale == "percent" and answer.endswith("%"))
    return answer if has_unit else f"{answer} {scale}"

"""Citations, and the answer in what was read, against answers that were marked by hand."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragsmith.datasets.relevance import ChunkMap
from ragsmith.measures.case import Case
from ragsmith.measures.registry import get_measure
from ragsmith.techniques.generation import parse_citations
from ragsmith.types import Chunk, Passage, Span

MARKED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("citations.yaml").read_text(encoding="utf-8"))
PARAGRAPHS: dict[str, str] = MARKED["paragraphs"]
DOCUMENTS = {doc: "\n\n".join(PARAGRAPHS[key] for key in keys) for doc, keys in MARKED["documents"].items()}
MEASURES = {"precision": "citation_precision", "recall": "citation_recall", "in_context": "answer_in_context"}


def span(quote: str) -> Span:
    [(doc, text)] = [(doc, text) for doc, text in DOCUMENTS.items() if quote in text]
    assert text.count(quote) == 1
    return Span(doc, text.index(quote), text.index(quote) + len(quote))


def chunk(key: str, text: str) -> Chunk:
    place = span(text)
    return Chunk(key, place.doc, 0, place.start, place.end, text)


def passage(read: str | dict[str, Any]) -> Passage:
    if isinstance(read, dict):
        return Passage(read["text"], tuple(span(PARAGRAPHS[key]) for key in read["of"]), 1.0)
    text = PARAGRAPHS.get(read, read)
    return Passage(text, (span(text),), 1.0)


CHUNKS = ChunkMap(chunk(key, text) for key, text in PARAGRAPHS.items())


def marked_case(one: dict[str, Any]) -> Case:
    text, cited = parse_citations(one["answer"], len(one["read"]))
    evidence = tuple(map(span, one["gold"]))
    return Case(
        question=one["question"],
        reference=one["reference"] or "",
        answerable=one["reference"] is not None,
        answer=text,
        cited=cited,
        passages=tuple(map(passage, one["read"])),
        evidence=evidence,
        relevance=CHUNKS.relevance(evidence),
    )


@pytest.mark.parametrize("one", MARKED["answers"], ids=lambda one: one["name"])
def test_a_measure_is_what_was_worked_out_by_hand(one: dict[str, Any]) -> None:
    case = marked_case(one)
    found = {mark: get_measure(name)(case, {}) for mark, name in MEASURES.items()}
    assert found == {mark: None if one[mark] is None else float(Fraction(one[mark])) for mark in MEASURES}


def test_there_are_forty_marked_answers_on_different_matters() -> None:
    assert len({one["name"] for one in MARKED["answers"]}) == len(MARKED["answers"]) == 40

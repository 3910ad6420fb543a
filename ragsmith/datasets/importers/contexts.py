"""Data sets whose evidence consists of texts: RAGAS test sets, labelled data sets of LlamaIndex, and lists of users.

Each question has the texts with the answer (``reference_contexts``, ``contexts``, ...). The texts are located in the
given documents; without documents, each distinct text becomes a document.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch
from ragsmith.datasets.anchoring.question_lists import ListedQuestion, QuotedEvidence, read_question_list
from ragsmith.datasets.anchoring.quotations import QuotationFinder
from ragsmith.datasets.importers.registry import (
    EvidenceCollector,
    Fields,
    Imported,
    check_ids,
    document_with_title,
    importer,
    numbered_ids,
    read_files,
)
from ragsmith.datasets.places import whole_document_span
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.files import shorten
from ragsmith.types import DRAFTED, UNSPECIFIED, Dataset, Document, Example, Origin

LIST_SUFFIXES = frozenset({".csv", ".tsv", ".jsonl", ".json", ".xlsx"})
USER_LIST = "list"
"""Name of the format of lists of questions that users provide."""

Origins = Mapping[str, Origin]
"""Origins of drafted questions by identifier; questions written by people are absent."""


@importer(
    "ragas",
    keys=[{"user_input", "reference_contexts"}, {"contexts", "evolution_type"}],
    paper="https://arxiv.org/abs/2309.15217",
)
def import_ragas(source: Path, documents: Dataset | None = None) -> Imported:
    """Read a test set of RAGAS as JSON, JSONL or CSV: ``user_input``, ``reference_contexts``, ``reference``.

    Versions before 0.2 are supported: ``question``, ``contexts``, ``ground_truth``. RAGAS generates questions with a
    model, so each has an origin. The contexts are located in ``documents``. Raises ``DatasetError`` when the file is
    not in this layout.
    """
    questions = read_question_list(find_list_file(source))
    origins = {
        each.id: Origin(DRAFTED, f"ragas {each.type}" if each.type != UNSPECIFIED else "ragas") for each in questions
    }
    return _build_dataset(source, questions, origins, documents, "a test set of RAGAS")


@importer(USER_LIST)
def import_list(source: Path, documents: Dataset | None = None) -> Imported:
    """Read a list of questions with a column of contexts, as `read_question_list` does.

    The contexts are located in ``documents``. Raises ``DatasetError``, which lists every mistake, and ``UsageError`` if
    there are no contexts.
    """
    questions = read_question_list(find_list_file(source))
    if not any(question.quotations for question in questions):
        command = f"ragsmith dataset anchor {shlex.quote(str(source))} --documents FOLDER -o DIR"
        raise UsageError(f"{source} has no contexts: `{command}` locates the answers in your documents")
    return _build_dataset(source, questions, {}, documents, f"the list {source.name}")


@importer("llama-index", keys=[{"query", "reference_contexts"}])
def import_llama_index(source: Path, documents: Dataset | None = None) -> Imported:
    """Read a ``LabelledRagDataset`` of LlamaIndex: ``examples`` with query, reference answer and reference contexts.

    A query written ``by`` an ``ai`` has an origin with the name of the model. The contexts are located in
    ``documents``. Raises ``DatasetError`` when a file is not in this layout.
    """
    layout = "LlamaIndex's LabelledRagDataset"

    def read(content: object) -> list[Fields]:
        return list(Fields.from_value(content, "the file", layout).objects("examples"))

    items = [item for file in read_files(source, read) for item in file]
    questions: list[ListedQuestion] = []
    origins: dict[str, Origin] = {}
    for number, (id_, item) in enumerate(zip(numbered_ids("q", len(items)), items, strict=True), start=1):
        contexts = item.record.get("reference_contexts") or []
        if not isinstance(contexts, list) or not all(isinstance(context, str) for context in contexts):
            raise DatasetError([f"{item.where}: 'reference_contexts' must be a list of texts"])
        quotations = tuple(QuotedEvidence(text) for text in contexts if text.strip())
        answer = str(item.record.get("reference_answer") or "").strip()
        questions.append(ListedQuestion(number, id_, item.text("query"), answer, quotations=quotations))
        by = item.record.get("query_by")
        if isinstance(by, dict) and by.get("type") == "ai":
            origins[id_] = Origin(DRAFTED, "llama_index", str(by.get("model_name") or ""))
    return _build_dataset(source, questions, origins, documents, "LlamaIndex")


def find_list_file(source: Path) -> Path:
    """Return the only list in the folder ``source``, or ``source`` if it is a file. Raises ``DatasetError``."""
    if source.is_file():
        return source
    found = [path for path in sorted(source.iterdir()) if path.suffix.lower() in LIST_SUFFIXES]
    if len(found) != 1:
        raise DatasetError(
            [f"{source}: has {len(found)} lists of questions ({', '.join(sorted(LIST_SUFFIXES))}); give the one file"]
        )
    return found[0]


def _build_dataset(
    source: Path, questions: Sequence[ListedQuestion], origins: Origins, given: Dataset | None, layout: str
) -> Imported:
    check_ids((each.id for each in questions), source, layout)
    has_answers = any(each.answer for each in questions if each.answerable)
    if given is None:
        documents = documents_from_texts(quotation.text for each in questions for quotation in each.quotations)
        matches = {
            text: EvidenceMatch(whole_document_span(document), MatchType.EXACT) for text, document in documents.items()
        }
        find: Callable[[str], EvidenceMatch | NoMatch] = matches.__getitem__
        used, method = list(documents.values()), "whole texts, which became documents"
    else:
        find, used, method = QuotationFinder(given.documents).find, list(given.documents), ""
    gold = EvidenceCollector()
    for each in questions:
        origin = origins.get(each.id)
        example = Example(each.id, each.question, each.answer, each.type, (), each.split, each.answerable, origin)
        if not each.answerable:
            gold.examples.append(example)
        elif has_answers and not each.answer:
            gold.notes.append(f"{each.id}: left out, because it has no answer and others have one")
        else:
            outcomes = [(quotation.text, find(quotation.text.strip())) for quotation in each.quotations]
            _add_question(gold, example, outcomes, method)
    return gold.to_imported(source, used, f"{len(used)} documents with questions, imported from {layout}.")


def _add_question(
    gold: EvidenceCollector, example: Example, outcomes: Sequence[tuple[str, EvidenceMatch | NoMatch]], method: str
) -> None:
    """Add a question with the texts that were located as its evidence."""
    matches = [outcome for _, outcome in outcomes if isinstance(outcome, EvidenceMatch)]
    missing = [f"{shorten(text)}: {outcome.reason}" for text, outcome in outcomes if isinstance(outcome, NoMatch)]
    example = replace(example, evidence=tuple(dict.fromkeys(match.span for match in matches)))
    gold.add(example, Counter(method or str(match.match_type) for match in matches), missing)


def documents_from_texts(texts: Iterable[str]) -> dict[str, Document]:
    """Return a document for each distinct text, by the stripped text."""
    distinct = list(dict.fromkeys(text.strip() for text in texts))
    ids = numbered_ids("text-", len(distinct))
    return {text: document_with_title(id_, "", text) for id_, text in zip(ids, distinct, strict=True)}

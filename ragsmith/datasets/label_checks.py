"""Questions whose label the documents may contradict: unanswerable ones with an answer, answers with another number."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.grouping import group_values
from ragsmith.text.content_words import END, NUMBER, analyse
from ragsmith.text.shared_bm25 import get_shared_bm25
from ragsmith.text.words import sentences, tokeniser_for
from ragsmith.types import Chunk, Document, Example, places_of

N_PASSAGES = 5
"""Number of passages, the best by BM25, that are compared with a question."""


@dataclass(frozen=True, slots=True)
class PossibleAnswer:
    """A question that is labelled as unanswerable, by its id, and the ``sentence`` of a document that may answer it."""

    id: str
    doc: str
    sentence: str

    def __str__(self) -> str:
        """Return what may be wrong, and how to correct it, in one sentence without a full stop."""
        return (
            f'{self.id} is labelled as unanswerable, but {self.doc} may answer it, "{self.sentence}": if it does, '
            'replace "answerable": false in questions.jsonl by the answer and its evidence'
        )


@dataclass(frozen=True, slots=True)
class OtherNumber:
    """A question, by its id, whose answer has a ``number`` where its evidence in ``doc`` has the number ``found``."""

    id: str
    number: str
    doc: str
    found: str

    def __str__(self) -> str:
        """Return what may be wrong, and how to correct it, in one sentence without a full stop."""
        return (
            f"the answer of {self.id} says {self.number} where its evidence in {self.doc} says {self.found}: if the "
            "document is right, correct the answer"
        )


def find_passage(question: str, passages: Iterable[Chunk], terms: Callable[[str], Iterable[str]]) -> Chunk | None:
    """Return the first of ``passages`` with all content words of the question, which must have some."""
    wanted = frozenset(terms(question))
    return next((passage for passage in passages if wanted and wanted <= frozenset(terms(passage.text))), None)


def find_possible_answers(examples: Iterable[Example], documents: Sequence[Document]) -> Iterator[PossibleAnswer]:
    """Yield the unanswerable questions of which one of the best passages has all content words."""
    if not (asked := [example for example in examples if not example.answerable]):
        return
    fields, passages = {document.id: document.fields for document in documents}, chunk_documents(documents)
    languages = tuple([passage.language for passage in passages])
    index, terms = get_shared_bm25(tuple([passage.text for passage in passages]), languages), tokeniser_for(languages)
    for example in asked:
        best = [passages[place] for place in index.best(example.question, N_PASSAGES)[0].tolist()]
        admitted = [each for each in best if not example.filter or example.filter.admits(fields[each.doc])]
        if passage := find_passage(example.question, admitted, terms):
            yield PossibleAnswer(example.id, passage.doc, _best_sentence(passage.text, example.question, terms))


def find_new_answers(
    examples: Iterable[Example], before: Sequence[str], documents: Sequence[Document]
) -> Iterator[PossibleAnswer]:
    """Yield the unanswerable questions of which a new paragraph of ``documents`` has more content words than before.

    ``before`` are the texts of the earlier documents; without any, there is nothing to compare with.
    """
    asked = [example for example in examples if not example.answerable]
    known = {part for text in before for part in text.split("\n\n")}
    new = [(each, part) for each in documents for part in each.text.split("\n\n") if part not in known]
    if not asked or not known or not new:
        return
    terms = tokeniser_for([document.language for document in documents])
    old_words, new_words = ([frozenset(terms(part)) for part in parts] for parts in (known, [part for _, part in new]))
    for example in asked:
        wanted = frozenset(terms(example.question))
        counts = [
            len(wanted & words) if not example.filter or example.filter.admits(document.fields) else 0
            for (document, _), words in zip(new, new_words, strict=True)
        ]
        if max(counts) > max(len(wanted & words) for words in old_words):
            document, paragraph = new[counts.index(max(counts))]
            yield PossibleAnswer(example.id, document.id, _best_sentence(paragraph, example.question, terms, before))


def _best_sentence(text: str, question: str, terms: Callable[[str], Iterable[str]], before: Sequence[str] = ()) -> str:
    """Return the sentence of ``text`` with most content words of the question, one that is not in ``before`` first."""
    wanted = frozenset(terms(question))
    best = max(
        (text[start:end] for start, end in sentences(text)),
        key=lambda sentence: (not any(sentence in each for each in before), len(wanted & frozenset(terms(sentence)))),
    )
    return " ".join(best.split())


def find_other_numbers(examples: Iterable[Example], documents: Sequence[Document]) -> Iterator[OtherNumber]:
    """Yield the questions whose answer has another number than their evidence next to the same word ("35 days").

    Answers may be computed. So questions with a number, and answers with any of the evidence, are not named, and the
    evidence has a single number next to the word: a sum or a difference is of two.
    """
    texts = {document.id: document.text for document in documents}
    for example in examples:
        places = [place for span in example.evidence for place in places_of(span)]
        quoted = [(place.doc, texts[place.doc][place.start : place.end]) for place in places]
        known = analyse("\n".join(text for _, text in quoted)).values
        if analyse(example.question).values - {"1"} or analyse(example.answer).values & known:
            continue
        found = group_values((word, (number, doc)) for doc, text in quoted for number, word in _measured(text))
        for number, word in _measured(example.answer):
            others = found.get(word, [])
            if len({other for other, _ in others}) == 1:
                yield OtherNumber(example.id, number, others[0][1], others[0][0])
                break


def _measured(text: str) -> list[tuple[str, str]]:
    """Return each number of a text with the stem of the word before or after it, in the same sentence."""
    words = analyse(text)
    pairs = [(words.items[at], words.shapes[by]) for at in words.numbers for by in (at + 1, at - 1)]
    return [(number, word) for number, word in pairs if word not in (END, NUMBER)]

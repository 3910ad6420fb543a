"""Find the sentence or table row that an answer was taken from, without a quotation.

Each part of the documents has a score linear in `FEATURES`, and "nowhere" has a constant one; their softmax gives
probabilities (a conditional logit, McFadden 1974). The confidence in the most likely part is a logistic function of the
probability on it and around it (Platt 1999). `RANKING`, `NOWHERE` and `TRUST` were learned by
``benchmarks/bench_anchor.py --learn`` on training questions only: the search questions of the bundled data sets, and
half of HotpotQA and of TAT-QA.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ragsmith.datasets.anchoring.folded import fold
from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch, NoMatchReason
from ragsmith.text.markdown import BlockType, MarkdownBlock, blocks
from ragsmith.text.words import sentences, terms, terms_among
from ragsmith.types import Document, Modality, Span

MIN_PROBABILITY = 0.9
"""Least estimated probability of an accepted match."""
AMBIGUITY_RATIO = 0.8
"""Share of the largest probability from which a second part makes the match ambiguous."""
MAX_PARTS = 60
"""Parts that are scored for a question."""
MAX_CANDIDATES = 5
"""Candidates listed for an ambiguous answer."""
SHORT_ANSWER_TERMS = 4
"""Most terms of a short answer, which is matched verbatim."""

FEATURES = (
    "share of the answer in the part",
    "share of the question in the part",
    "share of the question in the part, its headings and the title",
    "share of the answer in the neighbours alone",
    "share of the question in the neighbours alone",
    "share of both in the document",
    "the answer occurs in the part",
    "share of the answer's numbers",
    "logarithm of the number of terms",
)
RANKING = np.array([8.20, 2.10, 6.56, 3.77, 0.78, 7.37, -1.46, 0.52, -1.17])
NOWHERE = 5.16
TRUST = np.array([1.52, 0.47, 0.27, 0.39, -0.54, -1.37, -0.59])

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RankedParts:
    """Scored parts of a question: positions, and features of shape ``(parts, len(FEATURES))``."""

    positions: NDArray[np.int64]
    features: Numbers


class AnswerFinder:
    """Finds answers in ``documents``."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._bag = partial(comparison_terms, read=terms_among(document.language for document in documents))
        self.parts: list[tuple[int, DocumentPart]] = [
            (n, part) for n, doc in enumerate(documents) for part in document_parts(doc)
        ]
        texts = [documents[n].text[part.start : part.end] for n, part in self.parts]
        self._own = [self._bag(text) for text in texts]
        self._folded = [f" {fold(text).text} " for text in texts]
        self._context = [self._bag(part.context) for _, part in self.parts]
        whole: list[set[str]] = [set(self._bag(document.title)) for document in documents]
        for (n, _), own in zip(self.parts, self._own, strict=True):
            whole[n] |= own
        self._of = np.array([n for n, _ in self.parts], dtype=np.int64)
        self._postings = Postings(self._own)
        self._with_context = Postings([own | context for own, context in zip(self._own, self._context, strict=True)])
        self._wholes = Postings(whole)

    def find(
        self, question: str, answer: str, docs: Collection[str] | None = None, at_least: float = MIN_PROBABILITY
    ) -> EvidenceMatch | NoMatch:
        """Return the match of ``answer`` in ``docs`` (by default all), or why none is certain enough."""
        ranked = self.ranked(question, answer, docs)
        if not len(ranked.positions):
            return NoMatch(NoMatchReason.NOT_FOUND, "no document shares a word with the question and the answer")
        shares, nowhere = part_probabilities(ranked.features, RANKING, NOWHERE)
        order = np.argsort(-shares, kind="stable")
        probability = estimate_confidence(self.signs(ranked, shares), TRUST)
        best, *others = [
            self._place(int(ranked.positions[at]), answer, float(shares[at])) for at in order[:MAX_CANDIDATES]
        ]
        candidates = (best, *others)
        if len(order) > 1 and shares[order[1]] >= AMBIGUITY_RATIO * shares[order[0]]:
            return NoMatch(NoMatchReason.AMBIGUOUS, "two places fit the question and the answer alike", candidates)
        if probability >= at_least:
            return EvidenceMatch(best.span, best.match_type, round(probability, 4))
        if nowhere > shares.max():
            return NoMatch(
                NoMatchReason.NOT_FOUND, "no part shares enough with the answer and the question", candidates
            )
        percent = math.floor(100 * probability)
        return NoMatch(
            NoMatchReason.AMBIGUOUS, f"the most likely place is right with a probability of {percent} %", candidates
        )

    def ranked(self, question: str, answer: str, docs: Collection[str] | None = None) -> RankedParts:
        """Return the parts that share most with ``question`` and ``answer`` and their features, the best first."""
        asked, said = self._bag(question), self._bag(answer)
        both = self._wholes.shares(asked | said)
        in_answer, in_question = self._postings.shares(said), self._postings.shares(asked)
        around = self._with_context.shares(asked, self._postings)
        rough = 0.5 * in_answer + 0.35 * around + 0.15 * in_question
        rough[(in_answer == 0) & (in_question == 0)] = 0
        if docs is not None:
            rough[~np.array([document.id in docs for document in self._documents])[self._of]] = 0
        positions = np.argsort(-rough, kind="stable")[:MAX_PARTS]
        positions = positions[rough[positions] > 0]
        written, numbers = f" {fold(answer).text} ", number_words(said)
        rows = []
        for at in positions.tolist():
            own = self._own[at]
            near = frozenset[str]().union(*(self._own[i] for i in self._neighbours(at)))
            rows.append(
                (
                    in_answer[at],
                    in_question[at],
                    around[at],
                    self._postings.share(said, (said & near) - own),
                    self._postings.share(asked, (asked & near) - own - self._context[at]),
                    both[self._of[at]],
                    float(written in self._folded[at]),
                    len(numbers & own) / len(numbers) if numbers else 0.0,
                    math.log1p(len(own)),
                )
            )
        return RankedParts(positions, np.array(rows).reshape(-1, len(FEATURES)))

    def signs(self, ranked: RankedParts, shares: Numbers) -> Numbers:
        """Return the inputs of `estimate_confidence`, shape ``(7,)``.

        They are 1, the log odds of the probability within one part, within four and in the document, and three features
        of the most likely part.
        """
        best = int(np.argmax(shares))
        same = self._of[ranked.positions] == self._of[ranked.positions[best]]
        away = np.abs(ranked.positions - ranked.positions[best])
        mass = [_log_odds(float(shares[same & (away <= reach)].sum())) for reach in (1, 4, len(self.parts))]
        return np.array([1.0, *mass, *ranked.features[best, [0, 2, 6]]])

    def span(self, position: int) -> Span:
        """Return the span of the part at ``position``."""
        n, part = self.parts[position]
        return Span(self._documents[n].id, part.start, part.end)

    def _neighbours(self, position: int) -> Iterable[int]:
        around = (position - 1, position + 1)
        return [at for at in around if 0 <= at < len(self.parts) and self._of[at] == self._of[position]]

    def _place(self, position: int, answer: str, score: float) -> EvidenceMatch:
        _, part = self.parts[position]
        written = f" {fold(answer).text} " in self._folded[position]
        how = (
            MatchType.ROW
            if part.is_row
            else MatchType.SENTENCE
            if written and len(self._bag(answer)) <= SHORT_ANSWER_TERMS
            else MatchType.WORDS
        )
        return EvidenceMatch(self.span(position), how, round(score, 4))


class Postings:
    """An inverted index of texts: terms, the texts that have them, and their idf."""

    def __init__(self, texts: Sequence[Collection[str]]) -> None:
        self._size = len(texts)
        holders: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            for term in text:
                holders[term].append(number)
        self._holders = {term: np.array(held, dtype=np.int64) for term, held in holders.items()}
        self._counts = Counter({term: len(held) for term, held in holders.items()})

    def idf(self, term: str) -> float:
        """Return the inverse document frequency as in Lucene's BM25."""
        held = self._counts[term]
        return math.log(1 + (self._size - held + 0.5) / (held + 0.5))

    def share(self, wanted: Collection[str], held: Collection[str]) -> float:
        """Return the idf of the terms ``held`` as a share of the idf of those ``wanted``."""
        total = sum(map(self.idf, sorted(wanted)))
        return sum(map(self.idf, sorted(held))) / total if total else 0.0

    def shares(self, wanted: Collection[str], weights: "Postings | None" = None) -> Numbers:
        """Return `share` for every text, shape ``(texts,)``; ``weights`` is the index with the idf, by default this."""
        idf = (weights or self).idf
        found = np.zeros(self._size)
        total = 0.0
        for term in sorted(wanted):
            total += idf(term)
            if term in self._holders:
                found[self._holders[term]] += idf(term)
        return found / total if total else found


def part_probabilities(features: Numbers, ranking: Numbers, nowhere: float) -> tuple[Numbers, float]:
    """Return the probability of each part, and that of none."""
    scores = np.append(features @ ranking, nowhere)
    raised = np.exp(scores - scores.max())
    raised /= raised.sum()
    return raised[:-1], float(raised[-1])


def estimate_confidence(signs: Numbers, weights: Numbers) -> float:
    """Return the estimated probability that the most likely part is right."""
    return float(1 / (1 + math.exp(-float(signs @ weights))))


def _log_odds(probability: float) -> float:
    return math.log((probability + 1e-4) / (1 - probability + 1e-4))


# --- the parts of documents that may answer a question: sentences, table rows and lines of code ---------------------


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """The characters ``[start, end)`` of a document with their ``context``: headings and the header of a table."""

    start: int
    end: int
    context: str
    is_row: bool


def document_parts(document: Document) -> Iterator[DocumentPart]:
    """Yield the parts of ``document`` that can be evidence, in order: no headings or separator rows of tables."""
    found = list(blocks(document.text)) if document.modality is Modality.PROSE else []
    headings = [block for block in found if block.kind is BlockType.HEADING]
    tables = [block for block in found if block.kind is BlockType.TABLE]
    above: list[MarkdownBlock] = []
    for start, end in sentences(document.text):
        while headings and headings[0].start <= start:
            above = [*(block for block in above if block.level < headings[0].level), headings.pop(0)]
        while tables and tables[0].end <= start:
            tables.pop(0)
        if (above and start < above[-1].end) or not any(map(str.isalnum, document.text[start:end])):
            continue
        table = tables[0] if tables and tables[0].start <= start else None
        head = document.text[table.start : table.end].split("\n", 1)[0] if table else ""
        context = " ".join([document.title, *(block.heading for block in above), head])
        yield DocumentPart(start, end, context, is_row=table is not None or document.modality is Modality.TABLE)


def comparison_terms(text: str, read: Callable[[str], Iterable[str]] = terms) -> frozenset[str]:
    """Return the terms of a text as ``read`` finds them, and its numbers without commas."""
    numbers = {word.replace(",", "") for word, _, _ in fold(text).words() if any(map(str.isdecimal, word))}
    return frozenset(term for term in read(text) if not term.isdecimal()) | numbers


def number_words(words: frozenset[str]) -> frozenset[str]:
    """Return the ``words`` that have a digit."""
    return frozenset(word for word in words if any(map(str.isdecimal, word)))

"""Find the sentence or table row with an answer, without a quotation.

Each part of the documents has a score linear in `FEATURES`, and "no match" has a constant score; their softmax gives
probabilities (a conditional logit, McFadden 1974). The confidence in the most likely part is a logistic function of the
probability of this part and of its surroundings (Platt 1999). `FEATURE_WEIGHTS`, `NO_MATCH_SCORE` and
`CONFIDENCE_WEIGHTS` were learned by ``benchmarks/bench_anchor.py --learn`` on training questions only: the search
questions of the bundled data sets, and half of HotpotQA and of TAT-QA.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch, NoMatchReason
from ragsmith.datasets.statements import MIN_WORDS, DocumentPart, fold_statement, iter_parts
from ragsmith.grouping import group_values
from ragsmith.text.folded import fold
from ragsmith.text.words import terms, tokeniser_for
from ragsmith.types import Document, Span

MIN_PROBABILITY = 0.9
"""Minimum estimated probability of an accepted match."""
AMBIGUITY_RATIO = 0.8
"""Minimum ratio of the second largest probability to the largest for an ambiguous match."""
MAX_PARTS = 60
"""Maximum number of parts that are scored for a question."""
MAX_CANDIDATES = 5
"""Maximum number of candidates of a missing match."""
SHORT_ANSWER_TERMS = 4
"""Maximum number of terms of a short answer, which is matched verbatim."""

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
"""The features of a part, in order; shares are weighted by idf."""
FEATURE_WEIGHTS = np.array([8.20, 2.10, 6.56, 3.77, 0.78, 7.37, -1.46, 0.52, -1.17])
NO_MATCH_SCORE = 5.16
CONFIDENCE_WEIGHTS = np.array([1.52, 0.47, 0.27, 0.39, -0.54, -1.37, -0.59])

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RankedParts:
    """The parts ranked for a question: positions, and features of shape ``(parts, len(FEATURES))``."""

    positions: NDArray[np.int64]
    features: FloatArray


class AnswerFinder:
    """A finder of answers in ``documents``."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._extract_terms = partial(extract_terms, analyze=tokeniser_for(document.language for document in documents))
        self.parts: list[tuple[int, DocumentPart]] = [
            (n, part) for n, doc in enumerate(documents) for part in iter_parts(doc)
        ]
        texts = [documents[n].text[part.start : part.end] for n, part in self.parts]
        self._part_terms = [self._extract_terms(text) for text in texts]
        self._folded_parts = [f" {fold(text).text} " for text in texts]
        # copies of a statement have the same key; rows and short sentences are statements of their own
        self._statements: list[object] = [
            key if not part.is_row and len(fold(key := fold_statement(text)).words()) >= MIN_WORDS else at
            for at, ((_, part), text) in enumerate(zip(self.parts, texts, strict=True))
        ]
        self._context_terms = [self._extract_terms(part.context) for _, part in self.parts]
        document_terms: list[set[str]] = [set(self._extract_terms(document.title)) for document in documents]
        for (n, _), own in zip(self.parts, self._part_terms, strict=True):
            document_terms[n] |= own
        self._document_indices = np.array([n for n, _ in self.parts], dtype=np.int64)
        self._part_postings = Postings(self._part_terms)
        self._context_postings = Postings(
            [own | context for own, context in zip(self._part_terms, self._context_terms, strict=True)]
        )
        self._document_postings = Postings(document_terms)

    def find(
        self, question: str, answer: str, docs: Collection[str] | None = None, at_least: float = MIN_PROBABILITY
    ) -> EvidenceMatch | NoMatch:
        """Return the match of ``answer`` in ``docs`` (by default all), or why there is no certain match."""
        ranked = self._drop_copies(self.rank_parts(question, answer, docs))
        if not len(ranked.positions):
            return NoMatch(NoMatchReason.NOT_FOUND, "no document shares a word with the question and the answer")
        probabilities, no_match = predict_probabilities(ranked.features, FEATURE_WEIGHTS, NO_MATCH_SCORE)
        order = np.argsort(-probabilities, kind="stable")
        confidence = estimate_confidence(self.confidence_features(ranked, probabilities), CONFIDENCE_WEIGHTS)
        best, *others = [
            self._match(int(ranked.positions[at]), answer, float(probabilities[at])) for at in order[:MAX_CANDIDATES]
        ]
        candidates = (best, *others)
        tied = len(order) > 1 and probabilities[order[1]] >= AMBIGUITY_RATIO * probabilities[order[0]]
        if confidence >= at_least and not tied:
            return EvidenceMatch(best.span, best.match_type, round(confidence, 4))
        if no_match > probabilities.max():
            return NoMatch(
                NoMatchReason.NOT_FOUND,
                "no part of the documents matches the answer and the question well enough; if they do not answer the "
                "question, set its `answerable` to false",
                candidates,
            )
        if tied:
            reason = "two positions match the question and the answer about equally"
            return NoMatch(NoMatchReason.AMBIGUOUS, reason, candidates)
        percent = math.floor(100 * confidence)
        return NoMatch(
            NoMatchReason.AMBIGUOUS, f"the most likely position has an estimated probability of {percent} %", candidates
        )

    def rank_parts(self, question: str, answer: str, docs: Collection[str] | None = None) -> RankedParts:
        """Return the best matching parts of ``question`` and ``answer`` with their features, the best first."""
        question_terms, answer_terms = self._extract_terms(question), self._extract_terms(answer)
        in_document = self._document_postings.shares(question_terms | answer_terms)
        in_answer = self._part_postings.shares(answer_terms)
        in_question = self._part_postings.shares(question_terms)
        with_context = self._context_postings.shares(question_terms, self._part_postings)
        scores = 0.5 * in_answer + 0.35 * with_context + 0.15 * in_question
        scores[(in_answer == 0) & (in_question == 0)] = 0
        if docs is not None:
            scores[~np.array([document.id in docs for document in self._documents])[self._document_indices]] = 0
        positions = np.argsort(-scores, kind="stable")[:MAX_PARTS]
        positions = positions[scores[positions] > 0]
        folded_answer, numbers = f" {fold(answer).text} ", select_numbers(answer_terms)
        rows = []
        for at in positions.tolist():
            own = self._part_terms[at]
            near = frozenset[str]().union(*(self._part_terms[i] for i in self._neighbours(at)))
            rows.append(
                (
                    in_answer[at],
                    in_question[at],
                    with_context[at],
                    self._part_postings.share(answer_terms, (answer_terms & near) - own),
                    self._part_postings.share(question_terms, (question_terms & near) - own - self._context_terms[at]),
                    in_document[self._document_indices[at]],
                    float(folded_answer in self._folded_parts[at]),
                    len(numbers & own) / len(numbers) if numbers else 0.0,
                    math.log1p(len(own)),
                )
            )
        return RankedParts(positions, np.array(rows).reshape(-1, len(FEATURES)))

    def _drop_copies(self, ranked: RankedParts) -> RankedParts:
        """Return the part with the best score of each statement, without parts that are a piece of another statement.

        Such pieces are of a copy that is broken into lines. What remains is as in a folder without copies.
        """
        best: dict[object, int] = {}
        for at in np.argsort(-(ranked.features @ FEATURE_WEIGHTS), kind="stable").tolist():
            best.setdefault(self._statements[int(ranked.positions[at])], at)
        texts = [self._folded_parts[int(ranked.positions[at])] for at in best.values()]
        kept = sorted(
            at
            for at, text in zip(best.values(), texts, strict=True)
            if not any(text in other and text != other for other in texts)
        )
        return RankedParts(ranked.positions[kept], ranked.features[kept])

    def confidence_features(self, ranked: RankedParts, probabilities: FloatArray) -> FloatArray:
        """Return the inputs of `estimate_confidence`, shape ``(7,)``.

        The inputs are 1, the log odds of the probability within one part, within four parts and in the document, and
        three features of the most likely part.
        """
        best = int(np.argmax(probabilities))
        same = self._document_indices[ranked.positions] == self._document_indices[ranked.positions[best]]
        distance = np.abs(ranked.positions - ranked.positions[best])
        log_odds = [
            _log_odds(float(probabilities[same & (distance <= reach)].sum())) for reach in (1, 4, len(self.parts))
        ]
        return np.array([1.0, *log_odds, *ranked.features[best, [0, 2, 6]]])

    def span(self, position: int) -> Span:
        """Return the span of the part at ``position``."""
        n, part = self.parts[position]
        return Span(self._documents[n].id, part.start, part.end)

    def _neighbours(self, position: int) -> Iterable[int]:
        around = (position - 1, position + 1)
        return [
            at
            for at in around
            if 0 <= at < len(self.parts) and self._document_indices[at] == self._document_indices[position]
        ]

    def _match(self, position: int, answer: str, score: float) -> EvidenceMatch:
        _, part = self.parts[position]
        is_verbatim = f" {fold(answer).text} " in self._folded_parts[position]
        match_type = (
            MatchType.ROW
            if part.is_row
            else MatchType.SENTENCE
            if is_verbatim and len(self._extract_terms(answer)) <= SHORT_ANSWER_TERMS
            else MatchType.WORDS
        )
        return EvidenceMatch(self.span(position), match_type, round(score, 4))


class Postings:
    """An inverted index of ``texts``, given as sets of terms."""

    def __init__(self, texts: Sequence[Collection[str]]) -> None:
        self._size = len(texts)
        postings = group_values((term, number) for number, text in enumerate(texts) for term in text)
        self._postings = {term: np.array(indices, dtype=np.int64) for term, indices in postings.items()}
        self._document_frequencies = Counter({term: len(indices) for term, indices in postings.items()})

    def idf(self, term: str) -> float:
        """Return the inverse document frequency as in Lucene's BM25."""
        frequency = self._document_frequencies[term]
        return math.log(1 + (self._size - frequency + 0.5) / (frequency + 0.5))

    def share(self, query: Collection[str], matched: Collection[str]) -> float:
        """Return the sum of the idf of the terms ``matched``, divided by that of all terms of ``query``."""
        total = sum(map(self.idf, sorted(query)))
        return sum(map(self.idf, sorted(matched))) / total if total else 0.0

    def shares(self, query: Collection[str], weights: "Postings | None" = None) -> FloatArray:
        """Return `share` for every text, shape ``(texts,)``; ``weights`` is the index with the idf, else this."""
        idf = (weights or self).idf
        sums = np.zeros(self._size)
        total = 0.0
        for term in sorted(query):
            total += idf(term)
            if term in self._postings:
                sums[self._postings[term]] += idf(term)
        return sums / total if total else sums


def predict_probabilities(features: FloatArray, weights: FloatArray, no_match_score: float) -> tuple[FloatArray, float]:
    """Return the probability of each part, shape ``(parts,)``, and of no match."""
    scores = np.append(features @ weights, no_match_score)
    probabilities = np.exp(scores - scores.max())
    probabilities /= probabilities.sum()
    return probabilities[:-1], float(probabilities[-1])


def estimate_confidence(features: FloatArray, weights: FloatArray) -> float:
    """Return the estimated probability that the most likely part is correct."""
    return float(1 / (1 + math.exp(-float(features @ weights))))


def _log_odds(probability: float) -> float:
    return math.log((probability + 1e-4) / (1 - probability + 1e-4))


def extract_terms(text: str, analyze: Callable[[str], Iterable[str]] = terms) -> frozenset[str]:
    """Return the terms of a text by the function ``analyze``, and its numbers without thousands separators."""
    numbers = {word.replace(",", "") for word, _, _ in fold(text).words() if any(map(str.isdecimal, word))}
    return frozenset(term for term in analyze(text) if not term.isdecimal()) | numbers


def select_numbers(words: frozenset[str]) -> frozenset[str]:
    """Return the ``words`` that have a digit."""
    return frozenset(word for word in words if any(map(str.isdecimal, word)))

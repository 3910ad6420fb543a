"""Filters: functions of a draft, the documents and the accepted questions, which return a problem or None.

A draft is rejected by the first of `FILTERS` that returns a problem. Its quotations are located before
(`ragsmith.labelling.drafting.draft`).
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from math import fsum

from ragsmith.datasets.label_checks import N_PASSAGES, find_passage
from ragsmith.datasets.relevance import count_overlap
from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.text.data_files import read_data
from ragsmith.text.words import normalise_answer, sentences, words
from ragsmith.types import Chunk, Span

Filter = Callable[[Draft, DraftingCorpus, Sequence[str]], str | None]
"""Function that returns the problem of a draft as a sentence, or None; the texts are the accepted questions."""

QUOTE = "quote_found"
"""Filter name in the rejection of a draft whose quotations cannot be located."""

MIN_QUOTE_CHARACTERS = 12
"""Minimum length of a quotation in characters; half of a shorter one occurs in many chunks by chance."""

MIN_WORDS, MAX_WORDS = 4, 40
"""Minimum and maximum number of words of a question."""

MIN_TERMS = 3
"""Minimum number of distinct content words of a question."""

MIN_SENTENCE_OVERLAP = 0.85
"""Minimum share of a question's words, weighted by inverse document frequency, in a sentence that may answer it."""

MIN_PASSAGE_OVERLAP = 0.6
"""Minimum share of a question's words in a passage on the same topic."""

MIN_ANSWER_OVERLAP = 0.8
"""Minimum share of the words of a long answer in a passage that contains it."""

MAX_EXACT_WORDS = 8
"""Maximum number of words of an answer that is matched exactly; longer ones are compared by `MIN_ANSWER_OVERLAP`."""

MIN_JACCARD = 0.7
"""Minimum Jaccard similarity of the words of two questions that are near-duplicates."""

PRONOUNS_DIGEST = "ce2961695e5dc355"

_SYMBOLS = re.compile(r"[=<>{}\\|^_]|\bhttps?:|\.\.\.|\u2026")
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("“", "”"))
_DEICTIC = re.compile(
    r"\b(?:(?:this|that|these|those|the (?:above|following|previous|preceding|present|said)) (?:section|chapter|"
    r"article|paragraph|passage|text|document|table|figure|list|example|page|part|case|rule|way|time)s?"
    r"|(?:mentioned|described|listed|shown|defined|stated) (?:above|below|here)|above[- ]mentioned)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|this|these|those)\b", re.IGNORECASE)
_ANTECEDENT = re.compile(r"\b(?:an?|the|any|each|every|someone|somebody|who|which|what|\w+s)\b", re.IGNORECASE)


def quote_unique(draft: Draft, material: DraftingCorpus, accepted: Sequence[str]) -> str | None:
    """Reject quotations that are too short, or that occur in different statements of the documents."""
    for quote in draft.quotes:
        if len(quote.text) < MIN_QUOTE_CHARACTERS:
            return f"{quote.text!r} is too short to be evidence"
        if (count := material.occurrences(quote.text)) > 1 + sum(copy.text == quote.text for copy in quote.copies):
            return f"{quote.text!r} occurs {count} times in the documents"
    return None


def well_formed(draft: Draft, material: DraftingCorpus, accepted: Sequence[str]) -> str | None:
    """Reject questions with too few or too many words, unbalanced brackets, or symbols."""
    question = draft.question.strip().rstrip("?").strip()
    count = len(words(draft.question))
    if not MIN_WORDS <= count <= MAX_WORDS:
        return f"it has {count} words"
    if (
        any(question.count(opening) != question.count(closing) for opening, closing in _PAIRS)
        or question.count('"') % 2
    ):
        return "it has unbalanced brackets or quotation marks"
    if draft.type != "code" and (found := _SYMBOLS.search(question)):
        return f"{found[0]!r} is not part of a question in words"
    return None


def self_contained(draft: Draft, material: DraftingCorpus, accepted: Sequence[str]) -> str | None:
    """Reject questions such as ``What does this section say?``, and pronouns without an antecedent."""
    if found := _DEICTIC.search(draft.question):
        return f"{found[0]!r} refers to a text that is not in the question"
    if (found := _PRONOUN.search(draft.question)) and not _has_antecedent(draft.question[: found.start()]):
        return f"the question does not say what {found[0]!r} is"
    return None


def _has_antecedent(before: str) -> bool:
    """Whether the words before a pronoun may contain its antecedent: at least two after the question word and verb."""
    return len(re.findall(r"\w+", before)) >= 4 and bool(_ANTECEDENT.search(before.partition(" ")[2]))


def answered_by_itself(draft: Draft, material: DraftingCorpus, accepted: Sequence[str]) -> str | None:
    """Reject a question that contains its answer, and an answer without content."""
    if not draft.answerable:
        return None
    answer = set(material.terms(draft.answer)) or set(words(draft.answer))
    if not answer:
        return "its answer has no words"
    if answer <= set(material.terms(draft.question)) | set(words(draft.question)):
        return "the question contains its answer"
    if len(words(draft.answer)) == 1 and words(draft.answer)[0] in _pronouns():
        return f"the answer {draft.answer!r} is a pronoun"
    return None


@cache
def _pronouns() -> frozenset[str]:
    """Return the English pronouns, none of which is an answer by itself."""
    return frozenset(read_data("ragsmith.labelling.drafting", "pronouns.txt", PRONOUNS_DIGEST).split())


def specific(draft: Draft, material: DraftingCorpus, accepted: Sequence[str]) -> str | None:
    """Reject a question with few content words, as it fits many passages."""
    few = len(set(material.terms(draft.question))) < MIN_TERMS
    return "it has too few content words for retrieval" if few else None


def one_answer(draft: Draft, material: DraftingCorpus, accepted: Sequence[str]) -> str | None:
    """Reject a question if nearly all its words occur in a sentence outside its evidence."""
    if not draft.answerable:
        return None
    question_terms = frozenset(material.terms(draft.question))
    weight = fsum(material.lexicon.idf(term) for term in question_terms)
    for passage in material.best(draft.question, 6):
        for start, end in sentences(passage.text):
            if _overlaps(draft, Span(passage.doc, passage.start + start, passage.start + end)):
                continue
            found = question_terms & frozenset(material.terms(passage.text[start:end]))
            if weight and fsum(material.lexicon.idf(term) for term in found) >= MIN_SENTENCE_OVERLAP * weight:
                return f"{passage.text[start:end]!r} answers it, too"
    return None


def answered_elsewhere(draft: Draft, material: DraftingCorpus, accepted: Sequence[str]) -> str | None:
    """Reject a question if another of the best passages contains the answer and most words of the question."""
    if not draft.answerable:
        return None
    question_terms = frozenset(material.terms(draft.question))
    for passage in material.best(draft.question, 3):
        shared = question_terms & frozenset(material.terms(passage.text))
        if _overlaps(draft, passage.span) or len(shared) < MIN_PASSAGE_OVERLAP * len(question_terms):
            continue
        if _has_answer(passage, draft.answer, material):
            return f"passage {passage.id} has the answer, too"
    return None


def _has_answer(passage: Chunk, answer: str, material: DraftingCorpus) -> bool:
    normalised, answer_terms = normalise_answer(answer), frozenset(material.terms(answer))
    if not answer_terms:
        return False
    if len(normalised.split()) <= MAX_EXACT_WORDS:
        return normalised in normalise_answer(passage.text)
    return len(answer_terms & frozenset(material.terms(passage.text))) >= MIN_ANSWER_OVERLAP * len(answer_terms)


def _overlaps(draft: Draft, span: Span) -> bool:
    """Whether a quotation of the draft, or a copy of it, overlaps ``span``."""
    return any(count_overlap(place.span, span) for quote in draft.quotes for place in (quote, *quote.copies))


def unanswerable_is_absent(draft: Draft, material: DraftingCorpus, accepted: Sequence[str]) -> str | None:
    """Reject an unanswerable question if one passage has all its words."""
    if draft.answerable:
        return None
    if passage := find_passage(draft.question, material.best(draft.question, N_PASSAGES), material.terms):
        return f"passage {passage.id} may answer it"
    return None


def near_duplicate(draft: Draft, material: DraftingCorpus, accepted: Sequence[str]) -> str | None:
    """Reject a question that is a near-duplicate of an accepted one."""
    terms = frozenset(material.terms(draft.question))
    for question in accepted:
        other = frozenset(material.terms(question))
        if terms and len(terms & other) >= MIN_JACCARD * len(terms | other):
            return f"nearly the same as {question!r}"
    return None


FILTERS: tuple[Filter, ...] = (
    quote_unique,
    well_formed,
    self_contained,
    answered_by_itself,
    specific,
    one_answer,
    answered_elsewhere,
    unanswerable_is_absent,
    near_duplicate,
)
"""Filters in the order in which they run, the fastest first."""

"""A filter says what is wrong with a draft, or nothing: it sees the draft, the documents, and the questions so far.

A draft is refused by the first of `FILTERS` that finds something. Its quotations have been located before
(`ragsmith.labelling.drafting.draft`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from math import fsum

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.text.data_files import read_data
from ragsmith.text.words import normalise_answer, sentences, words
from ragsmith.types import Chunk, Span

Filter = Callable[[Draft, DraftingCorpus, Sequence[str]], str | None]
"""What is wrong with a draft in a sentence; the texts are the questions that are kept already."""

QUOTE = "quote_found"
"""The name under which a draft is refused whose quotations are not where they should be."""

SHORTEST_QUOTE = 12
"""Characters; half of a shorter quotation is in many a chunk by accident."""

FEWEST_WORDS, MOST_WORDS = 4, 40
"""Words of a question."""

FEWEST_TERMS = 3
"""Distinct words of a question, without function words."""

RIVAL_SENTENCE = 0.85
"""Share of a question's words, by inverse document frequency, that a sentence elsewhere needs to answer it too."""

RIVAL_PASSAGE = 0.6
"""Share of a question's words that a passage needs to be about the same."""

RIVAL_ANSWER = 0.8
"""Share of the words of a long answer that a passage needs to have it."""

LONGEST_EXACT = 8
"""Words of an answer that a passage has only if it has them in a row; a longer one is compared by `RIVAL_ANSWER`."""

SIMILAR = 0.7
"""Jaccard similarity of the words of two questions from which they are near-duplicates."""

PRONOUNS_DIGEST = "ce2961695e5dc355"

_WORDLESS = re.compile(r"[=<>{}\\|^_]|\bhttps?:|\.\.\.|\u2026")
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("“", "”"))
_POINTING = re.compile(
    r"\b(?:(?:this|that|these|those|the (?:above|following|previous|preceding|present|said)) (?:section|chapter|"
    r"article|paragraph|passage|text|document|table|figure|list|example|page|part|case|rule|way|time)s?"
    r"|(?:mentioned|described|listed|shown|defined|stated) (?:above|below|here)|above[- ]mentioned)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|this|these|those)\b", re.IGNORECASE)
_ANTECEDENT = re.compile(r"\b(?:an?|the|any|each|every|someone|somebody|who|which|what|\w+s)\b", re.IGNORECASE)


def quote_unique(draft: Draft, material: DraftingCorpus, kept: Sequence[str]) -> str | None:
    """Refuse quotations that are too short, or that the documents have in two places."""
    for quote in draft.quotes:
        if len(quote.text) < SHORTEST_QUOTE:
            return f"{quote.text!r} is too short to be evidence"
        if (count := material.occurrences(quote.text)) > 1:
            return f"{quote.text!r} stands in the documents {count} times"
    return None


def well_formed(draft: Draft, material: DraftingCorpus, kept: Sequence[str]) -> str | None:
    """Refuse questions of too few or too many words, with half a pair of brackets, or with signs that are no words."""
    question = draft.question.strip().rstrip("?").strip()
    count = len(words(draft.question))
    if not FEWEST_WORDS <= count <= MOST_WORDS:
        return f"it has {count} words"
    if any(question.count(one) != question.count(other) for one, other in _PAIRS) or question.count('"') % 2:
        return "half of a pair of brackets or quotation marks is missing"
    if draft.type != "code" and (found := _WORDLESS.search(question)):
        return f"{found[0]!r} is not part of a question in words"
    return None


def self_contained(draft: Draft, material: DraftingCorpus, kept: Sequence[str]) -> str | None:
    """Refuse ``What does this section say?``, and pronouns that no noun before them can explain."""
    if found := _POINTING.search(draft.question):
        return f"{found[0]!r} points at something that is not in the question"
    if (found := _PRONOUN.search(draft.question)) and not _has_antecedent(draft.question[: found.start()]):
        return f"the question does not say what {found[0]!r} is"
    return None


def _has_antecedent(before: str) -> bool:
    """Whether the words before a pronoun name something: two or more besides the question word and its verb."""
    return len(re.findall(r"\w+", before)) >= 4 and bool(_ANTECEDENT.search(before.partition(" ")[2]))


def answered_by_itself(draft: Draft, material: DraftingCorpus, kept: Sequence[str]) -> str | None:
    """Refuse a question that contains its answer, and an answer that says nothing."""
    if not draft.answerable:
        return None
    answer = set(material.terms(draft.answer)) or set(words(draft.answer))
    if not answer:
        return "its answer has no words"
    if answer <= set(material.terms(draft.question)) | set(words(draft.question)):
        return "the question contains its answer"
    if len(words(draft.answer)) == 1 and words(draft.answer)[0] in _pronouns():
        return f"the answer {draft.answer!r} stands for something outside it"
    return None


@cache
def _pronouns() -> frozenset[str]:
    """English words that are no answer alone."""
    return frozenset(read_data("ragsmith.labelling.drafting", "pronouns.txt", PRONOUNS_DIGEST).split())


def specific(draft: Draft, material: DraftingCorpus, kept: Sequence[str]) -> str | None:
    """Refuse a question of few words: it fits many passages."""
    few = len(set(material.terms(draft.question))) < FEWEST_TERMS
    return "it has too few words to be found by" if few else None


def one_answer(draft: Draft, material: DraftingCorpus, kept: Sequence[str]) -> str | None:
    """Refuse a question whose words are nearly all in a sentence elsewhere."""
    if not draft.answerable:
        return None
    asked = frozenset(material.terms(draft.question))
    weight = fsum(material.lexicon.idf(term) for term in asked)
    for passage in material.best(draft.question, 6):
        for start, end in sentences(passage.text):
            if _overlaps(draft, Span(passage.doc, passage.start + start, passage.start + end)):
                continue
            found = asked & frozenset(material.terms(passage.text[start:end]))
            if weight and fsum(material.lexicon.idf(term) for term in found) >= RIVAL_SENTENCE * weight:
                return f"{passage.text[start:end]!r} answers it, too"
    return None


def answered_elsewhere(draft: Draft, material: DraftingCorpus, kept: Sequence[str]) -> str | None:
    """Refuse a question for which another of the best passages has the answer, and most of the question."""
    if not draft.answerable:
        return None
    asked = frozenset(material.terms(draft.question))
    for passage in material.best(draft.question, 3):
        shared = asked & frozenset(material.terms(passage.text))
        if _overlaps(draft, passage.span) or len(shared) < RIVAL_PASSAGE * len(asked):
            continue
        if _has_answer(passage, draft.answer, material):
            return f"passage {passage.id} has the answer, too"
    return None


def _has_answer(passage: Chunk, answer: str, material: DraftingCorpus) -> bool:
    plain, telling = normalise_answer(answer), frozenset(material.terms(answer))
    if not telling:
        return False
    if len(plain.split()) <= LONGEST_EXACT:
        return plain in normalise_answer(passage.text)
    return len(telling & frozenset(material.terms(passage.text))) >= RIVAL_ANSWER * len(telling)


def _overlaps(draft: Draft, span: Span) -> bool:
    """Whether a quotation of the draft lies in ``span``, at least in part."""
    quoted = (quote.span for quote in draft.quotes)
    return any(its.doc == span.doc and its.start < span.end and span.start < its.end for its in quoted)


def unanswerable_is_absent(draft: Draft, material: DraftingCorpus, kept: Sequence[str]) -> str | None:
    """Refuse a question without evidence of which one passage has every word."""
    if draft.answerable:
        return None
    asked = frozenset(material.terms(draft.question))
    for passage in material.best(draft.question, 5):
        if asked <= frozenset(material.terms(passage.text)):
            return f"passage {passage.id} may answer it"
    return None


def near_duplicate(draft: Draft, material: DraftingCorpus, kept: Sequence[str]) -> str | None:
    """Refuse a question whose words are nearly those of one that is kept."""
    own = frozenset(material.terms(draft.question))
    for question in kept:
        other = frozenset(material.terms(question))
        if own and len(own & other) >= SIMILAR * len(own | other):
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
"""In the order in which they are asked: what is quickly found out comes first."""

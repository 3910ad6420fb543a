"""Decomposition: search with the sub-questions of a complex question (Press et al. 2023)."""

import re

from ragsmith.index.relations import find_names
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import QUESTIONS, OfflineModel, Task, parse_questions
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import weighted_search
from ragsmith.types import Hits, Question, Search

_QUESTION_WORDS = (
    r"(?:how|what|who|whom|whose|when|where|which|why|whether|does|do|did|is|are|was|were|can|may|must|should|will)"
)
_CLAUSE = re.compile(
    rf"[?;]\s+|,?\s+(?:and|or|but)\s+(?:also\s+)?(?:(?:in|at|on|for|to|from|by|under)\s+)?(?={_QUESTION_WORDS}\b)"
    r"|,\s+(?:but|while|whereas|although|because|since|so|if|unless|given that|after|before|when)\s+"
    r"|\s+(?:while|whereas|although|because|given that|as well as)\s+",
    re.IGNORECASE,
)
_FRONTED_CLAUSE = re.compile(
    r"^(?:if|when|although|while|because|since|given that|after|before|unless|suppose(?: that)?)\s+([^,]+),\s+(.+)$",
    re.IGNORECASE,
)
_COMPARISONS = tuple(
    re.compile(pattern + r"\??$", re.IGNORECASE)
    for pattern in (
        r"^.*?\b(?:differences?|distinction|relation(?:ship)?|similarities|comparison)\s+between\s+(.+?)\s+and\s+(.+?)",
        r"^.*?\b(?:compare|contrast)\s+(.+?)\s+(?:and|with|to)\s+(.+?)",
        r"^.*?\b(?:does|do|is|are)\s+(.+?)\s+(?:differ from|compared? (?:to|with)|versus|vs\.?)\s+(.+?)",
    )
)
_BOTH = re.compile(r"^(.*?)\bboth\s+(.+?)\s+and\s+(.+?)\??$", re.IGNORECASE)
_ANAPHOR = re.compile(
    r"\b(?:it|its|they|them|their|he|his|him|she|her|this|these|those|such|one|ones)\b", re.IGNORECASE
)


def split_question_offline(model: OfflineModel, *, sample: int, question: str, n: int) -> tuple[str, ...]:
    """Split a question into its clauses, by rules of syntactic simplification (Siddharthan 2006).

    Cues are coordinated question words, discourse markers, fronted conditions and comparisons, each side of which
    becomes a question. To a later part with a pronoun, the names of the question are added, or else the last noun
    before it: antecedents are recent (Lappin & Leass 1994). A question of one clause is returned unchanged.
    """
    parts = [part.strip(" ,;?.") for clause in _split_clauses(question) for part in _split_comparison(clause)]
    parts = [part for part in parts if len(model.terms(part)) >= 2]
    if len(parts) < 2:
        return (question,)
    topic = " ".join(find_names(question)) or _last_words(model, parts[0])
    resolved = [parts[0], *(f"{part} {topic}" if _refers_back(part) else part for part in parts[1:])]
    return tuple(dict.fromkeys(f"{part[0].upper()}{part[1:]}?" for part in resolved))[:n]


def _split_clauses(question: str) -> list[str]:
    fronted = _FRONTED_CLAUSE.match(question.strip())
    return [part for text in (fronted.groups() if fronted else (question,)) for part in _CLAUSE.split(text)]


def _split_comparison(clause: str) -> tuple[str, ...]:
    """Split ``the difference between A and B`` into a question about A and one about B."""
    for pattern in _COMPARISONS:
        if match := pattern.match(clause.strip()):
            return tuple(f"What is {side}" for side in match.groups())
    if match := _BOTH.match(clause.strip()):
        before, left, right = match.groups()
        return f"{before}{left}", f"{before}{right}"
    return (clause,)


def _refers_back(part: str) -> bool:
    return bool(_ANAPHOR.search(part)) and not find_names(part)


def _last_words(model: OfflineModel, text: str) -> str:
    return " ".join([word for word in re.findall(r"\w+", text) if model.terms(word)][-2:])


DECOMPOSE = Task(
    name="sub_questions",
    prompt=(
        "Question: {question}\n\n"
        "If answering this needs several separate facts, write one simple question for each of them, at most {n}. Each "
        "must make sense alone: repeat names instead of writing 'it' or 'they'. If a single fact answers the question, "
        "repeat it unchanged. One question a line, and nothing else."
    ),
    parse=parse_questions,
    form=QUESTIONS,
    offline=split_question_offline,
    max_tokens=256,
)


@query_expansion(paper="https://arxiv.org/abs/2210.03350", choices={"n": (2, 3, 5), "weight": (0.3, 0.5, 0.7)})
def decomposition(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    n: Count = 3,
    weight: Share = 0.5,
    depth: Count = 20,
) -> Hits:
    """Search with the question and up to ``n`` simpler questions that it consists of, and combine the scores.

    Helps when the evidence is in several places. Costs one call and one search per part; a question of one clause is
    searched unchanged. The question has the share ``weight`` of the score, as a part alone can lose its subject.
    """
    parts = language_model.run(DECOMPOSE, question=question.text, n=n)[:n]
    return weighted_search(search, question, parts, weight)[:depth]

"""Multi-query: search with several paraphrases of the question (Li et al. 2024)."""

import re

from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import QUESTIONS, OfflineModel, Task, parse_questions
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import weighted_search
from ragsmith.text.words import STOP_WORDS
from ragsmith.types import Hits, Question, Search

_WORD = re.compile(r"\w+")


def paraphrase_offline(model: OfflineModel, *, sample: int, question: str, n: int) -> tuple[str, ...]:
    """Replace words by their nearest neighbours in the corpus's vocabulary: expansion from a thesaurus (Voorhees 1994).

    Names, numbers and function words are not replaced. Each variant replaces a different share of the words; after all
    words have been replaced, variants use the next nearest words, so that no two are equal.
    """
    spans = [match.span() for match in _WORD.finditer(question) if _is_replaceable(match, question)]
    related = {span: model.related(question[slice(*span)].lower(), n) for span in spans}
    spans = [span for span in spans if related[span]]
    shares = min(n, len(spans))
    variants = []
    for variant in range(n if shares else 0):
        turn = variant // shares
        replaced = {span: related[span] for span in spans[variant % shares :: shares]}
        variants.append(_replace(question, {span: near[min(turn, len(near) - 1)] for span, near in replaced.items()}))
    return tuple(dict.fromkeys(text for text in variants if text != question)) or (question,)


def _is_replaceable(match: re.Match[str], question: str) -> bool:
    word = match.group()
    is_name = word[0].isupper() and match.start() > 0
    return word.isalpha() and len(word) > 2 and not is_name and word.lower() not in STOP_WORDS


def _replace(text: str, replacements: dict[tuple[int, int], str]) -> str:
    for (start, end), word in sorted(replacements.items(), reverse=True):
        text = text[:start] + word + text[end:]
    return text


PARAPHRASE = Task(
    name="paraphrase_question",
    prompt=(
        "Question: {question}\n\n"
        "Write {n} other wordings of this question for a search engine. Each asks for exactly the same thing in "
        "different words: synonyms, technical and plain terms, another sentence structure. Keep names and numbers as "
        "they are. One wording a line, and nothing else."
    ),
    parse=parse_questions,
    form=QUESTIONS,
    offline=paraphrase_offline,
    max_tokens=256,
)


@query_expansion(
    paper="https://arxiv.org/abs/2411.13154",
    choices={"n": (2, 3, 5), "weight": (0.3, 0.5, 0.7), "fusion": ("convex", "borda", "dbsf")},
)
def multi_query(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    n: Count = 3,
    weight: Share = 0.5,
    fusion: str = "convex",
    depth: Count = 20,
) -> Hits:
    """Search with the question and ``n`` paraphrases of it, and combine the scores.

    Helps when the documents use other words than the question. Costs one call and ``n`` additional searches. The
    question has the share ``weight`` of the score, so that bad paraphrases cannot outvote it. The RAGSmith code weights
    all queries equally, and fuses by ``dbsf`` or by ``borda``, which ignores ``weight``.
    """
    variants = language_model.run(PARAPHRASE, question=question.text, n=n)[:n]
    return weighted_search(search, question, variants, weight, fusion)[:depth]

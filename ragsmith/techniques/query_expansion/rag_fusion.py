"""RAG-Fusion: search with related questions from other perspectives, and fuse the rankings (Rackauckas 2024)."""

from collections import Counter
from functools import partial

from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import QUESTIONS, OfflineModel, Task, parse_questions
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import reciprocal_rank_fusion, search_and_fuse
from ragsmith.text.words import STOP_WORDS, words
from ragsmith.types import Hits, Question, Search

TERMS_PER_PASSAGE = 4
"""Number of words that a feedback passage adds to the question."""


def add_perspectives_offline(model: OfflineModel, *, sample: int, question: str, n: int) -> tuple[str, ...]:
    """Expand the question by each of ``n`` feedback passages separately, as clusters of feedback do (Xu & Croft 1996).

    The words added are those of highest tf-idf in a passage that neither the question nor an earlier passage has.
    """
    seen = set(model.terms(question))
    queries = []
    for passage in model.feedback(question, n):
        counts: Counter[str] = Counter()
        surface: dict[str, str] = {}
        for word in words(passage):
            term = "".join(model.terms(word))
            if word not in STOP_WORDS and len(word) > 2 and not word.isdigit() and term not in seen:
                counts[term] += 1
                surface.setdefault(term, word)
        best = sorted(counts, key=lambda term: (-counts[term] * model.idf(term), term))[:TERMS_PER_PASSAGE]
        if best:
            seen.update(best)
            queries.append(f"{question} {' '.join(surface[term] for term in best)}")
    return tuple(queries) or (question,)


RELATE = Task(
    name="related_questions",
    prompt=(
        "Question: {question}\n\n"
        "Write {n} related questions for a search engine, each from another perspective: another aspect, cause, "
        "consequence, person concerned or example of the same matter. Together they should bring up everything that a "
        "full answer draws on. One question a line, and nothing else."
    ),
    parse=parse_questions,
    form=QUESTIONS,
    offline=add_perspectives_offline,
    max_tokens=256,
)


@query_expansion(paper="https://arxiv.org/abs/2402.03367", choices={"n": (2, 3, 5), "constant": (10, 60)})
def rag_fusion(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    n: Count = 3,
    constant: Count = 60,
    depth: Count = 20,
) -> Hits:
    """Search with the question and ``n`` related ones, and fuse the rankings by reciprocal rank.

    Helps when an answer has several aspects. Costs one call and ``n`` additional searches. The ranking is cut at
    ``depth``; the RAGSmith code returns all 80 to 130 chunks, and uses the queries of its multi-query.
    """
    related = language_model.run(RELATE, question=question.text, n=n)[:n]
    fuse = partial(reciprocal_rank_fusion, constant=constant)
    return search_and_fuse(search, (question.text, *related), fuse)[:depth]

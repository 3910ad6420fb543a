"""Query rewriting: search with one rewritten query instead of the question (Ma et al. 2023)."""

from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import OfflineModel, Task, parse_query
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.text.words import content_words
from ragsmith.types import Hits, Question, Search

N_FEEDBACK_TERMS = 5
"""Number of terms that the relevance model adds."""


def rewrite_offline(model: OfflineModel, *, sample: int, question: str) -> str:
    """Keep the content words, replace unknown ones by their nearest neighbour in the corpus, and add RM3's terms.

    RM3 is the relevance model of Lavrenko & Croft (2001) mixed with the query (Abdul-Jaleel et al. 2004).
    """
    content = content_words(question)
    unknown = model.idf("")  # the idf of a term that no text has
    known = [
        word if compute_specificity(model, word) < unknown else (*model.related(word, 1), word)[0] for word in content
    ]
    return " ".join(dict.fromkeys([*known, *model.expansion_terms(question, N_FEEDBACK_TERMS)])) or question


def compute_specificity(model: OfflineModel, word: str) -> float:
    """Return the idf of a word; 0 for a word that is not an index term."""
    return max(map(model.idf, model.terms(word)), default=0.0)


REWRITE = Task(
    name="rewrite_query",
    prompt=(
        "Question: {question}\n\n"
        "Rewrite this question as one query for a search engine over reference documents: correct mistakes, resolve "
        "what is vague, drop politeness and filler, and use the terms that such documents use. Keep all names, "
        "numbers and conditions. Reply with the query alone, on one line."
    ),
    parse=parse_query,
    offline=rewrite_offline,
    max_tokens=128,
)


@query_expansion(paper="https://arxiv.org/abs/2305.14283")
def query_rewriting(question: Question, search: Search, *, language_model: LanguageModel, depth: Count = 20) -> Hits:
    """Search with one rewritten query alone.

    Helps when questions are wordy or use words that the documents do not. Costs one call. In the RAGSmith code the
    rewritten query also replaces the question in all later stages; here reranking, prompt and generation use the
    question.
    """
    rewritten = language_model.run(REWRITE, question=question.text)
    return search((rewritten,))[0][:depth]

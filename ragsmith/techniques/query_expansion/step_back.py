"""Step-back prompting: search also with a broader question behind the one asked (Zheng et al. 2023)."""

from collections import Counter

from ragsmith.index.entity_graph import names
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import OfflineModel, Task, parse_query
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import weighted_search
from ragsmith.techniques.query_expansion.query_rewriting import specificity
from ragsmith.text.words import STOP_WORDS, words
from ragsmith.types import Hits, Question, Search

FEEDBACK = 5
ADDED = 4
"""General words that the feedback adds."""


def broader_offline(model: OfflineModel, *, sample: int, question: str) -> str:
    """Generalise by statistical specificity, which is idf (Spärck Jones 1972).

    Names, numbers and the more specific half of the other words are dropped; the words that most of the feedback
    passages share, the vocabulary of the subject, are added.
    """
    named = {word for name in names(question) for word in words(name)}
    content = [
        w for w in dict.fromkeys(words(question)) if w not in STOP_WORDS | named and not any(map(str.isdigit, w))
    ]
    by_generality = sorted(content, key=lambda word: (specificity(model, word), word))
    kept = set(by_generality[: (len(content) + 1) // 2])
    general = [word for word in content if word in kept] + _shared_terms(model, question)
    return " ".join(dict.fromkeys(general)) or question


def _shared_terms(model: OfflineModel, question: str) -> list[str]:
    """Words that at least two feedback passages hold and the question does not, the most frequent and telling first."""
    asked = set(model.terms(question))
    passages: Counter[str] = Counter()
    surface: dict[str, str] = {}
    for passage in model.feedback(question, FEEDBACK):
        found: dict[str, str] = {}
        for word in words(passage):
            if word not in STOP_WORDS and len(word) > 2 and word.isalpha():
                found.setdefault("".join(model.terms(word)), word)
        passages.update(found.keys())
        surface = found | surface
    common = [term for term, count in passages.items() if count > 1 and term not in asked]
    best = sorted(common, key=lambda term: (-passages[term] * model.idf(term), term))[:ADDED]
    return [surface[term] for term in best]


STEP_BACK = Task(
    name="broader_question",
    prompt=(
        "Question: {question}\n\n"
        "Take a step back: write one broader question about the rule, principle or background that this question is a "
        "case of. Leave out particular names, dates and amounts. Reply with that question alone."
    ),
    parse=parse_query,
    offline=broader_offline,
    max_tokens=96,
)


@query_expansion(paper="https://arxiv.org/abs/2310.06117", choices={"weight": (0.5, 0.7)})
def step_back(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    weight: Share = 0.5,
    depth: Count = 20,
) -> Hits:
    """Search with the question and a broader one, and combine the scores.

    Helps when a particular case is decided by a general rule. Costs one call and one search. The paper reads the
    evidence of both questions; published code joins the lists by raw score, where either can drown the other, so here
    both are normalised and the question has the share ``weight``.
    """
    broader = language_model.run(STEP_BACK, question=question.text)
    return weighted_search(search, question, [broader], weight)[:depth]

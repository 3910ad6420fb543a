"""Step-back prompting: search also with a broader question (Zheng et al. 2023)."""

from collections import Counter

from ragsmith.index.relations import find_names
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import OfflineModel, Task, parse_query
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import weighted_search
from ragsmith.techniques.query_expansion.query_rewriting import compute_specificity
from ragsmith.text.words import STOP_WORDS, words
from ragsmith.types import Hits, Question, Search

N_FEEDBACK_PASSAGES = 5
"""Number of feedback passages whose shared terms are added."""
MAX_FEEDBACK_TERMS = 4
"""Maximum number of terms added from feedback."""


def generalise_offline(model: OfflineModel, *, sample: int, question: str) -> str:
    """Generalise by statistical specificity, which is idf (Spärck Jones 1972).

    Names, numbers and the more specific half of the other words are removed, and the terms that most feedback passages
    share, the vocabulary of the subject, are added.
    """
    named = {word for name in find_names(question) for word in words(name)}
    content = [
        w for w in dict.fromkeys(words(question)) if w not in STOP_WORDS | named and not any(map(str.isdigit, w))
    ]
    by_generality = sorted(content, key=lambda word: (compute_specificity(model, word), word))
    general_words = set(by_generality[: (len(content) + 1) // 2])
    general = [word for word in content if word in general_words] + _find_shared_terms(model, question)
    return " ".join(dict.fromkeys(general)) or question


def _find_shared_terms(model: OfflineModel, question: str) -> list[str]:
    """Return words that at least two feedback passages share and the question lacks, by descending df-idf weight."""
    question_terms = set(model.terms(question))
    passages: Counter[str] = Counter()
    surface: dict[str, str] = {}
    for passage in model.feedback(question, N_FEEDBACK_PASSAGES):
        forms: dict[str, str] = {}
        for word in words(passage):
            if word not in STOP_WORDS and len(word) > 2 and word.isalpha():
                forms.setdefault("".join(model.terms(word)), word)
        passages.update(forms.keys())
        surface = forms | surface
    common = [term for term, count in passages.items() if count > 1 and term not in question_terms]
    best = sorted(common, key=lambda term: (-passages[term] * model.idf(term), term))[:MAX_FEEDBACK_TERMS]
    return [surface[term] for term in best]


STEP_BACK = Task(
    name="broader_question",
    prompt=(
        "Question: {question}\n\n"
        "Take a step back: write one broader question about the rule, principle or background that this question is a "
        "case of. Leave out particular names, dates and amounts. Reply with that question alone."
    ),
    parse=parse_query,
    offline=generalise_offline,
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
    evidence of both questions; published code joins the rankings by raw score, in which either can dominate, so here
    both are normalised and the question has the share ``weight``.
    """
    broader = language_model.run(STEP_BACK, question=question.text)
    return weighted_search(search, question, [broader], weight)[:depth]

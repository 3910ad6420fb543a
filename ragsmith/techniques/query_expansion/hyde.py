"""HyDE: search with a hypothetical passage that answers the question, written by a model (Gao et al. 2023)."""

from functools import partial

from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import OfflineModel, Task, parse_search_text
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import convex_combination, reciprocal_rank_fusion, search_and_fuse
from ragsmith.types import Hits, Question, Search

N_SENTENCES = 3
"""Number of sentences of an offline passage, besides the question."""
N_FEEDBACK_PASSAGES = 3
"""Number of feedback passages that the sentences are from."""


def imagine_passage_offline(model: OfflineModel, *, sample: int, question: str) -> str:
    """Compose a passage from pseudo-relevance feedback (Lavrenko & Croft 2001).

    It consists of the question's words, as an answer repeats them, and the sentences of the best passages selected by
    maximal marginal relevance. Each further sample uses passages from one rank further down.
    """
    passages = model.feedback(question, N_FEEDBACK_PASSAGES + sample)[sample:] or model.feedback(
        question, N_FEEDBACK_PASSAGES
    )
    sentences = tuple(sentence for passage in passages for sentence in model.sentences(passage))
    if not sentences:
        return question
    chosen = sorted(model.select(question, sentences, N_SENTENCES))
    return " ".join([question.rstrip(" ?") + ".", *(sentences[i] for i in chosen)])


IMAGINE_PASSAGE = Task(
    name="imagine_passage",
    prompt=(
        "Question: {question}\n\n"
        "Write a passage of four to six sentences, as it might stand in a reference work, that answers this question. "
        "Use the terms that such a text would use. Whether it is true does not matter: it serves to find real "
        "passages. Reply with the passage alone, without refusing and without remarks."
    ),
    parse=partial(parse_search_text, label="passage|paragraph"),
    offline=imagine_passage_offline,
)


@query_expansion(
    paper="https://arxiv.org/abs/2212.10496",
    choices={"n": (1, 3), "keep_question": (False, True), "fusion": ("rrf", "convex")},
)
def hyde(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    n: Count = 1,
    keep_question: bool = False,
    fusion: str = "rrf",
    depth: Count = 20,
) -> Hits:
    """Search with ``n`` hypothetical passages that answer the question; with ``keep_question``, also with the question.

    Helps when questions and documents share few words. Costs ``n`` calls. The paper averages vectors; fusing a search
    for each passage also works for lexical search, and with ``keep_question`` and ``rrf`` equals the DPHF of Singh et
    al. (`dual_path`); ``convex`` adds scores, which is closer to the paper's mean of the vectors of question and
    passages. The hits of a single query keep their scores.
    """
    passages = [language_model.run(IMAGINE_PASSAGE, sample=i, question=question.text) for i in range(n)]
    queries = (question.text, *passages) if keep_question else tuple(passages)
    fuse = reciprocal_rank_fusion if fusion == "rrf" else convex_combination
    return search_and_fuse(search, queries, fuse)[:depth]

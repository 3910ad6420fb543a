"""HyDE: search with a passage that a language model imagines would answer the question (Gao et al. 2023)."""

from functools import partial

from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import OfflineModel, Task, parse_search_text
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import convex_combination, fused_search, reciprocal_rank_fusion
from ragsmith.types import Hits, Question, Search

SENTENCES = 3
FEEDBACK = 3


def imagine_offline(model: OfflineModel, *, sample: int, question: str) -> str:
    """Compose a passage from pseudo-relevance feedback, the classical stand-in (Lavrenko & Croft 2001).

    The question's words, as an answer repeats them, then the sentences of the best passages that are most relevant to
    it and least redundant (MMR). Each further sample reads passages from one rank further down.
    """
    passages = model.feedback(question, FEEDBACK + sample)[sample:] or model.feedback(question, FEEDBACK)
    sentences = tuple(sentence for passage in passages for sentence in model.sentences(passage))
    if not sentences:
        return question
    chosen = sorted(model.select(question, sentences, SENTENCES))
    return " ".join([question.rstrip(" ?") + ".", *(sentences[i] for i in chosen)])


IMAGINE = Task(
    name="imagine_passage",
    prompt=(
        "Question: {question}\n\n"
        "Write a passage of four to six sentences, as it might stand in a reference work, that answers this question. "
        "Use the terms that such a text would use. Whether it is true does not matter: it serves to find real "
        "passages. Reply with the passage alone, without refusing and without remarks."
    ),
    parse=partial(parse_search_text, label="passage|paragraph"),
    offline=imagine_offline,
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
    """Search with ``n`` passages imagined as answers; with ``keep_question``, with the question as well.

    Helps when questions and documents share few words. Costs ``n`` calls. The paper averages vectors; searching for
    each passage and fusing works for word search too, and with ``keep_question`` and ``rrf`` is the DPHF of Singh et
    al. (`dual_path`); ``convex`` adds scores, which is nearer to the paper's mean of the vectors of question and
    passages. The hits of one passage alone keep their scores.
    """
    imagined = [language_model.run(IMAGINE, sample=i, question=question.text) for i in range(n)]
    queries = (question.text, *imagined) if keep_question else tuple(imagined)
    fuse = reciprocal_rank_fusion if fusion == "rrf" else convex_combination
    return fused_search(search, queries, fuse)[:depth]

"""Answer in context: whether the passages that the generator read contain the reference answer.

A short reference has to be in one passage word for word after SQuAD's normalisation, the test of retrieval for question
answering (Chen et al. 2017, arXiv 1704.00051; Karpukhin et al. 2020). Short is at most five words, the limit of the
open version of Natural Questions (Lee et al. 2019, arXiv 1906.00300). Longer references are seldom quoted: of these,
the share of content words counts, the recall of ROUGE-1 (Lin 2004, https://aclanthology.org/W04-1013).
"""

from ragsmith.measures.case import Case
from ragsmith.measures.rankings import KARPUKHIN
from ragsmith.measures.registry import measure
from ragsmith.text.content_words import analyse, word_coverage
from ragsmith.text.words import normalise_answer

MAX_SHORT_WORDS = 5
"""Maximum number of words of a short reference, without articles."""

_VERDICTS = frozenset(("yes", "no"))


@measure(label="Answer in context", subject="passages", paper=KARPUKHIN, needs="reference")
def answer_in_context(case: Case) -> float | None:
    """1 if a passage of the prompt contains the reference of up to 5 words, else 0; of longer ones, a share of words.

    It is the share of the distinct content words and numbers of the reference that are in the passages, without those
    of the question. None for a reference without content words, such as a blank one or "yes".
    """
    if _VERDICTS.issuperset(analyse(case.reference).counts):
        return None
    wanted = normalise_answer(case.reference)
    texts = [passage.text for passage in case.passages]
    if len(wanted.split()) <= MAX_SHORT_WORDS:
        return float(any(f" {wanted} " in f" {normalise_answer(text)} " for text in texts))
    return word_coverage(case.question, case.reference, *texts)

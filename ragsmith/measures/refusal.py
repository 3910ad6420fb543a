"""Refusal rates: how often a pipeline declines to answer, where it should and where it should not.

Questions that the documents do not answer are the second half of SQuAD 2.0 (Rajpurkar et al. 2018); declining them,
and answering the others, are two rates, as either alone is had for nothing. What counts as declining is one rule,
`ragsmith.text.declining`.
"""

from ragsmith.measures.case import Case
from ragsmith.measures.registry import measure
from ragsmith.text.declining import declines

PAPER = "https://arxiv.org/abs/1806.03822"


@measure(label="Refusal", subject="answer", paper=PAPER, needs="unanswerable")
def refusal(case: Case) -> float:
    """1 if a question that the documents do not answer is declined, else 0: what is G of such a question."""
    return float(declines(case.answer))


@measure(label="False refusal", subject="answer", paper=PAPER, direction="lower", needs="answerable")
def false_refusal(case: Case) -> float:
    """1 if a question that the documents answer is declined, else 0; only where some questions have no answer."""
    return float(declines(case.answer))

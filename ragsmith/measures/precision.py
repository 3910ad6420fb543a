"""Precision (Cleverdon 1967): how much of what is read is right, by passages and by characters.

Recall, mAP, nDCG and MRR cannot rise when something is dropped from the end of a ranking: to see what reading costs, a
measure has to look at what is read for nothing.
"""

from ragsmith.measures.case import Case
from ragsmith.measures.registry import measure
from ragsmith.measures.span_recall import covered

PAPER = "https://doi.org/10.1108/eb050097"


@measure(label="Precision, kept", subject="ranking", paper=PAPER)
def kept_precision(case: Case) -> float:
    """The share of what passed the filter that is relevant; 0 if nothing passed."""
    ranking = case.ranking
    return sum(key in case.relevant for key in ranking) / len(ranking) if ranking else 0.0


@measure(label="Context precision", subject="passages", paper=PAPER, needs="evidence")
def context_precision(case: Case) -> float:
    """The characters of gold evidence that the passages come from, as a share of the characters shown; at most 1.

    Text around a hit, repetitions and text without gold count as shown; of a summary all gold that it was made of
    counts.
    """
    shown = sum(len(passage.text) for passage in case.passages)
    sources = {span for passage in case.passages for span in passage.sources}
    gold = sum(covered(span, sources) for span in dict.fromkeys(case.evidence))
    return min(1.0, gold / shown) if shown else 0.0

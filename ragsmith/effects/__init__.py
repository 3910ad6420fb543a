"""Effects of the options of a pipeline, learned on labelled data sets, for documents without questions.

`read` reads effects that were learned from a sample of pipelines on the search questions of data sets
(`tools/effects.py`), by default those that ship with ragsmith. `recommendations` returns pipelines for documents, and
`prior_for` a prior of the gains of the candidates of a search.
"""

from ragsmith.effects.corpus import CorpusProfile, corpus_of
from ragsmith.effects.knowledge import Knowledge, read
from ragsmith.effects.prior import Prior
from ragsmith.effects.recommending import Reason, Recommendation, prior_for, recommendations, recommended
from ragsmith.effects.showing import effects_of, pairs_of, pooled, weights_of
from ragsmith.effects.terms import ModelClasses

__all__ = [
    "CorpusProfile",
    "Knowledge",
    "ModelClasses",
    "Prior",
    "Reason",
    "Recommendation",
    "corpus_of",
    "effects_of",
    "pairs_of",
    "pooled",
    "prior_for",
    "read",
    "recommendations",
    "recommended",
    "weights_of",
]

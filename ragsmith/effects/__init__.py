"""What options of a pipeline are worth, learned on data sets whose answers are known, for documents without questions.

`read` reads what was learned from a sample of pipelines on the search questions of data sets (`tools/effects.py`): what
ships with ragsmith, unless a file is named. `recommendations` names pipelines for documents, and `prior_for` says for a
search what to expect of each of its candidates.
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

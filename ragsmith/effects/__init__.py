"""Effects of the options of a pipeline, learned on labelled data sets, for documents without questions.

`read_effects` reads effects that were learned from a sample of pipelines on the search questions of data sets
(`tools/effects.py`), by default those that ship with ragsmith. `recommend_pipelines` returns pipelines for documents,
and `prior_for` a prior of the gains of the candidates of a search.
"""

from ragsmith.effects.corpus import CorpusProfile, profile_corpus
from ragsmith.effects.knowledge import Knowledge, read_effects
from ragsmith.effects.prior import Prior
from ragsmith.effects.recommending import Reason, Recommendation, prior_for, recommend_pipeline, recommend_pipelines
from ragsmith.effects.showing import option_effects, pair_effects, pool_gains, signal_weights
from ragsmith.effects.terms import ModelClasses

__all__ = [
    "CorpusProfile",
    "Knowledge",
    "ModelClasses",
    "Prior",
    "Reason",
    "Recommendation",
    "option_effects",
    "pair_effects",
    "pool_gains",
    "prior_for",
    "profile_corpus",
    "read_effects",
    "recommend_pipeline",
    "recommend_pipelines",
    "signal_weights",
]

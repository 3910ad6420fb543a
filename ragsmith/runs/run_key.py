"""The key of a run: the same command on the same data, models, space and code is the same run."""

from __future__ import annotations

from dataclasses import asdict, replace

from ragsmith.digest import digest, fingerprint
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.space import Space
from ragsmith.records.record import HELD_OUT, RunSettings
from ragsmith.runs.recommended import knowledge_digest
from ragsmith.strategies import STRATEGIES

DECIDES = (
    ("ragsmith.strategies.strategy", "SteppedSearch"),
    ("ragsmith.strategies.strategy", "has_at_most"),
    ("ragsmith.evaluation.racing", "Races"),
    ("ragsmith.evaluation.ranking", "Terms"),
    ("ragsmith.evaluation.ranking", "ranked"),
    ("ragsmith.evaluation.ranking", "shown_better"),
    ("ragsmith.evaluation.baselines", "probes_of"),
    ("ragsmith.runs.search_loop", "batches"),
    ("ragsmith.runs.search_loop", "warm_start"),
    ("ragsmith.runs.choice", "choose"),
    ("ragsmith.runs.choice", "simplified"),
    ("ragsmith.records.objectives", "costs_of"),
    ("ragsmith.records.front", "cheapest"),
    ("ragsmith.effects.recommending", "recommended"),
    ("ragsmith.effects.recommending", "prior_for"),
    ("ragsmith.effects.corpus", "corpus_of"),
    ("ragsmith.datasets.splits", "split"),
    ("ragsmith.datasets.splits", "stratified"),
)
"""The code that decides the course of a run; code that computes answers is in the keys of evaluations."""


def run_key(setup: Experiment, space: Space, settings: RunSettings) -> str:
    """Return the key of a run."""
    # the time limit decides when a run pauses, not its course
    decided = {**asdict(replace(settings, time_limit=None)), "fitness": settings.fitness.identity}
    if settings.verdict == HELD_OUT:
        del decided["verdict"], decided["folds"]
    divided = setup.divided
    parts = [sorted(e.id for e in part) for part in (divided.search, divided.test)] if divided else []
    chosen = [settings.strategy, "exhaustive", *(["random"] if settings.control == "random" else [])]
    code = [*(fingerprint(*part) for part in DECIDES), *(STRATEGIES.parse(name).code for name in chosen)]
    code.append(str(settings.genetic.evaluations))  # a derived value, which asdict leaves out
    known = knowledge_digest() if settings.warm_start or settings.choose == "estimate" else ""
    models = [(variant.cut, variant.loaded_models.ids()) for variant in setup.variants]
    asked = models, [measure.identity for measure in setup.measures]
    signals = {gene.technique.identity: gene for genes in space.options for gene in genes if gene.technique.signals}
    weights = {name: setup.general(gene).plain() for name, gene in sorted(signals.items()) if not setup.lacks(gene)}
    return digest(
        "run", setup.dataset.digest, *asked, space.digest, decided, code, known, *([weights] if weights else []), *parts
    )

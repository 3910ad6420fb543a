"""A run looks at test questions: which look at them it is, counted in the cache and in the user's ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ragsmith.comparison.counting import counted
from ragsmith.comparison.looks import Look, digests
from ragsmith.digest import digest
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.testbed import Setup
from ragsmith.pipelines.genes import configuration
from ragsmith.store.store import Store

if TYPE_CHECKING:
    from ragsmith.runs.pipeline import Pipeline

MADE_OF = ("leader", "estimate")
"""Parts in the test of a run that nobody is compared with: what its winner was made of."""


def look_at(
    store: Store,
    setup: Setup,
    fitness: Fitness,
    compared: Mapping[str, Any],
    tested: Collection[str],
    day: str,
) -> Look:
    """Count a look of a run.

    ``compared`` has the configurations of those that met on the questions ``tested``, by their part: the same ones on
    the same questions are the same look. ``day`` is as ISO 8601.
    """
    contents = digests(setup.dataset, setup.dataset.examples)
    met = {name: one for name, one in compared.items() if name not in MADE_OF}
    look = digest("look", met, setup.cut, setup.model_ids, fitness.identity)
    return counted(store, look, [contents[question] for question in tested], day)


def look_at_two(store: Store, two: Sequence[Pipeline], fitness: Fitness, tested: Collection[str], day: str) -> Look:
    """Count a look at the questions ``tested`` by two pipelines that are compared, whichever of them is the first."""
    setup = two[0].setup
    contents = digests(setup.dataset, setup.dataset.examples)
    met = sorted(digest(configuration(one.candidate), one.setup.cut, one.setup.model_ids) for one in two)
    look = digest("look of two", met, fitness.identity)
    return counted(store, look, [contents[question] for question in tested], day)

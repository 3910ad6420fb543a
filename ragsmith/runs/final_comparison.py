"""The final comparison: the winner meets what it has to beat, once, on the test questions; each use of them counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragsmith.comparison.counting import counted
from ragsmith.comparison.looks import HoldoutUse, digests
from ragsmith.digest import digest
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import Candidate, configuration
from ragsmith.records.record import MADE_OF
from ragsmith.store.store import Store


@dataclass(frozen=True, slots=True)
class FinalComparison:
    """The winner of a search, what it was made of, and what it has to beat.

    ``leader`` has the highest mean, ``estimated`` the highest estimate, where something was expected; ``single`` is the
    best single option, ``random`` the best drawn, and ``cheapest`` the cheapest that is shown to be less than the
    margin behind the winner. ``baselines`` are naive RAG and BM25 on the search questions.
    """

    winner: Evaluation
    leader: Evaluation
    estimated: Evaluation | None
    recommended: Evaluation | None
    single: Evaluation | None
    cheapest: Evaluation
    random: Evaluation | None
    baselines: Mapping[str, Evaluation]

    def candidates(self) -> dict[str, Candidate]:
        """By role. One pipeline may have several, such as the leader that is the cheapest, too: it is met once.

        The winner does not meet itself, unless as the best drawn. Where what is chosen is the leader, or the best
        single option a baseline or recommended, there is no second role for it.
        """
        found = {"winner": self.winner.candidate}
        if self.leader.key != self.winner.key:
            found["leader"] = self.leader.candidate
        if self.estimated and self.estimated.key not in (self.winner.key, self.leader.key):
            found["estimate"] = self.estimated.candidate
        found |= {name: one.candidate for name, one in self.baselines.items()}
        others = [self.winner, *([self.recommended] if self.recommended else [])]
        if self.single and self.single.key not in {one.key for one in (*self.baselines.values(), *others)}:
            found["single"] = self.single.candidate
        if self.recommended and self.recommended.key != self.winner.key:
            found["recommended"] = self.recommended.candidate
        if self.cheapest.key != self.winner.key:
            found["cheapest"] = self.cheapest.candidate
        if self.random:
            found["random"] = self.random.candidate
        return found


def count_test_use(
    store: Store,
    setup: Experiment,
    fitness: Fitness,
    compared: Mapping[str, Any],
    tested: Collection[str],
    day: str,
) -> HoldoutUse:
    """Count the use of test questions by a run.

    ``compared`` has the configurations of those that met on the questions ``tested``, by their part: the same ones on
    the same questions are the same look. ``day`` is as ISO 8601.
    """
    contents = digests(setup.dataset, setup.dataset.examples)
    met = {name: one for name, one in compared.items() if name not in MADE_OF}
    look = digest("look", met, setup.cut, setup.model_ids, fitness.identity)
    return counted(store, look, [contents[question] for question in tested], day)


def count_pairwise_use(
    store: Store, two: Sequence[Pipeline], fitness: Fitness, tested: Collection[str], day: str
) -> HoldoutUse:
    """Count a look at the questions ``tested`` by two pipelines that are compared, whichever of them is the first."""
    setup = two[0].setup
    contents = digests(setup.dataset, setup.dataset.examples)
    met = sorted(digest(configuration(one.candidate), one.setup.cut, one.setup.model_ids) for one in two)
    look = digest("look of two", met, fitness.identity)
    return counted(store, look, [contents[question] for question in tested], day)

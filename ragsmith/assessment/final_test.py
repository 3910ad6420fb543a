"""Test an exported pipeline on the test questions, against the baselines that need no search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ragsmith.assessment.pairwise import check_unseen, evaluate_on, select_questions, verdict_terms
from ragsmith.comparison.questions import Clusters, HoldoutUse
from ragsmith.comparison.verdicts import Comparison, compare_pipelines
from ragsmith.evaluation.ranking import Terms, common_questions
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import configuration, label
from ragsmith.reporting.facts import describe_rival
from ragsmith.reporting.wording import describe_comparison, describe_cost, describe_verdicts
from ragsmith.runs.final_comparison import count_test_use, peek_test_use
from ragsmith.store.store import Store


@dataclass(frozen=True, slots=True)
class FinalTest:
    """The verdicts on a pipeline on test questions: one ``comparison`` for each rival, tested as one family.

    ``look`` is None if the pipeline failed on more questions than it may: then nothing is compared, and no look counts.
    """

    dataset: str
    pipeline: str
    label: str
    comparisons: tuple[Comparison, ...]
    clusters: Clusters
    look: HoldoutUse | None

    @property
    def words(self) -> str:
        """The verdicts in one or two sentences."""
        return describe_verdicts(self.comparisons) if self.comparisons else "No verdict: it is its only rival."

    def __str__(self) -> str:
        return "\n".join([self.words, *map(describe_comparison, self.comparisons)])


def final_test(
    named: tuple[str, Pipeline],
    rivals: Mapping[str, Pipeline],
    store: Store,
    *,
    workers: int = 1,
    day: str,
    on_look: Callable[[str], None] | None = None,
) -> FinalTest:
    """Compare a pipeline, given with its name, with ``rivals`` by role, on the test questions of its data set.

    This counts as a look at these questions on this ISO 8601 ``day``; the same pipelines on the same questions are
    counted once. ``on_look`` is called before anything is computed with a sentence on what the look costs.

    Raises:
        UsageError: there are no test questions, or the pipeline was chosen on all questions.
    """
    name, pipeline = named
    check_unseen([named], "test")
    setup, fitness = pipeline.setup, pipeline.fitness
    asked = select_questions(setup, fitness, "test")
    terms = verdict_terms(asked, fitness)
    compared = {role: configuration(one.candidate) for role, one in {"winner": pipeline, **rivals}.items()}
    used = store, setup, fitness, compared, [example.id for example in asked]
    if on_look:
        look, recorded = peek_test_use(*used)
        on_look(describe_cost(look, recorded=recorded))
    first, *others = evaluate_on([pipeline, *rivals.values()], terms.examples, store, workers)
    admitted = Terms.from_evaluations([first, *others], terms.fitness)
    clusters = Clusters.from_examples(setup.dataset, terms.examples)
    taken = count_test_use(*used, day) if admitted.admits(first) and common_questions([first, *others]) else None
    number = taken.number if taken else 1
    by_role = dict(zip(rivals, others, strict=True))
    found = compare_pipelines(first, by_role, admitted, clusters, look=number, of=terms.of)
    titled = tuple(replace(one, against=describe_rival(one.name, 0)) for one in found)
    return FinalTest(setup.dataset.name, name, label(pipeline.candidate) or "naive RAG", titled, clusters, taken)

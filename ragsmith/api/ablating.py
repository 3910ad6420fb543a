"""`ablate`: what each part of an exported pipeline is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import WorkArguments
from ragsmith.api.resources import Resources
from ragsmith.comparison.clusters import Clusters
from ragsmith.datasets.bundled import names
from ragsmith.diagnosis.ablation import Ablation, ablation_of, wanted
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import ordered
from ragsmith.evaluation.fitting import with_general, without_general
from ragsmith.evaluation.ranking import Terms
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.requirements import searchable
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.objectives import on_this_machine
from ragsmith.records.record import RunSettings
from ragsmith.runs.latency import Latencies
from ragsmith.types import Dataset

PARTS = ("search", "test", "all")
"""The questions that a pipeline may be taken apart on."""


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """What taking a pipeline apart asks for: ``pipelines`` on ``questions`` questions, some of which are ``known``.

    What learns on these questions counts as not known before it has. ``searched`` says whether a search on this data
    set chose the pipeline.
    """

    dataset: str
    space: str
    part: str
    pipelines: int
    known: int
    questions: int
    searched: bool = False

    @property
    def answers(self) -> int:
        """Answers that are still to be made, at most."""
        return (self.pipelines - self.known) * self.questions


def ablate(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    space: Space | str | Path | None = None,
    swaps: bool = False,
    signals: bool = False,
    pairs: bool = False,
    latency: bool = False,
    part: str = "search",
    on_plan: Callable[[AblationPlan], bool] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **given: Unpack[WorkArguments],
) -> Ablation | None:
    """Say what each part of ``pipeline`` is worth: without it, and together with the others against each alone.

    >>> found = ragsmith.ablate("winner.yaml", space="quick")
    >>> [(part.option, part.instead, part.worth["fitness"].shown) for part in found.outs][-1]
    ('hybrid', 'vector', True)

    With ``swaps`` each other option of ``space`` stands in its place in turn, with ``pairs`` each two parts alone are
    evaluated, too, and with ``latency`` everything is timed. With ``signals`` each learned ranking goes without each of
    its signals in turn; one that was fitted only on the data set that it was fitted on. The space is the one that the
    pipeline was found in, where it is bundled, or else `default`. It is done on the search questions of its data set,
    or of another ``dataset``: the test questions stay unseen, unless ``part`` says ``test`` or ``all``. What ``cache``
    has is not computed again, and what comes of it is kept there: `report` shows it with the run.

    ``on_plan`` is told first how much there is to do; nothing is done, and None returned, where it says False.

    Raises:
        UsageError: the file, its documents, the space or a model cannot be used.
    """
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline, dataset)
    setup, fitness, winner = loaded.setup, loaded.fitness, with_general(loaded.setup, without_general(loaded.candidate))
    data = setup.dataset
    if not data.examples:
        raise UsageError(f"{data.name!r} has no questions to compare by: name a data set that has with --dataset")
    at_home = dataset is None and (loaded is not pipeline or bool(loaded.expected))
    if part not in PARTS:
        raise WrongOption("part", f"is {part!r}: give {', '.join(PARTS[:-1])} or {PARTS[-1]}")
    asked = {"search": setup.split.search, "test": setup.split.test, "all": data.examples}[part]
    if part == "test":
        loaded.refuse_test("the pipeline", instead="leave --part out, or take it apart")
    if not setup.split.test and not loaded.saw_all:  # too small to split
        part, asked = "all", data.examples
    questions = ordered(asked)
    home = loaded.space if loaded.space in names("search_spaces") else "default"
    found = space if isinstance(space, Space) else load_space(space or home)
    found = searchable(setup, found.of_families(), ranks=fitness.ranks)
    others = [
        with_general(setup, one)
        for one in wanted(winner, found, with_swaps=swaps, with_signals=signals, pairs=pairs, refit=at_home)
    ]
    with resources.store() as store:
        ids = tuple(example.id for example in questions)
        with Evaluator(setup, store, resources.workers_for(setup), on_progress, ranks=fitness.ranks) as evaluator:
            rows = store.results_many([evaluator.key(one) for one in (winner, *others)])
            known = sum(set(ids) <= answered.keys() for answered in rows.values())
            searched = bool(loaded.expected)
            plan = AblationPlan(data.name, found.name, part, len(others) + 1, known, len(ids), searched)
            if on_plan is not None and not on_plan(plan):
                return None
            first, *rest = evaluator.evaluate([winner, *others], questions)
            seconds_of = None
            if latency:
                timed = RunSettings(strategy="nsga2", racing=None, objectives=("quality", "latency"))
                machine = on_this_machine(timed, setup.variants).measured_on
                seconds_of = Latencies(evaluator, store, machine, setup.order).of
            terms = Terms.of([first, *rest], fitness)
            apart = ablation_of(
                first,
                rest,
                found,
                terms,
                dataset=data.name,
                clusters=Clusters.of(data, questions),
                part=part,
                seconds_of=seconds_of,
                refit=at_home,
            )
            return apart.keep(store, data.digest)

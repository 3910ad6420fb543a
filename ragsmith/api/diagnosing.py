"""`explain`, `intervene`, `ablate` and `transfer`: why a pipeline answers as it does, and what its parts are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import CacheArguments, WorkArguments
from ragsmith.api.resources import CACHE, Resources
from ragsmith.comparison.questions import Clusters
from ragsmith.datasets.bundled import names
from ragsmith.diagnosis.ablation import Ablation, ablation_of, wanted
from ragsmith.diagnosis.estimates import Transferred, keep_transfer, transferred
from ragsmith.diagnosis.explaining import QuestionExplanation, asked, explained
from ragsmith.diagnosis.interventions import FINDING, Ceiling, answers_of
from ragsmith.diagnosis.interventions import intervene as work_out
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import stored_evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment, ordered
from ragsmith.evaluation.fitting import with_general, without_general
from ragsmith.evaluation.ranking import Terms
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.requirements import searchable
from ragsmith.exported.writing import run_setup
from ragsmith.pipelines.genes import GENES, Candidate, read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.objectives import on_this_machine
from ragsmith.records.record import CROSSFIT, RunRecord, RunSettings
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.runs.run_context import Latencies
from ragsmith.store.store import Store
from ragsmith.types import Dataset


def explain(
    pipeline: Pipeline | str | Path,
    question: str,
    *,
    dataset: Dataset | str | Path | None = None,
    **given: Unpack[CacheArguments],
) -> QuestionExplanation:
    """Follow a question through an exported pipeline: what each stage made of it, and the first thing that went wrong.

    >>> way = ragsmith.explain("winner.yaml", "law-024")
    >>> [station.family for station in way.stations][:3]
    ['pre_embedding', 'query_expansion', 'reranking']

    ``question`` is the id of one of the data set, or its text, whatever its case and last punctuation. Any other
    text is
    followed without gold and without a cause, and the ``note`` says so. The other arguments are those of
    `ragsmith.ask`.

    Raises:
        UsageError: the file, its documents or a model cannot be used, or the question is blank or a
            single word that is no id of the data set.
        StageFailed: a stage of the pipeline failed on this question.
    """
    if not question.strip():
        raise UsageError("the question is blank")
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline, dataset)
    with resources.remembering(loaded) as able:
        engine = able.setup.engine(gateway=able.engine.gateway)  # nothing is remembered of another question
        engine.share_collection(able.engine)
        return explained(engine, able.setup, able.candidate, asked(able.setup, question), able.fitness)


def intervene(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    on_plan: Callable[[int], bool] | None = None,
    **given: Unpack[WorkArguments],
) -> dict[str, tuple[Ceiling, ...]]:
    """Say what ``winner``, which is ``pipeline``, and ``naive`` RAG would answer if the right passages had been kept.

    Mean R, G and F on the search and the test questions that have gold, each as it is, with the gold put in, with the
    noise taken out, and with gold alone, which is the ceiling of the generator. It asks for up to three answers a
    question and pipeline: ``on_plan`` gets their number, and nothing is done if it returns False. What comes of it is
    kept in ``cache``, and `report` shows it with the run.

    Raises:
        UsageError: the file, its documents or a model cannot be used, or nothing is generated.
    """
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline, dataset)
    if loaded.fitness.ranks:
        raise UsageError("this pipeline was tuned for retrieval alone: there is no generator to intervene for")
    setup = loaded.setup
    candidates = {"winner": loaded.candidate, "naive": baseline("naive")}
    if on_plan and not on_plan(answers_of(setup, len(candidates))):
        return {}
    with resources.store() as store, Evaluator(setup, store, resources.workers or setup.workers) as evaluator:
        found = dict(
            zip(candidates, work_out(evaluator, setup, list(candidates.values()), loaded.fitness), strict=True)
        )
        for name, candidate in candidates.items():
            value = {"means": [asdict(one) for one in found[name]], "fitness": loaded.fitness.identity}
            store.put_finding(FINDING, evaluator.key(candidate), setup.dataset.digest, value)
    return found


ABLATION_PARTS = ("search", "test", "all")
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

    With ``swaps`` each other option of ``space`` replaces it in turn, with ``pairs`` each two parts alone are
    evaluated, too, and with ``latency`` everything is timed. With ``signals`` each learned ranking goes without each of
    its signals in turn; one that was fitted only on the data set that it was fitted on. The space is the one that the
    pipeline was found in, where it is bundled, or else `default`. It is done on the search questions of its data set,
    or of another ``dataset``: the test questions stay unseen, unless ``part`` says ``test`` or ``all``. What ``cache``
    has is not computed again, and what comes of it is kept there: `report` shows it with the run.

    ``on_plan`` gets the plan first; nothing is done, and None returned, if it returns False.

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
    if part not in ABLATION_PARTS:
        raise WrongOption("part", f"is {part!r}: give {', '.join(ABLATION_PARTS[:-1])} or {ABLATION_PARTS[-1]}")
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


TRANSFER_PARTS = ("search", "test")


@dataclass(frozen=True, slots=True)
class _Home:
    """A data set, its latest search, and the winner of that."""

    name: str
    run: str
    record: RunRecord
    setup: Experiment
    winner: Candidate

    @classmethod
    def of(cls, store: Store, dataset: Dataset | str | Path) -> _Home:
        key, setup = run_setup(store, dataset)
        run = store.run(key)
        record = RunRecord.from_dict(run.value if run else None)
        described = store.evaluation(record.winner or "")
        if described is None:
            raise UsageError(f"the cache has lost the winner on {setup.dataset.name!r}: the same search makes it again")
        candidate = without_general(read_configuration(described.configuration["pipeline"]))
        return cls(setup.dataset.name, key, record, setup.scoring(record.settings.fitness), candidate)

    def takes(self, other: _Home) -> Experiment:
        """This data set, cut and asked as the winner of ``other`` was found, and marked as here."""
        its = other.setup.of(other.winner)
        if (its.cut, its.models) == (self.setup.cut, self.setup.models):
            return self.setup
        own = self.setup
        size, overlap = its.chunk_size, its.chunk_overlap
        return replace(own, models=its.models, marked_by=own, chunk_size=size, chunk_overlap=overlap)


def transfer(
    datasets: Sequence[Dataset | str | Path],
    *,
    part: str = "search",
    workers: int | None = None,
    cache: Store | str | Path = CACHE,
    on_plan: Callable[[int, int], bool] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Transferred]:
    """Evaluate the winner of the latest search on each of ``datasets`` on all others, and keep what comes of it.

    It is done on the ``search`` questions, unless ``part`` says ``test``: then the test questions of each data set are
    answered by pipelines from elsewhere, too, and nothing is tested. What a winner learned at home it keeps, and is
    asked with the models and chunks that it was found with. What ``cache`` has is not computed again; `report` shows
    it on the page across data sets. ``on_plan`` gets the number of pairs and the maximum number of answers first;
    nothing is done if it returns False.

    Raises:
        UsageError: there are fewer than two data sets, or all are the same one, or one has no search with a winner in
            the cache, or no test questions where these are asked for.
    """
    resources = Resources(workers=workers, cache=cache)
    if part not in TRANSFER_PARTS:
        raise WrongOption("part", f"is {part!r}: give {' or '.join(TRANSFER_PARTS)}")
    if len(datasets) < 2:
        raise UsageError("a winner is taken from one data set to another: name two data sets or more")
    found = []
    with resources.store(read_only=True) as store:  # a cache that is not there is not made
        found_at = (_Home.of(store, dataset) for dataset in datasets)
        homes = list({home.run: home for home in found_at}.values())
    if len(homes) < 2:
        raise UsageError(
            f"{' and '.join(dict.fromkeys(map(str, datasets)))}: that is one data set, {homes[0].name!r}, "
            f"{len(datasets)} times, and a winner is taken from one data set to another: name two that differ"
        )
    if part == "test":
        _refuse_untested(homes)
    with resources.store() as store:
        pairs = [(source, target) for target in homes for source in homes if source.run != target.run]
        if on_plan is not None and not on_plan(len(pairs), _answers(store, pairs, part)):
            return []
        for source, target in pairs:
            one = _transferred(store, source, target, part, workers, on_progress)
            if one is not None:
                keep_transfer(store, one, source.run, target.run, target.setup.dataset.digest)
                found.append(one)
    return found


def _refuse_untested(homes: Sequence[_Home]) -> None:
    """Raise UsageError where a data set has no test questions, as all are used up, or there were too few."""
    why = [
        f"{home.name!r} has no test questions "
        + (
            "(its search was a crossfit, and all were used to choose the winner that is at home)"
            if home.record.settings.verdict == CROSSFIT
            else f"({home.record.split.rule})"
        )
        for home in homes
        if not home.record.split.test
    ]
    if why:
        raise UsageError(f"{'; '.join(why)}: leave --part out, which asks search questions")


def _answers(store: Store, pairs: Sequence[tuple[_Home, _Home]], part: str) -> int:
    """How many answers are still to be made."""
    total = 0
    for source, target in pairs:
        with Evaluator(target.takes(source), store, 1, ranks=target.record.settings.fitness.ranks) as evaluator:
            asked = set(getattr(target.record.split, part))
            total += len(asked - store.results(evaluator.key(source.winner[:GENES])).keys())
    return total


def _transferred(
    store: Store,
    source: _Home,
    target: _Home,
    part: str,
    workers: int | None,
    on_progress: Callable[[int, int], None] | None,
) -> Transferred | None:
    record, setup = target.record, target.takes(source)
    fitness = record.settings.fitness
    asked = set(getattr(record.split, part))
    examples = ordered([example for example in target.setup.dataset.examples if example.id in asked])
    if not examples or record.winner is None:
        return None
    own = stored_evaluation(store, record.winner, [example.id for example in examples])
    processes = workers or setup.models.workers()
    with Evaluator(setup, store, processes, on_progress, ranks=fitness.ranks) as evaluator:
        [found] = evaluator.evaluate([source.winner[:GENES]], examples)
    searched = []
    if part == "search":
        material = RunData(store, choose_run(store, target.name, target.run), {})
        keys = [*(row.evaluation for row in material.proposals), *record.told, *(one.key for one in record.removals)]
        searched = material.finishers(list(dict.fromkeys(keys)))
    terms = Terms.of([found, own, *searched], fitness, record.settings.max_failure_rate)
    clusters = Clusters.of(target.setup.dataset, examples)
    return transferred(source.name, target.name, part, found, own, searched, terms, clusters)

"""`explain`, `intervene`, `ablate` and `transfer`: diagnosis of answers, and the effects of the parts of a pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Unpack

from ragsmith.api.arguments import WorkArguments
from ragsmith.api.resources import CACHE, Resources, SpaceSpec, SystemSpec, describe_source, resolve_pipeline_space
from ragsmith.argument_types import checked
from ragsmith.assessment.causes import Causes
from ragsmith.assessment.causes import diagnose as find_causes
from ragsmith.assessment.pairwise import PARTS, announce_look, select_questions
from ragsmith.comparison.questions import Clusters
from ragsmith.datasets.bundled import bundled_names
from ragsmith.diagnosis.ablation import Ablation, compute_ablation, list_ablation_candidates
from ragsmith.diagnosis.estimates import TransferEstimate, estimate_transfer, store_transfer
from ragsmith.diagnosis.explaining import QuestionExplanation, explain_question, find_question
from ragsmith.diagnosis.interventions import INTERVENTIONS, INTERVENTIONS_KIND, Ceiling, select_parts
from ragsmith.diagnosis.interventions import intervene as evaluate_interventions
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import load_evaluation, read_candidate
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment, sort_examples
from ragsmith.evaluation.fitting import add_general_weights, drop_general_weights
from ragsmith.evaluation.keys import finding_key
from ragsmith.evaluation.ranking import Terms
from ragsmith.exported.pipeline import Pipeline, require_question
from ragsmith.exported.requirements import searchable_space
from ragsmith.exported.writing import load_run_experiment
from ragsmith.pipelines.genes import N_FAMILIES, Candidate
from ragsmith.records.objectives import with_machine
from ragsmith.records.record import CROSSFIT, RunRecord, RunSettings
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.runs.run_context import Latencies, timestamp
from ragsmith.store.store import Store
from ragsmith.strategies.settings import check_choice
from ragsmith.systems.system import System
from ragsmith.types import Dataset


@checked
def explain(
    pipeline: SystemSpec,
    question: str,
    *,
    filter: object = None,  # noqa: A002  the name of the option everywhere
    dataset: Dataset | str | Path | None = None,
    **given: Unpack[WorkArguments],
) -> QuestionExplanation:
    """Trace a question through an exported pipeline: the output of each stage, and the first cause of a wrong answer.

    >>> explanation = ragsmith.explain("winner.yaml", "law-024")
    >>> [stage.family for stage in explanation.stages][:3]
    ['pre_embedding', 'query_expansion', 'reranking']

    ``question`` is the id or the text of a question of the data set; case and final punctuation are ignored. Any other
    text is traced without gold labels and without a cause, as the ``note`` then says. Of another system (see
    `ragsmith.evaluate`) the contexts are its one stage. ``filter`` replaces that of the question, see
    `ragsmith.Pipeline.ask`. The other arguments are those of `ragsmith.ask`.

    Raises:
        UsageError: the file, its documents or a model cannot be used, or the question is blank, or is
            a single word that is not an id of the data set.
        StageFailed: a stage of the pipeline failed on this question.
    """
    require_question(question)
    resources = Resources(**given)
    loaded = resources.assessed(pipeline, dataset)
    if isinstance(loaded, System) and find_question(loaded.setup, question).id not in loaded.setup.answers:
        raise UsageError(f"{describe_source(pipeline)} has no answer to {question!r}: name a question that it answered")
    with resources.caching_replies(loaded) as cached:
        engine = cached.setup.engine(
            gateway=cached.engine.gateway
        )  # a new engine has no cached results of other questions
        engine.share_collection(cached.engine)
        example = find_question(cached.setup, question)
        if filter is not None:
            example = replace(example, filter=cached.parse_filter(filter))
        return explain_question(engine, cached.setup, cached.candidate, example, cached.fitness)


@checked
def diagnose(
    pipeline: SystemSpec,
    *,
    dataset: Dataset | str | Path | None = None,
    split: str = "search",
    on_look: Callable[[str], None] | None = None,
    now: Callable[[], float] = time.time,
    **given: Unpack[WorkArguments],
) -> Causes:
    """Find the cause of each answer of a pipeline or another system, as `explain` does for one question.

    >>> found = ragsmith.diagnose("winner.yaml")
    >>> sum(len(one.questions) for one in found.causes) == found.questions
    True

    Questions are those of ``split``: ``search``, ``test`` or ``all``. The last two are a look at test questions
    (see `compare`), unless the search of the pipeline has tested it, and its report shows the causes.

    Raises:
        UsageError: the file, its documents or a model cannot be used, or there are no such questions.
    """
    resources = Resources(**given)
    check_choice("split", split, PARTS)
    loaded = resources.assessed(pipeline, dataset)
    with resources.store() as store:
        workers, day = resources.workers_for(loaded.setup), timestamp(now())[:10]
        return find_causes(loaded, store, part=split, workers=workers, day=day, on_look=on_look)


@checked
def intervene(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    split: str = "search",
    on_plan: Callable[[int], bool] | None = None,
    on_look: Callable[[str], None] | None = None,
    now: Callable[[], float] = time.time,
    **given: Unpack[WorkArguments],
) -> dict[str, tuple[Ceiling, ...]]:
    """Estimate how ``pipeline`` (``winner``) and ``naive`` RAG would score with perfect retrieval.

    The estimates are the mean R, G and F on the questions of ``split`` with gold passages; on ``test`` or ``all``
    of them they are a look at test questions, as `compare` of the two would be. The means are with the retrieved
    passages, with the gold ones added, without the irrelevant ones, and with gold passages alone, which is the
    ceiling of the generator. At most three answers per question and pipeline are generated: ``on_plan`` is called
    with their number, and nothing is done if it returns False. The result is stored in ``cache``, and `report`
    shows it with the run.

    Raises:
        UsageError: the file, its documents or a model cannot be used, or the pipeline generates no answers.
    """
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline, dataset)
    if loaded.fitness.ranking_only:
        raise UsageError(
            "this pipeline was tuned for retrieval alone: there is no generator whose input could be changed"
        )
    check_choice("split", split, PARTS)
    setup = loaded.setup
    candidates = {"winner": loaded.candidate, "naive": baseline("naive")}
    parts = select_parts(setup, split)
    if on_plan and not on_plan(len(candidates) * len(INTERVENTIONS) * sum(map(len, parts.values()))):
        return {}
    with resources.store() as store, Evaluator(setup, store, resources.workers or setup.workers) as evaluator:
        if parts.get("test"):
            compared = [(setup, candidate) for candidate in candidates.values()]
            examples = select_questions(setup, loaded.fitness, split)
            announce_look(store, loaded.fitness, compared, examples, on_look, "counted")(timestamp(now())[:10])
        ceilings = dict(
            zip(
                candidates,
                evaluate_interventions(evaluator, parts, list(candidates.values()), loaded.fitness),
                strict=True,
            )
        )
        for name, candidate in candidates.items():
            value = {"means": [asdict(ceiling) for ceiling in ceilings[name]], "fitness": loaded.fitness.identity}
            store.put_finding(
                INTERVENTIONS_KIND,
                finding_key(evaluator.key(candidate), setup.model_ids.get("test_judge", "")),
                setup.dataset.digest,
                value,
            )
    return ceilings


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """The size of an ablation: ``pipelines`` on ``questions`` questions each; ``known`` of them are in the cache.

    A pipeline that is fitted on these questions counts as unknown until it is fitted. ``searched`` is whether a search
    on this data set selected the pipeline.
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
        """The maximum number of answers that are not cached."""
        return (self.pipelines - self.known) * self.questions


@checked
def ablate(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    space: SpaceSpec | None = None,
    swaps: bool = False,
    signals: bool = False,
    pairs: bool = False,
    latency: bool = False,
    split: str = "search",
    on_plan: Callable[[AblationPlan], bool] | None = None,
    on_look: Callable[[str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    now: Callable[[], float] = time.time,
    **given: Unpack[WorkArguments],
) -> Ablation | None:
    """Estimate the effect of each part of ``pipeline``: by removing it, and by comparing it alone with all together.

    >>> found = ragsmith.ablate("winner.yaml", space="quick")
    >>> [(part.option, part.instead, part.worth["fitness"].excludes_zero) for part in found.outs][-1]
    ('hybrid', 'vector', True)

    With ``swaps`` each part is also replaced by each other option of ``space``, with ``pairs`` all pairs of parts
    are evaluated, and with ``latency`` all pipelines are timed. With ``signals`` each signal of each learned
    ranking is removed in turn; a fitted ranking is only examined on the data set that it was fitted on. The default
    space is the one that the pipeline was found in, if it is bundled, else `default`. Questions are the search
    questions of the pipeline's data set, or of ``dataset``; test questions only if ``split`` is ``test`` or
    ``all``, which is a look at them (see `compare`). Results in ``cache`` are reused, and new ones are stored
    there: `report` shows them with the run.

    ``on_plan`` is called with the plan first; if it returns False, nothing is done and None is returned.

    Raises:
        UsageError: the file, its documents, the space or a model cannot be used.
    """
    resources = Resources(**given)
    check_choice("split", split, PARTS)
    loaded = resources.pipeline(pipeline, dataset)
    setup, fitness, winner = (
        loaded.setup,
        loaded.fitness,
        add_general_weights(loaded.setup, drop_general_weights(loaded.candidate)),
    )
    data = setup.dataset
    if not data.examples:
        raise WrongOption(
            "dataset", "must name a data set that has some", f"{data.name!r} has no questions to compare by"
        )
    on_own_dataset = dataset is None and (loaded is not pipeline or bool(loaded.expected))
    examples = {"search": setup.split.search, "test": setup.split.test, "all": data.examples}[split]
    if split == "test":
        loaded.refuse_test("the pipeline", instead="leave --split out, or run its ablation")
    if not setup.split.test and not loaded.chosen_on_all:  # too small to split
        split, examples = "all", data.examples
    questions = sort_examples(examples)
    default_space = loaded.space if loaded.space in bundled_names("search_spaces") else "default"
    search_space = resolve_pipeline_space(space or default_space)
    search_space = searchable_space(setup, search_space.without_settings(), ranks=fitness.ranking_only)
    others = [
        add_general_weights(setup, candidate)
        for candidate in list_ablation_candidates(
            winner, search_space, with_swaps=swaps, with_signals=signals, pairs=pairs, refit=on_own_dataset
        )
    ]
    with resources.store() as store:
        ids = tuple(example.id for example in questions)
        with Evaluator(
            setup, store, resources.workers_for(setup), on_progress, ranking_only=fitness.ranking_only
        ) as evaluator:
            keys = {tuple(evaluator.key(one, tested=tested) for tested in (False, True)) for one in (winner, *others)}
            rows = store.results_many({key for pair in keys for key in pair})
            known = sum(all(one in rows[pair[one in setup.tested]] for one in ids) for pair in keys)
            searched = bool(loaded.expected)
            plan = AblationPlan(data.name, search_space.name, split, len(others) + 1, known, len(ids), searched)
            if on_plan is not None and not on_plan(plan):
                return None
            if split != "search" and setup.split.test:
                compared = [(setup, candidate) for candidate in (winner, *others)]
                announce_look(store, fitness, compared, questions, on_look, "counted")(timestamp(now())[:10])
            first, *rest = evaluator.evaluate([winner, *others], questions)
            seconds_of = None
            if latency:
                timed = RunSettings(strategy="nsga2", racing=None, objectives=("quality", "latency"))
                machine = with_machine(timed, setup.variants).measured_on
                seconds_of = Latencies(evaluator, store, machine, setup.order).get_median
            terms = Terms.from_evaluations([first, *rest], fitness)
            ablation = compute_ablation(
                first,
                rest,
                search_space,
                terms,
                dataset=data.name,
                clusters=Clusters.from_examples(data, questions),
                part=split,
                seconds_of=seconds_of,
                refit=on_own_dataset,
            )
            return ablation.save(
                store,
                data.digest,
                "" if fitness.ranking_only or setup.tested.isdisjoint(ids) else setup.model_ids.get("test_judge", ""),
            )


TRANSFER_PARTS = ("search", "test")


@dataclass(frozen=True, slots=True)
class _SearchedDataset:
    """A data set, its latest search and the winner of that search."""

    name: str
    run: str
    record: RunRecord
    setup: Experiment
    winner: Candidate

    @classmethod
    def load(cls, store: Store, dataset: Dataset | str | Path) -> _SearchedDataset:
        key, setup = load_run_experiment(store, dataset)
        run = store.run(key)
        record = RunRecord.from_dict(run.value if run else None, key)
        described = store.evaluation(record.winner or "")
        if described is None:
            raise UsageError(f"the cache no longer has the winner on {setup.dataset.name!r}: repeat the search")
        candidate = drop_general_weights(read_candidate(described))
        return cls(setup.dataset.name, key, record, setup.for_fitness(record.settings.fitness), candidate)

    def setup_for(self, other: _SearchedDataset) -> Experiment:
        """Return the experiment on this data set with the chunking and models of the winner of ``other``.

        Answers are scored by the judge of this data set.
        """
        source, target = other.setup.for_candidate(other.winner), self.setup
        if (source.chunking_key, source.models) == (target.chunking_key, target.models):
            return target
        size, overlap = source.chunk_size, source.chunk_overlap
        return replace(target, models=source.models, scored_by=target, chunk_size=size, chunk_overlap=overlap)


@checked
def transfer(
    datasets: Annotated[Sequence[Dataset | str | Path], "a list of at least two data sets"],
    *,
    split: str = "search",
    workers: int | None = None,
    cache: Store | str | Path = CACHE,
    on_plan: Callable[[int, int], bool] | None = None,
    on_look: Callable[[str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    now: Callable[[], float] = time.time,
) -> list[TransferEstimate]:
    """Evaluate the winner of the latest search on each of ``datasets`` on all others, and store the results.

    The winners answer the ``search`` questions of each data set, or its test questions if ``split`` is ``test``,
    which is a look at them, though no hypothesis is tested. A winner keeps its fitted parameters, and the models
    and chunking that it was found with. Results in ``cache`` are reused; `report` shows them on the page across
    data sets. ``on_plan`` is called with the number of pairs and the maximum number of answers first; nothing is
    done if it returns False.

    Raises:
        UsageError: there are fewer than two distinct data sets, or one has no search with a winner in the cache, or
            ``split`` is ``test`` and one has no test questions.
    """
    resources = Resources(workers=workers, cache=cache)
    check_choice("split", split, TRANSFER_PARTS)
    if len(datasets) < 2:
        raise UsageError("a transfer evaluates a winner on another data set: give at least two data sets")
    estimates = []
    with resources.store(read_only=True) as store:  # does not create a missing cache
        loaded = (_SearchedDataset.load(store, dataset) for dataset in datasets)
        searched = list({home.run: home for home in loaded}.values())
    if len(searched) < 2:
        raise UsageError(
            f"{' and '.join(dict.fromkeys(map(str, datasets)))}: these are one data set, {searched[0].name!r}, "
            f"{len(datasets)} times, and a transfer evaluates a winner on another data set: give two different ones"
        )
    if split == "test":
        _require_test_questions(searched)
    with resources.store() as store:
        pairs = [(source, target) for target in searched for source in searched if source.run != target.run]
        if on_plan is not None and not on_plan(len(pairs), _count_new_answers(store, pairs, split)):
            return []
        for source, target in pairs:
            if split == "test":
                fitness, tested = target.record.settings.fitness, target.setup.split.test
                compared = [(target.setup, target.winner), (target.setup_for(source), source.winner[:N_FAMILIES])]
                announce_look(store, fitness, compared, tested, on_look, "counted")(timestamp(now())[:10])
            estimate = _evaluate_transfer(store, source, target, split, workers, on_progress)
            if estimate is not None:
                store_transfer(store, estimate, source.run, target.run, target.setup.dataset.digest)
                estimates.append(estimate)
    return estimates


def _require_test_questions(searched: Sequence[_SearchedDataset]) -> None:
    """Raise UsageError if a data set has no test questions, because a crossfit used them or there were too few."""
    reasons = [
        f"{dataset.name!r} has no test questions "
        + (
            "(its search was a crossfit, which selected the winner on all questions)"
            if dataset.record.settings.verdict == CROSSFIT
            else f"({dataset.record.split.rule})"
        )
        for dataset in searched
        if not dataset.record.split.test
    ]
    if reasons:
        raise WrongOption("split", "search uses the search questions", "; ".join(reasons))


def _count_new_answers(store: Store, pairs: Sequence[tuple[_SearchedDataset, _SearchedDataset]], part: str) -> int:
    """Return the number of answers of all pairs that are not cached."""
    total = 0
    for source, target in pairs:
        with Evaluator(
            target.setup_for(source), store, 1, ranking_only=target.record.settings.fitness.ranking_only
        ) as evaluator:
            ids = set(getattr(target.record.split, part))
            total += len(ids - store.results(evaluator.key(source.winner[:N_FAMILIES], tested=part == "test")).keys())
    return total


def _evaluate_transfer(
    store: Store,
    source: _SearchedDataset,
    target: _SearchedDataset,
    part: str,
    workers: int | None,
    on_progress: Callable[[int, int], None] | None,
) -> TransferEstimate | None:
    record, setup = target.record, target.setup_for(source)
    fitness = record.settings.fitness
    ids = set(getattr(record.split, part))
    examples = sort_examples([example for example in target.setup.dataset.examples if example.id in ids])
    if not examples or record.winner is None:
        return None
    own = load_evaluation(
        store,
        record.key_on_test(record.winner) if part == "test" else record.winner,
        [example.id for example in examples],
    )
    processes = workers or setup.models.workers()
    with Evaluator(setup, store, processes, on_progress, ranking_only=fitness.ranking_only) as evaluator:
        [found] = evaluator.evaluate([source.winner[:N_FAMILIES]], examples)
    searched = []
    if part == "search":
        run_data = RunData(store, choose_run(store, target.name, target.run), {})
        keys = [*(row.evaluation for row in run_data.proposals), *record.told, *(one.key for one in record.removals)]
        searched = run_data.finishers(list(dict.fromkeys(keys)))
    terms = Terms.from_evaluations([found, own, *searched], fitness, record.settings.max_failure_rate)
    clusters = Clusters.from_examples(target.setup.dataset, examples)
    return estimate_transfer(source.name, target.name, part, found, own, searched, terms, clusters)

"""The conclusions of a report and their caveats: models, failures, notes, verdicts and next step.

The only claim is the comparison of the winner with each finalist on held-out questions; see `ragsmith.comparison`. If
any of these questions was drafted by a machine, only R is compared: synthetic questions rank retrievers as human ones
do, but not generators (arXiv 2508.11758).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Literal

from ragsmith.comparison.advice import SIMPLE_RIVALS, ComparisonFacts, NextStep, recommend
from ragsmith.comparison.difference import Difference, compute_difference
from ragsmith.comparison.questions import Clusters, HoldoutUse, format_times
from ragsmith.comparison.selection import cross_validate_choice
from ragsmith.comparison.verdicts import MARGIN, Comparison, compare_pipelines
from ragsmith.datasets.splits import MIN_TEST
from ragsmith.evaluation.baselines import BASELINES
from ragsmith.evaluation.evaluation import Evaluation, Record
from ragsmith.evaluation.fitness import RETRIEVAL, RETRIEVAL_ALONE, Fitness
from ragsmith.evaluation.keys import scoring_model_ids
from ragsmith.evaluation.ranking import Terms, best_evaluation, common_questions, find_undecided
from ragsmith.grouping import group_values
from ragsmith.measures.judge_check import JudgeAccuracy, check_embedded_judge
from ragsmith.measures.non_answers import find_non_answers
from ragsmith.pipelines.genes import label
from ragsmith.records.record import CROSSFIT, WINNER_SOURCES, ExcludedQuestion, RunRecord
from ragsmith.reporting.run_data import RunData
from ragsmith.reporting.values import (
    TITLES,
    Cheapest,
    ExcludedRow,
    FailureGroup,
    ModelUsed,
    PipelineRow,
    RunHeader,
)

EMBEDDED_MODELS: Mapping[tuple[str, str], str] = {
    ("embedder", "wordllama"): "embedded: the mean of static token vectors (WordLlama, 256 dimensions), no transformer",
    ("cross_encoder", "late-interaction"): (
        "embedded: late interaction over static token vectors (MaxSim, idf-weighted), in a cross-encoder's place"
    ),
    ("language_model", "extractive"): (
        "embedded: an extractive model, classical methods that choose and join sentences of the corpus, no LLM"
    ),
    ("judge", "extractive"): (
        "embedded: agreement with the reference in words, numbers and denials, no LLM; "
        "its scores are not comparable with those of an LLM judge"
    ),
}
"""Descriptions of the embedded models by role and provider."""

PARTIAL_STATES: Mapping[str, str] = {
    "interrupted": "The run was interrupted or reached its time limit",
    "failed": "The run failed",
    "running": "The run has not ended: it is still running, or was killed",
}
"""States of runs whose reports are partial, with the sentences of the note."""


def describe_models(ids: Mapping[str, str]) -> tuple[ModelUsed, ...]:
    """Return the models of a run with their roles and descriptions."""
    roles = ("language_model", "controller", "judge", "test_judge", "embedder", "cross_encoder")
    return tuple(ModelUsed(role, ids[role], describe_model(role, ids[role])) for role in roles if role in ids)


def describe_model(role: str, id_: str) -> str:
    """Describe a model by its role and id."""
    kind = id_.partition(":")[0]
    local = "a model in this process (sentence-transformers)" if kind.startswith("SentenceTransformers") else None
    return EMBEDDED_MODELS.get((role.removeprefix("test_"), kind)) or local or "a model served elsewhere"


def judge_accuracy(run: RunData) -> JudgeAccuracy | None:
    """Return the accuracy of the judge of the test on the bundled cases; None if it was not checked or not used."""
    if run.fitness.ranking_only:
        return None
    embedded = (
        describe_model("judge", scoring_model_ids(run.record.models, tested=True).get("judge", ""))
        == EMBEDDED_MODELS["judge", "extractive"]
    )
    return check_embedded_judge() if embedded else run.judged


def group_failures(failed: Iterable[Record]) -> tuple[FailureGroup, ...]:
    """Group failures by stage, class and exception, most frequent first."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for value in failed:
        exception, _, message = str(value["error"]).partition(":")
        group = str(value["stage"]), str(value.get("kind", "")), exception
        groups.setdefault(group, []).append(message.strip())
    found = [FailureGroup(*group, len(messages), messages[0]) for group, messages in groups.items()]
    return tuple(sorted(found, key=lambda failure: (-failure.count, failure.stage, failure.kind, failure.exception)))


def list_excluded(run: RunData) -> tuple[ExcludedRow, ...]:
    """Return the questions on which every pipeline failed, search questions first."""
    parts: tuple[tuple[Literal["search", "test"], Terms], ...] = (
        ("search", run.terms),
        ("test", run.terms_of_test),
    )
    return tuple(
        ExcludedRow(q, part, ExcludedQuestion.from_failure(why))
        for part, terms in parts
        for q, why in terms.excluded.items()
    )


def _describe_drafted(run: RunData) -> str:
    """Describe what machine-drafted questions allow to conclude; "" if there are none."""
    record, drafted = run.record, set(run.about.data.drafted)
    split = record.split
    crossfit = record.settings.verdict == CROSSFIT  # tests on the search questions, out of fold
    to_test = split.search if crossfit else split.test
    searched, tested = len(drafted.intersection(split.search)), len(drafted.intersection(to_test))
    if not searched and not tested:
        return ""
    counted = (
        f"A machine drafted {tested} of the {len(to_test)} questions, which are tested in folds."
        if crossfit
        else f"A machine drafted {searched} of the {len(split.search)} search questions and {tested} of the "
        f"{len(split.test)} test questions."
    )
    if not tested:
        return f"{counted} The verdict is based on questions written by people."
    return (
        f"{counted} Such questions measure retrieval, not answers: the verdict is about retrieval alone. "
        "Nor do they identify the best pipeline: use the recommended one, unless it is shown to be behind here. "
        f"A full test needs {MIN_TEST} additional questions written by people."
    )


def describe_earlier_looks(look: HoldoutUse | None) -> str:
    """Describe earlier looks at the test questions and the correction of p for them; "" if there were none."""
    if look is None:
        return ""
    alone = (
        ""
        if look.remembered
        else "The ledger of looks was disabled or not usable: looks from other caches are not counted."
    )
    if not look.earlier:
        return alone
    fresh = f", but for {look.fresh:,} of them" if look.fresh else ""
    return (
        f"The test questions have been looked at {format_times(look.earlier)} before{fresh}, so p counts "
        f"{2.0**look.earlier:,.0f}-fold: each look is tested at half the level of the one before, so that repeated "
        "looks do not show a difference by chance." + (alone and f" {alone}")
    )


def _describe_non_answers(run: RunData) -> list[str]:
    """Return a sentence about answers of the winner to test questions that are none; empty without any."""
    tested = run.on_test(run.record.winner or "")
    if tested is None or describe_model("language_model", run.record.models.get("language_model", "")).startswith(
        "embedded"
    ):
        return []
    alike = find_non_answers([record.get("answer", "") for record in tested.records.values()], "")
    known = [
        row.get("non_answer", ())
        for question, row in run.diagnoses.get(tested.key, {}).items()
        if question in tested.records
    ]
    counts = Counter(chain(*known, *([kind] * len(where) for kind, where in alike.items())))
    listed = ", ".join(f"{n:,} {kind}" for kind, n in counts.items())
    said = f"Of the winner's {len(tested.records):,} answers to test questions, some are none: {listed}."
    return [said] if listed else []


MAX_UNDECIDED = 3
"""Maximum number of pipelines that are named beside the winner because failures leave open whether they are better."""


def _describe_dropouts(run: RunData, finished: Sequence[Evaluation]) -> list[str]:
    """Return sentences about the pipelines that have no score, and about those that may be better than the winner."""
    out, terms = [one for one in finished if not run.terms.admits(one)], run.terms
    sentences = [
        f"Pipelines without a score, as they failed on more than {100 * terms.max_failure_rate:g} % of the questions: "
        f"{len(out)} of {len(finished)}."
    ] * bool(out)
    winner = run.on_search(run.record.winner or "")
    undecided = find_undecided(winner, finished, terms.fitness) if winner else []
    return sentences + [
        f"The winner cannot be told from {label(one.candidate)}, which failed on {terms.count_missing(one)} of "
        f"{len(terms.counted)} questions and is ahead on the others: {run.about.repeat('--retry-failed')} repeats its "
        "requests."
        for one in undecided[:MAX_UNDECIDED]
    ]


def _describe_broken(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return a sentence about each technique that failed, if no pipeline with it answered most of its questions."""
    used = {gene.technique.identity for one in evaluations for gene in one.candidate}
    able = (one for one in evaluations if len(one.records) > len(one.failures))
    broken = used.difference(gene.technique.identity for one in able for gene in one.candidate)
    errors = {why["stage"]: why["error"] for one in evaluations for why in one.failures.values()}
    return [
        f"Every pipeline with {stage} failed on half of the questions or more; the technique raised {errors[stage]}."
        for stage in sorted(broken.intersection(errors))
    ]


def list_notes(run: RunData, finished: Sequence[Evaluation]) -> tuple[str, ...]:
    """Return the limitations of the report, one sentence each; ``finished`` are the pipelines that may win."""
    record, data = run.record, run.about.data
    highest = best_evaluation(finished, run.terms)
    judge, tester = record.models.get("judge", ""), record.models.get("test_judge")
    shared = (
        "the test questions of a fold are search questions of the others, so both judged answers to them"
        if record.settings.verdict == CROSSFIT
        else "neither saw what the other judged"
    )
    partial = PARTIAL_STATES.get(run.about.state)
    cut = run.cut
    drafted = _describe_drafted(run)
    leaks = record.split.leaks
    looked = describe_earlier_looks(record.look)
    led = record.leader or record.winner
    sentences = (
        (
            f"{partial}, so this report is partial: it shows what the cache has, and {run.about.repeat()} resumes the "
            "run.",
            partial,
        ),
        (
            f"The cache has lost {run.missing:,} of the {len(run.keys):,} pipelines of this run: "
            f"{run.about.repeat()} evaluates them again.",
            run.missing,
        ),
        (
            f"{cut:,} answers were truncated at their token limit and are scored nevertheless (--score-cut-answers).",
            cut,
        ),
        *((sentence, True) for sentence in _describe_dropouts(run, finished)),
        *((sentence, True) for sentence in _describe_broken(run.all_on_search(run.keys))),
        (
            f"The judge {record.planted}, so its scores do not tell pipelines apart.",
            record.planted and not record.planted.is_trusted,
        ),
        *((sentence, True) for sentence in _describe_non_answers(run)),
        (
            "Only retrieval was tuned: no answer was generated or scored, and the families after passage_filter were "
            "not searched. Fitness measures rankings here.",
            run.fitness.ranking_only,
        ),
        (
            "Answers were scored by the agreement of words, numbers and negations with the reference, without an LLM: "
            "these scores compare pipelines, but are not comparable with scores by an LLM judge.",
            judge.startswith("extractive:") and not run.fitness.ranking_only,
        ),
        (
            f"{judge} judged answers to search questions, and {tester} those to test questions, "
            f"which alone decide; {shared}. Levels on search and on test questions are by "
            "different judges, and cannot be compared.",
            tester and (record.test or record.folds),
        ),
        (
            f"The gold of {data.coarse:,} of {len(data.questions):,} questions is whole documents or "
            "sections, or much longer than a chunk: for these, R measures the ranking of documents or sections.",
            data.coarse,
        ),
        (drafted, drafted),
        (f"The test questions are not independent of the search questions: {leaks}.", leaks and leaks.near),
        (looked, looked),
        *((f"{remark[0].upper()}{remark[1:]}.", True) for remark in record.remarks),
        (
            "Pipelines were completed after this run chose its winner; the winner shown first is the one it chose.",
            highest and led not in (None, highest.key),
        ),
    )
    return tuple(sentence for sentence, applies in sentences if applies)


RETRIEVAL_ONLY = Fitness(RETRIEVAL_ALONE, objective=RETRIEVAL)


def compare_finalists(
    tested: Mapping[str, Evaluation],
    terms: Terms,
    budget: int,
    *,
    drafted: bool = False,
    clusters: Clusters | None = None,
    look: int = 1,
    margin: float = MARGIN,
) -> tuple[Comparison, ...]:
    """Compare ``winner`` in ``tested`` with the others on the questions that all of them finished.

    Fitness is compared, or R on the questions with evidence if some are ``drafted``. Pipelines that are incomplete by
    ``terms`` are not compared. ``budget`` is the number of random pipelines. Without ``clusters``, each question is a
    group.
    """
    if drafted:
        tested, terms = _restrict_to_evidence(tested, terms)
    winner = tested.get("winner")
    if winner is None:
        return ()
    found = compare_pipelines(
        winner,
        {name: evaluation for name, evaluation in tested.items() if name != "winner"},
        terms,
        clusters or Clusters(),
        look=look,
        margin=margin,
        of=RETRIEVAL if drafted else "fitness",
    )
    return tuple(replace(one, against=describe_rival(one.name, budget)) for one in found)


def estimate_leads(
    taken: str, tested: Mapping[str, Evaluation], terms: Terms, clusters: Clusters | None
) -> tuple[Comparison, ...]:
    """Estimate the leads of the pipeline to take over the baselines, if it is not the winner, which alone is tested.

    The comparisons have neither p nor verdict.
    """
    rivals = {name: tested[name] for name in BASELINES if name in tested and name != taken}
    if taken == "winner" or taken not in tested or not rivals:
        return ()
    found = compare_pipelines(tested[taken], rivals, terms, clusters or Clusters())
    return tuple(
        replace(one, against=describe_rival(one.name, 0), adjusted_p=None, verdict=None)
        for one in found
        if one.difference
    )


ESTIMATED_RIVALS = ("naive", "bm25", "recommended")
"""Roles that a search without a test is estimated against: those that the search does not choose."""


def estimate_choice(run: RunData, evaluations: Sequence[Evaluation]) -> tuple[Comparison, ...]:
    """Estimate the lead of the best of ``evaluations`` without a test, if the run was not tested.

    The comparisons have neither p nor verdict: `ragsmith.comparison.selection`.
    """
    record, terms = run.record, run.terms
    chosen = cross_validate_choice(evaluations, terms, record.split.folds) if record.untested else None
    keys = {**record.baselines, "recommended": record.recommended}
    known = {name: run.on_search(key) for name in ESTIMATED_RIVALS if (key := keys.get(name))}
    found = compare_finalists(
        drop_duplicates({name: one for name, one in {"winner": chosen, **known}.items() if one}),
        terms,
        0,
        drafted=not set(record.split.search).isdisjoint(run.about.data.drafted),
        clusters=record.split.search_groups,
    )
    return tuple(replace(one, adjusted_p=None, verdict=None) for one in found if one.difference)


def _restrict_to_evidence(tested: Mapping[str, Evaluation], terms: Terms) -> tuple[dict[str, Evaluation], Terms]:
    """Restrict evaluations to the questions with evidence, and return the terms of comparing R alone."""
    labelled = {
        question
        for one in tested.values()
        for question, value in zip(one.records, one.restrict(tuple(one.records)).column(RETRIEVAL), strict=True)
        if value is not None
    }
    found = {name: one.restrict(tuple(q for q in one.questions if q in labelled)) for name, one in tested.items()}
    return found, Terms.from_evaluations(list(found.values()), RETRIEVAL_ONLY, terms.max_failure_rate)


def compare_simplified(record: RunRecord, tested: Mapping[str, Evaluation], terms: Terms) -> Difference | None:
    """Compare the winner with the pipeline that it was simplified from, on the test questions with gold.

    No hypothesis is tested. None if nothing was left out, if the two have no question in common, or in a crossfit,
    each fold of which simplifies a winner of its own.
    """
    chosen = "estimate" if record.settings.choose == "estimate" and "estimate" in tested else "leader"
    if (
        chosen not in tested
        or "winner" not in tested
        or record.folds
        or not any(one.left_out for one in record.removals)
    ):
        return None
    clusters, pair = record.tested_groups or Clusters(), [tested["winner"], tested[chosen]]
    both = clusters.tested(common_questions(pair))
    ours, theirs = ([one.by_question(terms.fitness)[question] for question in both] for one in pair)
    return compute_difference(ours, theirs, clusters.group_numbers(both)) if both else None


def drop_duplicates(tested: Mapping[str, Evaluation]) -> dict[str, Evaluation]:
    """Return the winner and its rivals, each pipeline once, without those that the winner was derived from.

    The best of the random pipelines represents random search.
    """
    found = {name: evaluation for name, evaluation in tested.items() if name not in WINNER_SOURCES}
    return {name: one for name, one in found.items() if _role_of_same_pipeline(name, found) is None}


ROLE_PRECEDENCE = ("winner", "naive", "bm25", "recommended", "single", "cheapest")
"""Roles in the test; a pipeline with several roles is compared under the first."""


def _role_of_same_pipeline(name: str, tested: Mapping[str, Evaluation]) -> str | None:
    """Return the earlier role of the pipeline with role ``name``; None if it has none."""
    if name not in ROLE_PRECEDENCE:
        return None
    before = ROLE_PRECEDENCE[: ROLE_PRECEDENCE.index(name)]
    return next((other for other in before if other in tested and _is_same_pipeline(tested[other], tested[name])), None)


def _is_same_pipeline(first: Evaluation, second: Evaluation) -> bool:
    """Whether two evaluations are of the same pipeline; in a crossfit, keys alone do not identify pipelines."""
    return first.key == second.key and first.records == second.records


def map_duplicate_roles(record: RunRecord, tested: Mapping[str, Evaluation]) -> dict[str, str]:
    """Map each role of the test whose pipeline already has another role to that role.

    ``cheapest`` maps to ``winner`` if no pipeline within the margin is cheaper.
    """
    if "winner" not in tested:
        return {}
    found = {name: other for name in tested if (other := _role_of_same_pipeline(name, tested)) is not None}
    if record.folds:
        able = [fold.entrants for fold in record.folds if fold.entrants]
        won = (
            name for name in ROLE_PRECEDENCE[1:] if all(name in each and each[name] == each["winner"] for each in able)
        )
        return found | dict.fromkeys(won, "winner")
    if record.recommended is not None and record.recommended == tested["winner"].key:
        found["recommended"] = "winner"
    if record.leader is not None and "cheapest" not in tested:
        found["cheapest"] = "winner"
    return {name: found[name] for name in ROLE_PRECEDENCE if name in found}


def find_cheapest(tested: Mapping[str, Evaluation], terms: Terms, comparisons: Sequence[Comparison]) -> Cheapest | None:
    """Return the cheapest pipeline within the margin, with the verdict of the winner against it.

    It may be compared under another role, such as naive RAG. None if it is the winner, or is not compared.
    """
    winner, other = tested.get("winner"), tested.get("cheapest")
    if winner is None or other is None:
        return None
    for one in comparisons:
        if one.name in tested and tested[one.name].key == other.key and one.difference and one.verdict:
            both = common_questions([winner, other])
            winner_calls, calls = (
                math.fsum(side.restrict(both).values("calls", terms.fitness)) / len(both) for side in (winner, other)
            )
            found = one.difference
            return Cheapest(label(other.candidate), calls, winner_calls, found.n, found.mean_difference, one.verdict)
    return None


def recommend_next_step(
    run: RunData,
    comparisons: Sequence[Comparison],
    estimates: Sequence[Comparison],
    tested: Mapping[str, Evaluation],
    rows: Mapping[str, PipelineRow],
) -> NextStep | None:
    """Return the recommended next step after a run; it takes one of ``rows``, the pipelines of the report by role.

    ``tested`` has all tested pipelines, and ``estimates`` are those of a run without a test.
    """
    record, fitness = run.record, run.terms_of_test.fitness
    if record.no_winner or "winner" not in rows:
        return None
    same = map_duplicate_roles(record, tested)
    by_key = {key: role for role, key in record.baselines.items()} | {record.winner: "winner"}
    recommended = by_key.get(record.recommended) or same.get("recommended", "recommended")
    if recommended not in rows:
        recommended = ""
    if not comparisons and (record.tested or record.settings.verdict == CROSSFIT):
        rival = next((one.difference for one in estimates if one.name == recommended and one.difference), None)
        if rival is None or rival.mean_difference > 0:
            return None
        reason = f"the winner is not tested, and estimated to be {-rival.mean_difference:.3f} behind this one"
        return NextStep("untested", "", recommended, reason)
    tested = drop_duplicates(tested)
    winner = tested.get("winner")
    simple = next((tested[name] for name in SIMPLE_RIVALS if name in tested), None)
    by_type: dict[str, list[float]] = {}
    if winner and simple:
        ours, theirs = winner.by_question(fitness), simple.by_question(fitness)
        by_type = group_values(
            (run.about.data.questions.get(question, ""), ours[question] - theirs[question])
            for question in common_questions([winner, simple])
        )
    embedder = record.models.get("embedder", "")
    step = recommend(
        ComparisonFacts(
            comparisons,
            record.tested_groups or Clusters.singletons(record.tested),
            record.look,
            len(run.about.data.questions),
            {name: math.fsum(one.values("calls")) / len(one.records) for name, one in tested.items() if one.records},
            by_type,
            _share_lost_in_retrieval(winner, fitness) if winner else None,
            embedded=describe_model("embedder", embedder).startswith("embedded"),
            parts={name: sum(gene.technique.name != "none" for gene in one.candidate) for name, one in tested.items()},
            drafted=not set(record.tested).isdisjoint(run.about.data.drafted),
            recommended=recommended,
        )
    )
    return step and replace(step, sentence=step.sentence + name_command(step.kind, run.about))


def take_highest(step: NextStep | None, rows: Mapping[str, PipelineRow]) -> NextStep:
    """Return the ``step`` of a searched system, which takes the pipeline with the highest mean while nothing is shown.

    A system wins its own search, however far behind the baselines it is.
    """
    if step and (step.is_shown or step.take != "winner"):
        return step
    best = max((role for role, row in rows.items() if row.scores), key=lambda role: rows[role].level)
    if step and best == "winner":
        return step
    return replace(step or NextStep("untested", ""), take=best, reason="it has the highest mean, and nothing is shown")


def name_command(kind: str, about: RunHeader) -> str:
    """Return a sentence with the command for a kind of advice; "" for that to take a pipeline, and bundled data."""
    if kind == "embedder":
        return f" To try one: {about.repeat('--embedder=sentence-transformers:MODEL')}."
    adds = kind in ("write", "groups", "fresh", "questions") and Path(about.record.source).is_absolute()
    return f" To draft some: `{about.command('dataset draft', '--llm', 'openai:MODEL')}`." if adds else ""


def _share_lost_in_retrieval(winner: Evaluation, fitness: Fitness) -> float | None:
    """Return the share of the winner's loss (1 minus fitness) on questions where R is 0."""
    lacks = [1 - value for value in winner.values("fitness", fitness)]
    found = winner.column(RETRIEVAL)
    whole = math.fsum(lacks)
    nothing = math.fsum(lack for lack, value in zip(lacks, found, strict=True) if value == 0)
    return nothing / whole if whole > 0 else None


def describe_rival(name: str, budget: int) -> str:
    """Return the name of a finalist in sentences."""
    if name in ("recommended", "single", "cheapest"):
        return f"the {TITLES[name]}"
    return f"the best of {budget:,} random pipelines" if name == "random" else TITLES.get(name, name)

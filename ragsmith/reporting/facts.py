"""What a report concludes of a run, and what has to be known first: models, failures, notes, verdicts and next step.

The one claim is the winner against each finalist, on questions that the search never saw; how it is computed is in
`ragsmith.comparison`. Where a machine drafted any of these questions, R alone is compared: such questions rank what is
found as people's do, and not what is answered (arXiv 2508.11758).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ragsmith.comparison.advice import SIMPLE, Facts, NextStep, next_step
from ragsmith.comparison.questions import Clusters, HoldoutUse, times
from ragsmith.comparison.verdicts import MARGIN, Comparison
from ragsmith.comparison.verdicts import compare as compare_pipelines
from ragsmith.datasets.splits import MIN_TEST
from ragsmith.evaluation.evaluation import Evaluation, Record
from ragsmith.evaluation.fitness import RETRIEVAL, RETRIEVAL_ALONE, Fitness
from ragsmith.evaluation.ranking import Terms, common
from ragsmith.measures.judge_check import JudgeAccuracy, check_embedded_judge
from ragsmith.pipelines.genes import label
from ragsmith.records.record import CROSSFIT, WINNER_SOURCES, ExcludedQuestion, RunRecord
from ragsmith.reporting.run_data import RunData
from ragsmith.reporting.values import TITLES, Cheapest, ExcludedRow, FailureGroup, ModelUsed

EMBEDDED: Mapping[tuple[str, str], str] = {
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
"""Role and provider to what the model really is."""

STATES: Mapping[str, str] = {
    "interrupted": "The run was interrupted or reached its time limit",
    "failed": "The run failed",
    "running": "The run has not ended: it is still going on, or was killed",
}
"""States in which a report is partial."""


def models(ids: Mapping[str, str]) -> tuple[ModelUsed, ...]:
    """The models by role; embedded ones are called what they are."""
    roles = [role for role in ("language_model", "controller", "judge", "embedder", "cross_encoder") if role in ids]
    return tuple(ModelUsed(role, ids[role], described(role, ids[role])) for role in roles)


def described(role: str, id_: str) -> str:
    """What a model is, by its id."""
    kind = id_.partition(":")[0]
    local = "a model in this process (sentence-transformers)" if kind.startswith("SentenceTransformers") else None
    return EMBEDDED.get((role, kind)) or local or "a model served elsewhere"


def judged(run: RunData) -> JudgeAccuracy | None:
    """The check of the run's judge on the bundled cases; None if it was not checked or judged nothing."""
    if run.fitness.ranks:
        return None
    embedded = described("judge", run.record.models.get("judge", "")) == EMBEDDED["judge", "extractive"]
    return check_embedded_judge() if embedded else run.judged


def failures(failed: Iterable[Record]) -> tuple[FailureGroup, ...]:
    """Failed questions by stage, class and exception, the most frequent first."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for value in failed:
        exception, _, message = str(value["error"]).partition(":")
        group = str(value["stage"]), str(value.get("kind", "")), exception
        groups.setdefault(group, []).append(message.strip())
    found = [FailureGroup(*group, len(messages), messages[0]) for group, messages in groups.items()]
    return tuple(sorted(found, key=lambda failure: (-failure.count, failure.stage, failure.kind, failure.exception)))


def excluded(run: RunData) -> tuple[ExcludedRow, ...]:
    """The questions that failed for every pipeline, those of the search first."""
    parts: tuple[tuple[Literal["search", "test"], Terms], ...] = (
        ("search", run.terms),
        ("test", run.terms_of_test),
    )
    return tuple(
        ExcludedRow(q, part, ExcludedQuestion.of(why)) for part, terms in parts for q, why in terms.excluded.items()
    )


def _drafted(run: RunData) -> str:
    """What questions that a machine wrote allow to claim, where there are any."""
    record, drafted = run.record, set(run.about.data.drafted)
    split = record.split
    crossfit = record.settings.verdict == CROSSFIT  # which tests what it searches on, out of fold
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
        return f"{counted} What is claimed rests on questions that people wrote."
    return (
        f"{counted} Such questions show what is found, not what is answered: the verdict is about retrieval alone. "
        "Nor do they name the best: use the recommended pipeline, unless it is shown to be behind here. "
        f"{MIN_TEST} additional questions written by people would be the test."
    )


def _looked(run: RunData) -> str:
    """How often the test questions were used before, and what that costs."""
    look = run.record.look
    if look is None:  # an earlier version ran it
        used = run.tests > 1
        return used * (
            f"The test questions have been used by {run.tests:,} runs in this cache. The best of several "
            "verdicts is partly luck: decide which search counts before it runs."
        )
    return looked(look)


def looked(look: HoldoutUse | None) -> str:
    """How often questions were looked at before, what that costs, and whether the ledger knows; else nothing."""
    if look is None:
        return ""
    alone = (
        ""
        if look.remembered
        else "The ledger of looks was off, or could not be used: looks from other caches are not counted."
    )
    if not look.earlier:
        return alone
    fresh = f", but for {look.fresh:,} of them" if look.fresh else ""
    return (
        f"The test questions have been looked at {times(look.earlier)} before{fresh}, so p counts "
        f"{2.0**look.earlier:,.0f}-fold: each further look is tested at half the level of the one before, or luck "
        "would win in the end." + (alone and f" {alone}")
    )


def notes(run: RunData, highest: Evaluation | None) -> tuple[str, ...]:
    """What limits the report, one sentence each."""
    found = []
    state = run.about.state
    if state in STATES:
        found.append(
            f"{STATES[state]}, so this report is partial: it shows what the cache has. "
            "The same search command goes on where the run stopped."
        )
    if run.missing:
        found.append(
            f"The cache has lost {run.missing:,} of the {len(run.keys):,} pipelines of this run: "
            "the same search command evaluates them again."
        )
    if cut := run.cut:
        found.append(
            f"{cut:,} answers were cut at their limit on tokens and are scored all the same, as --score-cut-answers "
            "asks for."
        )
    if run.fitness.ranks:
        found.append(
            "Retrieval alone was tuned: no answer was generated or scored, and the families behind passage_filter were "
            "not searched. Fitness is about rankings here."
        )
    elif any(model.startswith("extractive:") for role, model in run.record.models.items() if role == "judge"):
        found.append(
            "Answers were marked by how far their words, numbers and denials agree with the reference, without an LLM: "
            "generation and fitness compare pipelines here, and are not comparable with scores by an LLM judge."
        )
    if coarse := run.about.data.coarse:
        found.append(
            f"The gold of {coarse:,} of {len(run.about.data.questions):,} questions is whole documents or "
            "sections, or much longer than a chunk: there, R is about ranking documents or sections, not chunks."
        )
    if drafted := _drafted(run):
        found.append(drafted)
    if (leaks := run.record.split.leaks) and leaks.near:
        found.append(f"The test is less unseen than it should be: {leaks}.")
    if looked := _looked(run):
        found.append(looked)
    led = run.record.leader or run.record.winner
    if highest and led not in (None, highest.key):
        found.append(
            "Pipelines were completed after this run chose its winner; the winner shown first is the run's own."
        )
    return tuple(found)


RETRIEVAL_ONLY = Fitness(RETRIEVAL_ALONE, objective=RETRIEVAL)


def compare(
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

    By their fitness; by R alone where some of the questions were ``drafted``, on those that have evidence. One that is
    incomplete by ``terms`` is not compared. ``budget`` is how many random pipelines were drawn. Without ``clusters``
    each question is a group.
    """
    if drafted:
        tested, terms = _on_evidence(tested, terms)
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
    return tuple(replace(one, against=against(one.name, budget)) for one in found)


def _on_evidence(tested: Mapping[str, Evaluation], terms: Terms) -> tuple[dict[str, Evaluation], Terms]:
    """The same on the questions that have evidence, and terms by which R alone counts."""
    labelled = {
        question
        for one in tested.values()
        for question, value in zip(one.records, one.on(tuple(one.records)).column(RETRIEVAL), strict=True)
        if value is not None
    }
    found = {name: one.on(tuple(q for q in one.questions if q in labelled)) for name, one in tested.items()}
    return found, Terms.of(list(found.values()), RETRIEVAL_ONLY, terms.max_failure_rate)


def rivals(tested: Mapping[str, Evaluation]) -> dict[str, Evaluation]:
    """The winner and what it has to beat, each pipeline once: neither itself, nor what it was made of, is any of that.

    The best of the drawn pipelines represents random search.
    """
    found = {name: evaluation for name, evaluation in tested.items() if name not in WINNER_SOURCES}
    return {name: one for name, one in found.items() if _met_as(name, found) is None}


MET = ("winner", "naive", "bm25", "recommended", "single", "cheapest")
"""Parts in the test, by which of them a pipeline that has several goes: the first."""


def _met_as(name: str, tested: Mapping[str, Evaluation]) -> str | None:
    """The part that the pipeline of the part ``name`` has already; None where it has no other."""
    if name not in MET:
        return None
    before = MET[: MET.index(name)]
    return next((other for other in before if other in tested and _one(tested[other], tested[name])), None)


def _one(first: Evaluation, second: Evaluation) -> bool:
    """Whether two are one pipeline; in a crossfit the winner's key is not that of who answered in each fold."""
    return first.key == second.key and first.records == second.records


def same_as(record: RunRecord, tested: Mapping[str, Evaluation]) -> dict[str, str]:
    """Which pipelines are no rivals of their own, by part in the test: each with the part that it has already.

    A pipeline that is the winner is not compared with it. Where ``cheapest`` is the winner, none is cheaper within the
    margin.
    """
    if "winner" not in tested:
        return {}
    found = {name: other for name in tested if (other := _met_as(name, tested)) is not None}
    if record.folds:
        able = [fold.entrants for fold in record.folds if fold.entrants]
        won = (name for name in MET[1:] if all(name in each and each[name] == each["winner"] for each in able))
        return found | dict.fromkeys(won, "winner")
    if record.recommended is not None and record.recommended == tested["winner"].key:
        found["recommended"] = "winner"
    if record.leader is not None and "cheapest" not in tested:
        found["cheapest"] = "winner"
    return {name: found[name] for name in MET if name in found}


def cheapest(tested: Mapping[str, Evaluation], terms: Terms, comparisons: Sequence[Comparison]) -> Cheapest | None:
    """The cheapest pipeline within the margin, with the verdict of its comparison with the winner.

    It may be compared under another name, such as naive RAG's. None where it is the winner, or is not compared.
    """
    winner, other = tested.get("winner"), tested.get("cheapest")
    if winner is None or other is None:
        return None
    for one in comparisons:
        if one.name in tested and tested[one.name].key == other.key and one.difference and one.verdict:
            both = common([winner, other])
            winner_calls, calls = (
                math.fsum(side.on(both).values("calls", terms.fitness)) / len(both) for side in (winner, other)
            )
            found = one.difference
            return Cheapest(label(other.candidate), calls, winner_calls, found.n, found.mean_difference, one.verdict)
    return None


def next_step_of(run: RunData, comparisons: Sequence[Comparison], tested: Mapping[str, Evaluation]) -> NextStep | None:
    """The recommended next step after the test of a run; ``tested`` has all tested pipelines."""
    record, fitness = run.record, run.terms_of_test.fitness
    if record.no_winner or (not comparisons and (record.tested or record.settings.verdict == CROSSFIT)):
        return None
    same = same_as(record, tested)
    tested = rivals(tested)
    winner = tested.get("winner")
    simple = next((tested[name] for name in SIMPLE if name in tested), None)
    by_type: dict[str, list[float]] = {}
    if winner and simple:
        ours, theirs = winner.by_question(fitness), simple.by_question(fitness)
        for question in common([winner, simple]):
            of_type = by_type.setdefault(run.about.data.questions.get(question, ""), [])
            of_type.append(ours[question] - theirs[question])
    embedder = record.models.get("embedder", "")
    return next_step(
        Facts(
            comparisons,
            record.tested_groups or Clusters.alone(record.tested),
            record.look,
            len(run.about.data.questions),
            {name: math.fsum(one.values("calls")) / len(one.records) for name, one in tested.items() if one.records},
            by_type,
            _unfound(winner, fitness) if winner else None,
            embedded=described("embedder", embedder).startswith("embedded"),
            parts={name: sum(gene.technique.name != "none" for gene in one.candidate) for name, one in tested.items()},
            drafted=not set(record.tested).isdisjoint(run.about.data.drafted),
            recommended=same.get("recommended", "recommended"),
        )
    )


def _unfound(winner: Evaluation, fitness: Fitness) -> float | None:
    """Of what the winner lacks to a fitness of 1, the share that it lacks where nothing relevant is found."""
    lacks = [1 - value for value in winner.values("fitness", fitness)]
    found = winner.column(RETRIEVAL)
    whole = math.fsum(lacks)
    nothing = math.fsum(lack for lack, value in zip(lacks, found, strict=True) if value == 0)
    return nothing / whole if whole > 0 else None


def against(name: str, budget: int) -> str:
    """What a finalist is called in a sentence."""
    if name in ("recommended", "single", "cheapest"):
        return f"the {TITLES[name]}"
    return f"the best of {budget:,} random pipelines" if name == "random" else TITLES.get(name, name)

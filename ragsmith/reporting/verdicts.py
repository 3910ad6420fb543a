"""The one claim of a report: the winner against each finalist, on questions that the search never saw.

How it is come by is in `ragsmith.comparison`; here is who is compared with whom, and on what.

Where a machine drafted any of these questions, R alone is compared: such questions rank what is found as people's do,
and not what is answered (arXiv 2508.11758).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragsmith.comparison.advice import SIMPLE, Facts, NextStep, next_step
from ragsmith.comparison.clusters import Clusters
from ragsmith.comparison.verdicts import MARGIN, Comparison
from ragsmith.comparison.verdicts import compare as compare_pipelines
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import RETRIEVAL, RETRIEVAL_ALONE, Fitness
from ragsmith.evaluation.ranking import Terms, common
from ragsmith.pipelines.genes import label
from ragsmith.records.record import CROSSFIT, MADE_OF, RunRecord
from ragsmith.reporting.facts import described
from ragsmith.reporting.run_data import RunData
from ragsmith.reporting.values import TITLES, Cheapest

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
    return found, Terms.of(list(found.values()), RETRIEVAL_ONLY, terms.may_miss)


def rivals(tested: Mapping[str, Evaluation]) -> dict[str, Evaluation]:
    """The winner and what it has to beat, each pipeline once: neither itself, nor what it was made of, is any of that.

    The best of the drawn pipelines represents random search.
    """
    found = {name: evaluation for name, evaluation in tested.items() if name not in MADE_OF}
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

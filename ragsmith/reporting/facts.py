"""The circumstances of a run: settings, models, failures, work done, and what a reader has to know first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from ragsmith.comparison.looks import HoldoutUse
from ragsmith.datasets.splits import MIN_TEST
from ragsmith.evaluation.evaluation import Evaluation, Record
from ragsmith.evaluation.ranking import Terms
from ragsmith.measures.judge_check import JudgeChecked, check_embedded_judge
from ragsmith.records.record import CROSSFIT, ExcludedQuestion
from ragsmith.reporting.run_data import RunData
from ragsmith.reporting.values import ExcludedRow, FailureGroup, ModelUsed

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


def judged(run: RunData) -> JudgeChecked | None:
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


def aside(run: RunData) -> tuple[ExcludedRow, ...]:
    """The questions that failed for every pipeline, those of the search first."""
    parts: tuple[tuple[Literal["search", "test"], Terms], ...] = (
        ("search", run.terms),
        ("test", run.terms_of_test),
    )
    return tuple(
        ExcludedRow(q, part, ExcludedQuestion.of(why)) for part, terms in parts for q, why in terms.aside.items()
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
    often = "once" if look.earlier == 1 else f"{look.earlier:,} times"
    return (
        f"The test questions have been looked at {often} before{fresh}, so p counts {2.0**look.earlier:,.0f}-fold: "
        "each further look is tested at half the level of the one before, or luck would win in the end."
        + (alone and f" {alone}")
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

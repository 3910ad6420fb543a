"""The end of a run: why questions went as they did, in the winner, in what it is shown beside, and with a gene less."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ragsmith.diagnosis.chosen import neighbours, shown
from ragsmith.diagnosis.diagnosed import Follow, code, diagnosed
from ragsmith.diagnosis.failing import well_from
from ragsmith.errors import BudgetExhausted, ModelUnavailable
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.store.store import DiagnosisRow, Store

IN_FULL = ("winner", "naive")
"""The pipelines of which it is kept what they read."""

MOST = 1000
"""Questions of a part that are followed, the first that candidates meet, which are a fair sample; and those shown in
full. Where there are more, workers do not remember them all, and would have to answer them again.
"""


def diagnose(
    evaluator: Evaluator,
    setup: Experiment,
    store: Store,
    fitness: Fitness,
    roles: Mapping[str, Collection[Evaluation]],
    met: Sequence[Evaluation],
    *,
    most: int = MOST,
) -> None:
    """Keep why questions went as they did in the pipelines that have a role, by its name, and next to the winner.

    ``roles`` has the evaluations of each on the search and on the test questions, ``met`` all on the search questions.
    Of each evaluation ``most`` questions are followed, beside those shown in full.
    Only answers that are scored are looked at, and what is known is not looked at again: so nothing is asked of a model
    that was not asked before. Where a model cannot be reached, or the budget does not allow it, nothing is kept.
    """
    wanted = [(one, frozenset[str]()) for one in _neighbours(roles.get("winner", ()), met)]
    worth = {role: _worth(roles.get(role, ()), fitness) for role in IN_FULL}
    in_full = frozenset(shown(worth["winner"], worth["naive"]))
    for role, evaluations in roles.items():
        wanted += [(one, in_full if role in IN_FULL and not fitness.ranks else frozenset()) for one in evaluations]
    try:
        store.put_diagnoses(list(_found(evaluator, setup, store, wanted, most, answers=not fitness.ranks)))
    except (BudgetExhausted, ModelUnavailable):
        return


def _neighbours(winner: Collection[Evaluation], met: Sequence[Evaluation]) -> list[Evaluation]:
    first = next(iter(winner), None)
    return [neighbour.evaluation for neighbour in neighbours(first, met)] if first else []


def _worth(evaluations: Collection[Evaluation], fitness: Fitness) -> dict[str, float]:
    return {question: value for one in evaluations for question, value in one.by_question(fitness).items()}


def _found(
    evaluator: Evaluator,
    setup: Experiment,
    store: Store,
    wanted: Sequence[tuple[Evaluation, frozenset[str]]],
    most: int,
    *,
    answers: bool,
) -> Iterator[DiagnosisRow]:
    """The rows that are missing."""
    known = store.diagnoses([one.key for one, _ in wanted])
    place = {question: at for at, question in enumerate(setup.order)}
    todo: dict[tuple[str, str], tuple[Evaluation, bool]] = {}
    for one, in_full in wanted:
        first = sorted(one.records, key=place.__getitem__)[:most]
        for question in dict.fromkeys([*first, *sorted(in_full & one.records.keys())]):
            kept = known[one.key].get(question, {})
            if kept.get("code") != code() or (question in in_full and "passages" not in kept):
                before = todo.get((one.key, question))  # of one that has two roles, either may want it in full
                todo[one.key, question] = one, question in in_full or (before is not None and before[1])
    for with_reading in (False, True):
        part = {which: one for which, (one, is_in_full) in todo.items() if is_in_full == with_reading}
        by_key = {one.key: one for one in part.values()}
        jobs = [(one.candidate, [q for key, q in part if key == one.key]) for one in by_key.values()]
        follow = Follow(frozenset(question for _, question in part) if with_reading else frozenset(), answers)
        each = list(by_key)
        for at, question, value in evaluator.seen(jobs, follow):
            key, judge = each[at], setup.loaded_models.judge
            measures = part[key, question].records[question]["measures"]
            found = diagnosed(value, setup.examples[question], measures, well_from(judge))
            yield DiagnosisRow(key, question, found.plain())

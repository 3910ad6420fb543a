"""Store, at the end of a run, the diagnoses of its winner, the baselines, and the neighbours of the winner."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ragsmith.diagnosis.causes import well_from
from ragsmith.diagnosis.diagnosed import Follow, code, diagnosed, neighbours, shown
from ragsmith.errors import BudgetExhausted, ModelUnavailable
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.store.store import DiagnosisRow, Store

IN_FULL = ("winner", "naive")
"""The roles whose diagnoses include the passages read."""

MOST = 1000
"""Questions of a part that are diagnosed, besides those shown in full: the first of the race, a fair sample. Workers do
not remember the answers to more of them, and would have to compute them again.
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
    """Diagnose the questions of the pipelines in ``roles``, and of the neighbours of the winner.

    ``roles`` has evaluations on the search and on the test questions by role, ``met`` all those on the search
    questions. Only scored answers that have no diagnosis yet are diagnosed, so no model gets a new request. If a model
    cannot be reached or the budget is spent, nothing is stored.
    """
    winner = next(iter(roles.get("winner", ())), None)
    wanted = [(one.evaluation, frozenset[str]()) for one in (neighbours(winner, met) if winner else ())]
    worth = {role: _worth(roles.get(role, ()), fitness) for role in IN_FULL}
    in_full = frozenset(shown(worth["winner"], worth["naive"]))
    for role, evaluations in roles.items():
        wanted += [(one, in_full if role in IN_FULL and not fitness.ranks else frozenset()) for one in evaluations]
    try:
        store.put_diagnoses(list(_found(evaluator, setup, store, wanted, most, answers=not fitness.ranks)))
    except (BudgetExhausted, ModelUnavailable):
        return


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
    """Diagnose what has no diagnosis yet."""
    known = store.diagnoses([one.key for one, _ in wanted])
    place = {question: at for at, question in enumerate(setup.order)}
    todo: dict[tuple[str, str], tuple[Evaluation, bool]] = {}
    for one, in_full in wanted:
        first = sorted(one.records, key=place.__getitem__)[:most]
        for question in dict.fromkeys([*first, *sorted(in_full & one.records.keys())]):
            kept = known[one.key].get(question, {})
            if kept.get("code") != code() or (question in in_full and "passages" not in kept):
                before = todo.get((one.key, question))  # a pipeline with two roles may be shown in full for either
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

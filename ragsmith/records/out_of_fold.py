"""What the verdict of a crossfit compares: each question as the pipelines of its own fold answered it."""

from __future__ import annotations

from collections import Counter

from ragsmith.evaluation.evaluation import Evaluation, evaluation_of
from ragsmith.pipelines.genes import label, read_configuration
from ragsmith.records.record import MADE_OF, RunRecord
from ragsmith.store.store import Store


def out_of_fold(store: Store, record: RunRecord) -> dict[str, Evaluation]:
    """By part in the comparison, one evaluation on the questions of all folds; nothing where there are no folds.

    The winner goes by the key and the pipeline of the run's own; another part of which folds have several pipelines, by
    a key of its own and the pipeline that most folds have. Whoever is the winner in every fold is no rival. Of a fold
    without a winner nobody has answered anything.
    """
    able = [fold for fold in record.folds if fold.entrants]
    if not able or record.winner is None:
        return {}
    everywhere = [name for name in able[0].entrants if all(name in fold.entrants for fold in able)]
    roles = [
        name
        for name in everywhere
        if name == "winner"
        or (name not in MADE_OF and any(fold.entrants[name] != fold.entrants["winner"] for fold in able))
    ]
    rows = store.results_many({key for fold in able for key in fold.entrants.values()})
    found = {}
    for role in roles:
        keys = Counter(fold.entrants[role] for fold in able)
        [(most, count)] = keys.most_common(1)
        described = store.evaluation(record.winner if role == "winner" else most)
        if described is None:
            continue
        key = record.winner if role == "winner" else most if count == len(able) else f"{role} of each fold"
        answered = {
            question: rows.get(fold.entrants[role], {}).get(question) for fold in able for question in fold.test
        }
        known = {question: row for question, row in answered.items() if row is not None}
        candidate = read_configuration(described.configuration["pipeline"])
        found[role] = evaluation_of(key, candidate, record.tested, known)
    return found


def fold_winners(store: Store, record: RunRecord) -> tuple[str, ...]:
    """The pipelines that won the folds of a crossfit, in words; a blank for a fold without one."""
    keys = [fold.entrants.get("winner", "") for fold in record.folds]
    described = [store.evaluation(key) if key else None for key in keys]
    return tuple(
        label(read_configuration(one.configuration["pipeline"])) or "naive RAG" if one else "" for one in described
    )

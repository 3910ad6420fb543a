"""Questions join those that a data set has: its rows stay as they are, and what it asks already is not asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragsmith.datasets.anchoring.anchor import Anchored, Anchoring, Unanchored
from ragsmith.datasets.anchoring.folded import fold
from ragsmith.datasets.anchoring.places import NoMatch, NoMatchReason
from ragsmith.datasets.anchoring.question_lists import ListedQuestion
from ragsmith.datasets.questions import FILE, MAX_BYTES
from ragsmith.errors import DatasetError
from ragsmith.text.jsonl import Record, read_json_lines


def read_question_rows(folder: Path) -> tuple[str, list[Record]]:
    """Return the text of a data set's ``questions.jsonl``, and its rows; none where there is no such file.

    Raises ``DatasetError`` with every line that is no JSON object.
    """
    found = read_json_lines(folder / FILE, MAX_BYTES)
    if found.mistakes:
        raise DatasetError(list(found.mistakes.values()))
    text = found.text
    return text if not text or text.endswith("\n") else f"{text}\n", list(found.records.values())


def join_questions(found: Anchoring, rows: Sequence[Record]) -> Anchoring:
    """Return what becomes of questions beside ``rows``: with ids of their own, and splits and answers as those have.

    What asks the same as a row does, and what has no answer where the rows have, is not anchored. Raises
    ``DatasetError`` where the list has answers, or splits, and the rows have none: they would be lost.
    """
    if not rows:
        return found
    answered = any("answer" in row for row in rows)
    divided = any("split" in row for row in rows)
    anchored = [each.asked for each in found.anchored]
    wrong = [
        f"{FILE} has no {what}s, and the list does: leave out its column, or give --output, a new folder"
        for what, here, there in (
            ("answer", any(asked.answer for asked in anchored), answered or not any(map(_answerable, rows))),
            ("split", any(asked.split for asked in anchored), divided),
        )
        if here and not there
    ]
    if wrong:
        raise DatasetError(wrong)
    ids = {str(row.get("id", "")) for row in rows}
    known = {fold(str(row.get("question", ""))).text: str(row.get("id", "")) for row in rows}
    kept: list[Anchored] = []
    left: list[Unanchored] = list(found.unanchored)
    for each in found.anchored:
        same = known.get(fold(each.asked.question).text)
        if same is not None:
            left.append(Unanchored(each.asked, NoMatch(NoMatchReason.THERE, f"{FILE} asks the same ({same})")))
        elif answered and each.asked.answerable and not each.asked.answer:
            why = "it has no answer, and the questions that are there have one"
            left.append(Unanchored(each.asked, NoMatch(NoMatchReason.NOT_FOUND, why)))
        else:
            kept.append(replace(each, asked=_with_unique_id(each.asked, ids, divided=divided)))
    return Anchoring(tuple(kept), tuple(sorted(left, key=lambda each: each.asked.line)))


def _with_unique_id(asked: ListedQuestion, ids: set[str], *, divided: bool) -> ListedQuestion:
    """A question with an id that no other has; in the test where there are splits: a person wrote it."""
    id_, number = asked.id, 2
    while id_ in ids:
        id_, number = f"{asked.id}-{number}", number + 1
    ids.add(id_)
    return replace(asked, id=id_, split=asked.split or ("test" if divided else None))


def _answerable(row: Mapping[str, object]) -> bool:
    return row.get("answerable", True) is not False

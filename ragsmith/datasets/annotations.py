"""Correct and wrong answers to questions, by which judges are calibrated.

``annotations.jsonl`` in the folder of a data set has a line for each question with its ``id``, a second correct answer
(``paraphrase``) and a plausible wrong one (``wrong``) of a ``wrong_kind``. Other keys are ignored; those of the bundled
domains are in ``tools/annotations.py``. Searches and digests ignore the file.
"""

from pathlib import Path

from ragsmith.errors import DatasetError
from ragsmith.text.files import MIB
from ragsmith.text.jsonl import key_problems, read_json_lines, text_problems

FILE = "annotations.jsonl"

MAX_BYTES = 16 * MIB
"""Maximum size of the file of annotations, in bytes."""

KEYS = ("id", "paraphrase", "wrong", "wrong_kind")

WRONG_KINDS = ("number", "negation", "confusion")
"""Kinds of wrong answers: another number or date, a negation, or a statement that is true of another subject."""


def read_answers(folder: Path) -> dict[str, dict[str, str]]:
    """Return the annotated answers of the data set in ``folder`` by question, with `KEYS`; none without the file.

    Raises:
        DatasetError: lines are invalid; the error lists all of them.
    """
    lines = read_json_lines(folder / FILE, MAX_BYTES)
    mistakes = [*lines.mistakes.values()]
    for number, row in lines.records.items():
        problems = [*key_problems(row, required=KEYS, optional=tuple(row)), *text_problems(row, KEYS)]
        if row.get("wrong_kind", WRONG_KINDS[0]) not in WRONG_KINDS:
            problems.append(
                f"there is no wrong_kind {row['wrong_kind']!r}: the known ones are {', '.join(WRONG_KINDS)}"
            )
        mistakes += [f"{FILE}:{number}: {problem}" for problem in problems]
    if mistakes:
        raise DatasetError(mistakes)
    return {str(row["id"]): {key: str(row[key]) for key in KEYS} for row in lines.records.values()}

"""`draft_questions`: from documents to questions with evidence."""

from __future__ import annotations

from pathlib import Path

from ragsmith.labelling.drafting.drafting import Drafted, draft_dataset


def draft_questions(folder: str | Path, *, questions: int = 100, seed: int = 0) -> Drafted:
    """Draft questions about the documents of a data set until it has ``questions`` that were drafted.

    >>> drafted = ragsmith.draft_questions("my_data", questions=50)
    >>> [draft.question for draft in drafted.added]

    They are added to ``questions.jsonl`` of the folder, each with its answer, its evidence and where it came from;
    what filters refused goes to ``rejected.jsonl``, with the reason, and is not drafted again. Rows that are there stay
    as they are. ``seed`` draws the order in which passages are read.

    Raises:
        UsageError: documents or rows cannot be read, or fewer than one question is wanted.
    """
    return draft_dataset(Path(folder), questions=questions, seed=seed)
